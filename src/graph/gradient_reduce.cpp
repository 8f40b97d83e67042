// Gradients of reductions and scans.
#include <numeric>

#include "graph/arithmetic.h"
#include "graph/gradient.h"

namespace heddle {
using namespace arithmetic;
namespace {

SmallVector<int, 4> axes_of(const Node& node) {
  SmallVector<int, 4> axes;
  for (const Expr& attr : node.attrs) axes.push_back(static_cast<int>(attr.value()));
  return axes;
}

// A result of the reduction at every element that it was made of.
NodeRef spread(const Node& node, const NodeRef& y) {
  Shape kept = node.inputs[0]->shape;
  for (int axis : axes_of(node)) kept[axis] = 1;
  return make_expand(make_reshape(y, kept), node.inputs[0]->shape);
}

// For each element the combination of those before it along the axis.
NodeRef scan_before(ReduceOp op, const NodeRef& x, int axis) {
  SmallVector<Expr, 4> begin(x->shape.size(), Expr(0)), one(x->shape.size(), Expr(0)), none(x->shape.size(), Expr(0));
  Shape size = x->shape;
  size[axis] = size[axis] - 1;
  one[static_cast<size_t>(axis)] = 1;
  return make_pad(make_shrink(make_scan(op, x, axis), begin, size), one, none, reduce_identity(op, x->dtype));
}
NodeRef reversed(const NodeRef& x, int axis) { return make_flip(x, std::span(&axis, 1)); }
NodeRef sums_from_here(const NodeRef& x, int axis) {
  return reversed(make_scan(ReduceOp::Sum, reversed(x, axis), axis), axis);
}

// The product of all others: of those before and those after. Right with any number of zeros.
NodeRef of_product(const Node& node, const NodeRef& g) {
  const NodeRef& x = node.inputs[0];
  // The reduced axes as one, which is the last.
  SmallVector<int, 4> order, reduced = axes_of(node);
  Shape flat;
  Expr count = 1;
  for (int i = 0; i < x->shape.rank(); ++i)
    if (std::find(reduced.begin(), reduced.end(), i) == reduced.end()) {
      order.push_back(i);
      flat.push_back(x->shape[i]);
    }
  for (int axis : reduced) {
    order.push_back(axis);
    count = count * x->shape[axis];
  }
  flat.push_back(count);
  if (count.is_const(1)) return spread(node, g);
  NodeRef turned = make_permute(x, order);
  NodeRef rows = make_reshape(turned, flat);
  int last = flat.rank() - 1;
  NodeRef before = scan_before(ReduceOp::Prod, rows, last);
  NodeRef after = reversed(scan_before(ReduceOp::Prod, reversed(rows, last), last), last);
  SmallVector<int, 4> back(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return spread(node, g) * make_permute(make_reshape(before * after, turned->shape), back);
}

NodeRef of_extreme(const Node& node, const NodeRef& g) {
  const NodeRef& x = node.inputs[0];
  NodeRef chosen = equal(x, spread(node, NodeRef::share(&node)));
  NodeRef ties = make_reduce(ReduceOp::Sum, make_cast(chosen, g->dtype), axes_of(node));
  // Where NaN won nothing is equal to it, and the gradient goes nowhere.
  NodeRef share = g / apply(ScalarOp::maximum, {ties, like(ties, 1)});
  return choose(chosen, spread(node, share), 0);
}

// Each result is a product of elements up to it. Divided by an element it is the product of the others; for the first
// zero of a row, the products with a one in its place.
NodeRef of_product_scan(const Node& node, const NodeRef& g, int axis) {
  const NodeRef& x = node.inputs[0];
  NodeRef is_zero = equal(x, like(x, 0));
  NodeRef zeros = make_scan(ReduceOp::Sum, make_cast(is_zero, DType::i64), axis);
  NodeRef first = apply(ScalarOp::bit_and, {is_zero, equal(zeros, const_like(Scalar::of(DType::i64, 1), x->shape))});
  NodeRef others = make_scan(ReduceOp::Prod, choose(first, like(x, 1), x), axis);
  NodeRef usual = sums_from_here(g * NodeRef::share(&node), axis) / choose(is_zero, like(x, 1), x);
  return choose(first, sums_from_here(g * others, axis), choose(is_zero, like(x, 0), usual));
}

// The gradient goes to the last element that the running extreme was taken from: the latest of equal ones.
NodeRef of_extreme_scan(const Node& node, const NodeRef& g, int axis) {
  const NodeRef& x = node.inputs[0];
  NodeRef position = make_iota(DType::i64, x->shape, axis);
  NodeRef none = const_like(Scalar::of(DType::i64, 0), x->shape);
  NodeRef from = make_scan(ReduceOp::Max, choose(equal(x, NodeRef::share(&node)), position, none), axis);
  return make_scatter(ScatterOp::Add, like(x, 0), from, g, axis, kUncheckedIndex);
}

}  // namespace

NodeRef reduce_gradient(const Node& node, const NodeRef& g) {
  if (node.reduce_op == ReduceOp::Sum) return spread(node, g);
  return node.reduce_op == ReduceOp::Prod ? of_product(node, g) : of_extreme(node, g);
}

NodeRef scan_gradient(const Node& node, const NodeRef& g) {
  int axis = static_cast<int>(node.attrs[0].value());
  if (node.reduce_op == ReduceOp::Sum) return sums_from_here(g, axis);
  return node.reduce_op == ReduceOp::Prod ? of_product_scan(node, g, axis) : of_extreme_scan(node, g, axis);
}

}  // namespace heddle
