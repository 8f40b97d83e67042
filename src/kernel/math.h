// The elementary functions as explicit arithmetic, the same on every target: built from native ops, casts, bit casts
// and fma, straight-line but for the arguments that need a longer way and are rare (where_any). f32 within 2 ulp, f64
// within 4 ulp, special values as in C.
//
// The polynomials are minimax fits of this project, in the form each comment states.
#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <vector>

#include "kernel/builder.h"

namespace heddle::kernel {

// A value under construction, so that formulas read as formulas. Constants take the dtype of the other operand.
struct Num {
  Builder* builder;
  Value value;

  DType dtype() const { return builder->type(value).dtype; }
  bool is_double() const { return dtype() == DType::f64; }
  Num constant(double number) const { return {builder, builder->constant(Scalar::of(dtype(), number))}; }
  Num constant(int64_t number) const { return {builder, builder->constant(Scalar::of(dtype(), number))}; }
  Num constant(int number) const { return constant(int64_t{number}); }
  Num constant(uint64_t number) const { return {builder, builder->constant(Scalar::of(dtype(), number))}; }
  Num apply(ScalarOp op, std::initializer_list<Num> rest = {}) const {
    SmallVector<Value, 3> args{value};
    for (const Num& n : rest) args.push_back(n.value);
    return {builder, builder->op(op, std::span<const Value>(args))};
  }
  Num cast(DType to) const { return {builder, builder->cast(value, to)}; }
  Num bits_as(DType to) const { return {builder, builder->bitcast(value, to)}; }
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLog2E = 0x1.71547652b82fep+0;

// An unevaluated sum, |low| at most half an ulp of high.
struct Pair {
  Num high, low;
};

#define HD_NUM_BINARY(name, op)                                                      \
  inline Num name(const Num& a, const Num& b) { return a.apply(ScalarOp::op, {b}); } \
  template <class Number>                                                            \
    requires std::is_arithmetic_v<Number>                                            \
  Num name(const Num& a, Number b) {                                                 \
    return a.apply(ScalarOp::op, {a.constant(b)});                                   \
  }                                                                                  \
  template <class Number>                                                            \
    requires std::is_arithmetic_v<Number>                                            \
  Num name(Number a, const Num& b) {                                                 \
    return b.constant(a).apply(ScalarOp::op, {b});                                   \
  }
HD_NUM_BINARY(operator+, add)
HD_NUM_BINARY(operator-, sub)
HD_NUM_BINARY(operator*, mul)
HD_NUM_BINARY(operator/, div)
HD_NUM_BINARY(operator&, bit_and)
HD_NUM_BINARY(operator|, bit_or)
HD_NUM_BINARY(operator^, bit_xor)
HD_NUM_BINARY(operator<<, shl)
HD_NUM_BINARY(operator>>, shr)
HD_NUM_BINARY(less, lt)
HD_NUM_BINARY(less_equal, le)
HD_NUM_BINARY(equal, eq)
HD_NUM_BINARY(unequal, ne)
HD_NUM_BINARY(smaller, minimum)
HD_NUM_BINARY(larger, maximum)
#undef HD_NUM_BINARY

inline Num operator-(const Num& a) { return a.apply(ScalarOp::neg); }
inline Num magnitude(const Num& a) { return a.apply(ScalarOp::abs); }
inline Num fma(const Num& a, const Num& b, const Num& c) { return a.apply(ScalarOp::fma, {b, c}); }
inline Num fma(const Num& a, double b, const Num& c) { return fma(a, a.constant(b), c); }
inline Num fma(const Num& a, const Num& b, double c) { return fma(a, b, a.constant(c)); }
inline Num fma(const Num& a, double b, double c) { return fma(a, a.constant(b), a.constant(c)); }
inline Num choose(const Num& condition, const Num& yes, const Num& no) {
  return condition.apply(ScalarOp::where, {yes, no});
}

// rare() if some element's condition holds, else usual(). rare() computes what is right for all elements, as many
// values as usual() gives; at tile level and in reducers, where nothing can be jumped over, it is what is always
// computed.
std::vector<Num> where_any(const Num& condition, const std::function<std::vector<Num>()>& usual,
                           const std::function<std::vector<Num>()>& rare);

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule.
Num polynomial(const Num& x, std::initializer_list<double> c);
Num polynomial_for(const Num& x, std::initializer_list<double> for_f32, std::initializer_list<double> for_f64);
// The sign bit of `sign` or-ed into a value that is not negative.
Num with_sign(const Num& value, const Num& sign);

// How powers of two are made of f32: by the op `scale`, an instruction of CPUs, or of integers. Both are exact.
// Machines of the second kind, GPUs, have an instruction for exp2 of f32, which is left to them where the operand is
// the maximum of something and a constant that is not below kLeastExponent.
inline constexpr double kLeastExponent = -126;  // of a normal f32
// With this bound subnormal results may be 0.
inline constexpr double kExp2Flushes = kLeastExponent - 1;
enum class Powers { Scale, Integers };

// Operands are of dtype f32 or f64.
Num expand_exp(const Num& x, Powers powers = Powers::Scale);
Num expand_exp2(const Num& x, Powers powers = Powers::Scale);
// e^x for a result that is rounded to f16 or bf16 at once, by the machine's exp2.
Num expand_rounded_exp(const Num& x);
Num expand_expm1(const Num& x);
Num expand_tanh(const Num& x);
Num expand_log(const Num& x);
Num expand_log2(const Num& x);
Num expand_log10(const Num& x);
Num expand_log1p(const Num& x);
Num expand_pow(const Num& x, const Num& y);
Num expand_sin(const Num& x);
Num expand_cos(const Num& x);
Num expand_tan(const Num& x);
Num expand_asin(const Num& x);
Num expand_acos(const Num& x);
Num expand_atan(const Num& x);
Num expand_atan2(const Num& y, const Num& x);
Num expand_sinh(const Num& x);
Num expand_cosh(const Num& x);
Num expand_asinh(const Num& x);
Num expand_acosh(const Num& x);
Num expand_atanh(const Num& x);
Num expand_erf(const Num& x, Powers powers = Powers::Scale);
Num expand_erfinv(const Num& x);
Num expand_cbrt(const Num& x);

// log(x) + exponent ln 2 + small for a positive normal x, where |small| is at most an ulp or so of the result.
Num log_and(const Num& x, const Num& small, const Num& exponent);

// 2^r for |r| <= 1/2, and its product with 2^n where `shifted` is n + 1.5 * 2^(mantissa bits), the sum that rounds to
// an integer: the bits of n are the low ones. Right down to subnormal results and up to infinity for
// n in [-1076, 1025] (f64) or [-152, 129] (f32).
Num small_exp2(const Num& r);
Num scale_by_power(const Num& value, const Num& shifted);
double rounding_shift(DType dtype);
// 2^(n + offset) where that is a normal number.
Num power_of_two(const Num& shifted, int offset);

}  // namespace heddle::kernel
