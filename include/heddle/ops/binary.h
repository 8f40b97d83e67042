// Elementwise operators of two or three operands. They broadcast and promote.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// @dtypes integers, floats @shape broadcast

//   add(tensor({1, 2}), 10)   // [11. 12.]
Tensor add(const Operand& a, const Operand& b);
//   sub(1, tensor({1, 2}))   // [ 0. -1.]
Tensor sub(const Operand& a, const Operand& b);
//   mul(tensor({1, 2}), tensor({{1}, {3}}))   // [[1. 2.] [3. 6.]]
Tensor mul(const Operand& a, const Operand& b);
// Rounds down, as NumPy and Python do. An integer divided by zero gives zero.
//   floordiv(tensor({-7, 7}, kI32), 2)   // [-4  3]
Tensor floordiv(const Operand& a, const Operand& b);
// What floordiv leaves: the sign of the divisor. An integer divided by zero gives zero.
//   mod(tensor({-7, 7}, kI32), 3)   // [2 1]
Tensor mod(const Operand& a, const Operand& b);
// Another name of mod.
//   remainder(tensor({-7, 7}), 3)   // [2. 1.]
Tensor remainder(const Operand& a, const Operand& b);
// What division towards zero leaves: the sign of the dividend.
//   fmod(tensor({-7, 7}), 3)   // [-1.  1.]
Tensor fmod(const Operand& a, const Operand& b);
// floordiv and mod together.
//   divmod(tensor({-7, 7}, kI32), 3).first   // [-3  2]
std::pair<Tensor, Tensor> divmod(const Operand& a, const Operand& b);
// Integers to the power of integers are integers, of which a negative exponent leaves 0 but for powers of 1 and -1; a
// negative one that is written in the program is an error. All else gives floats.
//   pow(tensor({2, 3}, kI32), 3)                     // [ 8 27]
//   pow(tensor({2, 3}, kI32), tensor({10, 2}, kI32))   // [1024    9]
//   pow(tensor({4, 9}), 0.5)       // [2. 3.]
Tensor pow(const Operand& a, const Operand& b);

// @dtypes floats; integers and bool become f32 @shape broadcast

// True division: integers become f32.
//   div(tensor({1, 2}, kI32), 2)   // [0.5 1. ]
Tensor div(const Operand& a, const Operand& b);
// The angle of the point (x, y), in [-pi, pi].
//   atan2(tensor({1, -1}), tensor({0, -1}))   // [ 1.5707964 -2.3561945]
Tensor atan2(const Operand& y, const Operand& x);
// The size of a with the sign of b.
//   copysign(tensor({1, -2}), tensor({-0.0, 3}))   // [-1.  2.]
Tensor copysign(const Operand& a, const Operand& b);
// The next number of the dtype after a in the direction of b.
//   nextafter(tensor({1}, kBF16), 2)   // [1.01]
Tensor nextafter(const Operand& a, const Operand& b);
// sqrt(a * a + b * b) without overflow on the way.
//   hypot(tensor({3, 3e30}), tensor({4, 4e30}))   // [5.e+00 5.e+30]
Tensor hypot(const Operand& a, const Operand& b);
// log(exp(a) + exp(b)) without overflow on the way.
//   logaddexp(tensor({1, 1000}), tensor({1, 1000}))   // [ 1.6931472 1000.6932 ]
Tensor logaddexp(const Operand& a, const Operand& b);
// The same to base 2.
//   logaddexp2(tensor({1, 1000}), tensor({1, 1000}))   // [   2. 1001.]
Tensor logaddexp2(const Operand& a, const Operand& b);
// a * log(b), and 0 where a is 0.
//   xlogy(tensor({0, 2}), tensor({0, 1}))   // [0. 0.]
Tensor xlogy(const Operand& a, const Operand& b);
// 0 for negative x, `at_zero` at 0, 1 for positive x.
//   heaviside(tensor({-2, 0, 2}), 0.5)   // [0.  0.5 1. ]
Tensor heaviside(const Tensor& x, const Operand& at_zero);

// @dtypes any @shape broadcast

// NaN where either is NaN.
//   minimum(tensor({1, 5}), tensor({3, 2}))   // [1. 2.]
Tensor minimum(const Operand& a, const Operand& b);
//   maximum(tensor({1, 5}), 3)   // [3. 5.]
Tensor maximum(const Operand& a, const Operand& b);
// The other operand where one is NaN.
//   fmin(tensor({NAN, 5}), tensor({3, 2}))   // [3. 2.]
Tensor fmin(const Operand& a, const Operand& b);
//   fmax(tensor({NAN, 5}), tensor({3, 2}))   // [3. 5.]
Tensor fmax(const Operand& a, const Operand& b);
// minimum(maximum(x, low), high). Either bound is a number or a tensor.
//   clamp(tensor({-5, 0.5, 5}), -1, 1)   // [-1.   0.5  1. ]
Tensor clamp(const Tensor& x, const Operand& low, const Operand& high);
// Elements of one or the other.
//   where(tensor({1, 0}, kBool), tensor({1, 2}), -1)   // [ 1. -1.]
Tensor where(const Tensor& condition, const Operand& if_true, const Operand& if_false);

// @dtypes any -> bool @shape broadcast

//   eq(tensor({1, 2}), 2)   // [False  True]
Tensor eq(const Operand& a, const Operand& b);
//   ne(tensor({1, 2}), 2)   // [ True False]
Tensor ne(const Operand& a, const Operand& b);
//   lt(tensor({1, 2}), 2)   // [ True False]
Tensor lt(const Operand& a, const Operand& b);
//   le(tensor({1, 2}), 2)   // [True True]
Tensor le(const Operand& a, const Operand& b);
//   gt(tensor({1, 2}), 1)   // [False  True]
Tensor gt(const Operand& a, const Operand& b);
//   ge(tensor({1, 2}), 1)   // [True True]
Tensor ge(const Operand& a, const Operand& b);
//   logical_and(tensor({0, 2}), tensor({1, 1}))   // [False  True]
Tensor logical_and(const Operand& a, const Operand& b);
//   logical_or(tensor({0, 2}), tensor({0, 1}))   // [False  True]
Tensor logical_or(const Operand& a, const Operand& b);
//   logical_xor(tensor({0, 2}), tensor({1, 1}))   // [ True False]
Tensor logical_xor(const Operand& a, const Operand& b);
// |a - b| <= absolute + relative * |b|.
//   isclose(tensor({1, 1}), tensor({1.000001, 1.1}))   // [ True False]
Tensor isclose(const Operand& a, const Operand& b, double relative = 1e-5, double absolute = 1e-8,
               bool equal_nan = false);

// @dtypes bool, integers @shape broadcast

//   bitwise_and(tensor({6, 5}, kI32), 3)   // [2 1]
Tensor bitwise_and(const Operand& a, const Operand& b);
//   bitwise_or(tensor({6, 5}, kI32), 3)   // [7 7]
Tensor bitwise_or(const Operand& a, const Operand& b);
//   bitwise_xor(tensor({6, 5}, kI32), 3)   // [5 6]
Tensor bitwise_xor(const Operand& a, const Operand& b);

// @dtypes integers @shape broadcast

// A count that is negative or no less than the number of bits gives zero.
//   shift_left(tensor({1, 3}, kI32), 4)   // [16 48]
Tensor shift_left(const Operand& a, const Operand& b);
// Keeps the sign.
//   shift_right(tensor({-16, 48}, kI32), 4)   // [-1  3]
Tensor shift_right(const Operand& a, const Operand& b);

// @dtypes floats @shape broadcast

// a * b + c, rounded once.
//   fma(tensor({2}), tensor({3}), tensor({1}))   // [7.]
Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c);
// a + weight * (b - a); exactly a at weight 0 and b at weight 1.
//   lerp(tensor({0, 10}), tensor({10, 20}), 0.25)   // [ 2.5 12.5]
Tensor lerp(const Tensor& a, const Tensor& b, const Operand& weight);

// @dtypes any -> C++ bool @shape a bool

// Whether all elements are close: compute and look.
//   allclose(tensor({1, 2}), tensor({1, 2.0000001}))   // true
bool allclose(const Operand& a, const Operand& b, double relative = 1e-5, double absolute = 1e-8,
              bool equal_nan = false);
// Whether shapes and all elements are equal: compute and look.
//   equal(tensor({1, 2}), tensor({1, 3}))   // false
bool equal(const Tensor& a, const Tensor& b);

}  // namespace heddle
