// sin, cos, tan: the argument modulo pi/2, then polynomials on [-pi/4, pi/4].
//
// Ordinary arguments lose a multiple of pi/2 in three parts (Cody and Waite): the first difference is exact, for it is
// a multiple of the last place of pi/2 and less than 1. For large ones the integer mantissa is multiplied with the
// right window of the bits of 2/pi (Payne and Hanek); a vector takes that way only if one of its elements needs it.
#include <limits>
#include <vector>

#include "kernel/math.h"

namespace heddle::kernel {
namespace {

// The bits of 2/pi after the point, behind zero words for arguments below one.
constexpr uint64_t kTwoOverPi[] = {
    0,
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
};

struct Quadrant {
  Num quadrant;  // an integer as wide as r; only the low two bits count
  Num r;         // |x| = quadrant * pi/2 + r + low (modulo 2 pi), |r| a little more than pi/4 at most
  Num low;       // what rounding to r left over; f32 only, 0 in f64
};

// Above it the ordinary reduction is not exact any more.
double large_from(const Num& x) { return x.is_double() ? 0x1p27 : 0x1p17; }

Quadrant reduce_ordinary(const Num& a) {
  bool wide = a.is_double();
  double shift = rounding_shift(a.dtype());
  Num shifted = fma(a, wide ? 0x1.45f306dc9c883p-1 : 0x1.45f306p-1, shift);
  Num n = shifted - shift;
  Num r = fma(n, wide ? -0x1.921fb54442d18p+0 : -0x1.921fb6p+0, a);
  Num second = a.constant(wide ? -0x1.1a62633145c07p-54 : 0x1.777a5cp-25);
  Num third = a.constant(wide ? 0x1.f1976b7ed8fbcp-110 : 0x1.ee59dap-50);
  Num rest = fma(n, third, fma(n, second, r));
  // The same in two parts: the exact product, then Knuth's sum.
  Num product = n * second;
  Num sum = r + product;
  Num part = sum - r;
  Num error = (r - (sum - part)) + (product - part);
  Num low = (sum - rest) + (error + fma(n, third, fma(n, second, -product)));
  return {shifted.bits_as(wide ? kU64 : kU32), rest, wide ? a.constant(0.0) : low};
}

// words[from + (offset >> 6)] and the words after it, `count` in all: a shifter, one bit of the index per step.
std::vector<Num> window(const Num& offset, std::span<const uint64_t> words, size_t count) {
  std::vector<Num> current;
  for (uint64_t word : words) current.push_back(offset.constant(word));
  size_t top = 1;
  while (top * 2 < words.size() - count + 1) top *= 2;
  for (size_t step = top; step >= 1; step /= 2) {
    Num taken = unequal(offset & static_cast<uint64_t>(step * 64), uint64_t{0});
    size_t needed = std::min(count + step - 1, current.size());
    std::vector<Num> next;
    for (size_t k = 0; k < needed; ++k)
      next.push_back(k + step < current.size() ? choose(taken, current[k + step], current[k]) : current[k]);
    current = std::move(next);
  }
  return current;
}

// 64 bits starting `shift` bits into the pair. A shift by 64 gives 0.
Num funnel(const Num& high, const Num& low, const Num& shift) { return (high << shift) | (low >> (64 - shift)); }

Num multiply_high(const Num& a, const Num& b) {
  constexpr uint64_t mask = 0xffffffff;
  Num a_low = a & mask, a_high = a >> 32, b_low = b & mask, b_high = b >> 32;
  Num middle = a_low * b_high + ((a_low * b_low) >> 32);
  Num other = a_high * b_low + (middle & mask);
  return a_high * b_high + (middle >> 32) + (other >> 32);
}

// Quadrant and signed rest of a fraction of four quadrants: 2 + 62 bits.
Num nearest_quadrant(const Num& fraction) { return (fraction + (uint64_t{1} << 61)) >> 62; }
Num rest_of(const Num& fraction, const Num& quadrant) { return (fraction - (quadrant << 62)).bits_as(kI64); }

constexpr double kStep = 0x1.921fb54442d18p-62, kStepLow = 0x1.1a62633145c07p-116;  // pi/2 * 2^-62

Quadrant reduce_large_f32(const Num& a) {
  Num bits = a.bits_as(kU32);
  Num exponent = (bits >> 23).cast(kU64);
  Num mantissa = ((bits & 0x7fffff) | 0x800000).cast(kU64);
  Num offset = exponent - 88;  // with one zero word in front
  std::vector<Num> words = window(offset, std::span(kTwoOverPi).subspan(1, 5), 3);
  Num shift = offset & 63;
  Num high = funnel(words[0], words[1], shift);
  Num low = funnel(words[1], words[2], shift) >> 32;
  Num fraction = mantissa * high + ((mantissa * low) >> 32);
  Num quadrant = nearest_quadrant(fraction);
  Num exact = rest_of(fraction, quadrant).cast(kF64) * kStep;
  Num r = exact.cast(kF32);
  return {quadrant.cast(kU32), r, (exact - r.cast(kF64)).cast(kF32)};
}

Quadrant reduce_large_f64(const Num& a) {
  Num bits = a.bits_as(kU64);
  Num mantissa = (bits & 0xfffffffffffff) | (int64_t{1} << 52);
  Num offset = (bits >> 52) - 949;  // with two zero words in front
  std::vector<Num> words = window(offset, kTwoOverPi, 4);
  Num shift = offset & 63;
  Num w0 = funnel(words[0], words[1], shift), w1 = funnel(words[1], words[2], shift),
      w2 = funnel(words[2], words[3], shift);
  Num middle = mantissa * w1;
  Num low = middle + multiply_high(mantissa, w2);
  Num carry = less(low, middle).cast(kU64);
  Num fraction = mantissa * w0 + multiply_high(mantissa, w1) + carry;
  Num quadrant = nearest_quadrant(fraction);
  // The rest as a sum of doubles: close to zero all of its bits matter.
  Num rest = rest_of(fraction, quadrant);
  Num high = rest.cast(kF64);
  Num tail = fma(low.cast(kF64), 0x1p-64, (rest - high.cast(kI64)).cast(kF64));
  return {quadrant, fma(high, kStep, fma(high, kStepLow, tail * kStep)), a.constant(0.0)};
}

// Infinity and NaN give NaN.
Quadrant reduce_large(const Num& a) {
  Quadrant reduced = a.is_double() ? reduce_large_f64(a) : reduce_large_f32(a);
  Num finite = less(a, std::numeric_limits<double>::infinity());
  reduced.r = choose(finite, reduced.r, a.constant(std::numeric_limits<double>::quiet_NaN()));
  return reduced;
}

Quadrant quadrant_of(const Num& a) {
  Quadrant ordinary = reduce_ordinary(a);
  Num large = less(a.constant(large_from(a)), a);
  auto listed = [&](const Quadrant& reduced) {
    std::vector<Num> list{reduced.quadrant, reduced.r};
    if (!a.is_double()) list.push_back(reduced.low);
    return list;
  };
  std::vector<Num> usual = listed(ordinary);
  std::vector<Num> parts = where_any(
      large, [&] { return usual; },
      [&] {
        std::vector<Num> exact = listed(reduce_large(a));
        for (size_t k = 0; k < exact.size(); ++k) exact[k] = choose(large, exact[k], usual[k]);
        return exact;
      });
  return {parts[0], parts[1], a.is_double() ? ordinary.low : parts[2]};
}

Num small_sine(const Num& r, const Num& z) {
  Num p = polynomial_for(z, {-0x1.555546p-3, 0x1.11077cp-7, -0x1.9955bp-13},
                         {-0x1.5555555555549p-3, 0x1.111111110f89fp-7, -0x1.a01a019c1499fp-13, 0x1.71de357963d0cp-19,
                          -0x1.ae5e670209f29p-26, 0x1.5d931bf9f3863p-33});
  return fma(r * z, p, r);
}

Num small_cosine(const Num& z) {
  Num p = polynomial_for(z, {0x1.55554ap-5, -0x1.6c0c2ep-10, 0x1.99eac2p-16},
                         {0x1.555555555554cp-5, -0x1.6c16c16c15220p-10, 0x1.a01a019cbf5b6p-16, -0x1.27e4f8128a816p-22,
                          0x1.1ee9f116bd131p-29, -0x1.8fb1021e6c0c8p-37});
  return fma(z * z, p, fma(z, -0.5, 1.0));
}

Num sign_of(const Num& x) {
  return x.bits_as(x.is_double() ? kU64 : kU32) & (uint64_t{1} << (x.is_double() ? 63 : 31));
}
Num flipped(const Num& value, const Num& flip) { return (value.bits_as(flip.dtype()) ^ flip).bits_as(value.dtype()); }

// sin(x) for turn 0, cos(x) for turn 1.
Num sine_of(const Num& x, int turn) {
  auto [quadrant, r, low] = quadrant_of(magnitude(x));
  if (turn == 1) quadrant = quadrant + 1;
  Num z = r * r;
  Num value = choose(equal(quadrant & 1, 0), small_sine(r, z), small_cosine(z));
  int top = x.is_double() ? 63 : 31;
  Num flip = (quadrant << (top - 1)) & (uint64_t{1} << top);
  if (turn == 0) flip = flip ^ sign_of(x);
  return flipped(value, flip);
}

}  // namespace

Num expand_sin(const Num& x) { return sine_of(x, 0); }
Num expand_cos(const Num& x) { return sine_of(x, 1); }

Num expand_tan(const Num& x) {
  auto [quadrant, r, low] = quadrant_of(magnitude(x));
  Num z = r * r;
  Num above = r, below = r.constant(1.0);
  if (x.is_double()) {
    above = small_sine(r, z);
    below = small_cosine(z);
  } else {
    Num p = polynomial(
        z, {0x1.555562p-2, 0x1.110d12p-3, 0x1.baf31p-5, 0x1.5bb61p-6, 0x1.684d62p-7, -0x1.f227ap-14, 0x1.25b41p-8});
    above = r + fma(r * z, p, fma(z, low, low));  // the slope is about 1 + r^2
  }
  // A quarter turn further it is -1 / tan.
  Num odd = unequal(quadrant & 1, 0);
  Num result = choose(odd, -below, above) / choose(odd, above, below);
  return flipped(result, sign_of(x));
}

}  // namespace heddle::kernel
