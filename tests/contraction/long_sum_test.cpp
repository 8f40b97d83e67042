// Long sums of f32: their error does not grow with their length.
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>

namespace heddle {
namespace {

void expect_sum(const Tensor& x, double want, double tolerance) {
  for (double got : x.to_vector<double>()) ASSERT_LE(std::fabs(got - want), tolerance * std::fabs(want)) << got;
}

// Every term rounds to the same side: the worst that can happen to one accumulator.
TEST(LongSum, of_equal_numbers) {
  constexpr int64_t kCount = 100'000'000;
  constexpr double kEach = 0.1f;
  Tensor x = full({kCount}, 0.1, kF32).realize();
  expect_sum(x.sum(), kEach * kCount, 6e-6);
  expect_sum(x.mean(), kEach, 6e-6);
  expect_sum((x * x).sum(), kEach * kEach * kCount, 8e-6);
  expect_sum(x.reshape({10, kCount / 10}).sum(1), kEach * (kCount / 10), 6e-6);
  expect_sum(x.reshape({kCount / 1000, 1000}).sum(0), kEach * (kCount / 1000), 2e-6);
}

TEST(LongSum, of_products) {
  // A GPU keeps as many sums as it has registers: there is no room for a second level of them.
  if (const char* device = std::getenv("HEDDLE_DEVICE"); device && std::string(device).starts_with("cuda"))
    GTEST_SKIP() << "sums of products are in one level there";
  constexpr int64_t kCount = 1 << 24;
  constexpr double kEach = 0.1f;
  Tensor x = full({kCount}, 0.1, kF32).realize();
  for (int64_t rows : {3, 16, 100}) {
    SCOPED_TRACE(rows);
    const int64_t length = kCount / rows;
    Tensor wide = shrink(x, {{0, rows * length}}).reshape({rows, length});
    expect_sum(matmul(wide, transpose(wide)), kEach * kEach * static_cast<double>(length), 1e-5);
  }
}

TEST(LongSum, of_random_numbers) {
  constexpr int64_t kCount = 10'000'019;
  std::mt19937 random(1);
  std::vector<float> values(kCount);
  double sum = 0, squares = 0;
  for (float& v : values) {
    v = static_cast<float>(random() % (1 << 24)) / (1 << 24);
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  Tensor x = from_vector(values, {kCount});
  expect_sum(x.sum(), sum, 3e-7);
  expect_sum((x * x).sum(), squares, 3e-7);
  expect_sum(var(x), (squares - sum * sum / kCount) / (kCount - 1), 1e-6);
}

}  // namespace
}  // namespace heddle
