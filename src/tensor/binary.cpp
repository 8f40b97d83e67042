#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

Pair arithmetic(const char* op, const Operand& a, const Operand& b) {
  Pair p = promote_pair(op, a, b);
  if (p.a->dtype == kBool)
    throw DTypeError(text(op, ": not defined on bool; use logical_and, logical_or, logical_xor, or cast first"));
  return p;
}
Tensor binary(ScalarOp op, const Pair& p) { return Tensor(scalar_node(op, {p.a, p.b})); }

Pair floats(const char* op, const Operand& a, const Operand& b) {
  Pair p = promote_pair(op, a, b);
  if (!is_float(p.a->dtype)) p = {make_cast(p.a, kF32), make_cast(p.b, kF32)};
  return p;
}
Pair integers(const char* op, const Operand& a, const Operand& b, bool allow_bool) {
  Pair p = promote_pair(op, a, b);
  DType dtype = p.a->dtype;
  if (!is_integer(dtype) && !(allow_bool && dtype == kBool))
    throw DTypeError(text(op, ": needs integers", allow_bool ? " or bool" : "", ", not ", dtype));
  return p;
}
Pair bools(const char* op, const Operand& a, const Operand& b) {
  Pair p = promote_pair(op, a, b);
  return {make_cast(p.a, kBool), make_cast(p.b, kBool)};
}

}  // namespace

Tensor add(const Operand& a, const Operand& b) { return binary(ScalarOp::add, arithmetic("add", a, b)); }
Tensor sub(const Operand& a, const Operand& b) { return binary(ScalarOp::sub, arithmetic("sub", a, b)); }
Tensor mul(const Operand& a, const Operand& b) { return binary(ScalarOp::mul, arithmetic("mul", a, b)); }
Tensor div(const Operand& a, const Operand& b) { return binary(ScalarOp::div, floats("div", a, b)); }
Tensor floordiv(const Operand& a, const Operand& b) { return binary(ScalarOp::floordiv, arithmetic("floordiv", a, b)); }
Tensor mod(const Operand& a, const Operand& b) { return binary(ScalarOp::mod, arithmetic("mod", a, b)); }
Tensor pow(const Operand& a, const Operand& b) {
  if (a.kind() != Operand::Kind::Tensor || b.kind() == Operand::Kind::Tensor)
    return binary(ScalarOp::pow, floats("pow", a, b));
  const Tensor& x = a.tensor();
  if (is_integer(x.dtype()) && b.kind() == Operand::Kind::Integer) {
    if (b.integer() < 0)
      throw ValueError(text("pow: integers to the power ", b.integer(), " are no integers; cast first"));
    Tensor result = full(x.shape(), 1, x.dtype()), square_of = x;
    for (int64_t rest = b.integer(); rest > 0; rest /= 2) {
      if (rest % 2) result = mul(result, square_of);
      if (rest > 1) square_of = square(square_of);
    }
    return result;
  }
  // Small powers are products.
  Tensor base = to_float(x);
  if (b.real() == 1) return base;
  if (b.real() == 2) return square(base);
  if (b.real() == 3) return mul(square(base), base);
  return binary(ScalarOp::pow, floats("pow", base, b));
}
Tensor atan2(const Operand& y, const Operand& x) { return binary(ScalarOp::atan2, floats("atan2", y, x)); }
Tensor minimum(const Operand& a, const Operand& b) { return binary(ScalarOp::minimum, promote_pair("minimum", a, b)); }
Tensor maximum(const Operand& a, const Operand& b) { return binary(ScalarOp::maximum, promote_pair("maximum", a, b)); }
Tensor eq(const Operand& a, const Operand& b) { return binary(ScalarOp::eq, promote_pair("eq", a, b)); }
Tensor ne(const Operand& a, const Operand& b) { return binary(ScalarOp::ne, promote_pair("ne", a, b)); }
Tensor lt(const Operand& a, const Operand& b) { return binary(ScalarOp::lt, promote_pair("lt", a, b)); }
Tensor le(const Operand& a, const Operand& b) { return binary(ScalarOp::le, promote_pair("le", a, b)); }
Tensor gt(const Operand& a, const Operand& b) {
  Pair p = promote_pair("gt", a, b);
  return binary(ScalarOp::lt, {p.b, p.a});
}
Tensor ge(const Operand& a, const Operand& b) {
  Pair p = promote_pair("ge", a, b);
  return binary(ScalarOp::le, {p.b, p.a});
}
Tensor logical_and(const Operand& a, const Operand& b) { return binary(ScalarOp::bit_and, bools("logical_and", a, b)); }
Tensor logical_or(const Operand& a, const Operand& b) { return binary(ScalarOp::bit_or, bools("logical_or", a, b)); }
Tensor logical_xor(const Operand& a, const Operand& b) { return binary(ScalarOp::bit_xor, bools("logical_xor", a, b)); }
Tensor bitwise_and(const Operand& a, const Operand& b) {
  return binary(ScalarOp::bit_and, integers("bitwise_and", a, b, true));
}
Tensor bitwise_or(const Operand& a, const Operand& b) {
  return binary(ScalarOp::bit_or, integers("bitwise_or", a, b, true));
}
Tensor bitwise_xor(const Operand& a, const Operand& b) {
  return binary(ScalarOp::bit_xor, integers("bitwise_xor", a, b, true));
}
Tensor shift_left(const Operand& a, const Operand& b) {
  return binary(ScalarOp::shl, integers("shift_left", a, b, false));
}
Tensor shift_right(const Operand& a, const Operand& b) {
  return binary(ScalarOp::shr, integers("shift_right", a, b, false));
}

Tensor where(const Tensor& condition, const Operand& if_true, const Operand& if_false) {
  NodeRef c = make_cast(condition.node(), kBool);
  bool numbers = if_true.kind() != Operand::Kind::Tensor && if_false.kind() != Operand::Kind::Tensor;
  Pair p;
  if (numbers) {
    bool real = if_true.kind() == Operand::Kind::Float || if_false.kind() == Operand::Kind::Float;
    bool truth = if_true.kind() == Operand::Kind::Bool && if_false.kind() == Operand::Kind::Bool;
    DType dtype = real ? kF32 : truth ? kBool : kI64;
    p = {number_node("where", if_true, dtype, c->shape), number_node("where", if_false, dtype, c->shape)};
  } else {
    p = promote_pair("where", if_true, if_false);
  }
  Shape shape = broadcast_shapes("where", c->shape, p.a->shape);
  return Tensor(
      scalar_node(ScalarOp::where, {broadcast_to(c, shape), broadcast_to(p.a, shape), broadcast_to(p.b, shape)}));
}

Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c) {
  DType dtype = promote(promote(a.dtype(), b.dtype()), c.dtype());
  if (!is_float(dtype)) throw DTypeError(text("fma: needs floats, not ", dtype));
  NodeRef x = make_cast(a.node(), dtype), y = make_cast(b.node(), dtype), z = make_cast(c.node(), dtype);
  Shape shape = broadcast_shapes("fma", broadcast_shapes("fma", x->shape, y->shape), z->shape);
  return Tensor(scalar_node(ScalarOp::fma, {broadcast_to(x, shape), broadcast_to(y, shape), broadcast_to(z, shape)}));
}

}  // namespace heddle
