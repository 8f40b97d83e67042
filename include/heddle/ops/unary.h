// Elementwise operators of one operand.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// @dtypes integers, floats @shape same

//   neg(tensor({1, -2}))   // [-1.  2.]
Tensor neg(const Tensor& x);
//   square(tensor({-3, 2}))   // [9. 4.]
Tensor square(const Tensor& x);

// @dtypes any @shape same

//   abs(tensor({-1.5, 2}))   // [1.5 2. ]
Tensor abs(const Tensor& x);
// -1, 0 or 1; NaN stays NaN.
//   sign(tensor({-3, 0, 2}))   // [-1.  0.  1.]
Tensor sign(const Tensor& x);
// Towards minus infinity. Integers stay what they are, here and below.
//   floor(tensor({-1.5, 1.5}))   // [-2.  1.]
Tensor floor(const Tensor& x);
//   ceil(tensor({-1.5, 1.5}))   // [-1.  2.]
Tensor ceil(const Tensor& x);
//   trunc(tensor({-1.5, 1.5}))   // [-1.  1.]
Tensor trunc(const Tensor& x);
// To the nearest, halves to even.
//   round(tensor({0.5, 1.5, 2.5}))   // [0. 2. 2.]
Tensor round(const Tensor& x);
// x - trunc(x).
//   frac(tensor({-1.25, 3.5}))   // [-0.25  0.5 ]
Tensor frac(const Tensor& x);

// @dtypes floats; integers and bool become f32 @shape same

//   exp(tensor({0, 1}))   // [1. 2.718282]
Tensor exp(const Tensor& x);
//   exp2(tensor({-1, 3}))   // [0.5 8. ]
Tensor exp2(const Tensor& x);
// exp(x) - 1, exact near zero.
//   expm1(tensor({0, 1e-8}))   // [0.e+00 1.e-08]
Tensor expm1(const Tensor& x);
//   log(tensor({1, 0}))   // [  0. -inf]
Tensor log(const Tensor& x);
//   log2(tensor({8, 0.5}))   // [ 3. -1.]
Tensor log2(const Tensor& x);
//   log10(tensor({1, 1000}))   // [0. 3.]
Tensor log10(const Tensor& x);
// log(1 + x), exact near zero.
//   log1p(tensor({0, 1e-8}))   // [0.e+00 1.e-08]
Tensor log1p(const Tensor& x);
//   sqrt(tensor({4, 2}))   // [2.        1.4142135]
Tensor sqrt(const Tensor& x);
//   rsqrt(tensor({4, 0.25}))   // [0.5 2. ]
Tensor rsqrt(const Tensor& x);
//   reciprocal(tensor({4, -2}))   // [ 0.25 -0.5 ]
Tensor reciprocal(const Tensor& x);
//   sin(tensor({0, 1}))   // [0. 0.841471]
Tensor sin(const Tensor& x);
//   cos(tensor({0, 1}))   // [1. 0.5403023]
Tensor cos(const Tensor& x);
//   tan(tensor({0, 1}))   // [0. 1.5574077]
Tensor tan(const Tensor& x);
// In [-pi/2, pi/2]; NaN outside [-1, 1].
//   asin(tensor({0, 1}))   // [0. 1.5707964]
Tensor asin(const Tensor& x);
// In [0, pi]; NaN outside [-1, 1].
//   acos(tensor({1, 0}))   // [0. 1.5707964]
Tensor acos(const Tensor& x);
// In [-pi/2, pi/2]; the angle of two coordinates is atan2(y, x).
//   atan(tensor({0, 1}))   // [0. 0.7853982]
Tensor atan(const Tensor& x);
//   sinh(tensor({0, 1}))   // [0. 1.1752012]
Tensor sinh(const Tensor& x);
//   cosh(tensor({0, 1}))   // [1. 1.5430807]
Tensor cosh(const Tensor& x);
//   tanh(tensor({0, 1}))   // [0. 0.7615942]
Tensor tanh(const Tensor& x);
//   asinh(tensor({0, 1}))   // [0. 0.8813736]
Tensor asinh(const Tensor& x);
// Not negative; NaN below 1.
//   acosh(tensor({1, 2}))   // [0. 1.316958]
Tensor acosh(const Tensor& x);
// Infinite at -1 and 1, NaN beyond.
//   atanh(tensor({0, 0.5}))   // [0. 0.54930615]
Tensor atanh(const Tensor& x);
//   erf(tensor({0, 1}))   // [0. 0.8427008]
Tensor erf(const Tensor& x);
// erf(erfinv(x)) is x; infinite at -1 and 1, NaN beyond.
//   erfinv(tensor({0, 0.5}))   // [0. 0.47693628]
Tensor erfinv(const Tensor& x);
// The real cube root, negative for negative x.
//   cbrt(tensor({-8, 27}))   // [-2.  3.]
Tensor cbrt(const Tensor& x);
// sin(pi x) / (pi x), and 1 at zero.
//   sinc(tensor({0, 0.5}))   // [1. 0.63661975]
Tensor sinc(const Tensor& x);
//   rad2deg(tensor({0, 3.1415927}))   // [  0. 180.]
Tensor rad2deg(const Tensor& x);
//   deg2rad(tensor({0, 180}))   // [0. 3.1415927]
Tensor deg2rad(const Tensor& x);

// @dtypes any @shape same

// Other numbers for NaN and the infinities; the largest finite ones for the latter unless given. Integers
// stay what they are.
//   nan_to_num(log(tensor({-1, 0, 1})), 0, {}, -9)   // [ 0. -9.  0.]
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> positive_infinity = {},
                  std::optional<double> negative_infinity = {});

// @dtypes any -> bool @shape same

//   isnan(log(tensor({-1, 0})))   // [ True False]
Tensor isnan(const Tensor& x);
//   isinf(log(tensor({-1, 0})))   // [False  True]
Tensor isinf(const Tensor& x);
//   isfinite(log(tensor({-1, 0, 1})))   // [False False  True]
Tensor isfinite(const Tensor& x);
//   isposinf(tensor({1, INFINITY, -INFINITY}))   // [False  True False]
Tensor isposinf(const Tensor& x);
//   isneginf(tensor({1, INFINITY, -INFINITY}))   // [False False  True]
Tensor isneginf(const Tensor& x);
// Whether the sign is minus; true of -0 too.
//   signbit(tensor({-1, -0.0, 0}))   // [ True  True False]
Tensor signbit(const Tensor& x);
//   logical_not(tensor({0, 2}))   // [ True False]
Tensor logical_not(const Tensor& x);

// @dtypes bool, integers @shape same

//   bitwise_not(tensor({0, 5}, kI8))   // [-1 -6]
Tensor bitwise_not(const Tensor& x);

// @dtypes any to any @shape same

// Floats to integers truncate and saturate, NaN gives 0; integers wrap; to bool: whether it is not zero.
//   cast(tensor({-1.7, 300}), kU8)   // [  0 255]
//   cast(tensor({1.5, 2}), kF64)     // [1.5 2. ]
Tensor cast(const Tensor& x, DType dtype);
// The same bits as another dtype of the same size.
//   bitcast(tensor({1, -1}), kI32)   // [ 1065353216 -1082130432]
Tensor bitcast(const Tensor& x, DType dtype);

}  // namespace heddle
