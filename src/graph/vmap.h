// From the graph of one example to that of many.
#pragma once

#include <unordered_map>

#include "graph/node.h"

namespace heddle {

// The roots' graph with a new first axis of size `count` wherever it depends on `inputs`, which says what stands for
// them: nodes with that axis. A root that depends on none of them is repeated. Iterative; linear in nodes.
std::vector<NodeRef> batched(std::span<const NodeRef> roots, const std::unordered_map<const Node*, NodeRef>& inputs,
                             const Expr& count);

}  // namespace heddle
