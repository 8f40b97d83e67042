// A guess at how long a phase takes, made once when a kernel is compiled: is it worth waking other threads for?
#pragma once

#include <functional>
#include <vector>

#include "kernel/ir.h"

namespace heddle {

// The nanoseconds of a body: its own, and those of each loop inside as often as it turns.
struct WorkEstimate {
  struct Loop;
  double nanoseconds = 0;
  std::vector<Loop> loops;  // only those whose number of turns depends on symbols
};
struct WorkEstimate::Loop {
  Expr turns;  // over the kernel's symbols: those of the first block
  WorkEstimate body;
};

// Of one block on one core when its data is in the nearer caches. Right within a factor of a few.
WorkEstimate estimate_block(const kernel::Kernel& kernel, const kernel::Phase& phase);
// In nanoseconds, at these values of the kernel's symbols.
double evaluate(const WorkEstimate& work, const std::function<int64_t(const Expr& symbol)>& value_of);

}  // namespace heddle
