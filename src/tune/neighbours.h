// Schedules that differ from a given one in a few choices.
#pragma once

#include <random>

#include "compile/schedule/schedule.h"

namespace heddle {

// Changes one to three things: sizes of blocks and steps, order and number of loops, shapes of register tiles, packing,
// splits, what stays in registers, streaming. Always legal; the schedule itself if nothing legal was found.
Schedule neighbour(const Schedule& schedule, const Loops& loops, const Target& target, std::mt19937_64& random);

}  // namespace heddle
