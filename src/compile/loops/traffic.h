// What a kernel has to do, whatever its schedule: memory moved, and operations on floats.
#pragma once

#include <span>

#include "compile/loops/loops.h"

namespace heddle {

struct Traffic {
  uint64_t read = 0, written = 0;  // bytes
  uint64_t flops = 0;

  Traffic& operator+=(const Traffic& other) {
    read += other.read;
    written += other.written;
    flops += other.flops;
    return *this;
  }
};

// Of distinct elements: what is loaded several times counts once, what a broadcast repeats too, and a slice counts only
// what it covers. An upper bound where addresses overlap in part or depend on data.
//
// Flops: every op of ops.def whose result is a float counts one, sqrt and exp like add; fma counts two, `where` and
// casts nothing. It counts for each point of the axes that its operands depend on: once per row for what is the same
// along the row. Reductions and scans combine once per element. Guards are not looked at.
//
// Symbols at their upper bounds, or at these values of loops.symbols.
Traffic traffic(const Loops& loops, std::span<const int64_t> symbols = {});
// Of a kernel that is built directly: all of its buffers once.
Traffic traffic(std::span<const kernel::Buffer> buffers);

}  // namespace heddle
