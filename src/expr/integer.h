// Exact and saturating integer arithmetic for bounds and coefficients.
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>

namespace heddle {

__extension__ typedef __int128 Wide;

inline constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

inline int64_t saturate(Wide value) {
  return value < kMinInt ? kMinInt : value > kMaxInt ? kMaxInt : static_cast<int64_t>(value);
}

// Rounding towards minus infinity; b > 0.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
inline int64_t floor_mod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

// The greatest common divisor as a non-negative int64; gcd(0, x) == |x|, where |kMinInt| counts as kMaxInt / 2 + 1.
inline int64_t common_divisor(int64_t a, int64_t b) {
  auto magnitude = [](int64_t x) { return x == kMinInt ? int64_t{1} << 62 : x < 0 ? -x : x; };
  return std::gcd(magnitude(a), magnitude(b));
}

struct Range {
  int64_t lo;
  int64_t hi;
};

inline Range intersect(Range a, Range b) { return {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi}; }

}  // namespace heddle
