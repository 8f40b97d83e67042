// cbrt: |x| = M 2^3q with M in [1, 8). A polynomial gives w, about M^(-1/3); one step of Newton's for w and one for
// M w^2 make it exact.
#include <limits>

#include "kernel/math.h"

namespace heddle::kernel {

Num expand_cbrt(const Num& x) {
  bool wide = x.is_double();
  DType integer = wide ? kI64 : kI32;
  int mantissa = wide ? 52 : 23;
  int64_t bias = wide ? 1023 : 127;
  Num a = magnitude(x);
  Num tiny = less(a, wide ? 0x1p-1022 : 0x1p-126);
  Num bits = choose(tiny, a * (wide ? 0x1p54 : 0x1p24), a).bits_as(integer);
  Num exponent = ((bits >> mantissa) - bias).cast(x.dtype());
  Num m = ((bits & ((int64_t{1} << mantissa) - 1)) | (bias << mantissa)).bits_as(x.dtype());
  Num third = fma(exponent, wide ? 0x1.5555555555555p-2 : 0x1.555556p-2, 1.0 / 6).apply(ScalarOp::floor);
  Num left = fma(third, -3.0, exponent);  // 0, 1 or 2
  Num one = equal(left, 1.0), two = equal(left, 2.0);
  Num number = m * choose(two, m.constant(4.0), choose(one, m.constant(2.0), m.constant(1.0)));
  // m^(-1/3) on [1, 2]
  Num w = polynomial_for(m, {0x1.8ab916p+0, -0x1.9eb306p-1, 0x1.4561fep-2, -0x1.99150cp-5},
                         {0x1.c7f3579e8c3d5p+0, -0x1.90e70ce79f7d5p+0, 0x1.3e686aab2a8ffp+0, -0x1.321beab814efp-1,
                          0x1.3fa1c2770e778p-3, -0x1.16d633c296bcap-6});
  Num scale =
      choose(two, m.constant(0x1.428a2f98d728bp-1), choose(one, m.constant(0x1.965fea53d6e3dp-1), m.constant(1.0)));
  w = w * scale;
  double part = wide ? 0x1.5555555555555p-2 : 0x1.555556p-2;
  Num square = w * w;
  w = fma(w * part, fma(-(number * w), square, 1.0), w);
  square = w * w;
  Num y = number * square;
  y = fma(fma(-(y * y), y, number), square * part, y);
  Num q = third - choose(tiny, m.constant(wide ? 18.0 : 8.0), m.constant(0.0));
  Num result = with_sign(y * power_of_two(q + rounding_shift(x.dtype()), 0), x);
  Num ordinary = less(a.constant(0.0), a) & less(a, std::numeric_limits<double>::infinity());
  return choose(ordinary, result, x);
}

}  // namespace heddle::kernel
