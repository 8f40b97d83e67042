// How much memory a kernel has to move, whatever its schedule.
#pragma once

#include <span>

#include "compile/loops.h"

namespace heddle {

struct Traffic {
  uint64_t read = 0, written = 0;  // bytes
};

// Of distinct elements: what is loaded several times counts once, what a broadcast repeats too, and a slice counts only
// what it covers. An upper bound where addresses overlap in part or depend on data. Symbols at their upper bounds.
Traffic traffic(const Loops& loops);
// Of a kernel that is built directly: all of its buffers once.
Traffic traffic(std::span<const kernel::Buffer> buffers);

}  // namespace heddle
