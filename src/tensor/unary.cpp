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
Tensor sign(const Tensor& given) {
  Tensor x(given.node());
  if (x.dtype() == kBool) return x;
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
Tensor square(const Tensor& x) {
  if (x.dtype() == kBool) throw DTypeError("square: not defined on bool; cast first");
  Tensor same(x.node());
  return mul(same, same);
}
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
Tensor isnan(const Tensor& x) {
  Tensor same(x.node());
  return ne(same, same);
}
Tensor frac(const Tensor& given) {
  Tensor x(given.node());
  return is_float(x.dtype()) ? sub(x, trunc(x)) : zeros_like(x);
}
Tensor sinc(const Tensor& x) {
  Tensor angle = mul(to_float(x), 3.14159265358979323846);
  // Near zero the series: it has derivatives there, of every order.
  Tensor near = lt(abs(angle), 0.1), away = where(near, 1, angle), squared = square(where(near, angle, 0));
  Tensor series = mul(squared, -1.0 / 39916800);
  for (double term : {1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6}) series = mul(squared, add(series, term));
  return where(near, add(series, 1), div(sin(away), away));
}
Tensor rad2deg(const Tensor& x) { return mul(to_float(x), 57.29577951308232087680); }
Tensor deg2rad(const Tensor& x) { return mul(to_float(x), 0.01745329251994329577); }
Tensor nan_to_num(const Tensor& given, double nan, std::optional<double> positive_infinity,
                  std::optional<double> negative_infinity) {
  Tensor x(given.node());
  if (!is_float(x.dtype())) return x;
  double infinity = std::numeric_limits<double>::infinity();
  auto number = [&](std::optional<double> wanted, double limit) {
    Scalar value = wanted ? Scalar::of(x.dtype(), *wanted) : limit_scalar(x.dtype(), limit > 0);
    return Tensor(make_const(value));
  };
  Tensor result = where(isnan(x), nan, x);
  result = where(eq(x, infinity), number(positive_infinity, infinity), result);
  return where(eq(x, -infinity), number(negative_infinity, -infinity), result);
}
Tensor isposinf(const Tensor& given) {
  Tensor x(given.node());
  return logical_and(isinf(x), gt(x, 0));
}
Tensor isneginf(const Tensor& given) {
  Tensor x(given.node());
  return logical_and(isinf(x), lt(x, 0));
}
Tensor signbit(const Tensor& x) {
  if (x.dtype() == kBool) return zeros_like(x);
  return lt(is_float(x.dtype()) ? bitcast(x, signed_of_size(size_of(x.dtype()))) : x, 0);
}
Tensor isinf(const Tensor& x) {
  if (!is_float(x.dtype())) return Tensor(number_node("isinf", 0, kBool, x.node()->shape));
  if (x.dtype() == kF8E4M3) return Tensor(number_node("isinf", 0, kBool, x.node()->shape));  // it has none
  return eq(abs(x), std::numeric_limits<double>::infinity());
}
Tensor isfinite(const Tensor& x) {
  if (!is_float(x.dtype())) return Tensor(number_node("isfinite", 1, kBool, x.node()->shape));
  if (x.dtype() == kF8E4M3) return eq(x, x);  // there is no infinity
  return lt(abs(x), std::numeric_limits<double>::infinity());
}
Tensor logical_not(const Tensor& x) { return Tensor(scalar_node(ScalarOp::bit_not, {make_cast(x.node(), kBool)})); }
Tensor bitwise_not(const Tensor& x) {
  if (is_float(x.dtype())) throw DTypeError(text("bitwise_not: needs integers or bool, not ", x.dtype()));
  return Tensor(scalar_node(ScalarOp::bit_not, {x.node()}));
}
Tensor cast(const Tensor& x, DType dtype) {
  NodeRef n = x.node();
  check_shape("cast", n->shape, dtype);
  return Tensor(make_cast(n, dtype));
}
Tensor bitcast(const Tensor& x, DType dtype) { return Tensor(make_bitcast(x.node(), dtype)); }

}  // namespace heddle
