// Identities of scalar ops that hold for every input, bit for bit (signed zeros, infinities, NaN, wrap-around).
#include <cmath>

#include "graph/build.h"

namespace heddle {
namespace {

// The operand's constant, or null.
const heddle::Scalar* constant(const NodeRef& x) { return x->op == NodeOp::Const ? &x->literal : nullptr; }

bool is_value(const heddle::Scalar* c, int value) { return c && *c == Scalar::of(c->dtype, value); }

bool is_ones(const heddle::Scalar* c) {
  return c && *c == (c->dtype == DType::boolean ? Scalar::of(c->dtype, true) : Scalar::of(c->dtype, -1));
}

bool is_applied(const NodeRef& x, ScalarOp op) { return x->op == NodeOp::Scalar && x->scalar_op == op; }

bool gives_whole_numbers(const NodeRef& x) {
  return is_applied(x, ScalarOp::floor) || is_applied(x, ScalarOp::ceil) || is_applied(x, ScalarOp::trunc) ||
         is_applied(x, ScalarOp::round);
}

NodeRef same_shape_const(const NodeRef& x, DType dtype, int value) {
  return const_like(Scalar::of(dtype, value), x->shape);
}

NodeRef unary(ScalarOp op, const NodeRef& x) {
  switch (op) {
    case ScalarOp::neg:
    case ScalarOp::bit_not:
      if (is_applied(x, op)) return x->inputs[0];
      break;
    case ScalarOp::abs:
      if (is_applied(x, op) || (is_integer(x->dtype) && !is_signed(x->dtype))) return x;
      if (is_applied(x, ScalarOp::neg)) return make_scalar(op, x->inputs);
      break;
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::trunc:
    case ScalarOp::round:
      if (gives_whole_numbers(x)) return x;
      break;
    default: break;
  }
  return {};
}

// (x op c1) op c2 = x op (c1 op c2): exact for integers, where both wrap alike.
NodeRef merge_constants(ScalarOp op, const NodeRef& x, const NodeRef& c) {
  if (!is_integer(x->dtype) || !is_applied(x, op) || !constant(c) || !constant(x->inputs[1])) return {};
  Scalar both[] = {x->inputs[1]->literal, c->literal};
  NodeRef operands[] = {x->inputs[0], const_like(apply(op, both), x->shape)};
  return make_scalar(op, operands);
}

// A power of two that the dtype has with all bits of precision: next to a subnormal one there are fewer values.
bool is_normal_power(DType dtype, double power) {
  double next = power * (1 + std::ldexp(1.0, 1 - precision(dtype)));
  return Scalar::of(dtype, power).f == power && Scalar::of(dtype, next).f == next;
}

// x / 2^k = x * 2^-k when the reciprocal is a normal number: both round the same real number once.
NodeRef divide_by_power_of_two(const NodeRef& x, const heddle::Scalar& c) {
  int exponent = 0;
  if (std::abs(std::frexp(c.f, &exponent)) != 0.5 || exponent < -12 || exponent > 12) return {};
  if (!is_normal_power(c.dtype, 1 / c.f)) return {};
  NodeRef operands[] = {x, const_like(Scalar::of(c.dtype, 1 / c.f), x->shape)};
  return make_scalar(ScalarOp::mul, operands);
}

NodeRef identity(ScalarOp op, const NodeRef& a, const NodeRef& b) {
  const heddle::Scalar* c = constant(b);
  bool exact = !is_float(a->dtype);
  switch (op) {
    case ScalarOp::add:
      if (exact ? is_value(c, 0) : (c && c->f == 0 && std::signbit(c->f))) return a;
      return merge_constants(op, a, b);
    case ScalarOp::sub:
      if (is_value(c, 0)) return a;
      if (exact && a == b) return same_shape_const(a, a->dtype, 0);
      return {};
    case ScalarOp::mul:
      if (is_value(c, 1)) return a;
      if (exact && is_value(c, 0)) return b;
      if (is_signed(a->dtype) && is_value(c, -1)) return make_scalar(ScalarOp::neg, std::span(&a, 1));
      return merge_constants(op, a, b);
    case ScalarOp::div:
      if (is_value(c, 1)) return a;
      return c ? divide_by_power_of_two(a, *c) : NodeRef();
    case ScalarOp::floordiv: return exact && is_value(c, 1) ? a : NodeRef();
    case ScalarOp::mod: return exact && is_value(c, 1) ? same_shape_const(a, a->dtype, 0) : NodeRef();
    case ScalarOp::pow:
      if (is_value(c, 1)) return a;
      if (c && c->f == 0) return make_unmoved(same_shape_const(a, a->dtype, 1), std::span(&a, 1));
      if (is_value(c, 2)) {
        NodeRef twice[] = {a, a};
        return make_scalar(ScalarOp::mul, twice);
      }
      return {};
    case ScalarOp::minimum:
    case ScalarOp::maximum: return a == b ? a : NodeRef();
    default: return {};
  }
}

NodeRef comparison(ScalarOp op, const NodeRef& a, const NodeRef& b) {
  if (a != b || is_float(a->dtype)) return {};  // NaN is not equal to itself
  return same_shape_const(a, DType::boolean, op == ScalarOp::eq || op == ScalarOp::le);
}

NodeRef bitwise(ScalarOp op, const NodeRef& a, const NodeRef& b) {
  const heddle::Scalar* c = constant(b);
  switch (op) {
    case ScalarOp::bit_and:
      if (a == b || is_ones(c)) return a;
      return is_value(c, 0) ? b : NodeRef();
    case ScalarOp::bit_or:
      if (a == b || is_value(c, 0)) return a;
      return is_ones(c) ? b : NodeRef();
    case ScalarOp::bit_xor:
      if (a == b) return same_shape_const(a, a->dtype, 0);
      if (is_value(c, 0)) return a;
      return is_ones(c) ? make_scalar(ScalarOp::bit_not, std::span(&a, 1)) : NodeRef();
    default: return is_value(c, 0) ? a : NodeRef();  // shl, shr
  }
}

NodeRef choice(const NodeRef& condition, const NodeRef& yes, const NodeRef& no) {
  if (const heddle::Scalar* c = constant(condition))
    return c->as_bool() ? make_unmoved(yes, std::span(&no, 1)) : make_unmoved(no, std::span(&yes, 1));
  if (yes == no) return yes;
  if (!is_applied(condition, ScalarOp::bit_not)) return {};
  NodeRef swapped[] = {condition->inputs[0], no, yes};
  return make_scalar(ScalarOp::where, swapped);
}

}  // namespace

NodeRef scalar_identity(ScalarOp op, std::span<const NodeRef> inputs) {
  switch (op) {
    case ScalarOp::where: return choice(inputs[0], inputs[1], inputs[2]);
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::lt:
    case ScalarOp::le: return comparison(op, inputs[0], inputs[1]);
    case ScalarOp::bit_and:
    case ScalarOp::bit_or:
    case ScalarOp::bit_xor:
    case ScalarOp::shl:
    case ScalarOp::shr: return bitwise(op, inputs[0], inputs[1]);
    default: break;
  }
  if (inputs.size() == 1) return unary(op, inputs[0]);
  if (inputs.size() == 2) return identity(op, inputs[0], inputs[1]);
  return {};
}

}  // namespace heddle
