// Reductions, and what is made of them.
#include <algorithm>
#include <limits>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Reduce, over_each_axis_and_over_all) {
  Tensor x = counting({2, 3, 4});
  EXPECT_EQ(x.sum().item<float>(), 276);
  expect_equal(x.sum({0}), {12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34});
  expect_equal(x.sum({1}), {12, 15, 18, 21, 48, 51, 54, 57});
  expect_equal(x.sum({-1}), {6, 22, 38, 54, 70, 86});
  expect_equal(x.sum({0, 2}), {60, 92, 124});
  EXPECT_EQ(x.sum({0, 2}, true).shape(), (Dims{1, 3, 1}));
  EXPECT_EQ(x.sum({}, true).shape(), (Dims{1, 1, 1}));
  expect_equal(x.max({2}), {3, 7, 11, 15, 19, 23});
  expect_equal(x.min({0, 1}), {0, 1, 2, 3});
  expect_equal(x.mean({0}), {6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17});
  expect_equal(prod(tensor({1, 2, 3, 4})), {24});
}

TEST(Reduce, over_no_axes_each_element_stands_alone) {
  Tensor x = tensor({{1., -2., 3.}, {0., 5., kNan}}), y = tensor({{1., -2., 3.}, {0., 5., 7.}});
  const Axes none = Axes::none();
  for (const Tensor& same :
       {sum(y, none), prod(y, none), max(y, none), min(y, none), amax(y, none), amin(y, none), mean(y, none),
        logsumexp(y, none), average(y, ones({2, 3}), none), y.sum(none, true), nanmax(y, none), nanmean(y, none)}) {
    EXPECT_EQ(same.shape(), (Dims{2, 3}));
    expect_close(same, {1, -2, 3, 0, 5, 7}, 1e-6);
  }
  expect_equal(nansum(x, none), {1, -2, 3, 0, 5, 0});
  expect_equal(nanprod(x, none), {1, -2, 3, 0, 5, 1});
  expect_equal(ptp(y, none), {0, 0, 0, 0, 0, 0});
  expect_equal(norm(y, 2, none), {1, 2, 3, 0, 5, 7});
  expect_equal(var(y, none, false, 0), {0, 0, 0, 0, 0, 0});
  expect_equal(std(y, none, true, 0), {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(count_nonzero(y, none).to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(any(y > 0, none).shape(), (Dims{2, 3}));
  EXPECT_EQ(all(y > 0, none).shape(), (Dims{2, 3}));
  EXPECT_EQ(squeeze(zeros({1, 3, 1}), none).shape(), (Dims{1, 3, 1}));
  expect_equal(roll(y, {1}, none), {1, -2, 3, 0, 5, 7});
  // A list that has become empty means what it always meant; so does one that has got axes.
  EXPECT_EQ(sum(y, Axes{}).rank(), 0);
  Axes some = Axes::none();
  some.push_back(1);
  expect_equal(sum(y, some), {2, 12});
}

// What lies behind the end of the last vector is 0 / 0 there.
TEST(Reduce, of_quotients) {
  for (DType dtype : {kF32, kF64})
    for (int64_t n = 1; n <= 40; ++n) {
      Tensor x = (arange(n) + 2).cast(dtype).realize();
      EXPECT_EQ(sum(x / x).item<double>(), static_cast<double>(n));
      EXPECT_EQ(sum(floor(x / x) + floordiv(x, x)).item<double>(), 2. * static_cast<double>(n));
      EXPECT_EQ(max(x / (x * x)).item<double>(), 0.5);
    }
}

TEST(Reduce, of_many_sizes_against_plain_loops) {
  for (int64_t rows : {1, 3, 17, 64})
    for (int64_t columns : {1, 2, 15, 16, 33, 100, 1000}) {
      std::vector<float> in = noise(rows * columns, static_cast<uint64_t>(rows * 1000 + columns));
      Tensor x = from_vector(in, {rows, columns});
      std::vector<double> sums, tops(static_cast<size_t>(columns), -kInf);
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < columns; ++c) {
          double v = in[static_cast<size_t>(r * columns + c)];
          sum += v;
          tops[static_cast<size_t>(c)] = std::max(tops[static_cast<size_t>(c)], v);
        }
        sums.push_back(sum);
      }
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      expect_close(x.sum({1}), sums, 3e-5);
      expect_equal(x.max({0}), tops);
    }
}

TEST(Reduce, narrow_integers_and_bools_are_summed_wide) {
  Tensor x = full({1000}, 100, kI8);
  EXPECT_EQ(x.sum().dtype(), kI64);
  EXPECT_EQ(x.sum().item<int64_t>(), 100000);
  EXPECT_EQ(full({1000}, 200, kU8).sum().item<int64_t>(), 200000);
  EXPECT_EQ((counting({100}) > 49.5).sum().item<int64_t>(), 50);
  EXPECT_EQ(tensor({2, 3}, kI16).max().dtype(), kI16);
  EXPECT_EQ(tensor({2, 4}, kI32).mean().item<float>(), 3);
}

TEST(Reduce, small_floats_accumulate_in_f32) {
  EXPECT_EQ(ones({4096}, kF16).sum().item<float>(), 4096);
  EXPECT_EQ(ones({4096}, kBF16).sum().item<float>(), 4096);
}

TEST(Reduce, over_an_empty_axis_gives_the_identity_or_an_error) {
  Tensor x = zeros({3, 0});
  expect_equal(x.sum({1}), {0, 0, 0});
  expect_equal(prod(x, {1}), {1, 1, 1});
  EXPECT_EQ(x.sum({0}).shape(), (Dims{0}));
  expect_equal(x.sum(), {0});
  expect_equal(any(x, {1}), {0, 0, 0});
  expect_equal(all(x, {1}), {1, 1, 1});
  expect_close(x.mean({1}), {kNan, kNan, kNan});
  expect_error<ValueError>([&] { max(x, {1}); }, {"max", "[3, 0]"});
  expect_error<ValueError>([&] { min(x); }, {"min", "[3, 0]"});
  expect_error<ValueError>([&] { argmax(x, 1); }, {"argmax", "[3, 0]"});
  EXPECT_EQ(max(x, {0}).shape(), (Dims{0}));
}

TEST(Reduce, of_a_scalar_is_itself) {
  EXPECT_EQ(scalar(5).sum().item<float>(), 5);
  EXPECT_EQ(scalar(5).max().item<float>(), 5);
  EXPECT_EQ(argmax(scalar(5)).item<int64_t>(), 0);
}

TEST(Reduce, nan_spreads) {
  Tensor x = tensor({1, kNan, 3});
  EXPECT_TRUE(std::isnan(x.sum().item<float>()));
  EXPECT_TRUE(std::isnan(x.max().item<float>()));
  EXPECT_TRUE(std::isnan(x.min().item<float>()));
  EXPECT_EQ(tensor({-kInf, -kInf}).max().item<float>(), -kInf);
}

TEST(Reduce, any_and_all) {
  Tensor x = reshape(tensor({0, 0, 0, 2, 1, 1}), {3, 2});
  expect_equal(any(x, {1}), {0, 1, 1});
  expect_equal(all(x, {1}), {0, 0, 1});
  EXPECT_EQ(any(x).dtype(), kBool);
}

TEST(ArgReduce, first_among_equals_and_nan_wins) {
  EXPECT_EQ(argmax(tensor({1, 3, 2, 3})).item<int64_t>(), 1);
  EXPECT_EQ(argmin(tensor({1, 0, 2, 0})).item<int64_t>(), 1);
  EXPECT_EQ(argmax(tensor({1, kNan, 5, kNan})).item<int64_t>(), 1);
  EXPECT_EQ(argmin(tensor({1, 5, kNan})).item<int64_t>(), 2);
  EXPECT_EQ(argmax(zeros({1000})).item<int64_t>(), 0);
  EXPECT_EQ(argmax(full({5}, -kInf)).item<int64_t>(), 0);
  EXPECT_EQ(argmax(tensor({0, 1, 1}, kBool)).item<int64_t>(), 1);
  EXPECT_EQ(argmax(tensor({3, 200, 200}, kU8)).item<int64_t>(), 1);
}

TEST(ArgReduce, along_axes_against_plain_loops) {
  for (int64_t columns : {1, 5, 16, 17, 64, 333}) {
    int64_t rows = 19;
    std::vector<float> in = noise(rows * columns);
    for (float& v : in) v = std::floor(v * 4);  // ties
    Tensor x = from_vector(in, {rows, columns});
    std::vector<int64_t> across, down;
    for (int64_t r = 0; r < rows; ++r) {
      auto begin = in.begin() + r * columns;
      across.push_back(std::max_element(begin, begin + columns) - begin);
    }
    for (int64_t c = 0; c < columns; ++c) {
      int64_t best = 0;
      for (int64_t r = 1; r < rows; ++r)
        if (in[static_cast<size_t>(r * columns + c)] < in[static_cast<size_t>(best * columns + c)]) best = r;
      down.push_back(best);
    }
    EXPECT_EQ(integers(argmax(x, 1)), across);
    EXPECT_EQ(integers(argmin(x, 0)), down);
  }
  EXPECT_EQ(argmax(zeros({2, 3}), 1, true).shape(), (Dims{2, 1}));
  EXPECT_EQ(argmax(zeros({2, 3}), {}, true).shape(), (Dims{1, 1}));
}

std::vector<double> softmax_of(const std::vector<float>& x, size_t begin, size_t n) {
  double top = -kInf, sum = 0;
  std::vector<double> e;
  for (size_t i = 0; i < n; ++i) top = std::max<double>(top, x[begin + i]);
  for (size_t i = 0; i < n; ++i) e.push_back(std::exp(x[begin + i] - top)), sum += e.back();
  for (double& v : e) v /= sum;
  return e;
}

TEST(Composed, softmax_and_its_logarithm) {
  for (int64_t n : {1, 5, 64, 1000}) {
    std::vector<float> in = noise(7 * n);
    std::vector<double> want, logs;
    for (size_t r = 0; r < 7; ++r)
      for (double v : softmax_of(in, r * static_cast<size_t>(n), static_cast<size_t>(n))) {
        want.push_back(v);
        logs.push_back(std::log(v));
      }
    Tensor x = from_vector(in, {7, n});
    expect_close(softmax(x, -1), want, 1e-6);
    expect_close(softmax(x.transpose().reshape({n, 7}), 0).transpose(), want, 1e-6);
    expect_close(log_softmax(x, 1), logs, 3e-6);
  }
  expect_close(softmax(tensor({1000, 1000}), 0), {0.5, 0.5});
  expect_close(softmax(tensor({-kInf, 0}), 0), {0, 1});
  EXPECT_EQ(softmax(zeros({0, 3}), 0).shape(), (Dims{0, 3}));
}

TEST(Composed, logsumexp) {
  Tensor x = reshape(tensor({1, 2, 3, -1000, 1000, 0}), {2, 3});
  double want = std::log(std::exp(1) + std::exp(2) + std::exp(3));
  expect_close(logsumexp(x, {1}), {want, 1000});
  EXPECT_EQ(logsumexp(x, {1}, true).shape(), (Dims{2, 1}));
  EXPECT_EQ(logsumexp(full({4}, -kInf), {0}).item<float>(), -kInf);
  EXPECT_EQ(logsumexp(tensor({kInf, 0}), {0}).item<float>(), kInf);
}

TEST(Composed, variance_and_layer_norm) {
  std::vector<float> in = noise(6 * 50);
  Tensor x = from_vector(in, {6, 50});
  std::vector<double> biased, unbiased, normal;
  for (size_t r = 0; r < 6; ++r) {
    double mean = 0, square = 0;
    for (size_t c = 0; c < 50; ++c) mean += in[r * 50 + c] / 50.0;
    for (size_t c = 0; c < 50; ++c) square += (in[r * 50 + c] - mean) * (in[r * 50 + c] - mean);
    biased.push_back(square / 50);
    unbiased.push_back(square / 49);
    for (size_t c = 0; c < 50; ++c) normal.push_back((in[r * 50 + c] - mean) / std::sqrt(square / 50 + 1e-5));
  }
  expect_close(var(x, {1}, false, 0), biased, 1e-5);
  expect_close(var(x, {1}), unbiased, 1e-5);
  expect_close(layer_norm(x), normal, 1e-5);
  expect_close(layer_norm(x.reshape({6, 5, 10}), 2), normal, 1e-5);
  EXPECT_EQ(var(x, {1}, true).shape(), (Dims{6, 1}));
}

TEST(Composed, variance_far_from_zero_does_not_cancel) {
  Tensor x = counting({1000}) / 1000 + 10000;
  EXPECT_NEAR(var(x, {}, false, 0).item<float>(), 1.0 / 12, 2e-3);
}

TEST(Reduce, chains_of_reductions) {
  Tensor x = counting({8, 9});
  EXPECT_EQ(x.sum({0}).max().item<float>(), 252 + 8 * 8);
  EXPECT_NEAR((x - x.mean({0}, true)).sum().item<float>(), 0, 1e-3);
}

TEST(Reduce, a_large_one_uses_every_element) {
  Tensor x = ones({3000, 1001}).realize();
  EXPECT_EQ(x.sum().item<float>(), 3003000);
  EXPECT_EQ((x + counting({1001}) * 0).sum({0}).max().item<float>(), 3000);
}

TEST(Reduce, means_of_many_small_floats_do_not_overflow) {
  expect_equal(mean(ones({65520}, kF16)), {1});
  expect_equal(mean(full({1 << 20}, 1000, kF16).realize()), {1000});
  expect_equal(mean(ones({259}, kBF16)), {1});
  Tensor halves = cat({ones({40000}, kF16), zeros({40000}, kF16)});
  expect_close(var(halves), {0.25}, 1e-3);
  EXPECT_EQ(mean(halves).dtype(), kF16);
  std::vector<double> normal =
      doubles(layer_norm(reshape(cat({ones({35000}, kF16), zeros({35000}, kF16)}), {1, 70000})));
  EXPECT_NEAR(normal.front(), 1, 1e-2);
  EXPECT_NEAR(normal.back(), -1, 1e-2);
}

TEST(Reduce, logsumexp_of_nothing_is_minus_infinity) {
  expect_equal(logsumexp(zeros({0}), {0}), {-std::numeric_limits<double>::infinity()});
  EXPECT_EQ(logsumexp(zeros({3, 0}), {1}).shape(), (Dims{3}));
}

}  // namespace
}  // namespace heddle
