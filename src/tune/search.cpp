#include "tune/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "compile/lower.h"
#include "kernel/work_estimate.h"
#include "tune/neighbours.h"

namespace heddle {
namespace {

constexpr double kSegment = 2e-4;   // seconds that one side of a duel runs at a time, if a launch is shorter
constexpr double kFinalDuels = 6;   // how much longer than others the last ones take
constexpr double kHopeless = 1.15;  // so much slower in the first rounds: the rest is not run
constexpr double kMostTime = 5;     // a first run that takes so many times the best is the last one
// The same for the time guessed from the instructions: less where a run takes long.
constexpr double kLeastWork = 3, kMostWork = 20, kLongRun = 0.5;
constexpr size_t kMostInstructions = 20'000;  // of a kernel worth compiling
constexpr size_t kParents = 8;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

kernel::Kernel default_build(const Loops& loops, const Schedule& schedule, const Target& target) {
  return lower(tile(loops, schedule, target), target);
}

// Nanoseconds on one core, guessed, at the first segment's sizes.
double estimate(const kernel::Kernel& kernel, const Workload& workload) {
  auto value_of = [&](const Expr& variable) {
    for (size_t i = 0; i < kernel.symbols.size(); ++i)
      if (kernel.symbols[i] == variable) return workload.segments[0][i];
    return int64_t{1};
  };
  double total = 0;
  for (const kernel::Phase& phase : kernel.phases) {
    double blocks = 1;
    for (const Expr& block : phase.blocks) blocks *= static_cast<double>(evaluate(block.extent(), value_of));
    total += blocks * evaluate(estimate_block(kernel, phase), value_of);
  }
  return total;
}

size_t instructions(const kernel::Kernel& kernel) {
  size_t count = 0;
  for (const kernel::Phase& phase : kernel.phases) kernel::visit(phase.body, [&](const kernel::Inst&) { ++count; });
  return count;
}

// In turns. Ends early when the second is hopeless, unless it is said to be worth the time.
Duel in_turns(Bench& bench, const Candidate& first, const Candidate& second, double guess, double seconds, bool whole) {
  const int times = std::clamp(static_cast<int>(kSegment / std::max(guess, 1e-9)), 1, 1000);
  Duel best{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  const double end = now() + seconds;
  for (int round = 0; round < 2 || now() < end; ++round) {
    best.first = std::min(best.first, bench.seconds(first, times));
    best.second = std::min(best.second, bench.seconds(second, times));
    if (!whole && round >= 1 && best.second > kHopeless * best.first) break;
  }
  return best;
}

struct Parent {
  Schedule schedule;
  double relative;  // time, of that of the default schedule
};

class Search {
 public:
  Search(const Workload& workload, Backend& device, const SearchOptions& options)
      : workload_(workload),
        device_(device),
        options_(options),
        bench_(workload, device, options.seed),
        random_(options.seed * 0x9e3779b97f4a7c15ull + 1) {}

  SearchResult run() {
    const double end = options_.seconds > 0 ? now() + options_.seconds : std::numeric_limits<double>::infinity();
    const Schedule plain = default_schedule(workload_.loops, device_.target_for(workload_.tf32));
    default_ = best_ = compile(plain);
    work_ = estimate(default_.executable->kernel(), workload_);
    expected_ = bench_.outputs(default_);
    verify_default(plain);
    bench_.seconds(default_, 1);  // warm
    result_.default_seconds = result_.best_seconds = best_seconds_ = bench_.seconds(default_, 1);
    result_.best = plain;
    parents_ = {{plain, 1}};
    seen_.insert(print(plain));
    for (int trial = 0; trial < options_.trials && now() < end; ++trial) {
      std::optional<Schedule> candidate = next(trial);
      if (!candidate) break;
      ++result_.tried;
      try_one(*candidate);
      if (options_.progress) options_.progress(result_.tried, result_.default_seconds, best_seconds_);
    }
    finish(plain);
    return result_;
  }

 private:
  // What candidates are compared with comes from the default schedule. That is not right by definition.
  void verify_default(const Schedule& plain) {
    std::optional<Bench::Outputs> interpreted = bench_.interpreted();
    std::string problem;
    if (!interpreted || bench_.agree(*interpreted, expected_, problem)) return;
    result_.default_is_wrong = true;
    warn(text("search: the default schedule of ", workload_.loops.name,
              " computes something else than the interpreter: ", problem, "; ", print(plain)));
    expected_ = std::move(*interpreted);
  }

  Candidate compile(const Schedule& schedule) {
    kernel::Kernel kernel = (options_.build ? options_.build : default_build)(workload_.loops, schedule,
                                                                              device_.target_for(workload_.tf32));
    if (instructions(kernel) > kMostInstructions)
      throw CompileError(text("kernel ", kernel.name, " has ", instructions(kernel), " instructions"));
    if (work_ > 0) {
      double most = std::clamp(kLongRun / best_seconds_, kLeastWork, kMostWork);
      if (estimate(kernel, workload_) > most * work_) return {};
    }
    return bench_.prepare(device_.compile(kernel));
  }

  // One that was not tried before; nothing when there seem to be no more.
  std::optional<Schedule> next(int trial) {
    if (trial == 0 && options_.start &&
        check(*options_.start, workload_.loops, device_.target_for(workload_.tf32)).empty() &&
        seen_.insert(print(*options_.start)).second)
      return options_.start;
    for (int attempt = 0; attempt < 100; ++attempt) {
      Schedule drawn;
      if (random_() % 8 == 0) {
        drawn = random_schedule(workload_.loops, device_.target_for(workload_.tf32), random_());
      } else {
        // The better, the more often.
        double share = static_cast<double>(random_() % 1000) / 1000;
        auto parent = static_cast<size_t>(share * share * static_cast<double>(parents_.size()));
        drawn = neighbour(parents_[parent].schedule, workload_.loops, device_.target_for(workload_.tf32), random_);
      }
      if (seen_.insert(print(drawn)).second) return drawn;
    }
    return std::nullopt;
  }

  void try_one(const Schedule& schedule) {
    try {
      Candidate candidate = compile(schedule);
      if (!candidate.executable) {
        ++result_.abandoned;
        return;
      }
      std::string problem;
      if (!bench_.agree(expected_, bench_.outputs(candidate), problem)) {
        ++result_.wrong;
        warn(text("search: a schedule of ", workload_.loops.name, " computes something else and is ignored: ", problem,
                  "; ", print(schedule)));
        return;
      }
      std::optional<FileLock> turn;
      if (!options_.turn.empty()) turn.emplace(options_.turn);
      double first = bench_.seconds(candidate, 1);
      if (first > kMostTime * best_seconds_ && bench_.seconds(candidate, 1) > kMostTime * best_seconds_) {
        ++result_.abandoned;
        return;
      }
      Duel times = in_turns(bench_, best_, candidate, best_seconds_, options_.duel, false);
      double relative = best_relative_ * times.second / times.first;
      parents_.push_back({schedule, relative});
      std::stable_sort(parents_.begin(), parents_.end(),
                       [](const Parent& a, const Parent& b) { return a.relative < b.relative; });
      if (parents_.size() > kParents) parents_.pop_back();
      best_seconds_ = std::min(best_seconds_, times.first);
      if (times.second >= times.first) return;
      best_ = std::move(candidate);
      best_seconds_ = times.second;
      best_relative_ = relative;
    } catch (const Interrupted&) {
      throw;
    } catch (
        const std::exception&) {  // most are CompileErrors; a broken invariant of lowering is no reason to stop either
      ++result_.failed;
    }
  }

  // The best few meet the default schedule once more, for longer.
  void finish(const Schedule& plain) {
    std::optional<FileLock> turn;
    if (!options_.turn.empty()) turn.emplace(options_.turn);
    double least = 1 - options_.gain, default_at_best = std::numeric_limits<double>::infinity();
    const std::string plain_text = print(plain);
    int met = 0;
    for (const Parent& parent : parents_) {
      if (met == 3 || parent.relative >= 1) break;
      if (print(parent.schedule) == plain_text) continue;
      ++met;
      Candidate candidate;
      try {
        candidate = compile(parent.schedule);
      } catch (const Interrupted&) {
        throw;
      } catch (const std::exception&) {
        continue;
      }
      if (!candidate.executable) continue;
      Duel times = in_turns(bench_, default_, candidate, best_seconds_, kFinalDuels * options_.duel, true);
      default_at_best = std::min(default_at_best, times.first);
      if (times.second / times.first >= least) continue;
      least = times.second / times.first;
      result_.best = parent.schedule;
      result_.best_seconds = times.second;
      result_.default_seconds = times.first;
    }
    // A machine that was disturbed may have flattered one of them: the default schedule's best time counts, too. So may
    // the places where code and temporaries happened to lie: the winner has to win again, both compiled anew.
    if (print(result_.best) != plain_text && result_.best_seconds < (1 - options_.gain) * default_at_best) {
      Candidate winner = compile(result_.best), again = compile(plain);
      Duel times = in_turns(bench_, again, winner, best_seconds_, kFinalDuels * options_.duel, true);
      if (times.second < (1 - options_.gain) * times.first) {
        result_.best_seconds = times.second;
        result_.default_seconds = times.first;
        return;
      }
    }
    result_.best = plain;
    for (int i = 0; i < 5; ++i) default_at_best = std::min(default_at_best, bench_.seconds(default_, 1));
    result_.default_seconds = result_.best_seconds = default_at_best;
  }

  const Workload& workload_;
  Backend& device_;
  const SearchOptions& options_;
  Bench bench_;
  std::mt19937_64 random_;
  Candidate default_, best_;
  double work_ = 0, best_seconds_ = 0, best_relative_ = 1;
  Bench::Outputs expected_;
  std::vector<Parent> parents_;
  std::unordered_set<std::string> seen_;
  SearchResult result_;
};

}  // namespace

SearchResult search(const Workload& workload, Backend& device, const SearchOptions& options) {
  return Search(workload, device, options).run();
}

Duel duel(const Workload& workload, Backend& device, const Schedule& first, const Schedule& second, double seconds) {
  Bench bench(workload, device, 0);
  Candidate a = bench.prepare(device.compile(default_build(workload.loops, first, device.target_for(workload.tf32))));
  Candidate b = bench.prepare(device.compile(default_build(workload.loops, second, device.target_for(workload.tf32))));
  bench.outputs(a);
  bench.seconds(b, 1);
  return in_turns(bench, a, b, bench.seconds(a, 1), seconds, true);
}

}  // namespace heddle
