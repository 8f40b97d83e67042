// Elementwise operators of one operand.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);  // in [-pi/2, pi/2]; NaN outside [-1, 1]
Tensor acos(const Tensor& x);  // in [0, pi]; NaN outside [-1, 1]
Tensor atan(const Tensor& x);  // in [-pi/2, pi/2]; the angle of two coordinates is atan2(y, x)
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);  // not negative; NaN below 1
Tensor atanh(const Tensor& x);  // infinite at -1 and 1, NaN beyond
Tensor erf(const Tensor& x);
Tensor erfinv(const Tensor& x);  // erf(erfinv(x)) is x; infinite at -1 and 1, NaN beyond
Tensor cbrt(const Tensor& x);    // the real cube root, negative for negative x
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor round(const Tensor& x);  // half to even
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor logical_not(const Tensor& x);
Tensor bitwise_not(const Tensor& x);
Tensor clamp(const Tensor& x, const Operand& low, const Operand& high);
Tensor cast(const Tensor& x, DType dtype);
Tensor bitcast(const Tensor& x, DType dtype);  // same size of element

}  // namespace heddle
