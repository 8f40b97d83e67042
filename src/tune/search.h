// Search: tries other schedules of a kernel on the device, and keeps the fastest one that computes the right thing.
#pragma once

#include "compile/schedule.h"
#include "runtime/device.h"

namespace heddle {

struct SearchResult {
  Schedule best;
  double best_seconds = 0;     // best of several runs
  double default_seconds = 0;  // the same for default_schedule()
  int tried = 0;
  int failed = 0;  // did not compile (search meets such schedules all the time)
  int wrong = 0;   // computed something else: a bug in the compiler, reported as a warning
};

// Runs `trials` random legal schedules on random data. A candidate's output is compared with that of the default
// schedule before its time counts: a fast wrong kernel cannot win. The same seed tries the same candidates.
SearchResult search(const Loops& loops, Device& device, int trials, uint64_t seed = 0);

}  // namespace heddle
