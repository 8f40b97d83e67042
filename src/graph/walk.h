// The walk that orders of graphs are made by. Private to src/graph.
#pragma once

#include "base/error.h"
#include "graph/node_map.h"

namespace heddle {

// Every node reachable from roots through inputs_of(node), inputs before users, each once. No recursion.
template <class InputsOf>
std::vector<const Node*> inputs_first(std::span<const NodeRef> roots, InputsOf inputs_of) {
  struct Visit {
    const Node* node;
    std::span<const NodeRef> inputs;
    size_t next;
  };
  std::vector<const Node*> order;
  std::vector<Visit> stack;
  NodeMap seen;
  auto enter = [&](const Node* node) {
    if (seen.insert(node, 0)) stack.push_back({node, inputs_of(*node), 0});
  };
  for (const NodeRef& root : roots) {
    HD_ASSERT(root, "a root of a graph is null");
    enter(root.get());
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next < visit.inputs.size()) {
        enter(visit.inputs[visit.next++].get());
        continue;
      }
      order.push_back(visit.node);
      stack.pop_back();
    }
  }
  return order;
}

}  // namespace heddle
