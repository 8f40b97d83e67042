// Ranges of results against what single numbers within the operands' ranges give.
#include "fuzz/ranges.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/build.h"
#include "graph/random_values.h"

namespace heddle::fuzz {
namespace {

using testing::scalar_node;

constexpr double kEdges[] = {-INFINITY, -3e38, -3, -0.0, 0.0, 0.25, 3, 3e38, INFINITY};
constexpr size_t kEdgeCount = std::size(kEdges);

// Every pair of edges, each with every other pair: the bounds of two operands.
struct Operands {
  std::vector<double> low[2], high[2];
};
Operands all_operands() {
  Operands all;
  for (size_t a = 0; a < kEdgeCount * kEdgeCount; ++a)
    for (size_t b = 0; b < kEdgeCount * kEdgeCount; ++b) {
      const size_t numbers[] = {a, b};
      for (size_t k = 0; k < 2; ++k) {
        const double x = kEdges[numbers[k] / kEdgeCount], y = kEdges[numbers[k] % kEdgeCount];
        all.low[k].push_back(std::min(x, y));
        all.high[k].push_back(std::max(x, y));
      }
    }
  return all;
}

// One of two numbers, and nobody knows which: the condition is decided by the rounding of a sum.
NodeRef either(const std::vector<double>& low, const std::vector<double>& high) {
  const Shape shape = {Expr(static_cast<int64_t>(low.size()))};
  const Shape pairs = {Expr(static_cast<int64_t>(low.size())), Expr(2)};
  const int last = 1;
  NodeRef half = testing::buffer_of(DType::f32, pairs, std::vector<double>(2 * low.size(), 0.1f));
  NodeRef one = testing::buffer_of(DType::f32, shape, std::vector<double>(low.size(), 0.2f));
  NodeRef undecided = scalar_node(ScalarOp::lt, {make_reduce(ReduceOp::Sum, half, std::span(&last, 1)), one});
  return scalar_node(ScalarOp::where, {undecided, testing::buffer_of(DType::f32, shape, low),
                                       testing::buffer_of(DType::f32, shape, high)});
}

std::vector<double> between(double low, double high) {
  std::vector<double> values = {low, high};
  for (double edge : kEdges)
    if (low < edge && edge < high) values.push_back(edge);
  return values;
}

TEST(Ranges, what_numbers_within_two_ranges_give_is_in_the_range_of_the_result) {
  const Operands all = all_operands();
  const NodeRef a = either(all.low[0], all.high[0]), b = either(all.low[1], all.high[1]);
  for (ScalarOp op :
       {ScalarOp::add, ScalarOp::sub, ScalarOp::mul, ScalarOp::div, ScalarOp::minimum, ScalarOp::maximum}) {
    const std::vector<Range> results = ranges({scalar_node(op, {a, b})}, {})[0];
    size_t wrong = 0;
    for (size_t i = 0; i < results.size(); ++i)
      for (double x : between(all.low[0][i], all.high[0][i]))
        for (double y : between(all.low[1][i], all.high[1][i])) {
          const Scalar operands[] = {Scalar::of(DType::f32, x), Scalar::of(DType::f32, y)};
          const double value = apply(op, operands).f;
          if (results[i].holds(value) || ++wrong > 5) continue;
          ADD_FAILURE() << info(op).name << " of " << x << " in [" << all.low[0][i] << ", " << all.high[0][i]
                        << "] and " << y << " in [" << all.low[1][i] << ", " << all.high[1][i] << "] is " << value
                        << ", not in [" << results[i].lo << ", " << results[i].hi << "]"
                        << (results[i].nan ? " or NaN" : "");
        }
    EXPECT_EQ(wrong, 0u) << info(op).name;
  }
}

}  // namespace
}  // namespace heddle::fuzz
