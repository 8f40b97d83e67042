// heddle tune: searches schedules for the kernels of a benchmark suite, or compares those found with the default ones.
#pragma once

#include <optional>
#include <string>

namespace heddle::tools {

struct TuneOptions {
  std::string suite;
  std::optional<int> threads;
  int trials = 64;
  double seconds = 20;  // of search for one kernel, at most
  std::string only;     // figures of the suite whose name contains this
  bool report = false;  // search nothing, measure what the cache holds against the default schedules
  bool again = false;   // also kernels that are tuned already
  std::string tries;    // a file of schedules to measure instead of searching, lines of the form `kernel: schedule`
  bool among_others = false;  // one suite of all: what matches nothing here may be meant for another
};
// Each suite and number of threads in a process of its own. Throws Error.
void tune_suites(const TuneOptions& options);
// The other side: one suite in this process; prints a row for each kernel.
void tune_suite(const TuneOptions& options);

}  // namespace heddle::tools
