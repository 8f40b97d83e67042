// exp, exp2, expm1, tanh: x = n ln 2 + r, |r| <= ln 2 / 2, and a polynomial for e^r.
#include "kernel/math.h"

namespace heddle::kernel {
namespace {

struct Reduced {
  Num shifted;  // n + rounding_shift: n sits in the low bits
  Num n;
  Num r;
};

// x = n ln 2 + r. The first part of ln 2 is short, so that n times it is exact.
Reduced reduce(const Num& x, double shift) {
  Num shifted = fma(x, kLog2E, shift);
  Num n = shifted - shift;
  bool wide = x.is_double();
  Num r = fma(n, wide ? -0x1.62e42fefa2p-1 : -0x1.62e4p-1, x);
  return {shifted, n, fma(n, wide ? -0x1.9ef35793c7673p-41 : -0x1.7f7d1cp-20, r)};
}

Reduced reduce(const Num& x) { return reduce(x, rounding_shift(x.dtype())); }

// (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2.
Num tail(const Num& r) {
  return polynomial_for(r, {0.5, 0x1.55548ep-3, 0x1.5554d8p-5, 0x1.123bdep-7, 0x1.6d5f2ep-10},
                        {0x1.000000000000cp-1, 0x1.555555555555dp-3, 0x1.555555554fdffp-5, 0x1.111111110e4d2p-7,
                         0x1.6c16c18609c0ap-10, 0x1.a01a01b643587p-13, 0x1.a01995b0b7d04p-16, 0x1.71dde99bce127p-19,
                         0x1.28b102191b14ep-22, 0x1.af769bae10b71p-26});
}

// f64 only. In place of rounding_shift: the low bits hold n and twice the bias of exponents, as scale_by_halves wants
// it.
constexpr double kScalingShift = 0x1.8p52 + 2 * 1023;

// A result below the normal numbers, as a multiple of the smallest number. As a product of floats it would take a CPU
// a hundred times as long.
constexpr int kSmallest32 = 149, kSmallest64 = 1074;  // 2^-149, 2^-1074

Num is_subnormal_power(const Num& n) { return less(n, n.is_double() ? -1022.0 : -126.0); }

// The float whose bits are `multiple`, rounded to an integer. Only for 0 <= multiple < 2^(mantissa bits).
Num multiple_of_smallest(const Num& multiple) {
  bool wide = multiple.is_double();
  int64_t bits_of_unit = wide ? int64_t{1023 + 52} << 52 : int64_t{127 + 23} << 23;
  Num rounded = multiple + (wide ? 0x1p52 : 0x1p23);
  return (rounded.bits_as(wide ? kI64 : kI32) - bits_of_unit).bits_as(multiple.dtype());
}

// value * 2^n, the low bits of the integer `biased` being n and twice the bias. Two steps, half of n each, for 2^n
// alone may be out of range: the halves of `biased` are the exponent fields of the two factors. Shifting left drops the
// rest.
Num scale_by_halves(const Num& value, const Num& n, const Num& biased) {
  bool wide = value.is_double();
  int mantissa = wide ? 52 : 23;
  Num subnormal = is_subnormal_power(n);
  Num raised = biased + choose(subnormal, biased.constant(wide ? kSmallest64 : kSmallest32), biased.constant(0));
  Num whole = raised << mantissa;
  Num half = (raised >> 1) << mantissa;
  Num product = value * half.bits_as(value.dtype()) * (whole - half).bits_as(value.dtype());
  return choose(subnormal, multiple_of_smallest(product), product);
}

// value * 2^n for n >= -152, by the op `scale`. f32 only.
Num scale_narrow(const Num& value, const Num& n) {
  auto product = [&](const Num& by) { return value.apply(ScalarOp::scale, {by}); };
  Num subnormal = is_subnormal_power(n);
  return where_any(
      subnormal, [&] { return std::vector{product(n)}; },
      [&] {
        Num raised = product(n + choose(subnormal, n.constant(double{kSmallest32}), n.constant(0.0)));
        return std::vector{choose(subnormal, multiple_of_smallest(raised), raised)};
      })[0];
}

}  // namespace

double rounding_shift(DType dtype) { return dtype == kF64 ? 0x1.8p52 : 0x1.8p23; }

Num power_of_two(const Num& shifted, int offset) {
  bool wide = shifted.is_double();
  DType integer = wide ? kI64 : kI32;
  int mantissa = wide ? 52 : 23;
  int64_t bias = (wide ? 1023 : 127) + offset;
  return ((shifted.bits_as(integer) << mantissa) + (bias << mantissa)).bits_as(shifted.dtype());
}

Num scale_by_power(const Num& value, const Num& shifted) {
  bool wide = value.is_double();
  Num n = shifted - rounding_shift(shifted.dtype());
  return scale_by_halves(value, n, shifted.bits_as(wide ? kI64 : kI32) + (wide ? 2 * 1023 : 2 * 127));
}

Num small_exp2(const Num& r) {
  // (2^r - 1) / r
  Num p = polynomial_for(r, {0x1.62e43p-1, 0x1.ebfbe4p-3, 0x1.c6af72p-5, 0x1.3b2764p-7, 0x1.5f0dd6p-10, 0x1.4615cep-13},
                         {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c5a5p-3, 0x1.c6b08d704a189p-5, 0x1.3b2ab6fb9ff49p-7,
                          0x1.5d87fe7887469p-10, 0x1.4309130f330b2p-13, 0x1.ffcbfce31fc0fp-17, 0x1.62bfc6c1d1200p-20,
                          0x1.b524126fca383p-24, 0x1.e61cbe363492dp-28, 0x1.eb168d9176ff9p-32});
  return fma(p, r, 1.0);
}

namespace {

Num wide_exp(const Num& x) {
  // Beyond these the result is 0 or infinity, and n would leave the range of scale_by_halves.
  auto [shifted, n, r] = reduce(smaller(larger(x, -746.0), 710.0), kScalingShift);
  return scale_by_halves(fma(fma(tail(r), r, 1.0), r, 1.0), n, shifted.bits_as(kI64));
}

// 2^(x factor) by the machine's 2^r: x factor = n + r, n so bounded that 2^n is a normal number. Where n stays behind,
// r takes the rest, and the product is right down to subnormal results and up to infinity. `low` is what an f32 leaves
// of the factor, not negative, so that infinities stay what they are.
Num exp_by_exp2(const Num& x, double factor, double low) {
  const double shift = rounding_shift(kF32) + 127;  // the low bits hold the exponent field of 2^n
  Num product = factor == 1 ? x + shift : fma(x, factor, shift);
  Num shifted = smaller(larger(product, shift - 126), shift + 127);
  Num rest = shift - shifted;
  Num r = factor == 1 ? x + rest : fma(x, low, fma(x, factor, rest));
  // Not below the normal numbers: the instruction then needs no care for subnormal ones, which costs more, and errs
  // more there.
  Num power = larger(r, kLeastExponent).apply(ScalarOp::exp2);
  return power * (shifted.bits_as(kI32) << 23).bits_as(kF32);
}

Num narrow_exp(const Num& x, Powers powers) {
  if (powers == Powers::Integers) return exp_by_exp2(x, kLog2E, 0x1.4ae0cp-26);
  Num bounded = smaller(larger(x, -104.0), 89.0);  // beyond, r would not be small
  Num n = (bounded * kLog2E).apply(ScalarOp::round);
  Num r = fma(n, -0x1.7f7d1cp-20, fma(n, -0x1.62e4p-1, bounded));
  // (e^r - 1) / r, shorter than tail(), its error weighed by the ulp of e^r.
  Num slope = polynomial(r, {0x1.ffffeep-1, 0x1.fffdc0p-2, 0x1.555d52p-3, 0x1.573c1cp-5, 0x1.0eb33ep-7});
  return scale_narrow(fma(slope, r, 1.0), n);
}

Num wide_exp2(const Num& x) {
  Num bounded = smaller(larger(x, -1076.0), 1025.0);
  Num shifted = bounded + kScalingShift;
  Num n = shifted - kScalingShift;
  return scale_by_halves(small_exp2(bounded - n), n, shifted.bits_as(kI64));
}

Num narrow_exp2(const Num& x) {
  // Infinity needs no bound: r is NaN then, and scale looks at n alone.
  Num bounded = larger(x, -152.0);
  Num n = bounded.apply(ScalarOp::round);
  Num r = bounded - n;
  // (2^r - 1) / r, shorter than in small_exp2(), its error weighed by the ulp of 2^r.
  Num slope = polynomial(r, {0x1.62e424p-1, 0x1.ebf9b6p-3, 0x1.c6babcp-5, 0x1.3cec48p-7, 0x1.5aab6ap-10});
  return scale_narrow(fma(slope, r, 1.0), n);
}

}  // namespace

Num expand_exp(const Num& x, Powers powers) { return x.is_double() ? wide_exp(x) : narrow_exp(x, powers); }
Num expand_exp2(const Num& x, Powers powers) {
  if (x.is_double()) return wide_exp2(x);
  return powers == Powers::Integers ? exp_by_exp2(x, 1, 0) : narrow_exp2(x);
}

// The product is off by 2^-24 of itself, 2^-17 at most: an f16 or bf16 keeps next to nothing of that. From the bound on
// results are below the normal numbers, and may become 0.
Num expand_rounded_exp(const Num& x) { return larger(x * kLog2E, kExp2Flushes).apply(ScalarOp::exp2); }

Num expand_expm1(const Num& x) {
  bool wide = x.is_double();
  Num bounded = smaller(larger(x, wide ? -40.0 : -20.0), wide ? 710.0 : 89.0);
  auto [shifted, n, r] = reduce(bounded);
  // 2^n (e^r - 1) + 2^n - 1, halved so that n = 1024 (128) does not overflow early. The large parts come last, the
  // small correction first: each is rounded once.
  Num half_power = power_of_two(shifted, -1);
  Num correction = tail(r) * r * r;
  Num half = fma(half_power, correction, fma(half_power, r, half_power - 0.5));
  // Keeps -0, and subnormals that halving would round.
  return choose(less(magnitude(x), wide ? 0x1p-54 : 0x1p-25), x, half + half);
}

namespace {

// f64.
Num wide_tanh(const Num& x) {
  Num a = magnitude(x);
  Num bounded = smaller(a, 20.0);
  Num twice = bounded + bounded;
  auto [shifted, n, r] = reduce(twice);
  // tanh a = t / (t + 2) with t = e^2a - 1.
  Num power = power_of_two(shifted, 0);
  Num t = fma(power, tail(r) * r * r, fma(power, r, power - 1.0));
  Num quotient = t / (t + 2.0);
  // Close to zero t/2 (1 - quotient) is the same with less of the quotient's rounding in it.
  Num half = t * 0.5;
  Num result = choose(less(a, 0.25), fma(-half, quotient, half), quotient);
  return with_sign(result, x);
}

// f32: a = m ln 2 + s, and tanh of a sum. With u = tanh s and h = 4^m / 2
//   tanh a = u                                           for m = 0
//   tanh a = 1 + (u - 1) / (h + 1/2 + u (h - 1/2))       otherwise
// m is 0 up to tanh a = 1/2: beyond, the quotient's rounding does not weigh more than the result's.
Num narrow_tanh(const Num& x) {
  Num a = smaller(magnitude(x), 10.0);
  double shift = rounding_shift(kF32) + 63;  // 2 (m + 63) is the exponent field of h
  Num shifted = fma(a - 0.203, kLog2E, shift);
  Num m = shifted - shift;
  Num s = fma(m, -0x1.62e43p-1, a);
  Num square = s * s;
  // (tanh s - s) / s^3 for |s| <= 0.55
  Num u = fma(polynomial(square, {-0x1.555452p-2, 0x1.10cefcp-3, -0x1.af7d36p-5, 0x1.0d5176p-6}), s * square, s);
  Num one = smaller(m, 1.0);  // 0 for m = 0
  Num h = (shifted.bits_as(kI32) << 24).bits_as(kF32);
  return with_sign(one + (u - one) / fma(u, h - 0.5, h + 0.5), x);
}

}  // namespace

Num expand_tanh(const Num& x) { return x.is_double() ? wide_tanh(x) : narrow_tanh(x); }

}  // namespace heddle::kernel
