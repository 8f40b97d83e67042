#include "runtime/kernel_cache.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <unordered_map>

#include "base/config.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "codegen/codegen.h"
#include "compile/lower.h"
#include "compile/schedule.h"

namespace heddle {
namespace {

constexpr size_t kMostKernels = 4096;

struct Entry {
  CompiledLoops compiled;
  std::string text;  // of the loops
  uint64_t last_use;
};

struct KernelCache {
  std::mutex lock;
  std::unordered_map<uint64_t, Entry> entries;
  uint64_t clock = 0;
};

// Never destroyed: what it holds may need parts of the compiler that end earlier.
KernelCache& cache() {
  static KernelCache& instance = *new KernelCache;
  return instance;
}

// What a caller relies on: number and kind of arguments.
bool fits(const CompiledLoops& compiled, const Loops& loops) {
  const auto& buffers = compiled.executable->kernel().buffers;
  if (buffers.size() < loops.buffers.size()) return false;
  for (size_t i = 0; i < loops.buffers.size(); ++i)
    if (buffers[i].dtype != loops.buffers[i].dtype || buffers[i].space != loops.buffers[i].space ||
        !(buffers[i].size == loops.buffers[i].size))
      return false;
  return true;
}

void dump(const std::string& name, uint64_t key, const char* ending, const std::string& content) {
  char number[17];
  std::snprintf(number, sizeof number, "%016lx", static_cast<unsigned long>(key));
  std::filesystem::path folder = config().dump_directory;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::ofstream file(folder / (name + "_" + number + ending));
  if (!(file << content)) warn(text("cannot write to HEDDLE_DUMP=", config().dump_directory));
}

CompiledLoops compile(const Loops& loops, uint64_t key, Device& device) {
  const Target& target = device.target();
  auto show = [&](Log topic, const char* ending, auto&& thing) {
    bool dumping = !config().dump_directory.empty();
    if (!dumping && !log_enabled(topic)) return;
    std::string content = thing();
    if (dumping) dump(loops.name, key, ending, content);
    if (log_enabled(topic)) log_write(topic, content);
  };
  show(Log::Fuse, ".loops", [&] { return print(loops); });
  Schedule schedule = default_schedule(loops, target);
  show(Log::Schedule, ".schedule", [&] { return print(schedule); });
  kernel::Kernel tiles = tile(loops, schedule, target);
  show(Log::Tile, ".tile", [&] { return kernel::print(tiles); });
  kernel::Kernel threads = lower(std::move(tiles), target);
  show(Log::Thread, ".thread", [&] { return kernel::print(threads); });
  if (!config().dump_directory.empty() && target.machine == Machine::Simd) {
    dump(loops.name, key, ".ll", llvm_ir(threads, target));
    dump(loops.name, key, ".s", host_assembly(threads, target));
  }

  CompiledLoops result{device.compile(threads), traffic(loops)};
  for (const kernel::Buffer& buffer : threads.buffers) {
    if (buffer.space != kernel::Space::Temp) continue;
    auto bytes = static_cast<uint64_t>(buffer.size.hi()) * static_cast<uint64_t>(size_of(buffer.dtype));
    result.traffic.read += bytes;
    result.traffic.written += bytes;
  }
  HD_ASSERT(fits(result, loops), "the buffers of kernel ", loops.name, " changed on the way down");
  return result;
}

}  // namespace

CompiledLoops compile_loops(const Loops& loops, Device& device) {
  std::string description = print(loops);
  description.erase(0, description.find(" outer("));  // the name does not matter
  uint64_t key = hash_combine(hash_bytes(description), reinterpret_cast<uintptr_t>(&device));
  KernelCache& kernels = cache();
  {
    std::lock_guard guard(kernels.lock);
    auto found = kernels.entries.find(key);
    if (found != kernels.entries.end() && found->second.text == description) {  // a hash alone is no proof
      found->second.last_use = ++kernels.clock;
      return found->second.compiled;
    }
  }
  CompiledLoops compiled = compile(loops, key, device);  // two threads may do the same; the later one is kept
  std::vector<CompiledLoops> gone;                       // destroyed after the lock is released
  std::lock_guard guard(kernels.lock);
  Entry& entry = kernels.entries[key];
  gone.push_back(std::exchange(entry.compiled, compiled));
  entry.last_use = ++kernels.clock;
  entry.text = std::move(description);
  if (kernels.entries.size() > kMostKernels) {
    // Drop the older half at once, so that the search for old ones is rare.
    uint64_t oldest_kept = kernels.clock - std::min<uint64_t>(kernels.clock, kMostKernels / 2);
    for (auto it = kernels.entries.begin(); it != kernels.entries.end();) {
      if (it->second.last_use > oldest_kept) {
        ++it;
        continue;
      }
      gone.push_back(std::move(it->second.compiled));
      it = kernels.entries.erase(it);
    }
  }
  return compiled;
}

void clear_kernel_cache() {
  std::unordered_map<uint64_t, Entry> gone;
  std::lock_guard guard(cache().lock);
  gone.swap(cache().entries);
}

size_t kernel_cache_size() {
  std::lock_guard guard(cache().lock);
  return cache().entries.size();
}

}  // namespace heddle
