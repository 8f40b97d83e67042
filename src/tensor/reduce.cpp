#include <limits>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

// Puts the reduced axes back with size 1.
NodeRef with_kept_axes(const NodeRef& reduced, const Shape& before, std::span<const int> axes) {
  Shape shape = before;
  for (int axis : axes) shape[static_cast<size_t>(axis)] = 1;
  return make_reshape(reduced, shape);
}

Tensor reduce(const char* name, ReduceOp op, const NodeRef& x, const Axes& axes, bool keepdim) {
  std::vector<int> list = to_axes(name, axes, x->shape.rank(), true);
  NodeRef result = make_reduce(op, x, list);
  return Tensor(keepdim ? with_kept_axes(result, x->shape, list) : result);
}

// Sums and products of bool and narrow integers would overflow at once in their own dtype.
NodeRef widened(const Tensor& x) {
  NodeRef n = x.node();
  if (is_float(n->dtype) || n->dtype == kI64 || n->dtype == kU64) return n;
  return make_cast(n, is_signed(n->dtype) || n->dtype == kBool ? kI64 : kU64);
}

// max and min of nothing have no value.
void refuse_empty(const char* name, const NodeRef& x, const Axes& axes) {
  for (int axis : to_axes(name, axes, x->shape.rank(), true))
    if (x->shape[static_cast<size_t>(axis)].is_const(0))
      throw ValueError(text(name, ": axis ", axis, " of shape ", x->shape, " is empty, so there is no ", name));
}

Tensor arg_reduce(const char* name, ReduceOp op, const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  NodeRef n = x.node();
  Shape before = n->shape;
  int at = 0;
  if (axis) {
    at = normalize_axis(name, *axis, n->shape.rank());
  } else {
    n = make_reshape(n, Shape{n->shape.numel()});
  }
  if (n->shape[static_cast<size_t>(at)].is_const(0))
    throw ValueError(text(name, ": axis ", at, " of shape ", before, " is empty, so there is no ", name));
  NodeRef index = make_get(make_arg_reduce(op, n, at), 1);
  if (!keepdim) return Tensor(index);
  Shape kept = before;
  for (size_t i = 0; i < kept.size(); ++i)
    if (!axis || static_cast<int>(i) == at) kept[i] = 1;
  return Tensor(make_reshape(index, kept));
}

double count(const NodeRef& x, std::span<const int> axes) {
  double n = 1;
  for (int axis : axes) n *= static_cast<double>(x->shape[static_cast<size_t>(axis)].value());
  return n;
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) {
  return reduce("sum", ReduceOp::Sum, widened(x), axes, keepdim);
}
Tensor prod(const Tensor& x, const Axes& axes, bool keepdim) {
  return reduce("prod", ReduceOp::Prod, widened(x), axes, keepdim);
}
Tensor max(const Tensor& x, const Axes& axes, bool keepdim) {
  refuse_empty("max", x.node(), axes);
  return reduce("max", ReduceOp::Max, x.node(), axes, keepdim);
}
Tensor min(const Tensor& x, const Axes& axes, bool keepdim) {
  refuse_empty("min", x.node(), axes);
  return reduce("min", ReduceOp::Min, x.node(), axes, keepdim);
}
Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) {
  Tensor f = to_wide_float(x);
  double n = count(f.node(), to_axes("mean", axes, f.rank(), true));
  return from_wide_float(div(reduce("mean", ReduceOp::Sum, f.node(), axes, keepdim), n), x);
}
Tensor var(const Tensor& x, const Axes& axes, bool keepdim, int64_t correction) {
  Tensor f = to_wide_float(x);
  double n = count(f.node(), to_axes("var", axes, f.rank(), true));
  Tensor deviation = sub(f, mean(f, axes, true));
  double degrees = std::max(n - static_cast<double>(correction), 0.0);
  return from_wide_float(div(reduce("var", ReduceOp::Sum, square(deviation).node(), axes, keepdim), degrees), x);
}
Tensor any(const Tensor& x, const Axes& axes, bool keepdim) {
  return reduce("any", ReduceOp::Max, make_cast(x.node(), kBool), axes, keepdim);
}
Tensor all(const Tensor& x, const Axes& axes, bool keepdim) {
  return reduce("all", ReduceOp::Min, make_cast(x.node(), kBool), axes, keepdim);
}
Tensor argmax(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return arg_reduce("argmax", ReduceOp::Max, x, axis, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return arg_reduce("argmin", ReduceOp::Min, x, axis, keepdim);
}

namespace {
// The maximum, or 0 where it is infinite, so that subtracting it makes no NaN of a row of -inf.
Tensor shift_of(const Tensor& x, const Axes& axes) {
  Tensor m = max(x, axes, true);
  return where(isfinite(m), m, 0);
}
}  // namespace

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim) {
  Tensor f = to_wide_float(x);
  if (f.numel() == 0) {  // the sum of no exponentials is 0
    Tensor none = sum(f, axes, keepdim);
    return from_wide_float(sub(none, std::numeric_limits<double>::infinity()), x);
  }
  Tensor shift = shift_of(f, axes);
  Tensor result = add(log(sum(exp(sub(f, shift)), axes, true)), shift);
  return from_wide_float(keepdim ? result : sum(result, axes), x);  // those axes have size 1 now
}

}  // namespace heddle
