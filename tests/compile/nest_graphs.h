// Graphs of attention and its like.
#pragma once

#include "leaves.h"

namespace heddle::testing {

inline NodeRef number(double value, const NodeRef& like) {
  return make_const(Scalar::of(like->dtype, value), like->shape);
}
inline NodeRef reduce(ReduceOp o, const NodeRef& x, int axis) { return make_reduce(o, x, std::span(&axis, 1)); }
// Along the last axis, which is there again.
inline NodeRef rows(ReduceOp o, const NodeRef& x) {
  Shape kept = x->shape;
  kept[kept.rank() - 1] = 1;
  return make_expand(make_reshape(reduce(o, x, x->shape.rank() - 1), kept), x->shape);
}
// a[.., m, k] b[.., k, n]; both of the same rank.
inline NodeRef matmul(const NodeRef& a, const NodeRef& b) {
  int rank = a->shape.rank();
  Shape all = a->shape, left = a->shape, right = b->shape;
  std::vector<int> transposed;
  for (int i = 0; i < rank; ++i) transposed.push_back(i);
  std::swap(transposed[static_cast<size_t>(rank - 1)], transposed[static_cast<size_t>(rank - 2)]);
  NodeRef t = make_permute(b, transposed);
  left = a->shape;
  left[rank - 1] = 1;
  left.push_back(a->shape[rank - 1]);
  right = t->shape;
  right[rank - 2] = 1;
  right[rank - 1] = t->shape[rank - 2];
  right.push_back(t->shape[rank - 1]);
  all = left;
  all[rank - 1] = t->shape[rank - 2];
  NodeRef product =
      op(ScalarOp::mul, {make_expand(make_reshape(a, left), all), make_expand(make_reshape(t, right), all)});
  return reduce(ReduceOp::Sum, product, rank);
}
inline NodeRef transposed(const NodeRef& x) {
  std::vector<int> axes;
  for (int i = 0; i < x->shape.rank(); ++i) axes.push_back(i);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return make_permute(x, axes);
}
inline NodeRef softmax(const NodeRef& x) {
  NodeRef e = op(ScalarOp::exp, {op(ScalarOp::sub, {x, rows(ReduceOp::Max, x)})});
  return op(ScalarOp::div, {e, rows(ReduceOp::Sum, e)});
}
inline NodeRef position(const NodeRef& like, int from_last) {
  return make_iota(DType::i64, like->shape, like->shape.rank() - from_last);
}
inline NodeRef masked(const NodeRef& condition, const NodeRef& scores) {
  return op(ScalarOp::where, {condition, scores, number(-INFINITY, scores)});
}
inline NodeRef causal(const NodeRef& scores) {
  return masked(op(ScalarOp::le, {position(scores, 1), position(scores, 2)}), scores);
}
// Keys up to `width` before, and none after.
inline NodeRef window(const NodeRef& scores, int64_t width) {
  NodeRef far = make_const(Scalar::of(DType::i64, width), scores->shape);
  NodeRef near = op(ScalarOp::lt, {op(ScalarOp::sub, {position(scores, 2), far}), position(scores, 1)});
  return masked(op(ScalarOp::bit_and, {near, op(ScalarOp::le, {position(scores, 1), position(scores, 2)})}), scores);
}

}  // namespace heddle::testing
