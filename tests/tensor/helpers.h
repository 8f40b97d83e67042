// Small things the tests of the public interface share.
#pragma once

#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace heddle::testing {

inline std::vector<double> doubles(const Tensor& x) { return x.to_vector<double>(); }
// Where the device keeps it.
inline const void* address(const Tensor& x) {
  return dynamic_cast<const DeviceBuffer&>(*x.realize().node()->storage).address();
}
// Whether convolutions of small images are preceded by kernels that pack their factors.
inline bool packs_in_kernels() { return device().target().machine == Machine::Simt; }
inline std::vector<int64_t> integers(const Tensor& x) { return x.to_vector<int64_t>(); }

// Equal or within `tolerance` of each other relative to the expected value; NaN equals NaN, infinities themselves.
inline void expect_close(const Tensor& x, const std::vector<double>& want, double tolerance = 1e-6) {
  std::vector<double> got = doubles(x);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i] << " instead of nan";
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]) << "element " << i;
    } else {
      EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::fabs(want[i]))) << "element " << i;
    }
  }
}
inline void expect_equal(const Tensor& x, const std::vector<double>& want) { expect_close(x, want, 0); }

// 0, 1, 2, ... as f32.
inline Tensor counting(const Dims& shape, DType dtype = kF32) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return arange(n, dtype).reshape(shape).realize();
}
// Numbers without a pattern in [-2, 2), the same every time.
inline std::vector<float> noise(int64_t n, uint64_t seed = 1) {
  std::vector<float> result;
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    result.push_back(static_cast<float>(static_cast<double>(state >> 40) / (1 << 22) - 2));
  }
  return result;
}
inline Tensor noise_tensor(const Dims& shape, uint64_t seed = 1) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return from_vector(noise(n, seed), shape);
}

// `f` throws E, and the message holds every one of `parts`.
template <class E>
void expect_error(const std::function<void()>& f, const std::vector<std::string>& parts) {
  try {
    f();
    FAIL() << "nothing was thrown";
  } catch (const E& error) {
    std::string message = error.what();
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  } catch (const std::exception& error) {
    FAIL() << "another exception: " << error.what();
  }
}

// What the calling thread's launches did since this object was made.
class StatsSince {
 public:
  StatsSince() { run_stats() = {}; }
  const RunStats* operator->() const { return &run_stats(); }
  uint64_t bytes() const { return run_stats().bytes_read + run_stats().bytes_written; }
};

}  // namespace heddle::testing
