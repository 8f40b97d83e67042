// Random graphs against the reference evaluator.
//
//   fuzz_graphs --seeds 0:2000          these seeds
//   fuzz_graphs --seconds 60            new seeds until the time is over
//   --only WAYS                         realize, simulated, tile, simd, simt, passes, jit, ptx, gradient, vmap; several
//                                       with commas. Without it every seed goes most ways, and some the others too.
//   --threads N                         seeds at the same time (default: 1)
//   --steps N                           size of the graphs
//   --ptxas PROGRAM                     assemble PTX too
//   --symbolic                          all graphs have symbolic sizes; without it every fourth has
//   --static                            no graph has
//   --together                          all are several graphs in one that differ in sizes; without it every eighth is
//   --survey                            do not stop at a failure: one line for each, with the command
//   --verbose                           every seed
//
// The first failure is made as small as possible, printed with the command that repeats it, and ends the run.
#include <unistd.h>
#include <csignal>
#include <cstdio>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <iostream>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>

#include "fuzz/check.h"
#include "fuzz/transform.h"
#include "runtime/plan.h"

namespace heddle::fuzz {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLongestSeed = 120;  // seconds before we believe that it hangs

struct Options {
  std::string program;
  uint64_t begin = 0, end = UINT64_MAX;
  double seconds = 0;
  std::vector<Way> only;
  int threads = 1, steps = -1;
  std::string ptxas;
  bool symbolic = false, fixed = false, together = false, survey = false, verbose = false;
};

[[noreturn]] void usage(const std::string& problem) {
  std::cerr
      << "fuzz_graphs: " << problem
      << "\nusage: fuzz_graphs [--seeds BEGIN:END] [--seconds N] [--only "
         "realize,simulated,tile,simd,simt,passes,jit,ptx,gradient,vmap]"
         " [--threads N] [--steps N] [--ptxas PROGRAM] [--symbolic | --static | --together] [--survey] [--verbose]\n";
  std::exit(2);
}

uint64_t number(const std::string& option, const std::string& text) {
  size_t used = 0;
  uint64_t value = 0;
  try {
    value = std::stoull(text, &used);
  } catch (const std::exception&) {}
  if (text.empty() || used != text.size()) usage(option + " needs a number, not '" + text + "'");
  return value;
}

std::vector<Way> ways(const std::string& list) {
  std::vector<Way> result;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(',', begin), list.size());
    std::string wanted = list.substr(begin, end - begin);
    auto found = std::find_if(std::begin(kAllWays), std::end(kAllWays), [&](Way w) { return wanted == name(w); });
    if (found == std::end(kAllWays)) usage("--only does not know '" + wanted + "'");
    result.push_back(*found);
    begin = end + 1;
  }
  return result;
}

Options parse(int count, char** arguments) {
  Options options;
  options.program = arguments[0];
  bool seeds = false;
  for (int i = 1; i < count; ++i) {
    std::string option = arguments[i];
    auto value = [&] {
      if (++i == count) usage(option + " needs a value");
      return std::string(arguments[i]);
    };
    if (option == "--seconds") {
      options.seconds = static_cast<double>(number(option, value()));
    } else if (option == "--seeds") {
      std::string range = value();
      size_t colon = range.find(':');
      options.begin = number(option, range.substr(0, colon));
      options.end = colon == std::string::npos ? options.begin + 1 : number(option, range.substr(colon + 1));
      seeds = true;
    } else if (option == "--only") {
      options.only = ways(value());
    } else if (option == "--threads") {
      options.threads = std::max(1, static_cast<int>(number(option, value())));
    } else if (option == "--steps") {
      options.steps = static_cast<int>(number(option, value()));
    } else if (option == "--ptxas") {
      options.ptxas = value();
    } else if (option == "--symbolic") {
      options.symbolic = true;
    } else if (option == "--static") {
      options.fixed = true;
    } else if (option == "--together") {
      options.together = true;
    } else if (option == "--survey") {
      options.survey = true;
    } else if (option == "--verbose") {
      options.verbose = true;
    } else {
      usage("unknown option " + option);
    }
  }
  if (!seeds && options.seconds == 0) usage("give --seeds or --seconds");
  // Other seeds every time, far from the fixed ones.
  if (!seeds) options.begin = 1'000'000'000 + static_cast<uint64_t>(std::time(nullptr)) * 10'000;
  return options;
}

// What a seed does when nobody asks for something else. Compiling takes most of the time, so only some seeds do it
// twice.
std::vector<Way> ways_of(uint64_t seed) {
  std::vector<Way> result{Way::Realize, Way::Tile, Way::Simd, Way::Simt, Way::Passes};
  if (seed % 4 == 0) result.push_back(Way::Jit);
  if (seed % 4 == 2 || seed % 8 == 7) result.push_back(Way::Simulated);
  if (seed % 8 == 1) result.push_back(Way::Ptx);
  if (seed % 5 == 0) result.push_back(Way::Gradient);
  if (seed % 5 == 1) result.push_back(Way::Vmap);
  return result;
}

// What a worker does now, also for the handler of fatal signals.
struct Worker {
  std::atomic<uint64_t> seed{0};
  std::atomic<int> way{-1};
  std::atomic<Clock::rep> since{0};
};
thread_local Worker* g_worker = nullptr;
std::string g_program;  // these are set before the workers start
bool g_symbolic = false, g_static = false, g_together = false;

std::string command(uint64_t seed, Way way, int steps) {
  return g_program + " --seeds " + std::to_string(seed) + ":" + std::to_string(seed + 1) + " --only " + name(way) +
         (steps >= 0 ? " --steps " + std::to_string(steps) : "") +
         (g_symbolic   ? " --symbolic"
          : g_static   ? " --static"
          : g_together ? " --together"
                       : "");
}

void on_signal(int signal) {
  char line[512];
  int length = 0;
  if (g_worker && g_worker->way >= 0)
    length =
        std::snprintf(line, sizeof line, "\nsignal %d; repeat with\n  %s --seeds %lu:%lu --only %s\n", signal,
                      g_program.c_str(), static_cast<unsigned long>(g_worker->seed),
                      static_cast<unsigned long>(g_worker->seed) + 1, name(static_cast<Way>(g_worker->way.load())));
  if (length > 0 && write(2, line, std::min<size_t>(static_cast<size_t>(length), sizeof line))) {}
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Fuzzer {
 public:
  explicit Fuzzer(const Options& options)
      : options_(options), start_(Clock::now()), next_(options.begin), workers_(static_cast<size_t>(options.threads)) {}

  int run() {
    std::vector<std::thread> threads;
    for (Worker& worker : workers_) threads.emplace_back([&] { work(worker); });
    watch();
    for (std::thread& thread : threads) thread.join();
    count_gradients();
    std::cout << done_ << " seeds in " << elapsed() << " s" << (failed_ ? "" : ", no failure") << std::endl;
    return failed_ ? 1 : 0;
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool over() const { return (failed_ && !options_.survey) || (options_.seconds > 0 && elapsed() > options_.seconds); }

  void work(Worker& worker) {
    g_worker = &worker;
    while (!over()) {
      uint64_t seed = next_++;
      if (seed >= options_.end) break;
      {
        std::shared_lock guard(plans_);  // the sizes of one graph share a plan
        run_seed(seed, worker);
      }
      // Kernels of random graphs are never wanted again.
      if (++done_ % 128 == 0) {
        std::lock_guard guard(plans_);
        clear_plan_cache();
      }
    }
    --busy_;
  }

  void run_seed(uint64_t seed, Worker& worker) {
    for (Way way : options_.only.empty() ? ways_of(seed) : options_.only) {
      worker.seed = seed;
      worker.way = static_cast<int>(way);
      worker.since = Clock::now().time_since_epoch().count();
      if (options_.verbose) {
        std::lock_guard guard(output_);
        std::cout << "seed " << seed << " " << name(way) << std::endl;
      }
      bool symbolic = options_.symbolic || (!options_.fixed && seed % 4 == 3);
      bool together = options_.together || (!options_.fixed && !symbolic && seed % 8 == 5);
      Check what{seed, options_.steps, symbolic && !together, together, options_.ptxas};
      try {
        check(what, way);
      } catch (const Failure& failure) {
        report(what, way, failure);
        return;
      }
      worker.way = -1;
    }
  }

  // The same seed with fewer steps is the beginning of the same graph.
  void report(Check what, Way way, Failure failure) {
    std::lock_guard guard(output_);
    if (failed_.exchange(true) && !options_.survey) return;
    int most = what.steps >= 0 ? what.steps : default_steps(what.seed), steps = -1;
    for (int fewer = 0; fewer < most && steps < 0; ++fewer) {
      try {
        what.steps = fewer;
        check(what, way);
      } catch (const Failure& smaller) {
        failure = smaller;
        steps = fewer;
      }
    }
    if (options_.survey) {
      std::cout << "FAILED: " << command(what.seed, way, steps >= 0 ? steps : options_.steps) << ": "
                << failure.message.substr(0, 300) << std::endl;
      return;
    }
    std::cout << "FAILED: seed " << what.seed << ", " << name(way) << ": " << failure.message << "\n"
              << failure.detail << "seed " << what.seed << ", " << name(way) << ": " << failure.message
              << "\nrepeat with\n  " << command(what.seed, way, steps >= 0 ? steps : options_.steps) << std::endl;
  }

  // Most gradients must really have been compared, or the checks say nothing.
  void count_gradients() {
    const GradientCounts& counts = gradient_counts();
    uint64_t graphs = counts.differences + counts.kinks + counts.constant, arrays = counts.realized + counts.vague;
    if (graphs == 0) return;
    std::cout << "gradients: " << counts.differences << " of " << graphs << " graphs agree with differences ("
              << counts.kinks << " at a kink, " << counts.constant << " constant), " << counts.realized << " of "
              << arrays << " arrays with the evaluator" << std::endl;
    if (failed_ || graphs < 100 || (2 * counts.differences > graphs && 2 * counts.realized > arrays)) return;
    std::cout << "FAILED: too few gradients could be compared" << std::endl;
    failed_ = true;
  }

  // Shows progress, and ends the program when a seed hangs.
  void watch() {
    double shown = 0;
    while (busy_ > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (const Worker& worker : workers_) {
        Clock::duration since(Clock::now().time_since_epoch().count() - worker.since.load());
        if (worker.way < 0 || since < std::chrono::seconds(kLongestSeed)) continue;
        std::cout << "FAILED: seed " << worker.seed << " does not end; repeat with\n  "
                  << command(worker.seed, static_cast<Way>(worker.way.load()), options_.steps) << std::endl;
        std::_Exit(1);
      }
      if (elapsed() - shown < 10) continue;
      shown = elapsed();
      std::lock_guard guard(output_);
      std::cout << done_ << " seeds (now " << next_ << ") in " << shown << " s" << std::endl;
    }
  }

  const Options& options_;
  Clock::time_point start_;
  std::atomic<uint64_t> next_, done_{0};
  std::atomic<bool> failed_{false};
  std::vector<Worker> workers_;
  std::atomic<int> busy_{static_cast<int>(workers_.size())};
  std::mutex output_;
  std::shared_mutex plans_;
};

}  // namespace
}  // namespace heddle::fuzz

int main(int count, char** arguments) {
  using namespace heddle::fuzz;
  Options options = parse(count, arguments);
  g_program = options.program;
  g_symbolic = options.symbolic;
  g_static = options.fixed;
  g_together = options.together;
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, on_signal);
  return Fuzzer(options).run();
}
