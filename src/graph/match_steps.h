// What a chain of equal nodes has in common: private to repetition.
#pragma once

#include "graph/node_map.h"
#include "graph/repetition.h"

namespace heddle {

// Fewer steps, or steps of fewer nodes in all, are as quickly compiled one by one.
constexpr size_t kFewestSteps = 16, kFewestNodes = 256;

// What a node does to its inputs; where a slice begins does not count.
uint64_t own_hash(const Node& node);

// The steps that end with these nodes, the last step first; nothing if they are not worth a loop. `order`: the graph,
// inputs first, and the place of each node in it.
std::optional<Repetition> match_steps(const std::vector<const Node*>& order, const NodeMap& number,
                                      std::span<const Node* const> ends);

}  // namespace heddle
