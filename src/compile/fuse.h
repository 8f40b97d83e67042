// Fuse: a graph becomes a list of kernels (Loops), with tensors between them.
#pragma once

#include <optional>
#include <vector>

#include "compile/direct.h"
#include "compile/loops.h"

namespace heddle {

struct Program {
  struct Tensor {
    const Node* node;   // kept alive by the roots
    bool leaf = false;  // realised already (Buffer), or an Input the caller provides
    bool output = false;
  };
  struct Step {
    Loops loops;                         // empty when the kernel is built directly
    std::optional<DirectKernel> direct;  // then this
    std::vector<int> tensors;            // for each of their buffers, an index into Program::tensors
  };
  std::vector<Tensor> tensors;
  std::vector<Step> steps;   // in an order in which they may run
  std::vector<int> outputs;  // for each root, its tensor
};

// Every root becomes a tensor in memory; constants are folded into kernels.
Program fuse(std::span<const NodeRef> roots);

}  // namespace heddle
