// Kernels that somebody wrote, as steps of a program.
#pragma once

#include "compile/direct/direct.h"
#include "graph/node.h"

namespace heddle {

// Of a Custom node and those of its results (Get nodes, in their order) that are wanted: nothing is stored to the
// others. Buffers: the inputs, then the wanted results.
DirectKernel custom_kernel(const Node& node, std::span<const Node* const> results);

}  // namespace heddle
