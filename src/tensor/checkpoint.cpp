#include <heddle/grad.h>

#include <unordered_map>

#include "base/error.h"
#include "graph/gradient.h"
#include "graph/graph.h"
#include "tensor/track.h"

namespace heddle {
namespace {

// What a function computed, as a graph over the leaves that stand for its arguments.
struct Recording {
  NodeRef output;
  std::vector<NodeRef> leaves;  // its arguments
  std::vector<NodeRef> others;  // what else it used: nodes that do not depend on the arguments
};

NodeRef replaced(const NodeRef& root, std::span<const NodeRef> from, std::span<const NodeRef> to) {
  std::unordered_map<const Node*, NodeRef> with;
  for (size_t i = 0; i < from.size(); ++i) with[from[i].get()] = to[i];
  return replace(std::span(&root, 1), with)[0];
}

Recording recording_of(const NodeRef& output, const std::vector<NodeRef>& leaves) {
  Recording recording{output, leaves, {}};
  std::unordered_map<const Node*, bool> depends;
  std::unordered_set<const Node*> ends;
  for (const NodeRef& leaf : leaves) {
    depends[leaf.get()] = true;
    ends.insert(leaf.get());
  }
  const std::vector<const Node*> order = topological(std::span(&output, 1), ends);
  for (const Node* node : order) {
    if (depends.contains(node)) continue;
    bool inside = false;
    for (const NodeRef& input : node->inputs) inside |= depends.at(input.get());
    depends[node] = inside;
  }
  // Integers, too: vmap() may have to give every example its own.
  std::unordered_map<const Node*, bool> taken;
  auto take = [&](const NodeRef& node) {
    if (!depends.at(node.get()) && node->op != NodeOp::Const && !node->gives_several() &&
        taken.try_emplace(node.get(), true).second)
      recording.others.push_back(node);
  };
  take(output);
  for (const Node* node : order) {
    if (!depends.at(node) || ends.contains(node)) continue;
    for (const NodeRef& input : node->inputs) take(input);
  }
  return recording;
}

// Gradients by computing again. The barrier keeps what is computed here apart from what the forward pass computed, and
// makes it wait for the gradient.
std::vector<NodeRef> pull_again(const Recording& recording, const Node& node, const NodeRef& g,
                                GradientRule::Wanted wanted) {
  OpenLeaves open;
  std::vector<NodeRef> from, to;
  size_t next = 1;
  for (const NodeRef& leaf : recording.leaves) {
    from.push_back(leaf);
    to.push_back(open.add(make_barrier(node.inputs[next++], g)));
  }
  for (const NodeRef& other : recording.others) {
    from.push_back(other);
    const NodeRef& now = node.inputs[next];
    to.push_back(wanted[next - 1] ? open.add(now) : now);
    ++next;
  }
  NodeRef again = replaced(recording.output, from, to);
  std::vector<NodeRef> inputs, gradients(to.size());
  for (size_t i = 0; i < to.size(); ++i)
    if (wanted[i]) inputs.push_back(to[i]);
  std::vector<NodeRef> found = gradient_as_recorded(std::span(&again, 1), std::span(&g, 1), inputs);
  for (size_t i = 0, given = 0; i < to.size(); ++i)
    if (wanted[i]) gradients[i] = found[given++];
  return gradients;
}

}  // namespace

namespace detail {

TensorList checkpointed(const ListFunction& f, const TensorList& x) {
  OpenLeaves open;
  std::vector<NodeRef> given, leaves;
  TensorList arguments;
  for (const Tensor& t : x) {
    given.push_back(t.node());
    if (is_float(given.back()->dtype)) {
      leaves.push_back(open.add(given.back()));
      arguments.push_back(Tensor(leaves.back()));
    } else {
      given.pop_back();  // without gradient; recorded as it is
      arguments.push_back(t);
    }
  }
  TensorList results;
  for (const Tensor& y : f(arguments)) {
    Recording recording = recording_of(y.node(), leaves);
    NodeRef value = replaced(recording.output, leaves, given);
    std::vector<NodeRef> inputs = given;
    inputs.insert(inputs.end(), recording.others.begin(), recording.others.end());
    auto rule = std::make_shared<GradientRule>();
    rule->name = "checkpoint";
    rule->pull = [recording](const Node& node, const NodeRef& g, GradientRule::Wanted wanted) {
      return pull_again(recording, node, g, wanted);
    };
    results.push_back(inputs.empty() ? y : Tensor(make_pullback(value, inputs, rule)));
  }
  return results;
}

}  // namespace detail
}  // namespace heddle
