// Graph values together with what is known of them: how large they get, and how far a correct implementation may be
// from the oracle. Every operation here keeps both, and refuses what would make a comparison meaningless.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "graph/host_storage.h"

namespace heddle::testing {

struct Value {
  NodeRef node;
  double bound = 0;  // |x| <= bound
  double error = 0;  // the greatest difference that rounding may make; 0: the bits are certain
  int grain = -1;    // floats: every element is a multiple of 2^-grain; -1: not known

  DType dtype() const { return node->dtype; }
  const Shape& shape() const { return node->shape; }
  bool certain() const { return error == 0; }
};

using MaybeValue = std::optional<Value>;

inline double integer_limit(DType dtype) {
  if (dtype == DType::boolean) return 1;
  return std::ldexp(1.0, 8 * size_of(dtype) - (is_signed(dtype) ? 1 : 0));
}

inline int significand_bits(DType dtype) { return precision(dtype); }

// The relative error of one operation, with room for math functions that are a few units off.
inline double unit(DType dtype) { return std::ldexp(1.0, (dtype == DType::f64 ? 6 : 2) - significand_bits(dtype)); }

inline bool is_lossless_float(DType from, DType to) { return size_of(from) < size_of(to); }

inline bool is_exact(DType dtype, double bound, int grain) {
  int finest = size_of(dtype) == 1 ? 7 : 50;  // f8 has few exponents
  return grain >= 0 && grain < finest && bound * std::ldexp(1.0, grain) <= std::ldexp(1.0, significand_bits(dtype));
}

// A float result with rounding added where needed; nothing if it is too large or too vague to compare.
inline MaybeValue float_result(NodeRef node, double bound, double error, int grain) {
  DType dtype = node->dtype;
  if (error > 0 || !is_exact(dtype, bound, grain)) {
    error += bound * unit(dtype);
    grain = -1;
  }
  if (bound > 1000 || error > 0.05 * std::max(1.0, bound)) return {};
  return Value{std::move(node), bound, error, grain};
}

inline Value integer_result(NodeRef node, double bound) {
  double limit = integer_limit(node->dtype);
  return Value{std::move(node), std::min(bound, limit), 0, 0};
}

// The same elements in another place.
inline Value moved(const Value& from, NodeRef node) {
  return Value{std::move(node), from.bound, from.error, from.grain};
}

inline Value constant(DType dtype, double value, const Shape& shape) {
  NodeRef node = number(dtype, value, shape);
  int grain = 0;
  while (grain < 8 && std::ldexp(value, grain) != std::floor(std::ldexp(value, grain))) ++grain;
  return Value{node, std::abs(node->literal.as_double()), 0, grain < 8 ? grain : -1};
}

inline MaybeValue unary(ScalarOp op, const Value& x) {
  auto make = [&] { return scalar_node(op, {x.node}); };
  if (!is_float(x.dtype())) {
    if (op == ScalarOp::abs && is_integer(x.dtype())) return integer_result(make(), x.bound);
    if (op == ScalarOp::neg && is_integer(x.dtype())) return integer_result(make(), integer_limit(x.dtype()));
    if (op == ScalarOp::bit_not) return integer_result(make(), integer_limit(x.dtype()));
    return {};
  }
  double b = x.bound, e = x.error;
  switch (op) {
    case ScalarOp::neg:
    case ScalarOp::abs: return moved(x, make());
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::trunc:
    case ScalarOp::round:
      if (!x.certain()) return {};
      return float_result(make(), std::ceil(b), 0, 0);
    case ScalarOp::exp: return b > 6 ? MaybeValue() : float_result(make(), std::exp(b), std::exp(b) * e * 1.1, -1);
    case ScalarOp::exp2: return b > 8 ? MaybeValue() : float_result(make(), std::exp2(b), std::exp2(b) * e, -1);
    case ScalarOp::expm1: return b > 6 ? MaybeValue() : float_result(make(), std::exp(b), std::exp(b) * e * 1.1, -1);
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tanh: return float_result(make(), 1, e, -1);
    case ScalarOp::erf: return float_result(make(), 1, 1.2 * e, -1);
    case ScalarOp::atan: return float_result(make(), 1.6, e, -1);
    case ScalarOp::asinh: return float_result(make(), std::asinh(b), e, -1);
    case ScalarOp::sinh:
    case ScalarOp::cosh: return b > 6 ? MaybeValue() : float_result(make(), std::cosh(b), std::cosh(b) * e * 1.1, -1);
    default: return {};  // sqrt and logarithms: see of_positive(); asin and its kin: of_small()
  }
}

inline MaybeValue binary(ScalarOp op, const Value& x, const Value& y) {
  DType dtypes[] = {x.dtype(), y.dtype()};
  if (!result_dtype(op, dtypes)) return {};
  auto make = [&] { return scalar_node(op, {x.node, y.node}); };
  int grain = x.grain < 0 || y.grain < 0 ? -1 : std::max(x.grain, y.grain);
  double a = x.bound, b = y.bound, e = x.error + y.error;
  switch (info(op).rule) {
    case OpRule::Compare:
      if (is_float(x.dtype()) && (!x.certain() || !y.certain())) return {};
      return integer_result(make(), 1);
    case OpRule::Logic:
    case OpRule::Shift: return integer_result(make(), integer_limit(x.dtype()));
    case OpRule::Order:
      if (!is_float(x.dtype())) return integer_result(make(), std::max(a, b));
      return Value{make(), std::max(a, b), std::max(x.error, y.error), grain};
    default: break;
  }
  if (!is_float(x.dtype())) {
    bool wraps = op == ScalarOp::sub && !is_signed(x.dtype());
    double bound = op == ScalarOp::add || op == ScalarOp::sub ? a + b : op == ScalarOp::mul ? a * b : std::max(a, b);
    double limit = integer_limit(x.dtype());
    return integer_result(make(), wraps || bound >= limit ? limit : bound);
  }
  switch (op) {
    case ScalarOp::add:
    case ScalarOp::sub: return float_result(make(), a + b, e, grain);
    case ScalarOp::mul:
      return float_result(make(), a * b, x.error * b + y.error * a + x.error * y.error,
                          grain < 0 ? -1 : x.grain + y.grain);
    case ScalarOp::scale: {  // the exponent is rounded down, so its bits must be certain
      if (!y.certain() || b > 4) return {};
      double most = std::exp2(std::ceil(b));
      return float_result(make(), a * most, x.error * most,
                          x.grain < 0 ? -1 : x.grain + static_cast<int>(std::ceil(b)));
    }
    default: return {};  // division and remainders: see divided()
  }
}

// x as floats in [low, ...): what a logarithm, a root or a divisor needs.
inline MaybeValue positive(const Value& x, double low) {
  MaybeValue size = unary(ScalarOp::abs, x);
  return size ? binary(ScalarOp::add, *size, constant(x.dtype(), low, x.shape())) : MaybeValue();
}

// A root or logarithm of something positive made from x.
inline MaybeValue of_positive(ScalarOp op, const Value& x) {
  bool known = op == ScalarOp::sqrt || op == ScalarOp::log || op == ScalarOp::log2 || op == ScalarOp::log10 ||
               op == ScalarOp::log1p || op == ScalarOp::cbrt || op == ScalarOp::acosh;
  if (!known || !is_float(x.dtype())) return {};
  double low = op == ScalarOp::acosh ? 1.5 : 0.5;
  MaybeValue p = positive(x, low);
  if (!p) return {};
  NodeRef node = scalar_node(op, {p->node});
  switch (op) {
    case ScalarOp::sqrt: return float_result(node, std::sqrt(p->bound), p->error, -1);
    case ScalarOp::log: return float_result(node, std::max(0.7, std::log(p->bound)), p->error / low, -1);
    case ScalarOp::log2: return float_result(node, std::max(1.0, std::log2(p->bound)), 1.5 * p->error / low, -1);
    case ScalarOp::log10: return float_result(node, std::max(0.4, std::log10(p->bound)), p->error / low, -1);
    case ScalarOp::cbrt: return float_result(node, std::cbrt(p->bound), p->error, -1);
    case ScalarOp::acosh: return float_result(node, std::acosh(p->bound), p->error, -1);
    default: return float_result(node, std::log1p(p->bound), p->error, -1);
  }
}

// Functions that are steep or undefined somewhere, of 0.75 sin(x).
inline MaybeValue of_small(ScalarOp op, const Value& x) {
  bool known = op == ScalarOp::tan || op == ScalarOp::asin || op == ScalarOp::acos || op == ScalarOp::atanh ||
               op == ScalarOp::erfinv;
  if (!known || !is_float(x.dtype())) return {};
  MaybeValue sine = float_result(scalar_node(ScalarOp::sin, {x.node}), 1, x.error, -1);
  if (!sine) return {};
  MaybeValue small = float_result(scalar_node(ScalarOp::mul, {sine->node, number(x.dtype(), 0.75, x.shape())}), 0.75,
                                  sine->error * 0.75, -1);
  if (!small) return {};
  return float_result(scalar_node(op, {small->node}), 2.5, small->error * 2.3, -1);
}

// The angle of (x, y), x not close to 0.
inline MaybeValue angle(const Value& y, const Value& x) {
  if (!is_float(x.dtype())) return {};
  MaybeValue p = positive(x, 0.5);
  if (!p) return {};
  return float_result(scalar_node(ScalarOp::atan2, {y.node, p->node}), 1.6, 2 * (y.error + p->error), -1);
}

inline MaybeValue divided(const Value& x, const Value& y) {
  if (!is_float(x.dtype())) return {};
  double low = 1;
  MaybeValue p = positive(y, low);
  if (!p) return {};
  return float_result(scalar_node(ScalarOp::div, {x.node, p->node}), x.bound / low,
                      x.error / low + p->error * x.bound / (low * low), -1);
}

// floordiv or mod by a constant that is not zero. Integers take any divisor.
inline MaybeValue remainder(ScalarOp op, const Value& x, double divisor) {
  if (is_float(x.dtype()) && (!x.certain() || x.grain < 0 || x.grain > 4 || x.bound > 200)) return {};
  if (x.dtype() == DType::boolean || (!is_float(x.dtype()) && !is_signed(x.dtype()) && divisor < 0)) return {};
  NodeRef node = scalar_node(op, {x.node, number(x.dtype(), divisor, x.shape())});
  double bound = op == ScalarOp::mod ? std::abs(divisor) : x.bound + 1;
  if (!is_float(x.dtype())) return integer_result(node, bound);
  return float_result(node, bound, 0, op == ScalarOp::mod ? x.grain : 0);
}

inline MaybeValue power(const Value& x, double exponent) {
  if (!is_float(x.dtype())) return {};
  MaybeValue p = positive(x, 0.5);
  if (!p || p->bound > 30) return {};
  double largest = std::max(std::pow(p->bound, exponent), std::pow(0.5, exponent));
  double slope = std::abs(exponent) * std::max(std::pow(p->bound, exponent - 1), std::pow(0.5, exponent - 1));
  NodeRef node = scalar_node(ScalarOp::pow, {p->node, number(x.dtype(), exponent, x.shape())});
  return float_result(node, largest, p->error * slope, -1);
}

inline MaybeValue fused_multiply_add(const Value& x, const Value& y, const Value& z) {
  if (!is_float(x.dtype())) return {};
  MaybeValue product = binary(ScalarOp::mul, x, y);
  MaybeValue sum = product ? binary(ScalarOp::add, *product, z) : MaybeValue();
  if (sum) sum->node = scalar_node(ScalarOp::fma, {x.node, y.node, z.node});
  return sum;
}

inline MaybeValue chosen(const Value& condition, const Value& x, const Value& y) {
  return Value{scalar_node(ScalarOp::where, {condition.node, x.node, y.node}), std::max(x.bound, y.bound),
               std::max(x.error, y.error), x.grain < 0 || y.grain < 0 ? -1 : std::max(x.grain, y.grain)};
}

inline MaybeValue cast_to(const Value& x, DType to) {
  DType from = x.dtype();
  if (from == to) return x;
  if (!is_float(from) && !is_float(to)) {
    bool fits = x.bound < integer_limit(to) && (is_signed(to) || !is_signed(from));
    return integer_result(make_cast(x.node, to), fits ? x.bound : integer_limit(to));
  }
  if (!is_float(from)) {
    // Keep numbers small enough to be exact.
    Value small = x;
    double mask = size_of(to) == 1 ? 7 : 31;
    if (!is_exact(to, x.bound, 0))
      small = integer_result(scalar_node(ScalarOp::bit_and, {x.node, number(from, mask, x.shape())}), mask);
    return Value{make_cast(small.node, to), small.bound, 0, 0};
  }
  if (!is_float(to)) {
    if (!x.certain()) return {};
    return integer_result(make_cast(x.node, to), x.bound);
  }
  bool rounded_alike = x.certain() && !(from == DType::f64 && size_of(to) == 2);
  if (is_lossless_float(from, to) || is_exact(to, x.bound, x.grain)) return moved(x, make_cast(x.node, to));
  if (x.bound * (1 + unit(to)) > upper_limit(to)) return {};
  if (rounded_alike) return Value{make_cast(x.node, to), x.bound * (1 + unit(to)), 0, -1};
  return float_result(make_cast(x.node, to), x.bound, x.error, -1);
}

// The bits of a float as an integer, or a float in [1, 2) from an integer's bits.
inline MaybeValue reinterpreted(const Value& x) {
  auto integer_of = [](int size) {
    return size == 1 ? DType::u8 : size == 2 ? DType::u16 : size == 4 ? DType::i32 : DType::i64;
  };
  int size = size_of(x.dtype());
  if (is_float(x.dtype())) {
    if (!x.certain()) return {};
    NodeRef positive_zero = scalar_node(ScalarOp::abs, {x.node});  // the sign of zero is nobody's promise
    return integer_result(make_bitcast(positive_zero, integer_of(size)), integer_limit(integer_of(size)));
  }
  if (size == 1) return {};
  DType to = size == 2 ? DType::bf16 : size == 4 ? DType::f32 : DType::f64;
  int fraction = significand_bits(to) - 1;
  uint64_t one = make_const(Scalar::of(to, 1.0))->literal.bits();
  auto bits = [&](uint64_t value) { return make_const(Scalar::from_bits(x.dtype(), value), x.shape()); };
  NodeRef low = scalar_node(ScalarOp::bit_and, {x.node, bits((uint64_t{1} << fraction) - 1)});
  return Value{make_bitcast(scalar_node(ScalarOp::bit_or, {low, bits(one)}), to), 2, 0, fraction};
}

// `node` combines up to `count` elements of x.
inline MaybeValue accumulated(ReduceOp op, const Value& x, const NodeRef& node, int64_t count) {
  bool order = op == ReduceOp::Max || op == ReduceOp::Min;
  double n = static_cast<double>(count);
  if (!is_float(x.dtype())) {
    double bound = order ? x.bound : op == ReduceOp::Sum ? x.bound * n : integer_limit(x.dtype());
    return integer_result(node, count == 0 ? integer_limit(x.dtype()) : bound);
  }
  if (order) return moved(x, node);
  if (op == ReduceOp::Sum) {
    // Partial sums may round as often as there are elements.
    MaybeValue sum = float_result(node, x.bound * n, x.error * n, x.grain);
    if (sum && !sum->certain()) sum->error += x.bound * n * n * unit(compute_dtype(x.dtype())) * 0.25;
    return sum;
  }
  double bound = std::pow(std::max(1.0, x.bound), n);
  if (n > 6 || bound > 100) return {};
  return float_result(node, bound, n * bound * (x.error + unit(x.dtype())), -1);
}

inline MaybeValue reduced_value(ReduceOp op, const Value& x, std::span<const int> axes, int64_t count) {
  if (x.dtype() == DType::boolean && (op == ReduceOp::Sum || op == ReduceOp::Prod)) return {};
  bool order = op == ReduceOp::Max || op == ReduceOp::Min;
  if (is_float(x.dtype()) && order && count == 0) return {};  // infinities
  return accumulated(op, x, make_reduce(op, x.node, axes), count);
}

inline MaybeValue scanned_value(ReduceOp op, const Value& x, int axis, int64_t count) {
  if (x.dtype() == DType::boolean && (op == ReduceOp::Sum || op == ReduceOp::Prod)) return {};
  return accumulated(op, x, make_scan(op, x.node, axis), std::max<int64_t>(count, 1));
}

}  // namespace heddle::testing
