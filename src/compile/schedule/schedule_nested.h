// Schedules of nested loops: attention and its gradients.
#pragma once

#include "compile/schedule/schedule.h"

namespace heddle {

Schedule nested_schedule(const Loops& loops, const Target& target);

// Whether one kernel is faster than several through memory. Outside the matrix unit a SIMT machine takes one row of
// nested loops a block: large ones better go through memory.
bool nest_pays(const Schedule& schedule, const Loops& loops, const Target& target);

}  // namespace heddle
