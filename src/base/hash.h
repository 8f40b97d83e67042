// 64-bit hashing: cheap, well mixed, not for untrusted keys.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle {

inline uint64_t hash_mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

inline uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return hash_mix(seed * 0x9e3779b97f4a7c15ull + value + 0x632be59bd9b4e019ull);
}

inline uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0) {
  uint64_t h = seed ^ 0xcbf29ce484222325ull;
  for (unsigned char c : bytes) h = (h ^ c) * 0x100000001b3ull;
  return hash_mix(h);
}

}  // namespace heddle
