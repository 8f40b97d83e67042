#include "runtime/kernel_store.h"

#include <heddle_compiler_id.h>

#include <cstring>
#include <sstream>

#include "base/error.h"

namespace heddle {
namespace {

// Parts with their lengths before them.
void add_part(std::string& to, std::string_view part) {
  uint64_t size = part.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to.append(part);
}

bool take_part(std::string_view& from, std::string& part) {
  uint64_t size = 0;
  if (from.size() < sizeof size) return false;
  std::memcpy(&size, from.data(), sizeof size);
  from.remove_prefix(sizeof size);
  if (from.size() < size) return false;
  part = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

}  // namespace

std::string schedule_key(const Structure& loops, const Backend& device, bool tf32) {
  return text(compiler_id(), "\n", device.name(), " with ", device.threads(), " threads\n",
              describe(device.target_for(tf32)), "\n", loops.bytes());
}

std::string code_key(const Structure& step, const std::string& schedule, const Backend& device, bool tf32) {
  return text(compiler_id(), ", ", device.code_version(), "\n", device.name(), "\n", describe(device.target_for(tf32)),
              "\n", schedule, "\n", step.bytes());
}

std::string compiler_id() { return HEDDLE_COMPILER_ID; }

std::optional<TunedSchedule> load_schedule(DiskCache& cache, const Structure& loops, const Backend& device, bool tf32) {
  std::optional<std::string> found = cache.get(DiskEntry::Schedule, schedule_key(loops, device, tf32));
  if (!found) return std::nullopt;
  std::istringstream in(*found);
  TunedSchedule tuned;
  if (!(in >> tuned.default_seconds >> tuned.seconds >> tuned.tried) || in.get() != '\n') return std::nullopt;
  std::getline(in, tuned.schedule, '\0');
  return tuned;
}

void store_schedule(DiskCache& cache, const Structure& loops, const Backend& device, const TunedSchedule& tuned,
                    bool tf32) {
  cache.put(DiskEntry::Schedule, schedule_key(loops, device, tf32),
            text(tuned.default_seconds, " ", tuned.seconds, " ", tuned.tried, "\n", tuned.schedule));
}

std::shared_ptr<Executable> load_kernel(DiskCache& cache, const Structure& step, const std::string& schedule,
                                        Backend& device, bool tf32) {
  if (device.code_version().empty()) return nullptr;
  std::optional<std::string> found = cache.get(DiskEntry::Code, code_key(step, schedule, device, tf32));
  if (!found) return nullptr;
  std::string name, thread_text, code;
  std::string_view rest = *found;
  if (!take_part(rest, name) || !take_part(rest, thread_text) || !take_part(rest, code)) return nullptr;
  try {
    kernel::Kernel threads = kernel::parse(thread_text);
    threads.name = name;  // the printer changes names that are words of its language
    return device.load(threads, code);
  } catch (const Error&) {
    return nullptr;  // it is compiled anew, and replaced
  }
}

void store_kernel(DiskCache& cache, const Structure& step, const std::string& schedule, const Backend& device,
                  const kernel::Kernel& thread_kernel, const std::string& code, bool tf32) {
  if (code.empty()) return;
  std::string value;
  add_part(value, thread_kernel.name);
  add_part(value, kernel::print(thread_kernel));
  add_part(value, code);
  cache.put(DiskEntry::Code, code_key(step, schedule, device, tf32), value);
}

}  // namespace heddle
