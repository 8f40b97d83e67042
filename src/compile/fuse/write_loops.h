// Fuse, one group at a time: a group of units becomes a step with its Loops.
#pragma once

#include <unordered_map>

#include "compile/fuse/fuse.h"
#include "compile/fuse/partition.h"

namespace heddle {

// A kernel was to read the result of a reduction elsewhere than where it computes it: it has to come from memory.
struct Misread {
  const Node* node;
};

// Where a node is among the tensors of the program.
using TensorNumbers = std::unordered_map<const Node*, int>;

// Adds what the kernel reads and writes to the tensors of the program. `start`: of a part, where it begins along the
// axis of the join. Throws Misread.
Program::Step write_loops(Program& program, TensorNumbers& tensor_of, const Partition& parts, const Group& group,
                          bool deterministic, const Expr& start = 0);

}  // namespace heddle
