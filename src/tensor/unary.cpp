#include <limits>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

Tensor float_op(ScalarOp op, const Tensor& x) { return Tensor(scalar_node(op, {to_float(x).node()})); }
// floor and its kin change nothing on integers.
Tensor rounding_op(ScalarOp op, const Tensor& x) { return is_float(x.dtype()) ? float_op(op, x) : Tensor(x.node()); }

}  // namespace

Tensor neg(const Tensor& x) {
  if (x.dtype() == kBool) throw DTypeError("neg: not defined on bool; use logical_not, or cast first");
  return Tensor(scalar_node(ScalarOp::neg, {x.node()}));
}
Tensor abs(const Tensor& x) { return Tensor(x.dtype() == kBool ? x.node() : scalar_node(ScalarOp::abs, {x.node()})); }
Tensor sign(const Tensor& x) {
  if (x.dtype() == kBool) return Tensor(x.node());
  Tensor positive = cast(gt(x, 0), x.dtype()), negative = cast(lt(x, 0), x.dtype());
  Tensor result = sub(positive, negative);
  return is_float(x.dtype()) ? where(isnan(x), x, result) : result;
}
Tensor exp(const Tensor& x) { return float_op(ScalarOp::exp, x); }
Tensor exp2(const Tensor& x) { return float_op(ScalarOp::exp2, x); }
Tensor expm1(const Tensor& x) { return float_op(ScalarOp::expm1, x); }
Tensor log(const Tensor& x) { return float_op(ScalarOp::log, x); }
Tensor log2(const Tensor& x) { return float_op(ScalarOp::log2, x); }
Tensor log10(const Tensor& x) { return float_op(ScalarOp::log10, x); }
Tensor log1p(const Tensor& x) { return float_op(ScalarOp::log1p, x); }
Tensor sqrt(const Tensor& x) { return float_op(ScalarOp::sqrt, x); }
Tensor rsqrt(const Tensor& x) { return div(1, sqrt(x)); }
Tensor reciprocal(const Tensor& x) { return div(1, x); }
Tensor square(const Tensor& x) { return mul(x, x); }
Tensor sin(const Tensor& x) { return float_op(ScalarOp::sin, x); }
Tensor cos(const Tensor& x) { return float_op(ScalarOp::cos, x); }
Tensor tan(const Tensor& x) { return float_op(ScalarOp::tan, x); }
Tensor asin(const Tensor& x) { return float_op(ScalarOp::asin, x); }
Tensor acos(const Tensor& x) { return float_op(ScalarOp::acos, x); }
Tensor atan(const Tensor& x) { return float_op(ScalarOp::atan, x); }
Tensor sinh(const Tensor& x) { return float_op(ScalarOp::sinh, x); }
Tensor cosh(const Tensor& x) { return float_op(ScalarOp::cosh, x); }
Tensor tanh(const Tensor& x) { return float_op(ScalarOp::tanh, x); }
Tensor asinh(const Tensor& x) { return float_op(ScalarOp::asinh, x); }
Tensor acosh(const Tensor& x) { return float_op(ScalarOp::acosh, x); }
Tensor atanh(const Tensor& x) { return float_op(ScalarOp::atanh, x); }
Tensor erf(const Tensor& x) { return float_op(ScalarOp::erf, x); }
Tensor erfinv(const Tensor& x) { return float_op(ScalarOp::erfinv, x); }
Tensor cbrt(const Tensor& x) { return float_op(ScalarOp::cbrt, x); }
Tensor floor(const Tensor& x) { return rounding_op(ScalarOp::floor, x); }
Tensor ceil(const Tensor& x) { return rounding_op(ScalarOp::ceil, x); }
Tensor trunc(const Tensor& x) { return rounding_op(ScalarOp::trunc, x); }
Tensor round(const Tensor& x) { return rounding_op(ScalarOp::round, x); }
Tensor isnan(const Tensor& x) { return ne(x, x); }
Tensor isinf(const Tensor& x) {
  if (!is_float(x.dtype())) return full(x.shape(), 0, kBool);
  if (x.dtype() == kF8E4M3) return full(x.shape(), 0, kBool);  // it has none
  return eq(abs(x), std::numeric_limits<double>::infinity());
}
Tensor isfinite(const Tensor& x) {
  if (!is_float(x.dtype())) return full(x.shape(), 1, kBool);
  if (x.dtype() == kF8E4M3) return eq(x, x);  // there is no infinity
  return lt(abs(x), std::numeric_limits<double>::infinity());
}
Tensor logical_not(const Tensor& x) { return Tensor(scalar_node(ScalarOp::bit_not, {make_cast(x.node(), kBool)})); }
Tensor bitwise_not(const Tensor& x) {
  if (is_float(x.dtype())) throw DTypeError(text("bitwise_not: needs integers or bool, not ", x.dtype()));
  return Tensor(scalar_node(ScalarOp::bit_not, {x.node()}));
}
Tensor clamp(const Tensor& x, const Operand& low, const Operand& high) { return minimum(maximum(x, low), high); }
Tensor cast(const Tensor& x, DType dtype) {
  NodeRef n = x.node();
  check_shape("cast", n->shape, dtype);
  return Tensor(make_cast(n, dtype));
}
Tensor bitcast(const Tensor& x, DType dtype) { return Tensor(make_bitcast(x.node(), dtype)); }

}  // namespace heddle
