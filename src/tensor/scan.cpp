#include <heddle/ops/scan.h>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

struct Along {
  NodeRef x;
  int axis;
};

Along along(const char* name, const NodeRef& x, std::optional<int64_t> axis) {
  if (axis) return {x, axis_along(name, *axis, x->shape.rank())};
  return {make_reshape(x, Shape{x->shape.numel()}), 0};
}

Tensor scan(const char* name, ReduceOp op, const NodeRef& x, std::optional<int64_t> axis) {
  Along a = along(name, x, axis);
  return Tensor(a.x->shape.empty() ? a.x : make_scan(op, a.x, a.axis));
}

// An element that equals the extreme so far has set it, or has met it again: the last such position is the one wanted.
std::pair<Tensor, Tensor> with_indices(const char* name, ReduceOp op, const Tensor& x, std::optional<int64_t> axis) {
  Along a = along(name, x.node(), axis);
  if (a.x->shape.empty()) return {Tensor(a.x), Tensor(placed_at(make_const(Scalar::of(kI64, 0)), a.x->device))};
  NodeRef best = make_scan(op, a.x, a.axis);
  NodeRef sets = scalar_node(ScalarOp::eq, {a.x, best});
  if (is_float(a.x->dtype)) sets = scalar_node(ScalarOp::bit_or, {sets, scalar_node(ScalarOp::ne, {a.x, a.x})});
  NodeRef position = make_iota(kI64, a.x->shape, a.axis);
  NodeRef none = make_const(Scalar::of(kI64, 0), a.x->shape);
  NodeRef last = make_scan(ReduceOp::Max, scalar_node(ScalarOp::where, {sets, position, none}), a.axis);
  return {Tensor(best), Tensor(last)};
}

}  // namespace

Tensor cumsum(const Tensor& x, std::optional<int64_t> axis) { return scan("cumsum", ReduceOp::Sum, widened(x), axis); }
Tensor cumprod(const Tensor& x, std::optional<int64_t> axis) {
  return scan("cumprod", ReduceOp::Prod, widened(x), axis);
}
Tensor cummax(const Tensor& x, std::optional<int64_t> axis) { return scan("cummax", ReduceOp::Max, x.node(), axis); }
Tensor cummin(const Tensor& x, std::optional<int64_t> axis) { return scan("cummin", ReduceOp::Min, x.node(), axis); }
std::pair<Tensor, Tensor> cummax_with_indices(const Tensor& x, std::optional<int64_t> axis) {
  return with_indices("cummax_with_indices", ReduceOp::Max, x, axis);
}
std::pair<Tensor, Tensor> cummin_with_indices(const Tensor& x, std::optional<int64_t> axis) {
  return with_indices("cummin_with_indices", ReduceOp::Min, x, axis);
}

}  // namespace heddle
