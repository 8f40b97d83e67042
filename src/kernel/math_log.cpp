// log, log2, log10, log1p: x = 2^e m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f), and
// log(1 + f) = 2 atanh(s) = f - s (f - s^2 T(s^2)).
#include <limits>

#include "kernel/math.h"

namespace heddle::kernel {
namespace {

struct Split {
  Num exponent;  // e as a float
  Num power;     // e << mantissa bits, an integer
  Num f;         // m - 1
};

// Of a positive normal number.
Split split(const Num& x) {
  bool wide = x.is_double();
  DType integer = wide ? kI64 : kI32;
  int mantissa = wide ? 52 : 23;
  int64_t root = wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3;  // the bits of sqrt(1/2)
  Num bits = x.bits_as(integer);
  Num e = (bits - root) >> mantissa;
  Num power = e << mantissa;
  Num m = (bits - power).bits_as(x.dtype());
  return {e.cast(x.dtype()), power, m - 1.0};
}

// The same of any positive number: subnormal ones are scaled up first.
Split split_any(const Num& x) {
  bool wide = x.is_double();
  Num tiny = less(x, wide ? 0x1p-1022 : 0x1p-126);
  Split parts = split(choose(tiny, x * (wide ? 0x1p54 : 0x1p25), x));
  parts.exponent = parts.exponent - choose(tiny, x.constant(wide ? 54.0 : 25.0), x.constant(0.0));
  return parts;
}

// f - log(1 + f)
Num deficit(const Num& f) {
  Num s = f / (f + 2.0);
  Num z = s * s;
  Num t = polynomial_for(z, {0x1.55557ap-1, 0x1.995ed4p-2, 0x1.31e0eap-2},
                         {0x1.5555555555593p-1, 0x1.999999997fac9p-2, 0x1.24924942172d8p-2, 0x1.c71c51ebf2bc6p-3,
                          0x1.746644c71881bp-3, 0x1.39a12569aefc2p-3, 0x1.2f0b3b852675dp-3});
  return s * fma(-z, t, f);
}

// e ln 2 + log(1 + f) + small, small terms first.
Num combine_natural(const Split& parts, const Num& small) {
  bool wide = parts.f.is_double();
  Num low = fma(parts.exponent, wide ? 0x1.9ef35793c7673p-41 : 0x1.7f7d1cp-20, small);
  Num high = parts.exponent * (wide ? 0x1.62e42fefa2p-1 : 0x1.62e4p-1);
  return high + (parts.f + low);
}

Num combine_natural(const Split& parts) { return combine_natural(parts, -deficit(parts.f)); }

// x is what the logarithm is taken of.
Num special_cases(const Num& x, const Num& result) {
  Num finite = choose(less(x, kInfinity), result, x);  // infinity and NaN stay
  Num bottom = choose(equal(x, 0.0), x.constant(-kInfinity), x.constant(kNaN));
  return choose(less_equal(x, 0.0), bottom, finite);
}

}  // namespace

Num expand_log(const Num& x) { return special_cases(x, combine_natural(split_any(x))); }

Num expand_log2(const Num& x) {
  Split parts = split_any(x);
  double high = x.is_double() ? kLog2E : 0x1.715476p+0;
  double low = x.is_double() ? 0x1.777d0ffda0d24p-56 : 0x1.4ae0cp-26;
  Num correction = deficit(parts.f);
  Num small = fma(parts.f, low, -(correction * high));
  return special_cases(x, parts.exponent + fma(parts.f, high, small));
}

Num expand_log10(const Num& x) {
  bool wide = x.is_double();
  Split parts = split_any(x);
  double high = wide ? 0x1.bcb7b1526e50ep-2 : 0x1.bcb7b2p-2;  // log10(e)
  double low = wide ? 0x1.95355baaafad3p-57 : -0x1.5b235ep-27;
  Num small = fma(parts.f, low, -(deficit(parts.f) * high));
  // log10(2): the first part is short, so that its product with the exponent is exact.
  small = fma(parts.exponent, wide ? -0x1.80433b83b532ap-44 : 0x1.3509f8p-18, small);
  Num result = fma(parts.exponent, wide ? 0x1.34413509f8p-2 : 0x1.344p-2, fma(parts.f, high, small));
  return special_cases(x, result);
}

Num log_and(const Num& x, const Num& small, const Num& exponent) {
  Split parts = split(x);
  parts.exponent = parts.exponent + exponent;
  return combine_natural(parts, small - deficit(parts.f));
}

Num expand_log1p(const Num& x) {
  bool wide = x.is_double();
  Num u = x + 1.0;
  Split parts = split(u);
  // m - 1 = (1 + x) 2^-e - 1 from x itself, in one rounding; with 2^(2-e), which is normal for every e.
  DType integer = wide ? kI64 : kI32;
  int mantissa = wide ? 52 : 23;
  int64_t four = int64_t{wide ? 1025 : 129} << mantissa;
  Num scale = (x.bits_as(integer).constant(four) - parts.power).bits_as(x.dtype());
  parts.f = fma(x * 0.25, scale, fma(scale, 0.25, -1.0));
  Num result = special_cases(u, combine_natural(parts));
  return choose(less(magnitude(x), wide ? 0x1p-54 : 0x1p-25), x, result);  // also keeps -0
}

}  // namespace heddle::kernel
