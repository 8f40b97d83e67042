// Private to src/graph.
#pragma once

#include <span>
#include <vector>

#include "graph/node.h"

namespace heddle {

// Sums of values that are padded with zeros to where they belong, as the gradients of slices are, become joins of the
// values: x + pad(a) + pad(b) is x + cat(a, b) if a and b do not overlap. Bit for bit the same.
std::vector<NodeRef> join_pads(std::span<const NodeRef> roots);

}  // namespace heddle
