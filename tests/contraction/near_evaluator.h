// What several of these tests share: numbers, and the comparison with the evaluator, which computes in double.
#pragma once

#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <cmath>

#include "core/scalar.h"
#include "graph/graph.h"

namespace heddle::testing {

using Tensors = std::vector<Tensor>;

// Numbers without a pattern in [-1, 1), the same every time.
inline Tensor noise(const Dims& shape, uint64_t seed, DType dtype = kF32) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<float> values(static_cast<size_t>(count));
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (float& value : values) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    value = static_cast<float>(static_cast<double>(state >> 40) / (1 << 23) - 1);
  }
  Tensor x = from_vector(values, shape);
  return dtype == kF32 ? x : x.cast(dtype).realize();
}

// `length`: how many products of numbers below one an element adds up; times what is done to them afterwards. Sums are
// in f32 at least (f64 for f64), the result is rounded to its dtype.
inline void expect_near(const Tensors& results, const std::vector<HostArray>& want, double length) {
  realize(results);
  for (size_t r = 0; r < results.size(); ++r) {
    DType dtype = results[r].dtype();
    std::vector<double> got = results[r].to_vector<double>();
    ASSERT_EQ(got.size(), static_cast<size_t>(want[r].numel()));
    size_t wrong = 0;
    for (size_t e = 0; e < got.size(); ++e) {
      if (!is_float(dtype)) {
        wrong += got[e] != static_cast<double>(static_cast<int64_t>(want[r].integers[e]));
        continue;
      }
      double right = want[r].floats[e];
      double bound = 2 * std::ldexp(1, -precision(dtype)) * std::fabs(right);
      bound += 4 * length * (dtype == kF64 ? 0x1p-53 : 0x1p-24);
      bool good = std::isnan(right) ? std::isnan(got[e]) : std::fabs(got[e] - right) <= bound;
      if (good || wrong++ > 0) continue;
      ADD_FAILURE() << "result " << r << ", element " << e << " of " << got.size() << " is " << got[e] << " instead of "
                    << right << ", more than " << bound << " away";
    }
    EXPECT_EQ(wrong, 0u) << "elements of result " << r << " are wrong";
  }
}

inline std::vector<HostArray> evaluated(const Tensors& results) {
  std::vector<NodeRef> nodes;
  for (const Tensor& result : results) nodes.push_back(result.node());
  return evaluate(nodes);
}

inline void expect_near_evaluator(const Tensors& results, double length) {
  expect_near(results, evaluated(results), length);
}

}  // namespace heddle::testing
