#include "runtime/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/lock.h"
#include "base/log.h"
#include "compile/lower.h"
#include "compile/schedule/schedule.h"
#include "runtime/kernel_store.h"
#include "runtime/profiler.h"

namespace heddle {
namespace {

constexpr size_t kMostKernels = 4096;

struct Entry {
  std::shared_ptr<Executable> compiled;
  uint64_t last_use;
};

// What a compiled kernel is known by.
struct Key {
  Structure structure;
  const Target* target;

  uint64_t hash() const { return hash_combine(structure.hash(), reinterpret_cast<uintptr_t>(target)); }
  friend bool operator==(const Key&, const Key&) = default;
};
struct HashOfKey {
  size_t operator()(const Key& key) const { return key.hash(); }
};
using Entries = std::unordered_map<Key, Entry, HashOfKey>;

struct KernelCache {
  Mutex lock;
  Entries entries;
  uint64_t clock = 0;
};

// Never destroyed: what it holds may need parts of the compiler that end earlier.
KernelCache& cache() {
  static KernelCache& instance = *new KernelCache;
  return instance;
}
[[maybe_unused]] KernelCache& cache_made_at_start = cache();

// What a caller relies on: number and kind of arguments. A kernel from the disk has symbols of its own.
bool fits(const Executable& compiled, std::span<const kernel::Buffer> wanted, std::span<const Expr> symbols) {
  const kernel::Kernel& kernel = compiled.kernel();
  if (kernel.buffers.size() < wanted.size() || kernel.symbols.size() != symbols.size()) return false;
  Substitution renamed;
  for (size_t i = 0; i < symbols.size(); ++i) renamed.emplace_back(kernel.symbols[i], symbols[i]);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const kernel::Buffer& buffer = kernel.buffers[i];
    if (buffer.dtype != wanted[i].dtype || buffer.space != wanted[i].space ||
        !(substitute(buffer.size, renamed) == wanted[i].size))
      return false;
  }
  return true;
}

void dump(const std::string& name, uint64_t number, const char* ending, const std::string& content) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016lx", static_cast<unsigned long>(number));
  std::filesystem::path folder = config().dump_directory;
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  errno = 0;
  std::ofstream file(folder / (name + "_" + digits + ending));
  if (file << content << std::flush) return;
  if (!problem) problem = std::error_code(errno, std::generic_category());
  static std::once_flag once;  // every other text meets the same
  std::call_once(once, [&] { warn(text("cannot write to HEDDLE_DUMP=", folder.string(), ": ", problem.message())); });
}

struct Hooks {
  Mutex lock;
  Tuner tuner = nullptr;
  StepObserver observer;
  std::atomic<bool> observed{false};
};
Hooks& hooks() {
  static Hooks& instance = *new Hooks;
  return instance;
}
[[maybe_unused]] Hooks& hooks_made_at_start = hooks();

Tuner tuner() {
  std::lock_guard guard(hooks().lock);
  return hooks().tuner;
}

// Whether people want to see what compiling produces: then it has to be done.
bool watched() {
  if (!config().dump_directory.empty() || config().check_kernels) return true;
  for (Log topic : {Log::Fuse, Log::Schedule, Log::Tile, Log::Thread, Log::Llvm, Log::Asm})
    if (log_enabled(topic)) return true;
  return false;
}

// The tuned one from the disk, or one that is searched for now; nothing: the default one.
std::optional<Schedule> tuned_schedule(const Program::Step& step, const Structure& structure, Backend& device) {
  if (DiskCache* disk = disk_cache()) {
    if (std::optional<TunedSchedule> found = load_schedule(*disk, structure, device, step.tf32)) {
      try {
        Schedule schedule = parse_schedule(found->schedule);
        if (check(schedule, step.loops, device.target_for(step.tf32)).empty()) return schedule;
      } catch (const ParseError&) {}
      warn(text("the cache ", disk->path(), " holds no legal schedule for ", step.loops.name, ": ", found->schedule));
      return std::nullopt;
    }
  }
  Tuner search = tuner();
  return search && config().tune > 0 ? search(step, device, config().tune) : std::nullopt;
}

// One way to compile a step, from its schedule (none: it is built directly) to what the device can launch.
class Compilation {
 public:
  Compilation(const Program::Step& step, uint64_t number, Backend& device)
      : step_(step), name_(step.direct ? step.direct->name : step.loops.name), number_(number), device_(device) {}

  // `code` receives machine code if it is not null.
  std::shared_ptr<Executable> run(const Schedule* schedule, std::string* code) {
    const Target& target = device_.target_for(step_.tf32);
    if (schedule)
      threads_ = lowered(*schedule);
    else
      threads_ = step_.direct->tiles ? lowered(step_.direct->tiles(target)) : build_direct(*step_.direct, target);
    show(Log::Thread, ".thread", [&] { return kernel::print(threads_); });
    kernel::verify(threads_);  // nothing else may reach a code generator
    if (!config().dump_directory.empty())
      for (const CodeText& made : device_.texts(threads_, target)) dump(name_, number_, made.ending.c_str(), made.text);
    std::shared_ptr<Executable> result = device_.compile(threads_, code);
    const auto& buffers = step_.direct ? step_.direct->buffers : step_.loops.buffers;
    HD_ASSERT(fits(*result, buffers, step_.loops.symbols), "the buffers of kernel ", name_, " changed on the way down");
    return result;
  }
  const kernel::Kernel& threads() const { return threads_; }

  template <class Thing>
  void show(Log topic, const char* ending, Thing&& thing) {
    const bool dumping = !config().dump_directory.empty();
    if (!dumping && !log_enabled(topic)) return;
    std::string content = thing();
    if (dumping) dump(name_, number_, ending, content);
    if (log_enabled(topic)) log_write(topic, content);
  }

 private:
  kernel::Kernel lowered(const Schedule& schedule) {
    const Target& target = device_.target_for(step_.tf32);
    show(Log::Schedule, ".schedule", [&] { return print(schedule); });
    const std::string problem = check(schedule, step_.loops, target);
    HD_ASSERT(problem.empty(), "a schedule that is not legal, ", problem);
    return lowered(tile(step_.loops, schedule, target));
  }

  kernel::Kernel lowered(kernel::Kernel tiles) {
    show(Log::Tile, ".tile", [&] { return kernel::print(tiles); });
    return lower(std::move(tiles), device_.target_for(step_.tf32));
  }

  const Program::Step& step_;
  const std::string& name_;
  uint64_t number_;  // in the names of files
  Backend& device_;
  kernel::Kernel threads_;
};

// What is thrown, if it speaks of a fault of the compiler; nothing else is caught.
template <class F>
std::exception_ptr fault_of(F&& f, std::string& what) {
  auto kept = [&](const std::exception& e) {
    what = e.what();
    return std::current_exception();
  };
  try {
    f();
    return nullptr;
  } catch (const InternalError& e) {
    return kept(e);
  } catch (const CompileError& e) {
    return kept(e);
  } catch (const std::logic_error& e) {
    return kept(e);
  }
}

std::atomic<size_t> replaced{0};  // schedules by plainer ones

std::shared_ptr<Executable> compile(const Program::Step& step, const Key& key, Backend& device) {
  const Target& target = device.target_for(step.tf32);
  const std::string& name = step.direct ? step.direct->name : step.loops.name;
  const auto& buffers = step.direct ? step.direct->buffers : step.loops.buffers;
  ProfileScope scope(SliceKind::Compile, [&] { return "compile " + name; });
  std::optional<Schedule> tuned;
  if (!step.direct) tuned = tuned_schedule(step, key.structure, device);
  const std::string choice = step.direct ? "" : tuned ? print(*tuned) : "default";
  DiskCache* disk = disk_cache();
  if (disk && !watched()) {
    std::shared_ptr<Executable> loaded = load_kernel(*disk, key.structure, choice, device, step.tf32);
    if (loaded && fits(*loaded, buffers, step.loops.symbols)) return loaded;
  }
  Compilation compilation(step, key.hash(), device);
  if (step.direct)
    compilation.show(Log::Fuse, ".direct", [&] { return step.direct->description + "\n"; });
  else
    compilation.show(Log::Fuse, ".loops", [&] { return print(step.loops); });

  std::string code, what, another;
  std::shared_ptr<Executable> result;
  auto attempt = [&](const Schedule* schedule) { result = compilation.run(schedule, disk ? &code : nullptr); };
  std::exception_ptr fault = fault_of(
      [&] {
        if (step.direct) return attempt(nullptr);
        const Schedule schedule = tuned ? *tuned : default_schedule(step.loops, target);
        attempt(&schedule);
      },
      what);
  if (fault && (step.direct || !config().fall_back)) std::rethrow_exception(fault);
  if (fault) {
    // A fault of a schedule is no reason to stop: another one computes the same.
    if (tuned)
      fault_of(
          [&] {
            const Schedule schedule = default_schedule(step.loops, target);
            attempt(&schedule);
          },
          another);
    std::vector<Schedule> others;
    if (!result) fault_of([&] { others = plainer_schedules(step.loops, target); }, another);
    for (size_t i = 0; i < others.size() && !result; ++i) fault_of([&] { attempt(&others[i]); }, another);
    if (!result) std::rethrow_exception(fault);
    ++replaced;
    constexpr size_t kMostText = 400;
    const char* more = what.size() > kMostText ? " ..." : "";
    warn(text("kernel ", name, " runs slowly, with a plainer schedule, because of a fault of Heddle: ",
              std::string_view(what).substr(0, kMostText), more));
  } else if (disk) {
    store_kernel(*disk, key.structure, choice, device, compilation.threads(), code, step.tf32);
  }
  return result;
}

Key key_of(const Program::Step& step, Backend& device) {
  return {step.direct ? step.direct->structure : structure(step.loops), &device.target_for(step.tf32)};
}

std::shared_ptr<Executable> compiled_step(const Program::Step& step, Key key, Backend& device) {
  if (hooks().observed) {
    StepObserver observer;
    {
      std::lock_guard guard(hooks().lock);
      observer = hooks().observer;
    }
    if (observer) observer(step, device);
  }
  KernelCache& kernels = cache();
  {
    std::lock_guard guard(kernels.lock);
    auto found = kernels.entries.find(key);
    if (found != kernels.entries.end()) {
      found->second.last_use = ++kernels.clock;
      return found->second.compiled;
    }
  }
  // Two threads may do the same; the later one is kept.
  std::shared_ptr<Executable> compiled = compile(step, key, device);
  std::vector<std::shared_ptr<Executable>> gone;  // destroyed after the lock is released
  std::lock_guard guard(kernels.lock);
  Entry& entry = kernels.entries[std::move(key)];
  gone.push_back(std::exchange(entry.compiled, compiled));
  entry.last_use = ++kernels.clock;
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

}  // namespace

void set_tuner(Tuner search) {
  std::lock_guard guard(hooks().lock);
  hooks().tuner = search;
}

void observe_steps(StepObserver observer) {
  std::lock_guard guard(hooks().lock);
  hooks().observed = observer != nullptr;
  hooks().observer = std::move(observer);
}

std::vector<std::shared_ptr<Executable>> compile_steps(std::span<const Program::Step> steps, Backend& device) {
  NoFork whole;  // also for the threads below
  std::vector<Key> keys;
  for (const Program::Step& step : steps) keys.push_back(key_of(step, device));
  std::vector<size_t> different;
  std::unordered_set<Key, HashOfKey> seen;
  if (steps.size() > 1)
    for (size_t s = 0; s < steps.size(); ++s)
      if (!steps[s].control && seen.insert(keys[s]).second) different.push_back(s);
  size_t workers = std::min<size_t>(different.size(), std::max(1u, std::thread::hardware_concurrency()));
  // People read one kernel after the other; and nothing else should run while schedules are timed.
  if (watched() || (tuner() && config().tune > 0)) workers = 1;
  if (workers > 1) {
    std::atomic<size_t> next{0};
    std::atomic<bool> interrupted{false};
    auto work = [&](bool asks) {
      try {
        for (size_t i; (i = next.fetch_add(1)) < different.size();) {
          if (asks) interruption_point();
          const Program::Step& step = steps[different[i]];
          compile_step(step, device)->expect_segments(step.segments.size());
        }
      } catch (const Interrupted&) {  // who said so may not say it again
        interrupted = true;
        next = different.size();
      } catch (...) {
        next = different.size();  // it comes again below, where the caller hears of it
      }
    };
    std::vector<std::jthread> threads;
    for (size_t w = 1; w < workers; ++w)
      threads.emplace_back([&] {
        begin_helper_thread();
        work(false);
      });
    work(true);
    threads.clear();
    if (interrupted) interrupt::stop();
  }
  std::vector<std::shared_ptr<Executable>> result;
  for (size_t s = 0; s < steps.size(); ++s) {
    interruption_point();
    result.push_back(steps[s].control ? nullptr : compiled_step(steps[s], std::move(keys[s]), device));
    if (result.back()) result.back()->expect_segments(steps[s].segments.size());
  }
  return result;
}

std::shared_ptr<Executable> compile_step(const Program::Step& step, Backend& device) {
  NoFork whole;
  return compiled_step(step, key_of(step, device), device);
}

size_t replaced_schedules() { return replaced; }

void clear_kernel_cache() {
  Entries gone;
  std::lock_guard guard(cache().lock);
  gone.swap(cache().entries);
}

size_t kernel_cache_size() {
  std::lock_guard guard(cache().lock);
  return cache().entries.size();
}

}  // namespace heddle
