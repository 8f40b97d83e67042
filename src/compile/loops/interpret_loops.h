// Runs Loops on the host, point by point and in the order in which they are written: what a fused kernel means, apart
// from any schedule.
//
// Floats are computed in double and rounded by casts alone, as evaluate() with Rounding::Never does it. What Loops say
// and what the graph says then differ in the order of sums at most, and a wrong fusion cannot hide behind rounding.
#pragma once

#include "compile/loops/loops.h"
#include "graph/graph.h"

namespace heddle {

// `buffers`: for each of loops.buffers its elements. Those that the kernel writes come back changed. `symbols`: values
// of loops.symbols. Throws InternalError, naming kernel and stage: access outside a buffer, an element that two points
// of the outer axes touch and one of them writes, an element of a result that nobody writes, unless the kernel writes a
// part of it only (`whole` is false).
void interpret(const Loops& loops, std::span<HostArray* const> buffers, std::span<const int64_t> symbols,
               bool whole = true);

}  // namespace heddle
