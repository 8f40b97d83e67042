// pow: 2^(y log2 |x|) with log2 in more precision than the result, then signs and special cases as in C.
#include <limits>

#include "kernel/math.h"

namespace heddle::kernel {
namespace {

constexpr double kLog2ELow = 0x1.777d0ffda0d24p-56;

Pair quick_sum(const Num& a, const Num& b) {  // |a| >= |b|
  Num sum = a + b;
  return {sum, b - (sum - a)};
}
Pair product(const Num& a, const Num& b) {
  Num high = a * b;
  return {high, fma(a, b, -high)};
}

// Of a double: a = 2^exponent (1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
struct DoubleParts {
  Num exponent, f;
};
DoubleParts parts_of(const Num& a) {
  Num tiny = less(a, 0x1p-1022);
  Num bits = choose(tiny, a * 0x1p54, a).bits_as(kI64);
  Num e = (bits - int64_t{0x3fe6a09e667f3bcd}) >> 52;
  Num m = (bits - (e << 52)).bits_as(kF64);
  return {e.cast(kF64) - choose(tiny, a.constant(54.0), a.constant(0.0)), m - 1.0};
}

// log2 of an f32 to about 33 bits: log2(1 + f) = 2 / ln 2 (s + s z / 3 + s z^2 R(z)), the first two terms as pairs.
Pair log2_short(const Num& a) {
  Num tiny = less(a, 0x1p-126);
  Num bits = choose(tiny, a * 0x1p24, a).bits_as(kI32);
  Num e = (bits - int64_t{0x3f3504f3}) >> 23;
  Num f = (bits - (e << 23)).bits_as(kF32) - 1.0;
  Num exponent = e.cast(kF32) - choose(tiny, a.constant(24.0), a.constant(0.0));
  // s = f / (2 + f)
  Pair divisor = quick_sum(f.constant(2.0), f);
  Num inverse = 1.0 / divisor.high;
  Num s = f * inverse;
  Num s_low = fma(-s, divisor.low, fma(-s, divisor.high, f)) * inverse;
  Pair z = product(s, s);
  z.low = fma(s + s, s_low, z.low);
  constexpr double third = 0x1.555556p-2, third_low = -0x1.555556p-27;
  Pair t = product(z.high, z.high.constant(third));
  t.low = fma(z.low, third, fma(z.high, third_low, t.low));
  t.low = fma(z.high * z.high, polynomial(z.high, {0x1.999ap-3, 0x1.24527cp-3, 0x1.dfa25p-4}), t.low);
  Pair u = product(s, t.high);
  u.low = fma(s, t.low, fma(s_low, t.high, u.low)) + s_low;
  constexpr double scale = 0x1.715476p+1, scale_low = 0x1.4ae0cp-25;  // 2 / ln 2
  Pair base2 = product(s, s.constant(scale));
  base2.low = fma(u.low, scale, fma(s, scale_low, base2.low));
  Pair head = quick_sum(exponent, base2.high);  // with exponent 0 exact either way round
  Num rest = head.low + base2.low;
  Num tail = fma(u.high, scale, rest);
  Num tail_low = fma(u.high, scale, -tail) + rest;
  Pair total = quick_sum(head.high, tail);
  return {total.high, total.low + tail_low};
}

// log2 to about 66 bits.
Pair log2_long(const Num& a) {
  auto [exponent, f] = parts_of(a);
  // s = f / (2 + f) as a pair; 2 + f is one, too.
  Pair divisor = quick_sum(f.constant(2.0), f);
  Num s = f / divisor.high;
  Num s_low = fma(-s, divisor.low, fma(-s, divisor.high, f)) / divisor.high;
  // atanh(s) / s - 1 = z / 3 + z^2 (1/5 + z (1/7 + ...)): the first term as a pair, the rest is small.
  Pair z = product(s, s);
  Num z_low = fma(s + s, s_low, z.low);
  Num rest =
      polynomial(z.high, {0x1.9999999999996p-3, 0x1.2492492492f4ap-3, 0x1.c71c71c597b81p-4, 0x1.745d1828bb4e9p-4,
                          0x1.3b1364f2c00acp-4, 0x1.1120692dee897p-4, 0x1.de3e5619ef155p-5, 0x1.eabecce8cf4a1p-5});
  constexpr double third = 0x1.5555555555555p-2, third_low = 0x1.5555555555555p-56;
  Pair first = product(z.high, z.high.constant(third));
  Num first_low = fma(z.high, third_low, fma(z_low, third, first.low));
  Pair series = quick_sum(first.high, fma(z.high * z.high, rest, first_low));
  // log(1 + f) = 2 s (1 + series)
  Num twice = s + s, twice_low = s_low + s_low;
  Pair scaled = product(twice, series.high);
  Num low = fma(twice, series.low, fma(twice_low, series.high, scaled.low)) + twice_low;
  Pair head = quick_sum(twice, scaled.high);
  Pair natural = quick_sum(head.high, head.low + low);
  // times log2(e), plus the exponent
  Pair base2 = product(natural.high, natural.high.constant(kLog2E));
  Num base2_low = fma(natural.high, kLog2ELow, fma(natural.low, kLog2E, base2.low));
  Pair total = quick_sum(exponent, base2.high);
  // With exponent 0 the sum is exact either way round.
  return quick_sum(total.high, total.low + base2_low);
}

// 2^(high + low)
Num exp2_of(const Num& high, const Num& low) {
  bool wide = high.is_double();
  Num bounded = smaller(larger(high, wide ? -1076.0 : -151.0), wide ? 1025.0 : 129.0);
  double shift = rounding_shift(high.dtype());
  Num shifted = bounded + shift;
  Num r = (bounded - (shifted - shift)) + low;
  return scale_by_power(small_exp2(r), shifted);
}

}  // namespace

Num expand_pow(const Num& x, const Num& y) {
  Num a = magnitude(x);
  // An exponent this large gives 0, 1 or infinity like any larger one, and its products stay finite.
  Num bounded = smaller(larger(y, -0x1p70), 0x1p70);
  Pair logarithm = x.is_double() ? log2_long(a) : log2_short(a);
  Pair exponent = product(bounded, logarithm.high);
  Num low = fma(bounded, logarithm.low, exponent.low);
  // Out of range the low part only gets in the way.
  Num inside = less(magnitude(exponent.high), x.is_double() ? 1100.0 : 160.0);
  Num result = exp2_of(exponent.high, choose(inside, low, low.constant(0.0)));
  Num negative_y = less(y, 0.0);
  Num zero_or_infinite = equal(a, 0.0) | equal(a, kInfinity);
  Num extreme = choose(equal(a, 0.0) ^ negative_y, x.constant(0.0), x.constant(kInfinity));
  result = choose(zero_or_infinite, extreme, result);

  Num integral = equal(y.apply(ScalarOp::trunc), y);
  Num half = y * 0.5;
  Num odd = integral & unequal(half.apply(ScalarOp::trunc), half);
  DType integer = x.is_double() ? kI64 : kI32;
  Num sign_bit = less(x.bits_as(integer), 0);
  result = choose(odd & sign_bit, -result, result);
  Num undefined = (less(x, 0.0) & less(a, kInfinity)) & integral.apply(ScalarOp::bit_not);
  result = choose(undefined | unequal(x, x) | unequal(y, y), x.constant(kNaN), result);
  return choose(equal(y, 0.0) | equal(x, 1.0), x.constant(1.0), result);
}

}  // namespace heddle::kernel
