#include "tools/info.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/cpu/thread_pool.h"
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "codegen/codegen.h"
#include "runtime/device.h"
#include "tools/machine.h"

namespace heddle::tools {
namespace {

struct Variable {
  const char* name;
  const char* without;  // what holds when it is not set
};
constexpr Variable kVariables[] = {
    {"HEDDLE_THREADS", "one per core"},
    {"HEDDLE_DEVICE", "cpu"},
    {"HEDDLE_TARGET", "the best this CPU has"},
    {"HEDDLE_MATRIX_UNIT", "the best this GPU has"},
    {"HEDDLE_FLOAT32_MATMUL", "all bits of f32"},
    {"HEDDLE_MEMORY_LIMIT", "all the memory"},
    {"HEDDLE_LOG", "nothing"},
    {"HEDDLE_DUMP", "nowhere"},
    {"HEDDLE_PROFILE", "nowhere"},
    {"HEDDLE_CACHE", "the user's cache folder"},
    {"HEDDLE_CACHE_SIZE", "512M"},
    {"HEDDLE_TUNE", "0"},
    {"HEDDLE_JIT_CHECK", "0"},
    {"HEDDLE_DETERMINISTIC", "0"},
    {"HEDDLE_CHECK", "0"},
    {"HEDDLE_FALLBACK", "1"},
    {"HEDDLE_ARGUMENTS", "0"},
    {"HEDDLE_COMPILE_WARNING", "20"},
};

// Variables that cannot be used, with the reason.
using Problems = std::map<std::string, std::string>;

void attempt(Problems& problems, const char* name, const std::function<void()>& use) {
  try {
    use();
  } catch (const Error& error) {
    problems[name] = error.what();
  }
}

// Whatever is bad is left out from here on, so that everything else can be shown.
Problems find_problems() {
  Problems problems;
  if (const char* target = std::getenv("HEDDLE_TARGET"); target && *target)
    attempt(problems, "HEDDLE_TARGET", [&] { cpu_target(target); });
  if (problems.contains("HEDDLE_TARGET")) unsetenv("HEDDLE_TARGET");
  for (const auto& [name, problem] : config().problems) problems[name] = problem;
  attempt(problems, "HEDDLE_DEVICE", [] { device(); });
  return problems;
}

void row(const char* what, const std::string& value) { std::printf("  %-16s %s\n", what, value.c_str()); }

void print_target(const Target& target) {
  row("target", target.name + ", " + std::to_string(target.vector_registers) + " vector registers of " +
                    std::to_string(target.vector_bytes) + " bytes, LLVM's CPU " + target.llvm_cpu);
  row("caches", "L1 " + bytes_text(static_cast<uint64_t>(target.l1_bytes)) + ", L2 " +
                    bytes_text(static_cast<uint64_t>(target.l2_bytes)) + ", L3 " +
                    bytes_text(static_cast<uint64_t>(target.l3_bytes)));
}

void print_device(const std::string& kind) {
  Backend* found = nullptr;
  try {
    found = &device(kind);
  } catch (const DeviceError& error) {  // the hardware or its driver is not there
    std::string why = error.what();
    if (why.starts_with(kind + ": ")) why = why.substr(kind.size() + 2);
    return row(kind.c_str(), "not here: " + why);
  }
  Backend& the_device = *found;
  const Target& target = the_device.target();
  Backend::Memory memory = the_device.memory();
  std::string size = target.machine == Machine::Simt ? std::to_string(target.multiprocessors) + " multiprocessors"
                                                     : std::to_string(the_device.threads()) + " threads";
  row(kind.c_str(), size + ", target " + target.name +
                        "; memory: " + (memory.limit > 0 ? "limit " + bytes_text(memory.limit) : "no limit") +
                        ", used " + bytes_text(memory.used) + ", cached " + bytes_text(memory.cached) + ", peak " +
                        bytes_text(memory.peak));
  if (target.machine == Machine::Simt && !the_device.code_version().empty())
    row("", text("code by ", the_device.code_version(), "; for scripts/warm_cache: --multiprocessors ",
                 target.multiprocessors, " --l2 ", target.l2_bytes, " --shared ", target.shared_bytes));
}

void print_environment(const Problems& problems) {
  for (const Variable& variable : kVariables) {
    const char* value = std::getenv(variable.name);
    bool set = value && *value;
    if (auto problem = problems.find(variable.name); problem != problems.end())
      std::printf("  %-22s bad: %s\n", variable.name, problem->second.c_str());
    else
      std::printf("  %-22s %s%s%s\n", variable.name, set ? value : "(", set ? "" : variable.without, set ? "" : ")");
  }
  for (char** entry = environ; *entry; ++entry) {
    std::string name(*entry, std::strcspn(*entry, "="));
    if (!name.starts_with("HEDDLE_")) continue;
    bool known = false;
    for (const Variable& variable : kVariables) known |= name == variable.name;
    if (!known) std::printf("  %-22s is set, but Heddle does not know it\n", name.c_str());
  }
}

}  // namespace

void print_info() {
  const Problems problems = find_problems();
  std::printf("Heddle\n");
  row("version", version());
  row("commit", commit());
  row("compiler", compiler());
  row("LLVM", llvm_version());
  std::printf("\nMachine\n");
  row("CPU", cpu_model());
  row("cores", std::to_string(available_cores()) + " that this process may use");
  print_target(host_target());
  std::printf("\nDevices\n");
  for (const std::string& kind : device_kinds()) print_device(kind);
  CodeMemory code = code_memory();
  row("compiled code", std::to_string(code.kernels) + " kernels, " + bytes_text(code.bytes) + " in " +
                           std::to_string(code.mappings) + " mappings");
  std::printf("\nEnvironment (docs/environment.md)\n");
  print_environment(problems);
  std::string bad;
  for (const auto& [name, why] : problems) bad += (bad.empty() ? "" : ", ") + name;
  std::fflush(stdout);
  if (!bad.empty()) throw ValueError(text("info: a bad value, without which this was printed: ", bad));
}

}  // namespace heddle::tools
