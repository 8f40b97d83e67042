// The schedules of sums of products on a CPU: tiles for registers and caches, and what is packed.
#pragma once

#include "compile/loops/contraction.h"
#include "compile/schedule/schedule.h"

namespace heddle {

// Fills `schedule`, whose blocks are 1 and whose stages are empty, for loops whose first stage is the contraction `c`
// with an axis of its own for each factor, and whose other stages only finish its results.
void schedule_contraction(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target);

}  // namespace heddle
