#include "tools/tune.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>

#include "backend/cpu/thread_pool.h"
#include "base/config.h"
#include "base/error.h"
#include "compile/lower.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_store.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"
#include "tools/process.h"
#include "tune/tune.h"

namespace heddle::tools {
namespace {

// The different kernels that a suite's programs ask for.
std::vector<Workload> collect(const TuneOptions& options, const Backend& wanted) {
  std::mutex lock;
  std::vector<Workload> found;
  std::unordered_set<Structure> seen;
  observe_steps([&](const Program::Step& step, Backend& used) {
    if (step.direct || &used != &wanted) return;
    // Kernels that only fill memory prepare the work of others.
    if (std::none_of(step.loops.buffers.begin(), step.loops.buffers.end(), [](const kernel::Buffer& buffer) {
          return buffer.space == kernel::Space::In && buffer.size.hi() > 4;
        }))
      return;
    Structure kernel = structure(step.loops);
    std::lock_guard guard(lock);
    if (seen.insert(std::move(kernel)).second) found.push_back(workload_of(step));
  });
  want_only(options.only);
  measure_suite(options.suite, -1, [](const Figure&) {});
  observe_steps(nullptr);
  if (!options.only.empty() && !options.among_others) check_any_wanted(options.suite);
  clear_plan_cache();
  clear_kernel_cache();
  return found;
}

// "2048x2048, 2048": outer axes, then the inner ones of each stage that has any.
std::string sizes_text(const Loops& loops) {
  auto list = [](const std::vector<Axis>& axes) {
    std::string result;
    for (const Axis& axis : axes) result += text(result.empty() ? "" : "x", axis.extent);
    return result.empty() ? "1" : result;
  };
  std::string result = list(loops.outer);
  for (const Stage& stage : loops.stages)
    if (!stage.inner.empty()) result += ", " + list(stage.inner);
  if (result.size() > 36) result.replace(33, std::string::npos, "...");
  return result;
}

std::string time_text(double seconds) {
  char line[40];
  if (seconds < 1e-3)
    std::snprintf(line, sizeof line, "%.2f us", seconds * 1e6);
  else
    std::snprintf(line, sizeof line, "%.2f ms", seconds * 1e3);
  return line;
}

void print_row(const Loops& loops, double default_seconds, double seconds, const std::string& note) {
  std::printf("  %-40.40s %-36s %11s %11s %6.2f  %s\n", loops.name.c_str(), sizes_text(loops).c_str(),
              time_text(default_seconds).c_str(), time_text(seconds).c_str(), default_seconds / seconds, note.c_str());
  std::fflush(stdout);
}

// While a kernel is being searched for, on a terminal.
void show_progress(const Loops& loops, int tried, double default_seconds, double best_seconds) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal) return;
  std::fprintf(stderr, "\r  %-40.40s trial %d, default %s, best %s   ", loops.name.c_str(), tried,
               time_text(default_seconds).c_str(), time_text(best_seconds).c_str());
}

// A kernel on several sets of memory in turn, together more than any cache holds.
class Rotation {
 public:
  Rotation(const Workload& workload, Backend& device) : device_(device) {
    constexpr double kBytes = 256 << 20;
    double bytes = 0;
    for (const kernel::Buffer& buffer : workload.loops.buffers)
      bytes += static_cast<double>(std::max<int64_t>(buffer.size.hi(), 1)) * size_of(buffer.dtype);
    const auto sets = static_cast<int>(std::clamp(kBytes / bytes, 1.0, 16.0));
    for (int k = 0; k < sets; ++k) benches_.push_back(std::make_unique<Bench>(workload, device, 0));
  }

  // Seconds of one launch. Compares what it writes with what the first schedule wrote.
  double seconds(const kernel::Kernel& kernel, std::string& problem) {
    std::shared_ptr<Executable> executable = device_.compile(kernel);
    std::vector<Candidate> candidates;
    std::vector<std::vector<LaunchSegment>> segments;
    std::vector<Submission> launches;
    for (auto& bench : benches_) candidates.push_back(bench->prepare(executable));
    for (size_t k = 0; k < benches_.size(); ++k) {
      Bench::Outputs found = benches_[k]->outputs(candidates[k]);
      if (k == 0 && expected_.empty()) expected_ = found;
      if (k == 0 && !benches_[0]->agree(expected_, found, problem)) break;
    }
    for (size_t k = 0; k < benches_.size(); ++k) segments.push_back(benches_[k]->segments(candidates[k]));
    for (size_t k = 0; k < 32; ++k) launches.push_back({executable.get(), segments[k % segments.size()]});
    std::shared_ptr<void> recording;
    double best = INFINITY;
    for (int round = 0; round < 12; ++round) {
      auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 4; ++i) device_.launch_all(launches, recording);
      device_.synchronize();
      const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best = std::min(best, taken / static_cast<double>(4 * launches.size()));
    }
    return best;
  }

 private:
  Backend& device_;
  std::vector<std::unique_ptr<Bench>> benches_;
  Bench::Outputs expected_;
};

// A line of the file that --try names.
struct Attempt {
  std::string place, part, schedule;  // part of a kernel's name
  bool used = false;

  bool is_for(const Workload& workload) const { return workload.loops.name.find(part) != std::string::npos; }
};

std::vector<Attempt> read_attempts(const std::string& path) {
  std::vector<Attempt> attempts;
  std::ifstream file(path);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string place = text(path, ":", ++number, ": ");
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon == 0)
      throw ValueError(text(place, "'", line, "' should be a part of a kernel's name, a colon, and a schedule"));
    const size_t begin = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    attempts.push_back({place, line.substr(0, colon), line.substr(begin)});
  }
  if (attempts.empty()) throw ValueError(text(path, ": there is no schedule to try"));
  return attempts;
}

// Returns how many of them are wrong.
int try_schedules(const Workload& workload, Backend& device, std::vector<Attempt>& attempts) {
  std::vector<std::string> schedules;
  for (Attempt& attempt : attempts) {
    if (!attempt.is_for(workload)) continue;
    schedules.push_back(attempt.schedule);
    attempt.used = true;
  }
  if (schedules.empty()) return 0;
  int wrong = 0;
  schedules.insert(schedules.begin(), print(default_schedule(workload.loops, device.target_for(workload.tf32))));
  std::printf("  %s, %s\n", workload.loops.name.c_str(), sizes_text(workload.loops).c_str());
  Rotation rotation(workload, device);
  for (const std::string& described : schedules) {
    std::string problem;
    try {
      const Schedule schedule = parse_schedule(described);
      problem = check(schedule, workload.loops, device.target_for(workload.tf32));
      if (problem.empty()) {
        const kernel::Kernel kernel =
            lower(tile(workload.loops, schedule, device.target_for(workload.tf32)), device.target_for(workload.tf32));
        std::printf("  %11s  ", time_text(rotation.seconds(kernel, problem)).c_str());
      }
    } catch (const Error& error) {
      problem = error.what();
    }
    wrong += !problem.empty();
    std::printf("%s%s\n", described.c_str(), problem.empty() ? "" : ("  WRONG: " + problem).c_str());
    std::fflush(stdout);
  }
  return wrong;
}

void try_all(const TuneOptions& options, Backend& machine) {
  std::vector<Attempt> attempts = read_attempts(options.tries);
  int wrong = 0;
  std::set<std::string> names;
  for (const Workload& kernel : collect(options, machine)) {
    wrong += try_schedules(kernel, machine, attempts);
    names.insert(kernel.loops.name);
    machine.free_cached();
  }
  for (const Attempt& attempt : attempts) {
    if (attempt.used || options.among_others) continue;
    std::string list;
    for (const std::string& name : names) list += "\n  " + name;
    throw ValueError(text(attempt.place, "no kernel's name contains '", attempt.part, "'; there are", list));
  }
  if (wrong > 0) throw ValueError(text("tune: ", wrong, " schedules are WRONG"));
}

}  // namespace

void tune_suite(const TuneOptions& options) {
  Backend& machine = device();
  if (!options.tries.empty()) return try_all(options, machine);
  DiskCache* cache = disk_cache();
  if (!cache) throw Error("tune: HEDDLE_CACHE is off: there is no place to keep what is found");
  std::vector<Workload> kernels = collect(options, machine);
  machine.free_cached();
  std::printf("%s, %d thread%s: %zu kernels, %s\n", options.suite.c_str(), machine.threads(),
              machine.threads() == 1 ? "" : "s", kernels.size(), cache->path().c_str());
  std::printf("  %-40s %-36s %11s %11s %6s\n", "kernel", "sizes", "default", "tuned", "ratio");
  std::fflush(stdout);
  double logarithms = 0, worst = 1;
  int rows = 0, slow = 0, wrong = 0;
  auto add = [&](const Loops& loops, double default_seconds, double seconds, const std::string& note) {
    print_row(loops, default_seconds, seconds, note);
    double ratio = default_seconds / seconds;
    logarithms += std::log(ratio);
    worst = std::max(worst, ratio);
    slow += ratio > 1.2;
    ++rows;
  };
  for (const Workload& kernel : kernels) {
    std::optional<TunedSchedule> known = load_schedule(*cache, structure(kernel.loops), machine, kernel.tf32);
    if (options.report) {
      if (!known) continue;
      Schedule plain = default_schedule(kernel.loops, machine.target_for(kernel.tf32)),
               tuned = parse_schedule(known->schedule);
      bool same = print(plain) == known->schedule;
      Duel times = duel(kernel, machine, plain, tuned, 0.3);
      add(kernel.loops, times.first, same ? times.first : times.second, same ? "default" : known->schedule);
      continue;
    }
    if (known && !options.again) {
      add(kernel.loops, known->default_seconds, known->seconds, "known");
      continue;
    }
    SearchOptions search{.trials = options.trials, .seconds = options.seconds};
    search.progress = [&](int tried, double default_seconds, double best_seconds) {
      show_progress(kernel.loops, tried, default_seconds, best_seconds);
    };
    try {
      SearchResult result = tune(kernel, machine, cache, search);
      if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r\033[K");
      wrong += result.wrong;
      add(kernel.loops, result.default_seconds, result.best_seconds,
          text(result.tried, " tried", result.failed ? text(", ", result.failed, " failed") : "",
               result.abandoned ? text(", ", result.abandoned, " abandoned") : "",
               result.wrong ? text(", ", result.wrong, " WRONG") : ""));
    } catch (const Error& error) {
      std::printf("  %-40.40s %s\n", kernel.loops.name.c_str(), error.what());
    }
    machine.free_cached();
  }
  if (rows == 0)
    std::printf("  no kernel of these is tuned\n");
  else
    std::printf("  %d kernels; default / tuned: %.3f in the geometric mean, %.2f at most, over 1.2 for %d%s\n", rows,
                std::exp(logarithms / rows), worst, slow,
                wrong ? text("; ", wrong, " candidates computed something else").c_str() : "");
  std::fflush(stdout);
}

void tune_suites(const TuneOptions& options) {
  const int all = config().threads > 0 ? config().threads : available_cores();
  auto run = [&](const std::string& suite, int threads) {
    setenv("HEDDLE_THREADS", std::to_string(threads).c_str(), 1);
    setenv("HEDDLE_TUNE", "0", 1);
    std::vector<std::string> arguments = {"tune-suite", suite,
                                          "--trials",   std::to_string(options.trials),
                                          "--seconds",  std::to_string(options.seconds),
                                          "--only",     options.only};
    if (options.report) arguments.push_back("--report");
    if (options.again) arguments.push_back("--again");
    if (options.suite == "all") arguments.push_back("--among-others");
    if (!options.tries.empty()) arguments.insert(arguments.end(), {"--try", options.tries});
    int code = run_self(arguments, [](const std::string& line) {
      std::printf("%s\n", line.c_str());
      std::fflush(stdout);
    });
    if (code != 0) throw Error(text("tune: suite ", suite, " ended with exit code ", code));
  };
  for (const std::string& suite : suite_names()) {
    if (suite == "all" || (options.suite == "all" ? !part_of_all(suite) : options.suite != suite)) continue;
    if (!options.threads && one_thread_first(suite) && all > 1) run(suite, 1);
    run(suite, options.threads.value_or(all));
  }
}

}  // namespace heddle::tools
