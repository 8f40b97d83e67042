// What the tests of control flow share.
#pragma once

#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include "graph/graph.h"
#include "tensor/helpers.h"

namespace heddle::testing {

inline double difference(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return 0;
  Tensor x = cast(a, kF64), y = cast(b, kF64);
  return max(abs(x - y) / (1 + abs(y))).item<double>();
}

inline void expect_same(const Tensor& got, const Tensor& want, double tolerance = 1e-5) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  EXPECT_LE(difference(got, want), tolerance);
}

// What the slow evaluator makes of the same graph.
inline void expect_evaluated(const Tensor& got, double tolerance = 1e-5) {
  NodeRef node = got.node();
  std::vector<HostArray> want = evaluate(std::span(&node, 1));
  std::vector<double> values = is_float(node->dtype) ? want[0].floats : std::vector<double>();
  if (values.empty())
    for (uint64_t bits : want[0].integers) values.push_back(static_cast<double>(static_cast<int64_t>(bits)));
  expect_close(got, values, tolerance);
}

}  // namespace heddle::testing
