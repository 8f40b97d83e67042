// Sort as a kernel: which elements come first along rows, and where they were.
#pragma once

#include "compile/direct/direct.h"
#include "graph/node.h"

namespace heddle {

// Rows of n elements each; the first `kept` of each row in stable order.
struct SortTask {
  int64_t rows = 1, n = 1, kept = 1;
  DType dtype = DType::f32;
  bool descending = false;
  bool values = false, indices = false;  // which results are wanted
};

// Of a Sort node and those of its results (Get nodes) that are wanted. Throws CompileError for symbolic sizes.
SortTask sort_task(const Node& node, std::span<const Node* const> results);

// Buffers: the elements, then the values and the i64 positions, as far as they are wanted. The algorithm follows from
// the sizes and the target; the result does not depend on it.
DirectKernel sort_kernel(const SortTask& task);

}  // namespace heddle
