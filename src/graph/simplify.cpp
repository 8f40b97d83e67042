// Rewriting of whole graphs, bottom up, without recursion.
#include "base/interrupt.h"
#include "graph/build.h"
#include "graph/control.h"
#include "graph/factor_out.h"
#include "graph/graph.h"
#include "graph/join_pads.h"
#include "graph/join_products.h"
#include "graph/node_map.h"

namespace heddle {
namespace {

bool is_elementwise(NodeOp op) { return op == NodeOp::Scalar || op == NodeOp::Cast || op == NodeOp::Bitcast; }

// Whether the node holds the same value all along the axis because it was repeated there.
bool is_repeated_along(const Node& node, int axis) {
  if (node.shape[axis].is_const(1)) return true;
  switch (node.op) {
    case NodeOp::Const: return true;
    case NodeOp::Iota: return node.attrs[0].value() != axis;
    case NodeOp::Expand: return node.inputs[0]->shape[axis].is_const(1);
    default: return false;
  }
}

// The node with only one element along axes that it is repeated along. `shape` is 1 there.
NodeRef narrowed(const NodeRef& x, const Shape& shape) {
  switch (x->op) {
    case NodeOp::Const: return const_like(x->literal, shape);
    case NodeOp::Iota: return make_iota(x->dtype, shape, static_cast<int>(x->attrs[0].value()));
    case NodeOp::Expand: return make_expand(x->inputs[0], shape);
    default: return x;
  }
}

// neg(expand(x)) becomes expand(neg(x)): nothing is computed twice that was merely repeated.
NodeRef hoist_expand(const NodeRef& x) {
  bool any_repeated = false;
  for (const NodeRef& input : x->inputs) any_repeated |= input->op == NodeOp::Expand || input->op == NodeOp::Iota;
  if (!any_repeated) return x;
  Shape thin = x->shape;
  for (int axis = 0; axis < thin.rank(); ++axis) {
    bool repeated = true;
    for (const NodeRef& input : x->inputs) repeated = repeated && is_repeated_along(*input, axis);
    if (repeated) thin[axis] = 1;
  }
  if (thin == x->shape) return x;
  SmallVector<NodeRef, 3> inputs;
  for (const NodeRef& input : x->inputs) inputs.push_back(narrowed(input, thin));
  return make_expand(rebuild(*x, inputs), x->shape);
}

// A reduction of something repeated: axes that stay are repeated afterwards instead; along reduced axes max and min
// need one element, and a sum of integers is a product (of floats too, but that would round differently).
NodeRef reduce_of_expand(const NodeRef& x) {
  const NodeRef& expand = x->inputs[0];
  if (expand->op != NodeOp::Expand) return x;
  const NodeRef& from = expand->inputs[0];
  bool one_is_enough = x->reduce_op == ReduceOp::Max || x->reduce_op == ReduceOp::Min;
  bool times_count = x->reduce_op == ReduceOp::Sum && is_integer(x->dtype);
  Shape inner = expand->shape;
  Expr count = 1;
  SmallVector<int, 4> axes;
  size_t next = 0;
  bool changed = false;
  for (int axis = 0; axis < inner.rank(); ++axis) {
    bool reduced = next < x->attrs.size() && x->attrs[next].is_const(axis);
    bool repeated = from->shape[axis].is_const(1) && !expand->shape[axis].is_const(1);
    if (reduced) {
      ++next;
      axes.push_back(axis);
      bool known = one_is_enough ? expand->shape[axis].lo() >= 1 : times_count && expand->shape[axis].is_const();
      repeated = repeated && known;
      if (repeated && times_count) count = count * expand->shape[axis];
    }
    if (repeated) {
      inner[axis] = 1;
      changed = true;
    }
  }
  if (!changed) return x;
  NodeRef result = make_reduce(x->reduce_op, make_expand(from, inner), axes);
  if (!count.is_const(1)) {
    NodeRef factors[] = {result, const_like(Scalar::of(x->dtype, count.value()), result->shape)};
    result = make_scalar(ScalarOp::mul, factors);
  }
  return make_expand(result, x->shape);
}

// A scan of something repeated along other axes is repeated afterwards instead.
NodeRef scan_of_expand(const NodeRef& x) {
  const NodeRef& expand = x->inputs[0];
  if (expand->op != NodeOp::Expand) return x;
  int axis = static_cast<int>(x->attrs[0].value());
  const NodeRef& from = expand->inputs[0];
  if (from->shape[axis].is_const(1)) return x;
  return make_expand(make_scan(x->reduce_op, from, axis), x->shape);
}

NodeRef improve(const NodeRef& x, bool relaxed) {
  if (is_elementwise(x->op)) return hoist_expand(x);
  if (x->op == NodeOp::Scan) return scan_of_expand(x);
  if (x->op == NodeOp::Reduce) {
    NodeRef narrow = reduce_of_expand(x);
    return narrow->op == NodeOp::Reduce ? join_products(factor_out(narrow, relaxed)) : narrow;
  }
  return x;
}

// Puts make(node, inputs, changed) in the place of every node; `inputs` are what took the places of its own, `changed`
// says whether these are others.
template <class Make>
std::vector<NodeRef> rewrite(std::span<const NodeRef> roots, Make make,
                             const std::unordered_set<const Node*>& ends = {}) {
  std::vector<const Node*> order = topological(roots, ends);
  std::vector<NodeRef> now(order.size());
  NodeMap number;
  SmallVector<NodeRef, 4> inputs;
  for (uint32_t i = 0; i < order.size(); ++i) {
    interruption_point();
    const Node* node = order[i];
    number.insert(node, i);
    inputs.clear();
    bool changed = false;
    if (!ends.contains(node))
      for (const NodeRef& input : node->inputs) {
        inputs.push_back(now[number.find(input.get())]);
        changed |= inputs.back() != input;
      }
    now[i] = make(*node, inputs, changed);
  }
  std::vector<NodeRef> results;
  for (const NodeRef& root : roots) results.push_back(now[number.find(root.get())]);
  return results;
}

NodeRef on_inputs(const Node& node, std::span<const NodeRef> inputs, bool changed) {
  return changed ? rebuild(node, inputs) : NodeRef::share(&node);
}

}  // namespace

namespace {

std::vector<NodeRef> simplify_once(std::span<const NodeRef> roots, bool relaxed) {
  // An argmax of which nobody wants the index is a max.
  NodeMap index_wanted;
  for (const NodeRef& root : roots) index_wanted.insert(root.get(), 1);
  for (const Node* node : topological(roots))
    if (node->op == NodeOp::Get && node->attrs[0].is_const(1)) index_wanted.insert(node->inputs[0].get(), 1);

  auto edit = [&](const Node& old, std::span<const NodeRef> inputs, bool changed) {
    NodeRef rebuilt = on_inputs(old, inputs, changed);
    if (rebuilt->op == NodeOp::Pullback) return rebuilt->inputs[0];
    if (rebuilt->op == NodeOp::Get && rebuilt->inputs[0]->op == NodeOp::ArgReduce && old.op == NodeOp::Get &&
        index_wanted.find(old.inputs[0].get()) == NodeMap::kNone) {
      const Node& arg = *rebuilt->inputs[0];
      int axis = static_cast<int>(arg.attrs[0].value());
      return improve(make_reduce(arg.reduce_op, arg.inputs[0], std::span(&axis, 1)), relaxed);
    }
    return improve(rebuilt, relaxed);
  };
  return rewrite(roots, edit);
}

}  // namespace

std::vector<NodeRef> simplify(std::span<const NodeRef> roots, const Modes& modes) {
  // What one round makes of a node may let its inputs become simpler. More than two rounds with effect are rare.
  constexpr int kRounds = 8;
  ForgetSources forget;
  std::vector<NodeRef> result(roots.begin(), roots.end());
  for (int round = 0; round < kRounds; ++round) {
    interruption_point();
    std::vector<NodeRef> next = simplify_once(result, modes.relaxed);
    if (next == result) break;
    result = std::move(next);
  }
  return join_pads(join_rounds(join_loops(result)));
}

std::vector<NodeRef> rebuild_graph(std::span<const NodeRef> roots, const MakeNode& make,
                                   const std::unordered_set<const Node*>& ends) {
  auto edit = [&](const Node& node, std::span<const NodeRef> inputs, bool changed) {
    NodeRef made = make(node, inputs);
    return made ? made : on_inputs(node, inputs, changed);
  };
  return rewrite(roots, edit, ends);
}

std::vector<NodeRef> replace(std::span<const NodeRef> roots, const std::unordered_map<const Node*, NodeRef>& with) {
  std::unordered_set<const Node*> ends;
  for (const auto& [node, other] : with) ends.insert(node);
  auto make = [&](const Node& node, std::span<const NodeRef> inputs, bool changed) {
    auto found = with.find(&node);
    return found == with.end() ? on_inputs(node, inputs, changed) : found->second;
  };
  return rewrite(roots, make, ends);
}

}  // namespace heddle
