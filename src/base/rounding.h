// Integers rounded to multiples and to powers of two.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace heddle {

// How many pieces of `step` cover `size`; what they cover together. size >= 0.
constexpr int64_t pieces(int64_t size, int64_t step) { return (size + step - 1) / step; }
constexpr int64_t round_up(int64_t size, int64_t step) { return pieces(size, step) * step; }

// The next power of two below or above, or n itself if it is one; 1 if it is less.
constexpr int64_t floor_power(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}
constexpr int64_t ceil_power(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

}  // namespace heddle
