// Fuse, one group at a time: a group of units becomes a step with its Loops.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "compile/fuse/fuse.h"
#include "compile/fuse/partition.h"

namespace heddle {

// Where a node is among the tensors of the program.
using TensorNumbers = std::unordered_map<const Node*, int>;

// The program that the groups of a partition become, one by one.
struct Writing {
  const Partition* parts;
  bool deterministic;
  Program program = {};
  TensorNumbers tensor_of = {};
  // Results of reductions that a kernel was to read elsewhere than where it computes them. They have to come from
  // memory; the kernel is of no use.
  std::unordered_set<const Node*> misread = {};

  int tensor(const Node* node, bool leaf);  // its number
  void forget_tensors(size_t from);         // those of a kernel that is of no use
};

// Adds what the kernel reads and writes to the tensors of the program. `start`: of a part, where it begins along the
// axis of the join.
Program::Step write_loops(Writing& writing, const Group& group, const Expr& start = 0);

}  // namespace heddle
