#include "codegen/generator.h"

#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/lock.h"

namespace heddle {
namespace {

struct Registry {
  Mutex lock;
  std::vector<Generator> generators;
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

}  // namespace

void register_generator(const Generator& generator) {
  std::lock_guard guard(registry().lock);
  registry().generators.push_back(generator);
}

Generator generator_for(const std::string& machine) {
  std::lock_guard guard(registry().lock);
  for (const Generator& generator : registry().generators)
    if (generator.knows(machine)) return generator;
  throw DeviceError(text("this program has no code generator for ", machine));
}

}  // namespace heddle
