// An independent check of fusion: every kernel of a program, interpreted as Loops, against the reference evaluator.
#pragma once

#include "compile/fuse/fuse.h"
#include "graph/graph.h"

namespace heddle {

// Each step is run on what the evaluator gives for its inputs, and its results are compared with the evaluator's.
// Throws InternalError naming the first kernel that differs, with its Loops. Kernels that are built directly are left
// out. `symbols` and `inputs` as in evaluate().
void check_program(const Program& program, const SymbolValues& symbols = {},
                   const std::unordered_map<const Node*, HostArray>& inputs = {});

// The same on random data in place of what the leaves hold, of both signs and then positive, and with small values of
// symbolic sizes. Returns false if that would take more than kCheckedWork operations: instructions of Loops and
// elements of nodes.
inline constexpr double kCheckedWork = 4e6;
bool check_on_random_data(const Program& program);

}  // namespace heddle
