// Random numbers for data on the host: the same on every machine.
#pragma once

#include <cstdint>

namespace heddle::data {

// SplitMix64.
class HostRandom {
 public:
  explicit HostRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t count) { return static_cast<uint64_t>((static_cast<Wide>(next()) * count) >> 64); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * unit(); }
  // Close to a normal distribution, without functions whose last bits differ between machines.
  double bell() { return (unit() + unit() + unit() + unit() - 2) * 1.7320508075688772; }

 private:
  __extension__ using Wide = unsigned __int128;
  uint64_t state_;
};

}  // namespace heddle::data
