#include <heddle/grad.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tensor/build.h"
#include "tensor/symbolic.h"

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

// max and min of nothing have no value.
void refuse_empty(const char* name, const NodeRef& x, const Axes& axes) {
  for (int axis : to_axes(name, axes, x->shape.rank(), true))
    if (known_size(x->shape[static_cast<size_t>(axis)]) == 0)
      throw ValueError(text(name, ": axis ", axis, " of shape ", x->shape, " is empty, so there is no ", name));
}

Tensor extreme(const char* name, ReduceOp op, const Tensor& x, const Axes& axes, bool keepdim) {
  refuse_empty(name, x.node(), axes);
  return reduce(name, op, x.node(), axes, keepdim);
}

Tensor arg_reduce(const char* name, ReduceOp op, const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  NodeRef n = x.node();
  Shape before = n->shape;
  int at = 0;
  if (axis) at = axis_along(name, *axis, n->shape.rank());
  if (n->shape.rank() == 0) axis.reset();
  if (!axis) {
    n = make_reshape(n, Shape{n->shape.numel()});
  }
  if (known_size(n->shape[static_cast<size_t>(at)]) == 0)
    throw ValueError(text(name, ": axis ", at, " of shape ", before, " is empty, so there is no ", name));
  NodeRef index = make_get(make_arg_reduce(op, n, at), 1);
  if (!keepdim) return Tensor(index);
  Shape kept = before;
  for (size_t i = 0; i < kept.size(); ++i)
    if (!axis || static_cast<int>(i) == at) kept[i] = 1;
  return Tensor(make_reshape(index, kept));
}

// The first element along the given axes, which stay with size 1.
Tensor first_of(const Tensor& x, std::span<const int> axes) {
  NodeRef n = x.node();
  SmallVector<Expr, 4> begin(n->shape.size(), Expr(0));
  Shape size = n->shape;
  for (int axis : axes) size[static_cast<size_t>(axis)] = 1;
  return Tensor(make_shrink(n, begin, size));
}

// How many elements each result is made of.
Expr count(const NodeRef& x, std::span<const int> axes) {
  Expr n = 1;
  for (int axis : axes) n = n * x->shape[static_cast<size_t>(axis)];
  return n;
}
// As data for the kernel where it is symbolic.
Tensor count_tensor(const Expr& n, DType dtype) { return Tensor(size_node(n, dtype)); }

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) {
  return reduce("sum", ReduceOp::Sum, widened(x), axes, keepdim);
}
Tensor prod(const Tensor& x, const Axes& axes, bool keepdim) {
  return reduce("prod", ReduceOp::Prod, widened(x), axes, keepdim);
}
Tensor max(const Tensor& x, const Axes& axes, bool keepdim) { return extreme("max", ReduceOp::Max, x, axes, keepdim); }
Tensor min(const Tensor& x, const Axes& axes, bool keepdim) { return extreme("min", ReduceOp::Min, x, axes, keepdim); }
Tensor amax(const Tensor& x, const Axes& axes, bool keepdim) {
  return extreme("amax", ReduceOp::Max, x, axes, keepdim);
}
Tensor amin(const Tensor& x, const Axes& axes, bool keepdim) {
  return extreme("amin", ReduceOp::Min, x, axes, keepdim);
}
Tensor ptp(const Tensor& given, const Axes& axes, bool keepdim) {
  Tensor x(given.node());
  return sub(extreme("ptp", ReduceOp::Max, x, axes, keepdim), extreme("ptp", ReduceOp::Min, x, axes, keepdim));
}
namespace {

// Powers below 1 are infinitely steep at zero. There the gradient of a norm, or of a deviation, is zero instead.
Tensor power_of(const Tensor& x, double exponent) {
  Tensor nothing = eq(x, 0), rest = where(nothing, 1, x);
  return where(nothing, 0, exponent == 0.5 ? sqrt(rest) : pow(rest, exponent));
}
Tensor root_of(const Tensor& x) { return power_of(x, 0.5); }

Tensor mean_of(const char* name, const Tensor& f, const Axes& axes, bool keepdim) {
  Expr n = count(f.node(), to_axes(name, axes, f.rank(), true));
  return div(reduce(name, ReduceOp::Sum, f.node(), axes, keepdim), count_tensor(n, f.dtype()));
}
// f is wide.
Tensor variance_of(const char* name, const Tensor& f, const Axes& axes, bool keepdim, int64_t correction) {
  std::vector<int> list = to_axes(name, axes, f.rank(), true);
  Expr n = count(f.node(), list), degrees = max(n - correction, 0);
  if (f.dtype() == kF64 || n.lo() == 0) {
    Tensor deviation = sub(f, mean_of(name, f, axes, true));
    Tensor squares = reduce(name, ReduceOp::Sum, square(deviation).node(), axes, keepdim);
    return div(squares, count_tensor(degrees, f.dtype()));
  }
  // Sums of the deviations and of their squares in one pass. In f64 their difference loses nothing that f32 could
  // hold; deviations from an element instead of from zero make the variance of equal numbers exactly zero.
  Tensor deviation = cast(sub(f, detach(first_of(f, list))), kF64);
  Tensor total = reduce(name, ReduceOp::Sum, deviation.node(), axes, keepdim);
  Tensor squares = reduce(name, ReduceOp::Sum, square(deviation).node(), axes, keepdim);
  Tensor centred = sub(squares, div(square(total), count_tensor(n, kF64)));
  centred = where(lt(centred, 0), 0, centred);  // has a derivative at 0, as maximum() has not
  return cast(div(centred, count_tensor(degrees, kF64)), f.dtype());
}

}  // namespace

Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) {
  return from_wide_float(mean_of("mean", to_wide_float(x), axes, keepdim), x);
}
Tensor average(const Tensor& x, const Tensor& weights, const Axes& axes, bool keepdim) {
  Tensor f = to_wide_float(x), w = to_wide_float(weights);
  Tensor spread(broadcast_to(w.node(), broadcast_shapes("average", w.node()->shape, f.node()->shape)));
  if (spread.shape() != f.shape())
    throw ShapeError(text("average: weights of shape ", w.node()->shape, " for values of shape ", f.node()->shape));
  Tensor total = reduce("average", ReduceOp::Sum, mul(f, spread).node(), axes, keepdim);
  return from_wide_float(div(total, reduce("average", ReduceOp::Sum, spread.node(), axes, keepdim)), x);
}
Tensor var(const Tensor& x, const Axes& axes, bool keepdim, int64_t correction) {
  return from_wide_float(variance_of("var", to_wide_float(x), axes, keepdim, correction), x);
}
Tensor std(const Tensor& x, const Axes& axes, bool keepdim, int64_t correction) {
  return from_wide_float(root_of(variance_of("std", to_wide_float(x), axes, keepdim, correction)), x);
}

Tensor norm(const Tensor& x, double p, const Axes& axes, bool keepdim) {
  Tensor f = to_wide_float(x), size = abs(f);
  auto sum_of = [&](const Tensor& y) { return reduce("norm", ReduceOp::Sum, y.node(), axes, keepdim); };
  Tensor result;
  if (std::isnan(p)) throw ValueError("norm: the order is not a number");
  if (std::isinf(p))
    result = extreme("norm", p > 0 ? ReduceOp::Max : ReduceOp::Min, size, axes, keepdim);
  else if (p == 0)
    result = sum_of(where(ne(size, 0), 1, mul(size, 0)));
  else if (p == 1)
    result = sum_of(size);
  else if (p == 2)
    result = root_of(sum_of(square(f)));
  else
    result = power_of(sum_of(pow(size, p)), 1 / p);
  return from_wide_float(result, x);
}

Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keepdim) {
  return reduce("count_nonzero", ReduceOp::Sum, make_cast(make_cast(x.node(), kBool), kI64), axes, keepdim);
}

Tensor nansum(const Tensor& given, const Axes& axes, bool keepdim) {
  Tensor x(given.node());
  return reduce("nansum", ReduceOp::Sum, widened(where(isnan(x), 0, x)), axes, keepdim);
}
Tensor nanprod(const Tensor& given, const Axes& axes, bool keepdim) {
  Tensor x(given.node());
  return reduce("nanprod", ReduceOp::Prod, widened(where(isnan(x), 1, x)), axes, keepdim);
}

namespace {

// NaN is replaced by what every number beats; where nothing else is there, it comes back.
Tensor nan_extreme(const char* name, ReduceOp op, const Tensor& given, const Axes& axes, bool keepdim) {
  Tensor x(given.node());
  if (!is_float(x.dtype())) return extreme(name, op, x, axes, keepdim);
  refuse_empty(name, x.node(), axes);
  double infinity = std::numeric_limits<double>::infinity();
  Tensor rest = where(isnan(x), op == ReduceOp::Max ? -infinity : infinity, x);
  Tensor nothing = reduce(name, ReduceOp::Min, isnan(x).node(), axes, keepdim);
  return where(nothing, std::numeric_limits<double>::quiet_NaN(), reduce(name, op, rest.node(), axes, keepdim));
}

// Numbers, with 0 in place of NaN, and how many there are.
struct Counted {
  Tensor is_nan, values, count;
};
Counted without_nan(const char* name, const Tensor& f, const Axes& axes, bool keepdim) {
  Tensor is_nan = isnan(f);
  Tensor ones = cast(logical_not(is_nan), f.dtype());
  return {is_nan, where(is_nan, 0, f), reduce(name, ReduceOp::Sum, ones.node(), axes, keepdim)};
}
// f is wide.
Tensor nan_variance(const char* name, const Tensor& f, const Axes& axes, bool keepdim, int64_t correction) {
  Counted kept = without_nan(name, f, axes, true), out = without_nan(name, f, axes, keepdim);
  Tensor centre = div(reduce(name, ReduceOp::Sum, kept.values.node(), axes, true), kept.count);
  Tensor squares = where(kept.is_nan, 0, square(sub(f, centre)));
  Tensor degrees = maximum(sub(out.count, correction), 0);
  return div(reduce(name, ReduceOp::Sum, squares.node(), axes, keepdim), degrees);
}

}  // namespace

Tensor nanmax(const Tensor& x, const Axes& axes, bool keepdim) {
  return nan_extreme("nanmax", ReduceOp::Max, x, axes, keepdim);
}
Tensor nanmin(const Tensor& x, const Axes& axes, bool keepdim) {
  return nan_extreme("nanmin", ReduceOp::Min, x, axes, keepdim);
}
Tensor nanmean(const Tensor& x, const Axes& axes, bool keepdim) {
  Counted numbers = without_nan("nanmean", to_wide_float(x), axes, keepdim);
  return from_wide_float(div(reduce("nanmean", ReduceOp::Sum, numbers.values.node(), axes, keepdim), numbers.count), x);
}
Tensor nanvar(const Tensor& x, const Axes& axes, bool keepdim, int64_t correction) {
  return from_wide_float(nan_variance("nanvar", to_wide_float(x), axes, keepdim, correction), x);
}
Tensor nanstd(const Tensor& x, const Axes& axes, bool keepdim, int64_t correction) {
  return from_wide_float(root_of(nan_variance("nanstd", to_wide_float(x), axes, keepdim, correction)), x);
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

Tensor shift_of(const Tensor& x, const Axes& axes) {
  return detach(reduce("max", ReduceOp::Max, x.node(), axes, true));
}

// Of no elements it is that of no exponentials, -inf.
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim) {
  Tensor f = to_wide_float(x);
  to_axes("logsumexp", axes, f.rank(), true);  // an error names this function
  Tensor most = shift_of(f, axes);
  Tensor shift = where(isfinite(most), most, 0);  // so that subtracting it makes no NaN of a row of -inf
  Tensor result = add(log(sum(exp(sub(f, shift)), axes, true)), shift);
  return from_wide_float(keepdim ? result : sum(result, axes), x);  // those axes have size 1 now
}

}  // namespace heddle
