// Elementwise operators of two or three operands. They broadcast and promote.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

Tensor add(const Operand& a, const Operand& b);
Tensor sub(const Operand& a, const Operand& b);
Tensor mul(const Operand& a, const Operand& b);
Tensor div(const Operand& a, const Operand& b);       // true division: integers become f32
Tensor floordiv(const Operand& a, const Operand& b);  // rounds down; an integer divided by zero gives zero
Tensor mod(const Operand& a, const Operand& b);       // sign of the divisor
Tensor pow(const Operand& a, const Operand& b);       // integers to a whole number stay integers; all else gives floats
Tensor atan2(const Operand& y, const Operand& x);     // the angle of the point (x, y) in [-pi, pi]; integers become f32
Tensor minimum(const Operand& a, const Operand& b);
Tensor maximum(const Operand& a, const Operand& b);
Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Operand& b);
Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
Tensor bitwise_and(const Operand& a, const Operand& b);
Tensor bitwise_or(const Operand& a, const Operand& b);
Tensor bitwise_xor(const Operand& a, const Operand& b);
Tensor shift_left(const Operand& a, const Operand& b);
Tensor shift_right(const Operand& a, const Operand& b);
Tensor where(const Tensor& condition, const Operand& if_true, const Operand& if_false);
Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c);  // a * b + c, rounded once

}  // namespace heddle
