// Several rounds of a loop as one, where all that a round does is arithmetic by the element: what is carried then
// passes from round to round in registers, and through memory only now and then.
#include <algorithm>
#include <bit>

#include "graph/build.h"
#include "graph/control.h"
#include "graph/graph.h"

namespace heddle {
namespace {

constexpr int64_t kMostWork = 256;  // in the kernel of a round

// What is carried in a small float is rounded after each round, and may not be within a kernel.
bool is_rounded(const NodeRef& parameter) { return is_float(parameter->dtype) && size_of(parameter->dtype) < 4; }

bool is_one_element(const Node& node) { return node.shape.numel().is_const(1); }

// What a round computes for each element, in operations; nothing if it does more than arithmetic by the element.
std::optional<int64_t> work_of(const Region& body, size_t carried) {
  constexpr int64_t kFunction = 32;  // operations of an elementary function
  std::unordered_set<const Node*> depends;
  for (size_t i = 0; i < carried; ++i) depends.insert(body.parameters[i].get());
  int64_t work = 0;
  for (const Node* node : topological(body.results)) {
    if (std::ranges::any_of(node->inputs, [&](const NodeRef& input) { return depends.contains(input.get()); }))
      depends.insert(node);
    switch (node->op) {
      case NodeOp::Scalar: work += info(node->scalar_op).native ? 1 : kFunction; break;
      case NodeOp::Cast:
      case NodeOp::Bitcast: ++work; break;
      case NodeOp::Const:
      case NodeOp::Iota:
      case NodeOp::Pullback: break;
      default:
        if (node->inputs.empty()) break;  // a parameter
        if (!is_view_of_all(*node) || (depends.contains(node) && !is_one_element(*node->inputs[0]))) return {};
    }
  }
  return work;
}

// How many rounds become one; 1: it stays as it is. The number does not depend on the loop's length, so that loops of
// all lengths have the same kernels.
int64_t rounds_together(const Control& loop) {
  if (loop.condition() || loop.stacked > 0 || loop.outputs() > 0 || !loop.length.is_const()) return 1;
  if (std::any_of(loop.body().parameters.begin(), loop.body().parameters.begin() + static_cast<long>(loop.carried),
                  is_rounded))
    return 1;
  const std::optional<int64_t> work = work_of(loop.body(), loop.carried);
  if (!work) return 1;
  const auto together =
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(kMostWork / std::max<int64_t>(*work, 1), 1)));
  return loop.length.value() < 2 * static_cast<int64_t>(together) ? 1 : static_cast<int64_t>(together);
}

// The carried values after some more rounds, for these values of the parameters.
std::vector<NodeRef> after_rounds(const Region& body, std::vector<NodeRef> values, size_t carried, int64_t rounds) {
  for (int64_t round = 0; round < rounds; ++round) {
    std::unordered_map<const Node*, NodeRef> with;
    for (size_t i = 0; i < values.size(); ++i) with[body.parameters[i].get()] = values[i];
    std::ranges::copy(replace(body.results, with), values.begin());
  }
  values.resize(carried);
  return values;
}

// The carried values that a loop ends with. Rounds that are left over go the way they went.
std::vector<NodeRef> with_fewer_rounds(const Control& loop, std::vector<NodeRef> inputs, int64_t together) {
  const auto run = [&](std::vector<NodeRef> results, int64_t length) {
    auto control = std::make_shared<Control>(loop);
    control->regions[0].results = std::move(results);
    control->length = length;
    const NodeRef node = make_loop(inputs, control);
    for (size_t i = 0; i < loop.carried; ++i) inputs[i] = make_get(node, static_cast<int>(i));
  };
  const int64_t length = loop.length.value();
  run(after_rounds(loop.body(), loop.body().parameters, loop.carried, together), length / together);
  if (length % together != 0) run(loop.body().results, length % together);
  inputs.resize(loop.carried);
  return inputs;
}

}  // namespace

std::vector<NodeRef> join_rounds(std::span<const NodeRef> roots) {
  std::unordered_map<const Node*, std::vector<NodeRef>> results;  // of loops that are others now
  return rebuild_graph(roots, [&](const Node& node, std::span<const NodeRef> inputs) -> NodeRef {
    if (node.op == NodeOp::Loop)
      if (const int64_t together = rounds_together(*node.control); together > 1)
        results[&node] = with_fewer_rounds(*node.control, {inputs.begin(), inputs.end()}, together);
    if (node.op != NodeOp::Get) return {};
    const auto found = results.find(node.inputs[0].get());
    return found == results.end() ? NodeRef() : found->second[static_cast<size_t>(node.attrs[0].value())];
  });
}

}  // namespace heddle
