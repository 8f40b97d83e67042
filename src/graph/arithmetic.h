// Formulas over nodes of one dtype and shape: what gradient rules are written in. Private to src/graph.
#pragma once

#include <initializer_list>

#include "graph/build.h"

namespace heddle::arithmetic {

inline NodeRef apply(ScalarOp op, std::initializer_list<NodeRef> inputs) {
  return make_scalar(op, std::span(inputs.begin(), inputs.size()));
}
// A number beside a node of its dtype and shape.
inline NodeRef like(const NodeRef& x, double value) { return const_like(Scalar::of(x->dtype, value), x->shape); }
inline bool is_number(const NodeRef& x, double value) {
  return x->op == NodeOp::Const && is_float(x->dtype) && x->literal.f == value;
}

inline NodeRef operator-(const NodeRef& x) { return apply(ScalarOp::neg, {x}); }
inline NodeRef operator-(const NodeRef& a, const NodeRef& b) { return apply(ScalarOp::sub, {a, b}); }
inline NodeRef operator-(double a, const NodeRef& b) { return like(b, a) - b; }
inline NodeRef operator+(const NodeRef& a, const NodeRef& b) {
  if (is_number(a, 0)) return b;  // the sign of a zero means nothing in a gradient
  if (is_number(b, 0)) return a;
  return apply(ScalarOp::add, {a, b});
}
inline NodeRef operator+(const NodeRef& a, double b) { return apply(ScalarOp::add, {a, like(a, b)}); }
inline NodeRef operator*(const NodeRef& a, const NodeRef& b) {
  if (is_number(a, 0)) return a;
  if (is_number(b, 0)) return b;
  return apply(ScalarOp::mul, {a, b});
}
inline NodeRef operator*(const NodeRef& a, double b) { return a * like(a, b); }
inline NodeRef operator/(const NodeRef& a, const NodeRef& b) { return apply(ScalarOp::div, {a, b}); }
inline NodeRef operator/(double a, const NodeRef& b) { return like(b, a) / b; }

inline NodeRef less(const NodeRef& a, const NodeRef& b) { return apply(ScalarOp::lt, {a, b}); }
inline NodeRef equal(const NodeRef& a, const NodeRef& b) { return apply(ScalarOp::eq, {a, b}); }
inline NodeRef choose(const NodeRef& condition, const NodeRef& yes, const NodeRef& no) {
  return apply(ScalarOp::where, {condition, yes, no});
}
inline NodeRef choose(const NodeRef& condition, const NodeRef& yes, double no) {
  return choose(condition, yes, like(yes, no));
}
inline NodeRef sqrt(const NodeRef& x) { return apply(ScalarOp::sqrt, {x}); }
inline NodeRef exp(const NodeRef& x) { return apply(ScalarOp::exp, {x}); }
inline NodeRef log(const NodeRef& x) { return apply(ScalarOp::log, {x}); }

// All pairs of elements along an axis: the first of a pair by that axis, the second by a new last one.
inline Shape pairs_shape(const Shape& shape, int axis) {
  Shape pairs = shape;
  pairs.push_back(shape[axis]);
  return pairs;
}
inline NodeRef first_of_pairs(const NodeRef& x, int axis) {
  Shape thin = x->shape;
  thin.push_back(1);
  return make_expand(make_reshape(x, thin), pairs_shape(x->shape, axis));
}
inline NodeRef second_of_pairs(const NodeRef& x, int axis) {
  SmallVector<int, 4> swapped;
  int last = x->shape.rank();
  for (int i = 0; i <= last; ++i) swapped.push_back(i == axis ? last : i == last ? axis : i);
  Shape thin = x->shape;
  thin.push_back(1);
  return make_expand(make_permute(make_reshape(x, thin), swapped), pairs_shape(x->shape, axis));
}

// Sums over axes that stay with size 1.
inline NodeRef sum_keeping(const NodeRef& x, std::span<const int> axes) {
  Shape kept = x->shape;
  for (int axis : axes) kept[static_cast<size_t>(axis)] = 1;
  return make_reshape(make_reduce(ReduceOp::Sum, x, axes), kept);
}

}  // namespace heddle::arithmetic
