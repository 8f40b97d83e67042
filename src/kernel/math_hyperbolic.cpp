// sinh, cosh and the inverse hyperbolic functions. tanh is in math_exp.cpp.
//
// With a = n ln 2 + r, sinh and cosh of the sum are made of cosh r - 1 and sinh r, polynomials in r. For sinh n is 0 up
// to a = 0.5, so that the terms never cancel.
// The inverse functions are logarithms of sums, kept in two parts, except near their zeros.
#include <limits>

#include "kernel/math.h"

namespace heddle::kernel {
namespace {

struct Hyperbolic {
  Num rise, fall;       // 2^(n - 2) and 2^(-n - 2)
  Num sinh, cosh_less;  // of r, the latter less 1
};

// x >= 0. `offset` moves the range of r, [-ln 2 / 2, ln 2 / 2], up.
Hyperbolic hyperbolic(const Num& x, double offset) {
  bool wide = x.is_double();
  Num a = smaller(x, wide ? 710.5 : 89.5);  // a little beyond infinity
  double shift = rounding_shift(x.dtype());
  Num shifted = fma(offset == 0 ? a : a - offset, kLog2E, shift);
  Num n = shifted - shift;
  Num r = fma(n, wide ? -0x1.62e42fefa2p-1 : -0x1.62e4p-1, a);
  r = fma(n, wide ? -0x1.9ef35793c7673p-41 : -0x1.7f7d1cp-20, r);
  Num z = r * r;
  Num p = polynomial_for(z, {0x1.555558p-3, 0x1.110e14p-7, 0x1.a3e4a6p-13},
                         {0x1.5555555555555p-3, 0x1.1111111111246p-7, 0x1.a01a019fbd0a5p-13, 0x1.71de3b22fa798p-19,
                          0x1.ae628b78043b7p-26, 0x1.631bd80736c48p-33});
  Num q = polynomial_for(z, {0x1.000004p-1, 0x1.555018p-5, 0x1.6fdfcep-10},
                         {0x1.fffffffffffffp-2, 0x1.55555555557b1p-5, 0x1.6c16c16baafdcp-10, 0x1.a01a02b166fafp-16,
                          0x1.27e3a2e53b8e1p-22, 0x1.2094d66f60de8p-29});
  // Beyond 60 the falling part is lost in the rising one.
  Num fall = power_of_two(shift - smaller(n, 60.0), -2);
  return {power_of_two(shifted, -2), fall, fma(r * z, p, r), z * q};
}

// b + sqrt(b^2 + one) where one is 1 or -1 and b^2 + one at least 1/4.
Pair with_root(const Num& b, double one) {
  Num square = b * b;
  Num square_low = fma(b, b, -square);
  Num sum = square + one;
  Num part = sum - square;
  Num sum_low = (square - (sum - part)) + (one - part);
  Num root = sum.apply(ScalarOp::sqrt);
  Num root_low = (fma(-root, root, sum) + (sum_low + square_low)) / (root + root);
  Num high = b + root;
  Num part_b = high - root;
  Num low = (root - (high - part_b)) + (b - part_b);
  return {high, low + root_low};
}

// log(a + sqrt(a^2 + one)). A large a is its own root.
Num log_with_root(const Num& a, double one) {
  double limit = a.is_double() ? 0x1p30 : 0x1p14;
  Num huge = less(a.constant(limit), a);
  Pair sum = with_root(smaller(a, limit), one);
  Num zero = a.constant(0.0);
  Num result =
      log_and(choose(huge, a, sum.high), choose(huge, zero, sum.low / sum.high), choose(huge, a.constant(1.0), zero));
  return choose(less(a, kInfinity), result, a);
}

}  // namespace

Num expand_sinh(const Num& x) {
  auto [rise, fall, sinh, cosh_less] = hyperbolic(magnitude(x), 0.15);
  Num difference = rise - fall;
  Num half = difference + fma(rise + fall, sinh, difference * cosh_less);
  // Subnormal numbers must not be halved.
  return choose(less(magnitude(x), x.is_double() ? 0x1p-28 : 0x1p-13), x, with_sign(half + half, x));
}

Num expand_cosh(const Num& x) {
  auto [rise, fall, sinh, cosh_less] = hyperbolic(magnitude(x), 0);
  Num half = rise + fma(rise, cosh_less + sinh, fma(fall, cosh_less - sinh, fall));
  return half + half;
}

Num expand_asinh(const Num& x) {
  Num a = magnitude(x);
  Num z = a * a;
  Num p = polynomial_for(
      z, {-0x1.555536p-3, 0x1.3324f2p-4, -0x1.6b95d2p-5, 0x1.cd642ap-6, -0x1.b14dd2p-7},
      {-0x1.5555555555554p-3, 0x1.3333333332fe6p-4, -0x1.6db6db6d89171p-5, 0x1.f1c71c5dc663fp-6, -0x1.6e8ba0532958dp-6,
       0x1.1c4e8dd231784p-6, -0x1.c9935ed206324p-7, 0x1.7a48757c7c737p-7, -0x1.3e18832706e6fp-7, 0x1.09d5f68dbf8d9p-7,
       -0x1.9d14e835eeab5p-8, 0x1.fe5473ace31d8p-9, -0x1.607a1714851fcp-10});
  return with_sign(choose(less(a, 0.5), fma(a * z, p, a), log_with_root(a, 1)), x);
}

Num expand_acosh(const Num& x) {
  Num t = x - 1.0;
  // sqrt(2 t) (1 + t P(t))
  Num p = polynomial_for(
      t, {-0x1.555536p-4, 0x1.3324f2p-6, -0x1.6b95d2p-8, 0x1.cd643p-10, -0x1.b14e0ap-12},
      {-0x1.5555555555554p-4, 0x1.3333333332fe6p-6, -0x1.6db6db6d89171p-8, 0x1.f1c71c5dc664p-10, -0x1.6e8ba053295ddp-11,
       0x1.1c4e8dd232224p-12, -0x1.c9935ed225329p-14, 0x1.7a48757e72277p-15, -0x1.3e18833b79bf5p-16,
       0x1.09d5f71205dc8p-17, -0x1.9d14ec4a90c2ap-19, 0x1.fe54861b88eep-21, -0x1.607a3b4f5463ep-23});
  Num root = (t + t).apply(ScalarOp::sqrt);
  return choose(less(x, 1.5), fma(root * t, p, root), log_with_root(x, -1));
}

Num expand_atanh(const Num& x) {
  Num a = magnitude(x);
  Num z = a * a;
  Num p = polynomial_for(
      z, {0x1.55554p-2, 0x1.99a678p-3, 0x1.234d6p-3, 0x1.e40462p-4, 0x1.a69708p-5, 0x1.694816p-3},
      {0x1.5555555555556p-2, 0x1.999999999976fp-3, 0x1.24924924a5db5p-3, 0x1.c71c71bbf6a98p-4, 0x1.745d19280561fp-4,
       0x1.3b137c5c844aep-4, 0x1.111509ab4dbeap-4, 0x1.e175b3602231cp-5, 0x1.b35063b40bc7bp-5, 0x1.685c8f7472999p-5,
       0x1.fe4748b4b58f1p-5, -0x1.e10ae5cb272bcp-6, 0x1.b1eec0d9fef1p-3, -0x1.f1a5dff2144c1p-3, 0x1.089cb65d52bb2p-2});
  // log((1 + a) / (1 - a)) / 2; 1 - a is exact where this is used.
  Num above = a + 1.0, below = 1.0 - a;
  Num quotient = above / below;
  Num left = fma(-quotient, below, above) + (a - (above - 1.0));
  Num large = log_and(quotient, left / above, a.constant(0.0)) * 0.5;
  Num edge = choose(equal(a, 1.0), a.constant(kInfinity), a.constant(kNaN));
  Num result = choose(less(a, 0.5), fma(a * z, p, a), choose(less(a, 1.0), large, edge));
  return with_sign(result, x);
}

}  // namespace heddle::kernel
