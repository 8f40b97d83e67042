// sum over k of (e[k] / l) * v[k], with l free of k, becomes (sum over k of e[k] * v[k]) / l: one division for each
// result and not one for each product's factor. In general that changes where numbers overflow or vanish, so it is done
// for the weights of a softmax alone: e[k] = exp(x[k] - max x) lies in [0, 1], and its sum l is 1 or more. Where k may
// have no values l may be 0, which nothing is then divided by. In relaxed mode it is done for every factor.
#include "graph/factor_out.h"

#include <cmath>

#include "graph/arithmetic.h"
#include "graph/build.h"
#include "graph/graph.h"

namespace heddle {
namespace {

using arithmetic::apply;

// The node's only element along the axis if it is repeated there, or null.
NodeRef one_along(const NodeRef& x, int axis) {
  if (x->shape[axis].is_const(1) || x->op != NodeOp::Expand || !x->inputs[0]->shape[axis].is_const(1)) return {};
  Shape thin = x->shape;
  thin[axis] = 1;
  return make_expand(x->inputs[0], thin);
}

// The axis of a reshape's input that its axis runs along, if that is one whole axis.
int axis_before_reshape(const Node& reshape, int axis) {
  Expr before = 1;
  for (int i = 0; i < axis; ++i) before = before * reshape.shape[i];
  Expr at = 1;
  const Shape& from = reshape.inputs[0]->shape;
  for (int i = 0; i < from.rank(); ++i) {
    if (at == before && from[i] == reshape.shape[axis]) return i;
    at = at * from[i];
  }
  return -1;
}

// The movement that `chain` does, from its last entry to its first, on something with one element along the axis that
// ends up as `axis`.
NodeRef moved(NodeRef x, std::span<const std::pair<const Node*, int>> chain) {
  for (size_t i = chain.size(); i-- > 0;) {
    const auto& [node, axis] = chain[i];
    if (node->op == NodeOp::Permute) {
      SmallVector<int, 4> order;
      for (const Expr& e : node->attrs) order.push_back(static_cast<int>(e.value()));
      x = make_permute(x, order);
      continue;
    }
    Shape shape = node->shape;
    shape[axis] = 1;
    x = node->op == NodeOp::Reshape ? make_reshape(x, shape) : make_expand(x, shape);
  }
  return x;
}

// What a node of the given shape is before its elements are repeated along the axis; without that axis, or with one
// element there. On the way all other axes stay where they are, or this is where it ends.
const Node& thin(const Node* x, const Shape& shape, int axis) {
  Shape one = shape, without;
  one[axis] = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) without.push_back(shape[i]);
  while (x->op == NodeOp::Expand || x->op == NodeOp::Reshape) {
    const Shape& before = x->inputs[0]->shape;
    if (!(before == one) && !(before == without)) break;
    x = x->inputs[0].get();
  }
  return *x;
}

bool is_applied(const Node& x, ScalarOp op) { return x.op == NodeOp::Scalar && x.scalar_op == op; }

bool reduces(const Node& x, ReduceOp op, const NodeRef& from, int axis) {
  return x.op == NodeOp::Reduce && x.reduce_op == op && x.inputs[0] == from && x.attrs.size() == 1 &&
         x.attrs[0].is_const(axis);
}

// Whether e is exp(x - max x), both along the axis, and `by` is its sum, or one divided by it.
bool is_softmax(const NodeRef& e, const Node* by, bool divides, int axis) {
  const Node* sum = &thin(by, e->shape, axis);
  if (!divides) {
    if (!is_applied(*sum, ScalarOp::div) || !arithmetic::is_number(sum->inputs[0], 1)) return false;
    sum = &thin(sum->inputs[1].get(), e->shape, axis);
  }
  if (!is_applied(*e, ScalarOp::exp) || !reduces(*sum, ReduceOp::Sum, e, axis)) return false;
  const NodeRef& below = e->inputs[0];
  if (!is_applied(*below, ScalarOp::sub)) return false;
  return reduces(thin(below->inputs[1].get(), e->shape, axis), ReduceOp::Max, below->inputs[0], axis);
}

// With the factor at `which` of the product divided: e and l, and whether it is e / l and not e * l.
NodeRef try_factor(const NodeRef& sum, const NodeRef& product, size_t which, bool relaxed) {
  int axis = static_cast<int>(sum->attrs[0].value());
  std::vector<std::pair<const Node*, int>> chain;  // views, and the axis in their results
  const Node* at = product->inputs[which].get();
  bool wider = false;  // the sum keeps an axis that the factor lacks
  while (at->op == NodeOp::Expand || at->op == NodeOp::Permute || at->op == NodeOp::Reshape) {
    chain.emplace_back(at, axis);
    const Shape& from = at->inputs[0]->shape;
    if (at->op == NodeOp::Permute) {
      axis = static_cast<int>(at->attrs[static_cast<size_t>(axis)].value());
    } else if (at->op == NodeOp::Reshape) {
      axis = axis_before_reshape(*at, axis);
      if (axis < 0) return {};
    } else {
      for (int i = 0; i < from.rank(); ++i) wider |= from[i].is_const(1) && !at->shape[i].is_const(1);
    }
    if (from[axis].is_const(1)) return {};
    at = at->inputs[0].get();
  }
  const bool divides = at->op == NodeOp::Scalar && at->scalar_op == ScalarOp::div;
  if (!wider || at->op != NodeOp::Scalar || !(divides || at->scalar_op == ScalarOp::mul)) return {};
  for (size_t side = divides ? 1 : 0; side < 2; ++side) {
    NodeRef free = one_along(at->inputs[side], axis);
    if (!free) continue;
    const bool softmax = is_softmax(at->inputs[1 - side], at->inputs[side].get(), divides, axis);
    const bool may_be_empty = at->shape[axis].lo() < 1;
    if (!softmax && (!relaxed || may_be_empty)) continue;
    // What stays is rebuilt with the same views.
    NodeRef rest = at->inputs[1 - side];
    for (size_t i = chain.size(); i-- > 0;) rest = rebuild(*chain[i].first, std::span(&rest, 1));
    NodeRef factors[] = {rest, rest};
    factors[1 - which] = product->inputs[1 - which];
    int reduced = static_cast<int>(sum->attrs[0].value());
    NodeRef inner = make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), std::span(&reduced, 1));
    NodeRef outside = make_reshape(moved(free, chain), sum->shape);
    if (may_be_empty)  // l, which is 0 there, or one divided by it
      outside = arithmetic::choose(arithmetic::equal(outside, arithmetic::like(outside, divides ? 0 : INFINITY)),
                                   arithmetic::like(outside, divides ? 1 : 0), outside);
    // First what is divided by: it is found on the way to the sum.
    return divides ? apply(ScalarOp::div, {inner, outside}) : apply(ScalarOp::mul, {outside, inner});
  }
  return {};
}

}  // namespace

NodeRef factor_out(const NodeRef& sum, bool relaxed) {
  if (sum->op != NodeOp::Reduce || sum->reduce_op != ReduceOp::Sum || sum->attrs.size() != 1) return sum;
  if (sum->dtype != DType::f32 && sum->dtype != DType::f64) return sum;
  const NodeRef& product = sum->inputs[0];
  if (product->op != NodeOp::Scalar || product->scalar_op != ScalarOp::mul) return sum;
  for (size_t which = 0; which < 2; ++which)
    if (NodeRef better = try_factor(sum, product, which, relaxed)) return better;
  return sum;
}

}  // namespace heddle
