// Search: tries other schedules of a kernel on the device, and keeps the fastest one that computes the right thing.
#pragma once

#include <functional>
#include <optional>

#include "compile/schedule/schedule.h"
#include "runtime/device.h"
#include "tune/workload.h"

namespace heddle {

struct SearchOptions {
  int trials = 64;
  double seconds = 0;  // no new candidate after so long; 0: no limit
  uint64_t seed = 0;   // the same seed draws the same first candidates; later ones depend on times
  double duel = 0.06;  // seconds in which a candidate and the best one so far take turns; six times that at the end
  double gain = 0.03;  // the least that counts as faster than the default schedule
  std::optional<Schedule> start;  // tried first: what an earlier search found
  std::string turn;               // a file: processes that name the same one time candidates one after the other
  // A schedule to a thread-level kernel; empty: tile() and lower().
  std::function<kernel::Kernel(const Loops&, const Schedule&, const Target&)> build;
  // After each candidate: seconds of the default schedule and of the best one so far.
  std::function<void(int tried, double default_seconds, double best_seconds)> progress;
};

struct SearchResult {
  Schedule best;            // the default schedule if nothing is faster by more than the gain
  double best_seconds = 0;  // both measured in turns at the end, the best of many
  double default_seconds = 0;
  int tried = 0;
  int failed = 0;                 // did not compile (search meets such schedules all the time)
  int abandoned = 0;              // would have taken, or took, many times as long as the best
  int wrong = 0;                  // computed something else: a bug in the compiler, reported as a warning
  bool default_is_wrong = false;  // the default schedule did: candidates were compared with the interpreter instead
};

// Explores around the default schedule: neighbours of the best ones so far, and random legal schedules. A candidate's
// output is compared with that of the default schedule before its time counts, and that one's with the interpreter's
// where the kernel is small enough: a fast wrong kernel cannot win. It is timed in turns with the best one so far, and
// the winner meets the default schedule twice more at the end.
//
//   SearchResult result = search(workload_of(loops), device(), {.trials = 100});
SearchResult search(const Workload& workload, Backend& device, const SearchOptions& options = {});

// The least seconds of each, measured in turns for about `seconds`.
struct Duel {
  double first, second;
};
Duel duel(const Workload& workload, Backend& device, const Schedule& first, const Schedule& second, double seconds);

}  // namespace heddle
