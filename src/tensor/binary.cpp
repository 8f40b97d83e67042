#include <limits>

#include "base/error.h"
#include "base/fork.h"
#include "graph/gradient.h"
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
  bool tensors = a.kind() == Operand::Kind::Tensor && b.kind() == Operand::Kind::Tensor;
  if (tensors && is_float(dtype) && is_integer(a.tensor().dtype()) && is_integer(b.tensor().dtype()))
    throw DTypeError(text(op, ": no integer dtype holds both ", a.tensor().dtype(), " and ", b.tensor().dtype(),
                          "; cast one of them"));
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
namespace {

// Floats whose sign bits are those of `sign`.
NodeRef with_sign(const NodeRef& x, const NodeRef& sign) {
  DType whole = signed_of_size(size_of(x->dtype));
  NodeRef zero = make_const(Scalar::of(whole, 0), x->shape), size = scalar_node(ScalarOp::abs, {x});
  NodeRef minus = scalar_node(ScalarOp::lt, {make_bitcast(sign, whole), zero});
  return scalar_node(ScalarOp::where, {minus, scalar_node(ScalarOp::neg, {size}), size});
}

// The remainder with the sign of the dividend. Of two positive numbers it is exact, whatever their ratio.
Tensor truncated_remainder(const Pair& p) {
  Tensor a(p.a), b(p.b);
  if (is_float(a.dtype())) return Tensor(with_sign(mod(abs(a), abs(b)).node(), p.a));
  Tensor rest = binary(ScalarOp::mod, p);
  if (!is_signed(a.dtype())) return rest;
  return where(logical_and(ne(rest, 0), ne(lt(a, 0), lt(b, 0))), sub(rest, b), rest);
}

// NumPy's: consistent with mod() where a / b would round up to the next whole number.
Tensor floor_divide(const Pair& p) {
  if (!is_float(p.a->dtype)) return binary(ScalarOp::floordiv, p);
  Tensor a(p.a), b(p.b), rest = truncated_remainder(p), quotient = div(a, b);
  Tensor whole = div(sub(a, rest), b);
  whole = where(logical_and(ne(rest, 0), ne(lt(b, 0), lt(rest, 0))), sub(whole, 1), whole);
  Tensor down = floor(whole);
  down = where(gt(sub(whole, down), 0.5), add(down, 1), down);
  down = where(eq(whole, 0), Tensor(with_sign(zeros_like(a).node(), quotient.node())), down);
  return where(eq(b, 0), quotient, down);
}

}  // namespace

Tensor floordiv(const Operand& a, const Operand& b) { return floor_divide(arithmetic("floordiv", a, b)); }
Tensor mod(const Operand& a, const Operand& b) { return binary(ScalarOp::mod, arithmetic("mod", a, b)); }
Tensor remainder(const Operand& a, const Operand& b) { return binary(ScalarOp::mod, arithmetic("remainder", a, b)); }
Tensor fmod(const Operand& a, const Operand& b) {
  Pair p = arithmetic("fmod", a, b);
  Tensor rest = truncated_remainder(p);
  if (!is_float(p.a->dtype)) return rest;
  // What it is made of has no derivative at 0; a - n * b has.
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto rule = std::make_shared<const GradientRule>(
      GradientRule{"fmod", [](const Node& node, const NodeRef& g, GradientRule::Wanted) -> std::vector<NodeRef> {
                     Tensor value(NodeRef::share(&node)), dividend(node.inputs[1]), divisor(node.inputs[2]);
                     Tensor times = round(div(sub(dividend, value), divisor));
                     return {g, scaled(g, neg(times).node())};
                   }});
  NodeRef inputs[] = {p.a, p.b};
  return Tensor(make_pullback(rest.node(), inputs, rule));
}
std::pair<Tensor, Tensor> divmod(const Operand& a, const Operand& b) {
  Pair p = arithmetic("divmod", a, b);
  return {floor_divide(p), binary(ScalarOp::mod, p)};
}
namespace {

bool is_whole(const Operand& x) {
  return x.kind() == Operand::Kind::Tensor ? is_integer(x.tensor().dtype()) : x.kind() == Operand::Kind::Integer;
}

// By squaring, for each bit of the exponent. What a negative exponent gives is cut off at the point.
Tensor integer_power(const Pair& p) {
  Tensor base(p.a), exponent(p.b), result = ones_like(base), square_of = base;
  const bool negative = is_signed(exponent.dtype());
  const Tensor size = negative ? abs(exponent) : exponent;
  const int bits = 8 * size_of(exponent.dtype()) - (negative ? 1 : 0);
  for (int bit = 0; bit < bits; ++bit) {
    if (bit > 0) square_of = square(square_of);
    result = where(ne(bitwise_and(shift_right(size, bit), 1), 0), mul(result, square_of), result);
  }
  if (!negative) return result;
  return where(lt(exponent, 0), where(eq(abs(base), 1), result, 0), result);
}

}  // namespace

Tensor pow(const Operand& a, const Operand& b) {
  if (a.kind() != Operand::Kind::Tensor || b.kind() == Operand::Kind::Tensor)
    return is_whole(a) && is_whole(b) ? integer_power(arithmetic("pow", a, b))
                                      : binary(ScalarOp::pow, floats("pow", a, b));
  const Tensor& x = a.tensor();
  if (is_integer(x.dtype()) && b.kind() == Operand::Kind::Integer) {
    if (b.integer() < 0)
      throw ValueError(text("pow: integers to the power ", b.integer(), " are no integers; cast first"));
    OnDeviceOf there(x);
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
Tensor copysign(const Operand& a, const Operand& b) {
  Pair p = floats("copysign", a, b);
  return Tensor(make_unmoved(with_sign(p.a, p.b), std::span(&p.b, 1)));
}
Tensor nextafter(const Operand& a, const Operand& b) {
  Pair p = floats("nextafter", a, b);
  Tensor x(p.a), y(p.b);
  DType whole = signed_of_size(size_of(x.dtype()));
  // The bits of floats of one sign are in the order of their sizes.
  Tensor bits = bitcast(x, whole), away = eq(lt(x, y), lt(0, x));
  Tensor next = bitcast(where(away, add(bits, 1), sub(bits, 1)), x.dtype());
  Tensor smallest = Tensor(make_const(Scalar::from_bits(x.dtype(), 1), p.a->shape));
  next = where(eq(x, 0), Tensor(with_sign(smallest.node(), p.b)), next);
  next = where(eq(x, y), y, next);
  return where(logical_or(isnan(x), isnan(y)), std::numeric_limits<double>::quiet_NaN(), next);
}
namespace {
// Of hypot: each side divided by it, at every order.
std::vector<NodeRef> hypot_gradients(const Node& node, const NodeRef& g, GradientRule::Wanted) {
  Tensor size(NodeRef::share(&node)), arriving(g);
  Tensor none = logical_or(eq(size, 0), isinf(size)), divisor = where(none, 1, size);
  auto of = [&](const NodeRef& side) { return mul(arriving, where(none, 0, div(Tensor(side), divisor))).node(); };
  return {of(node.inputs[1]), of(node.inputs[2])};
}
}  // namespace
Tensor hypot(const Operand& a, const Operand& b) {
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto rule = std::make_shared<const GradientRule>(GradientRule{"hypot", hypot_gradients});
  Pair p = floats("hypot", a, b);
  Tensor x = abs(Tensor(p.a)), y = abs(Tensor(p.b)), result;
  if (x.dtype() == kF64) {
    Tensor large = maximum(x, y), ratio = div(minimum(x, y), large);
    result = where(eq(large, 0), large, mul(large, sqrt(add(1, square(ratio)))));
  } else {  // the squares of f32 neither overflow nor vanish in f64
    result = cast(sqrt(add(square(cast(x, kF64)), square(cast(y, kF64)))), x.dtype());
  }
  double infinity = std::numeric_limits<double>::infinity();
  result = where(logical_or(eq(x, infinity), eq(y, infinity)), infinity, result);
  NodeRef inputs[] = {p.a, p.b};
  return Tensor(make_pullback(result.node(), inputs, rule));
}
namespace {
// max(a, b) + f(-|a - b|), with comparisons, which have the right derivatives where a = b. Equal infinities have no
// difference.
template <class F>
Tensor log_add(const Pair& p, F of_difference) {
  Tensor x(p.a), y(p.b), first = gt(x, y);
  Tensor same = logical_and(eq(x, y), isinf(x));
  Tensor difference = where(same, 0, where(first, sub(y, x), sub(x, y)));
  return where(same, mul(add(x, y), 0.5), add(where(first, x, y), of_difference(difference)));
}
}  // namespace
Tensor logaddexp(const Operand& a, const Operand& b) {
  return log_add(floats("logaddexp", a, b), [](const Tensor& d) { return log1p(exp(d)); });
}
Tensor logaddexp2(const Operand& a, const Operand& b) {
  Pair p = floats("logaddexp2", a, b);
  DType dtype = p.a->dtype;
  // The two terms of the sum may nearly cancel.
  Pair wide{make_cast(p.a, kF64), make_cast(p.b, kF64)};
  return cast(log_add(wide, [](const Tensor& d) { return mul(log1p(exp2(d)), 1.44269504088896340736); }), dtype);
}
Tensor xlogy(const Operand& a, const Operand& b) {
  Pair p = floats("xlogy", a, b);
  Tensor x(p.a), y(p.b);
  // Only where the logarithm has no value: elsewhere x = 0 is a point like others, with a derivative.
  Tensor none = logical_and(eq(x, 0), logical_or(le(y, 0), isposinf(y)));
  return where(none, 0, mul(x, log(where(none, 1, y))));
}
Tensor heaviside(const Tensor& x, const Operand& at_zero) {
  Pair p = floats("heaviside", x, at_zero);
  Tensor f(p.a);
  Tensor result = where(eq(f, 0), Tensor(p.b), cast(gt(f, 0), f.dtype()));
  return where(isnan(f), f, result);
}
Tensor minimum(const Operand& a, const Operand& b) { return binary(ScalarOp::minimum, promote_pair("minimum", a, b)); }
Tensor maximum(const Operand& a, const Operand& b) { return binary(ScalarOp::maximum, promote_pair("maximum", a, b)); }
Tensor fmin(const Operand& a, const Operand& b) {
  Pair p = promote_pair("fmin", a, b);
  Tensor x(p.a), y(p.b);
  return where(isnan(x), y, where(isnan(y), x, minimum(x, y)));
}
Tensor fmax(const Operand& a, const Operand& b) {
  Pair p = promote_pair("fmax", a, b);
  Tensor x(p.a), y(p.b);
  return where(isnan(x), y, where(isnan(y), x, maximum(x, y)));
}
Tensor clamp(const Tensor& given, const Operand& low, const Operand& high) {
  Tensor x(given.node());
  Tensor y =
      binary(ScalarOp::minimum, promote_pair("clamp", binary(ScalarOp::maximum, promote_pair("clamp", x, low)), high));
  bool numbers = low.kind() != Operand::Kind::Tensor && high.kind() != Operand::Kind::Tensor;
  if (!numbers || !is_float(x.dtype())) return y;
  // An element at a limit is still inside, and has a gradient.
  auto rule = std::make_shared<GradientRule>();
  rule->name = "clamp";
  rule->pull = [from = low.real(), to = high.real()](const Node& node, const NodeRef& g, GradientRule::Wanted) {
    Tensor in(node.inputs[1]);
    return std::vector<NodeRef>{where(logical_and(ge(in, from), le(in, to)), Tensor(g), 0).node()};
  };
  NodeRef n = x.node();
  return Tensor(make_pullback(y.node(), std::span(&n, 1), rule));
}
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

Tensor lerp(const Tensor& a, const Tensor& b, const Operand& weight) {
  Pair p = floats("lerp", a, b);
  Tensor x(p.a), y(p.b), distance = sub(y, x);
  if (weight.kind() != Operand::Kind::Tensor) {
    double w = weight.real();
    return w < 0.5 ? add(x, mul(distance, w)) : sub(y, mul(distance, 1 - w));
  }
  const Tensor& w = weight.tensor();
  promote_pair("lerp", x, w);  // names the operator when the shapes do not fit
  return where(lt(w, 0.5), add(x, mul(distance, w)), sub(y, mul(distance, sub(1, w))));
}

Tensor isclose(const Operand& a, const Operand& b, double relative, double absolute, bool equal_nan) {
  Pair p = promote_pair("isclose", a, b);
  // Integers in f64, which tells more of them apart; small floats in f32.
  DType wide = is_float(p.a->dtype) ? compute_dtype(p.a->dtype) : kF64;
  Tensor x(make_cast(p.a, wide)), y(make_cast(p.b, wide));
  Tensor near = le(abs(sub(x, y)), add(mul(abs(y), relative), absolute));
  // Infinities are close to themselves only.
  Tensor result = logical_or(eq(x, y), logical_and(near, isfinite(y)));
  return equal_nan ? logical_or(result, logical_and(isnan(x), isnan(y))) : result;
}
bool allclose(const Operand& a, const Operand& b, double relative, double absolute, bool equal_nan) {
  promote_pair("allclose", a, b);  // names the operator when the shapes do not fit
  return all(isclose(a, b, relative, absolute, equal_nan)).item<bool>();
}
bool equal(const Tensor& a, const Tensor& b) { return a.shape() == b.shape() && all(eq(a, b)).item<bool>(); }

}  // namespace heddle
