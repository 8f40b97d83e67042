// Several rounds of a loop as one, where all that a round does is arithmetic by the element: what is carried then
// passes from round to round in registers, and through memory only now and then.
#include <algorithm>

#include "graph/build.h"
#include "graph/control.h"
#include "graph/graph.h"

namespace heddle {
namespace {

constexpr int64_t kMostWork = 256;  // in the kernel of a round

bool is_one_element(const Node& node) { return node.shape.numel().is_const(1); }

// What a round computes for each element, in operations; nothing if it does more than arithmetic by the element.
std::optional<int64_t> work_of(const Region& body, size_t carried) {
  constexpr int64_t kFunction = 16;  // operations of an elementary function
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

// How many rounds become one; 1: it stays as it is.
int64_t rounds_together(const Control& loop) {
  if (loop.condition() || loop.stacked > 0 || loop.outputs() > 0 || !loop.length.is_const()) return 1;
  const std::optional<int64_t> work = work_of(loop.body(), loop.carried);
  if (!work) return 1;
  const int64_t length = loop.length.value(), most = std::min(length, kMostWork / std::max<int64_t>(*work, 1));
  for (int64_t even = most; even > most / 2; --even)
    if (length % even == 0) return even;
  return std::max<int64_t>(most, 1);
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

std::vector<NodeRef> with_fewer_rounds(const Control& loop, std::vector<NodeRef> inputs, int64_t together) {
  const int64_t length = loop.length.value();
  if (together < length) {
    auto control = std::make_shared<Control>(loop);
    control->regions[0].results = after_rounds(loop.body(), loop.body().parameters, loop.carried, together);
    control->length = length / together;
    const NodeRef node = make_loop(inputs, control);
    for (size_t i = 0; i < loop.carried; ++i) inputs[i] = make_get(node, static_cast<int>(i));
  }
  return after_rounds(loop.body(), std::move(inputs), loop.carried, together < length ? length % together : length);
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
