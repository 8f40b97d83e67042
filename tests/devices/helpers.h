// Devices that are everywhere: the interpreter runs what they are given.
#pragma once

#include <heddle/heddle.h>

namespace heddle {

inline constexpr const char *kOther = "simulated:1", *kThird = "simulated:2";

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline double max_difference(const Tensor& a, const Tensor& b) {
  return max(abs(cast(a, kF64) - cast(b, kF64))).item<double>();
}

}  // namespace heddle
