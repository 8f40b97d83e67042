// asin, acos, atan, atan2.
//
// atan(n / d) for 0 <= n <= d is t + t^3 P(t^2) with t = n / d; in f64 t is first brought below tan(pi/8) by
// atan(n / d) = pi/4 + atan((n - d) / (n + d)).
// asin(s) = s + s^3 P(s^2) up to 1/2, and asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) beyond.
#include <limits>

#include "kernel/math.h"

namespace heddle::kernel {
namespace {

// A constant and what its rounding left over.
struct Parts {
  double high, low;
};
Parts half_pi(const Num& like) {
  if (like.is_double()) return {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  return {0x1.921fb6p+0, -0x1.777a5cp-25};
}

struct Angle {
  Num quarters, rest;  // quarters * pi/4 + rest
};

// atan(numerator / denominator), 0 <= numerator <= denominator, denominator positive.
Angle first_octant(const Num& numerator, const Num& denominator) {
  Num quarters = numerator.constant(0.0), t = quarters;
  if (numerator.is_double()) {
    Num upper = less(denominator * 0x1.a827999fcef32p-2, numerator);
    t = choose(upper, numerator - denominator, numerator) / choose(upper, numerator + denominator, denominator);
    quarters = choose(upper, quarters.constant(1.0), quarters);
  } else {
    t = numerator / denominator;
  }
  Num z = t * t;
  Num p = polynomial_for(z,
                         {-0x1.55553ep-2, 0x1.9991e4p-3, -0x1.242086p-3, 0x1.c08c58p-4, -0x1.580988p-4, 0x1.da2d7ep-5,
                          -0x1.fd8b58p-6, 0x1.643d0ep-7, -0x1.d39d5p-10},
                         {-0x1.555555555553dp-2, 0x1.999999999585fp-3, -0x1.24924922acecbp-3, 0x1.c71c70e5d6ee9p-4,
                          -0x1.745cf8d53192fp-4, 0x1.3b111890faabdp-4, -0x1.10ebb1baba955p-4, 0x1.df0ee766d2e9ap-5,
                          -0x1.9cd0e77c039b8p-5, 0x1.37d0c85ee235fp-5, -0x1.255f3dc35cbcdp-6});
  return {quarters, fma(t * z, p, t)};
}

// The angle mirrored: `whole` quarters minus it.
Angle mirrored(const Num& condition, const Angle& angle, double whole) {
  return {choose(condition, whole - angle.quarters, angle.quarters), choose(condition, -angle.rest, angle.rest)};
}

Num total(const Angle& angle) {
  Parts quarter = half_pi(angle.rest);
  return fma(angle.quarters, quarter.high * 0.5, fma(angle.quarters, quarter.low * 0.5, angle.rest));
}

struct HalfAngle {
  Num large;  // a > 1/2
  Num s;      // a, or sqrt((1 - a) / 2) where large
  Num tail;   // asin(s) - s
};
HalfAngle half_angle(const Num& a) {
  Num large = less(a.constant(0.5), a);
  Num rest = fma(a, -0.5, 0.5);
  Num z = choose(large, rest, a * a);
  Num s = choose(large, rest.apply(ScalarOp::sqrt), a);
  Num p = polynomial_for(
      z, {0x1.5555c8p-3, 0x1.330204p-4, 0x1.747bbap-5, 0x1.8c3e2p-6, 0x1.595c9ep-5},
      {0x1.5555555555577p-3, 0x1.333333332e131p-4, 0x1.6db6db7212687p-5, 0x1.f1c71a94f26b5p-6, 0x1.6e8bdee0593adp-6,
       0x1.1c49f05becc1bp-6, 0x1.ca1f8cd468e7fp-7, 0x1.75859d77b8b63p-7, 0x1.613b8b855f68dp-7, 0x1.e610d2e05e8dap-9,
       0x1.638fa60a96203p-6, -0x1.57e464ff0952ap-6, 0x1.0b3cb2bca7559p-5});
  return {large, s, s * z * p};
}

}  // namespace

Num expand_atan(const Num& x) {
  Num a = magnitude(x);
  Num inverted = less(a.constant(1.0), a);
  // A NaN stays one: it is not above 1, and so the numerator.
  Angle angle = first_octant(choose(inverted, a.constant(1.0), a), choose(inverted, a, a.constant(1.0)));
  return with_sign(total(mirrored(inverted, angle, 2)), x);
}

Num expand_atan2(const Num& y, const Num& x) {
  bool wide = x.is_double();
  Num rise = magnitude(y), run = magnitude(x);
  Num steep = less(run, rise);
  Num numerator = smaller(rise, run), denominator = larger(rise, run);  // both NaN if either is
  // 0 / 0 counts as 0 and infinity / infinity as 1.
  denominator = choose(equal(denominator, 0.0), x.constant(1.0), denominator);
  Num infinite = equal(numerator, kInfinity);
  numerator = choose(infinite, x.constant(1.0), numerator);
  denominator = choose(infinite, x.constant(1.0), denominator);
  if (wide) {  // their sum must not overflow
    Num scale = choose(less(denominator, 0x1p1000), x.constant(1.0), x.constant(0.25));
    numerator = numerator * scale;
    denominator = denominator * scale;
  }
  Angle angle = mirrored(steep, first_octant(numerator, denominator), 2);
  Num behind = less(x.bits_as(wide ? kI64 : kI32), 0);
  return with_sign(total(mirrored(behind, angle, 4)), y);
}

Num expand_asin(const Num& x) {
  auto [large, s, tail] = half_angle(magnitude(x));
  Parts right = half_pi(x);
  Num difference = fma(s, -2.0, right.high);
  Num left = fma(s, -2.0, right.high - difference);
  Num above = difference + fma(tail, -2.0, left + right.low);
  return with_sign(choose(large, above, s + tail), x);
}

Num expand_acos(const Num& x) {
  auto [large, s, tail] = half_angle(magnitude(x));
  Parts right = half_pi(x);
  Num negative = less(x, 0.0);
  Num twice = (s + tail) * 2.0;
  Num left = 2 * right.high - fma(s, 2.0, fma(tail, 2.0, -2 * right.low));
  Num middle = right.high - choose(negative, fma(s, -1.0, -(tail + right.low)), s + (tail - right.low));
  return choose(large, choose(negative, left, twice), middle);
}

}  // namespace heddle::kernel
