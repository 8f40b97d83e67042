// Schedules of nested loops: attention and its gradients.
#pragma once

#include "compile/schedule.h"

namespace heddle {

Schedule nested_schedule(const Loops& loops, const Target& target);

}  // namespace heddle
