// Scans against plain loops: every shape of nest that they become, dtypes, special values, launches.
#include <algorithm>
#include <limits>
#include <numeric>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// x[outer][n][inner] scanned along n.
std::vector<double> scanned(const std::vector<double>& x, int64_t n, int64_t inner,
                            const std::function<double(double, double)>& combine) {
  std::vector<double> y = x;
  for (size_t i = 0; i < y.size(); ++i)
    if (static_cast<int64_t>(i) / inner % n > 0) y[i] = combine(y[i - static_cast<size_t>(inner)], y[i]);
  return y;
}
double plus(double a, double b) { return a + b; }
double larger(double a, double b) { return std::max(a, b); }

TEST(Scan, along_each_axis_and_flattened) {
  Tensor x = counting({2, 2, 3});
  expect_equal(cumsum(x, 0), {0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16});
  expect_equal(cumsum(x, 1), {0, 1, 2, 3, 5, 7, 6, 7, 8, 15, 17, 19});
  expect_equal(cumsum(x, -1), {0, 1, 3, 3, 7, 12, 6, 13, 21, 9, 19, 30});
  expect_equal(cumsum(x), {0, 1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66});
  EXPECT_EQ(cumsum(x).shape(), (Dims{12}));
  EXPECT_EQ(cumsum(x, 1).shape(), (Dims{2, 2, 3}));
  expect_equal(cumprod(tensor({1, 2, 3, 4}), 0), {1, 2, 6, 24});
  expect_equal(cummax(tensor({1, 3, 2, 5, 0}), 0), {1, 3, 3, 5, 5});
  expect_equal(cummin(tensor({3, 4, 1, 2, 0}), 0), {3, 3, 1, 1, 0});
}

TEST(Scan, of_many_sizes_against_plain_loops) {
  for (int64_t outer : {1, 3, 70})
    for (int64_t n : {2, 7, 16, 33, 257, 1000})
      for (int64_t inner : {1, 2, 19, 64}) {
        SCOPED_TRACE(std::to_string(outer) + " x " + std::to_string(n) + " x " + std::to_string(inner));
        std::vector<float> in = noise(outer * n * inner, static_cast<uint64_t>(outer + n * 100 + inner));
        std::vector<double> x(in.begin(), in.end());
        Tensor t = from_vector(in, {outer, n, inner});
        expect_close(cumsum(t, 1), scanned(x, n, inner, plus), 2e-4);
        expect_equal(cummax(t, 1), scanned(x, n, inner, larger));
      }
}

TEST(Scan, long_vectors_are_divided_exactly) {
  for (int64_t n : {1 << 17, (1 << 18) + 1, 1048583, 3000017}) {
    Tensor x = (arange(n) % 7 - 2).realize();
    std::vector<int64_t> want = integers(x);
    std::partial_sum(want.begin(), want.end(), want.begin());
    EXPECT_EQ(integers(cumsum(x, 0)), want) << n;
    Tensor back = flip(cumsum(flip(x, {0}), 0), {0});
    std::vector<int64_t> other = integers(x);
    std::partial_sum(other.rbegin(), other.rend(), other.rbegin());
    EXPECT_EQ(integers(back), other) << n;
  }
  Tensor rows = (arange(3 * 400009) % 11 - 5).reshape({3, 400009}).realize();
  std::vector<double> x = doubles(rows);
  expect_equal(cumsum(rows, 1), scanned(x, 400009, 1, plus));
  Tensor columns = rows.reshape({400009, 3}).realize();
  expect_equal(cumsum(columns, 0), scanned(x, 400009, 3, plus));
  expect_equal(cummin(columns * 3 + 1, 0) - 1,
               scanned(doubles(columns * 3), 400009, 3, [](double a, double b) { return std::min(a, b); }));
}

TEST(Scan, integers_are_summed_wide_and_wrap) {
  EXPECT_EQ(cumsum(full({300}, 100, kI8), 0).dtype(), kI64);
  EXPECT_EQ(integers(cumsum(full({300}, 100, kI8), 0))[299], 30000);
  EXPECT_EQ(cumsum(full({3}, 200, kU8), 0).dtype(), kU64);
  EXPECT_EQ(integers(cumsum(tensor({1, 0, 1, 1}, kBool), 0)), (std::vector<int64_t>{1, 1, 2, 3}));
  EXPECT_EQ(cumprod(tensor({1, 0}, kBool), 0).dtype(), kI64);
  EXPECT_EQ(cummax(tensor({1, 5, 3}, kI8), 0).dtype(), kI8);
  EXPECT_EQ(integers(cummax(tensor({0, 1, 0}, kBool), 0)), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(integers(cummin(tensor({1, 1, 0, 1}, kBool), 0)), (std::vector<int64_t>{1, 1, 0, 0}));
  int64_t top = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(integers(cumsum(from_vector(std::vector<int64_t>{top, 1}, {2}), 0))[1],
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(integers(cummin(tensor({-128, 127}, kI8), 0)), (std::vector<int64_t>{-128, -128}));
}

TEST(Scan, small_floats_accumulate_in_f32) {
  // In bf16 256 + 1 stays 256.
  for (DType dtype : {kBF16, kF16}) {
    Tensor y = cumsum(ones({5000}, dtype), 0);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(doubles(y)[4095], 4096);
    EXPECT_EQ(doubles(y)[1023], 1024);
  }
}

TEST(Scan, special_values) {
  expect_equal(cumsum(tensor({1, kInf, 2, -kInf, 3}), 0), {1, kInf, kInf, kNan, kNan});
  expect_equal(cummax(tensor({1, kNan, 5}), 0), {1, kNan, kNan});
  expect_equal(cummin(tensor({1, kNan, -kInf}), 0), {1, kNan, kNan});
  expect_equal(cummax(full({40}, -kInf), 0), std::vector<double>(40, -kInf));
  std::vector<double> zeros = doubles(cumsum(full({40}, -0.0), 0));
  EXPECT_TRUE(std::all_of(zeros.begin(), zeros.end(), [](double v) { return v == 0 && std::signbit(v); }));
}

TEST(Scan, of_nothing_and_of_one) {
  EXPECT_EQ(cumsum(zeros({0}), 0).shape(), (Dims{0}));
  EXPECT_EQ(cummax(zeros({3, 0}), 1).shape(), (Dims{3, 0}));
  EXPECT_EQ(cummax(zeros({3, 0}), 0).shape(), (Dims{3, 0}));
  expect_equal(cumsum(tensor({5}), 0), {5});
  expect_equal(cumsum(scalar(5)), {5});
  EXPECT_EQ(cumsum(scalar(5)).shape(), (Dims{1}));
}

TEST(Scan, positions_of_extremes_are_the_last_among_equals) {
  auto [top, at] = cummax_with_indices(tensor({1, 3, 3, 2, 3, 1}), 0);
  expect_equal(top, {1, 3, 3, 3, 3, 3});
  EXPECT_EQ(at.dtype(), kI64);
  EXPECT_EQ(integers(at), (std::vector<int64_t>{0, 1, 2, 2, 4, 4}));
  EXPECT_EQ(integers(cummin_with_indices(tensor({2, kNan, 1, kNan, 0}), 0).second),
            (std::vector<int64_t>{0, 1, 1, 3, 3}));
  EXPECT_EQ(integers(cummax_with_indices(full({3}, -kInf), 0).second), (std::vector<int64_t>{0, 1, 2}));
  Tensor x = noise_tensor({50, 300});
  auto [low, where] = cummin_with_indices(x, 1);
  std::vector<double> in = doubles(x), want;
  for (int64_t r = 0; r < 50; ++r) {
    int64_t best = 0;
    for (int64_t c = 0; c < 300; ++c) {
      if (in[static_cast<size_t>(r * 300 + c)] <= in[static_cast<size_t>(r * 300 + best)]) best = c;
      want.push_back(static_cast<double>(best));
    }
  }
  expect_equal(where, want);
}

TEST(Scan, mistakes_name_the_call) {
  expect_error<IndexError>([] { cumsum(zeros({2, 3}), 2); }, {"cumsum", "2"});
  expect_error<IndexError>([] { cummax(zeros({2, 3}), -3); }, {"cummax", "-3"});
  expect_error<IndexError>([] { cumprod(scalar(1), 1); }, {"cumprod", "1", "rank 0"});
  expect_error<IndexError>([] { cummin_with_indices(zeros({2}), 1); }, {"cummin_with_indices", "1"});
}

// Launches once, and moves `elements` f32.
void expect_one_pass(std::initializer_list<Tensor> results, double elements) {
  StatsSince stats;
  realize(results);
  EXPECT_EQ(stats->launches, 1u);
  EXPECT_LE(static_cast<double>(stats.bytes()), 1.01 * 4 * elements);
  EXPECT_GE(static_cast<double>(stats.bytes()), 4 * elements);
}

TEST(Scan, what_stands_around_it_is_one_kernel_and_one_pass) {
  for (Dims shape : {Dims{100, 200}, Dims{20000, 1}, Dims{1, 200000}, Dims{2000, 1000}})
    for (int64_t axis : {0, 1}) {
      SCOPED_TRACE(std::to_string(shape[0]) + " x " + std::to_string(shape[1]) + " along " + std::to_string(axis));
      if (shape[static_cast<size_t>(axis)] == 1) continue;
      Tensor x = noise_tensor(shape);
      double n = static_cast<double>(x.numel());
      expect_one_pass({exp(cumsum(x * 2, axis)) + 1}, 2 * n);
      expect_one_pass({flip(cumsum(flip(x, {axis}), axis), {axis})}, 2 * n);
      Tensor sums = cumsum(x, axis);
      expect_one_pass({sums, sums * 2}, 3 * n);
      Tensor e = x + 1;
      expect_one_pass({e, cumsum(e, axis)}, 3 * n);
    }
  Tensor x = noise_tensor({100, 200});
  expect_one_pass({cumsum(softmax(x, 1), 1)}, 2 * 20000);
  expect_one_pass({cumsum(x, 1) + cumprod(x, 1)}, 2 * 20000);
  auto [top, at] = cummax_with_indices(x, 1);
  expect_one_pass({top, at}, 4 * 20000);
  expect_one_pass({transpose(cumsum(x, 1)) * 2}, 2 * 20000);
}

TEST(Scan, in_expressions_gives_the_right_values) {
  Tensor x = noise_tensor({30, 41, 5});
  std::vector<double> in = doubles(x);
  std::vector<double> sums = scanned(in, 41, 5, plus);
  Tensor y = cumsum(x, 1);
  expect_close(y.sum({1}), doubles(from_vector(sums, {30, 41, 5}).sum({1})), 1e-4);
  expect_close(cumsum(y, 0), scanned(sums, 30, 41 * 5, plus), 2e-4);
  expect_close(cumsum(y, 1), scanned(sums, 41, 5, plus), 2e-3);
  expect_close(pad(y, {{1, 0}, {2, 3}, {0, 0}}), doubles(pad(from_vector(sums, {30, 41, 5}), {{1, 0}, {2, 3}, {0, 0}})),
               2e-5);
  expect_close(slice(y, 1, 3, 30), doubles(slice(from_vector(sums, {30, 41, 5}), 1, 3, 30)), 2e-5);
  expect_close(y.reshape({30, 205}) + 1, doubles(from_vector(sums, {30, 205}) + 1), 2e-5);
  expect_close(unsqueeze(y, 0) * noise_tensor({2, 1, 1, 1}, 9),
               doubles(unsqueeze(from_vector(sums, {30, 41, 5}), 0) * noise_tensor({2, 1, 1, 1}, 9).cast(kF64)), 2e-5);
  Tensor running = zeros({64, 100});
  for (int i = 0; i < 3; ++i) {
    running = cumsum(running + 1, 1);
    running.realize();
  }
  EXPECT_EQ(doubles(running)[99], 100 + 5050 + 171700);
}

// The reduction reads the copy, not a scan inside of itself.
TEST(Scan, a_copy_of_it_that_is_stored_and_reduced) {
  Tensor x = from_vector(std::vector<int32_t>{3, -7, 5, 1}, {4, 1, 1}).realize();
  Tensor y = cummax(x, 0), copy = y.reshape({4}), where = argmax(abs(copy), 0);
  std::vector<Tensor> all{where, y, copy};
  realize(all);
  expect_equal(y, {3, 3, 5, 5});
  expect_equal(copy, {3, 3, 5, 5});
  expect_equal(where, {2});
}

}  // namespace
}  // namespace heddle
