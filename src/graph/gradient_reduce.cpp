// Gradients of reductions and scans.
#include <numeric>

#include "graph/arithmetic.h"
#include "graph/gradient.h"

namespace heddle {
using namespace arithmetic;
namespace {

// A result of the reduction at every element that it was made of.
NodeRef spread(const Node& node, const NodeRef& y) {
  Shape kept = node.inputs[0]->shape;
  for (int axis : axes_of(node)) kept[axis] = 1;
  return make_expand(make_reshape(y, kept), node.inputs[0]->shape);
}

// For each element the combination of those before it along the axis.
NodeRef scan_before(ReduceOp op, const NodeRef& x, int axis) {
  // First longer, then shorter: the axis may be empty.
  SmallVector<Expr, 4> begin(x->shape.size(), Expr(0)), one = begin;
  one[static_cast<size_t>(axis)] = 1;
  NodeRef later = make_pad(make_scan(op, x, axis), one, begin, reduce_identity(op, x->dtype));
  return make_shrink(later, begin, x->shape);
}
NodeRef reversed(const NodeRef& x, int axis) { return make_flip(x, std::span(&axis, 1)); }
NodeRef sums_from_here(const NodeRef& x, int axis) {
  return reversed(make_scan(ReduceOp::Sum, reversed(x, axis), axis), axis);
}

// The reduced axes as one, which is the last; and back.
struct Rows {
  explicit Rows(const Node& node) : shape_(node.inputs[0]->shape) {
    SmallVector<int, 4> reduced = axes_of(node);
    Expr count = 1;
    for (int i = 0; i < shape_.rank(); ++i)
      if (std::find(reduced.begin(), reduced.end(), i) == reduced.end()) {
        order_.push_back(i);
        flat_.push_back(shape_[i]);
      }
    for (int axis : reduced) {
      order_.push_back(axis);
      count = count * shape_[axis];
    }
    flat_.push_back(count);
    for (int axis : order_) permuted_.push_back(shape_[axis]);
  }
  int axis() const { return flat_.rank() - 1; }
  const Shape& shape() const { return flat_; }
  NodeRef of(const NodeRef& x) const { return make_reshape(make_permute(x, order_), flat_); }
  NodeRef back(const NodeRef& rows) const {
    SmallVector<int, 4> axes(order_.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) axes[static_cast<size_t>(order_[i])] = static_cast<int>(i);
    return make_permute(make_reshape(rows, permuted_), axes);
  }

 private:
  Shape shape_, flat_, permuted_;
  SmallVector<int, 4> order_;
};

// The product of all others: of those before and those after. Right with any number of zeros.
NodeRef of_product(const Node& node, const NodeRef& g) {
  Rows rows(node);
  int last = rows.axis();
  if (rows.shape()[last].is_const(1)) return spread(node, g);
  NodeRef x = rows.of(node.inputs[0]);
  NodeRef before = scan_before(ReduceOp::Prod, x, last);
  NodeRef after = reversed(scan_before(ReduceOp::Prod, reversed(x, last), last), last);
  return spread(node, g) * rows.back(before * after);
}

// By position. Comparing elements with the result would go wrong where kernels round differently: an element that is
// computed again need not be equal to the extreme that it gave.
NodeRef of_extreme(const Node& node, const NodeRef& g) {
  Rows rows(node);
  Shape kept = rows.shape();
  kept[rows.axis()] = 1;
  NodeRef which = make_get(make_arg_reduce(node.reduce_op, rows.of(node.inputs[0]), rows.axis()), 1);
  which = make_expand(make_reshape(which, kept), rows.shape());
  NodeRef chosen = rows.back(equal(make_iota(DType::i64, rows.shape(), rows.axis()), which));
  return choose(chosen, spread(node, g), 0);
}

// For each element the product of those before it, times the sum over all results from it on of gradients times the
// products of the elements between. Nothing is divided, so that derivatives of every order are right at zeros; but the
// work is the square of the axis.
NodeRef of_product_scan_by_pairs(const NodeRef& x, const NodeRef& g, int axis) {
  int last = x->shape.rank();  // the axis of results, beside that of elements
  Shape pairs = pairs_shape(x->shape, axis);
  NodeRef element = make_iota(DType::i64, pairs, axis), result = make_iota(DType::i64, pairs, last);
  NodeRef factors = second_of_pairs(x, axis);
  NodeRef between = make_scan(ReduceOp::Prod, choose(less(element, result), factors, like(factors, 1)), last);
  NodeRef terms = choose(less(result, element), like(factors, 0), second_of_pairs(g, axis) * between);
  NodeRef sums = make_reduce(ReduceOp::Sum, terms, std::span(&last, 1));
  return scan_before(ReduceOp::Prod, x, axis) * sums;
}

// Each result is a product of elements up to it. Divided by an element it is the product of the others; for the first
// zero of a row, the products with a one in its place. That is the value; its derivatives between zeros need the other
// formula.
NodeRef of_product_scan(const Node& node, const NodeRef& g, int axis) {
  const NodeRef& x = node.inputs[0];
  NodeRef is_zero = equal(x, like(x, 0));
  NodeRef zeros = make_scan(ReduceOp::Sum, make_cast(is_zero, DType::i64), axis);
  NodeRef first = apply(ScalarOp::bit_and, {is_zero, equal(zeros, const_like(Scalar::of(DType::i64, 1), x->shape))});
  NodeRef others = make_scan(ReduceOp::Prod, choose(first, like(x, 1), x), axis);
  NodeRef usual = sums_from_here(g * NodeRef::share(&node), axis) / choose(is_zero, like(x, 1), x);
  NodeRef value = choose(first, sums_from_here(g * others, axis), choose(is_zero, like(x, 0), usual));
  NodeRef inputs[] = {x, g};
  return differentiated_as("cumprod", value, inputs, [axis](std::span<const NodeRef> from) {
    return of_product_scan_by_pairs(from[0], from[1], axis);
  });
}

// The gradient goes to the last element that the running extreme was taken from: the latest of equal ones. An element
// competes with those before it; whether it is equal to the result depends on how kernels round.
NodeRef of_extreme_scan(const Node& node, const NodeRef& g, int axis) {
  const NodeRef& x = node.inputs[0];
  NodeRef before = scan_before(node.reduce_op, x, axis);
  NodeRef stays = node.reduce_op == ReduceOp::Max ? less(x, before) : less(before, x);
  NodeRef position = make_iota(DType::i64, x->shape, axis);
  NodeRef none = const_like(Scalar::of(DType::i64, 0), x->shape);
  NodeRef from = make_scan(ReduceOp::Max, choose(stays, none, position), axis);
  // Nothing can be scattered into an axis that may be empty.
  Shape room = x->shape;
  if (int64_t least = room[axis].lo(); least <= 0) room[axis] = room[axis] + (1 - least);
  NodeRef sums =
      make_scatter(ScatterOp::Add, const_like(Scalar::of(x->dtype, 0), room), from, g, axis, kUncheckedIndex);
  return make_shrink(sums, SmallVector<Expr, 4>(room.size(), Expr(0)), x->shape);
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
