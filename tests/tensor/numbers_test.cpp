// What docs/numbers.md promises: rewrites change neither overflow, nor underflow, nor NaN.
#include "helpers.h"

namespace heddle {
namespace {

using testing::doubles;
using testing::expect_equal;
using testing::noise_tensor;

TEST(Numbers, a_divisor_keeps_a_product_from_overflowing) {
  Tensor x = tensor({{1., 2., 3.}, {4., 6., 8.}}), w = tensor({{1., 2.}, {3., 4.}, {5., 6.}});
  auto shares = [](const Tensor& t) { return t / t.max(-1, true); };
  std::vector<double> want = doubles(matmul(shares(x), w));
  for (double scale : {1e30, 1e-30}) {
    std::vector<double> got = doubles(matmul(shares(x * scale), w * scale));
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i] / scale, want[i], 1e-5 * want[i]) << scale;
  }
}

TEST(Numbers, a_factor_of_a_row_is_multiplied_before_the_sum) {
  Tensor x = full({2, 4}, 1e30).realize(), w = full({4, 3}, 1e30).realize(), s = full({2, 1}, 1e-30).realize();
  std::vector<double> got = doubles(matmul(x * s, w));
  for (double value : got) EXPECT_NEAR(value / 4e30, 1, 1e-5);
}

TEST(Numbers, relaxed_mode_takes_factors_out_of_sums) {
  struct Relaxed {
    Relaxed() { set_relaxed(true); }
    ~Relaxed() { set_relaxed(false); }
  };
  Tensor x = full({2, 4}, 1e30).realize(), w = full({4, 3}, 1e30).realize(), s = full({2, 1}, 1e-30).realize();
  auto result = [&] { return doubles(matmul(x * s, w))[0]; };
  EXPECT_TRUE(std::isfinite(result()));
  {
    Relaxed mode;
    EXPECT_EQ(result(), INFINITY);
  }
  EXPECT_TRUE(std::isfinite(result())) << "the mode is part of the plan";
}

TEST(Numbers, norms_keep_products_of_large_numbers_finite) {
  Tensor x = noise_tensor({4, 8}), w = noise_tensor({8, 3}) * 1e30;
  for (double value : doubles(matmul(rms_norm(x * 1e15), w))) EXPECT_TRUE(std::isfinite(value)) << value;
}

// A maximum of the columns bounds nothing in the rows.
TEST(Numbers, weights_that_are_not_bounded_are_divided_before_they_are_summed) {
  Tensor x = tensor({{0., 0.}, {88., 88.}}, kF32), v = full({2, 2}, 10., kF32);
  Tensor e = exp(x - max(x, {-1}));
  expect_equal(matmul(e / sum(e, {-1}, true), v), {10, 10, 10, 10});
}

TEST(Numbers, gradients_of_quotients_need_no_reciprocal_that_fits) {
  Tensor x = ones({1000}, kF16).requires_grad_();
  for (double g : doubles(grad(mean(x / 1e-5), x))) EXPECT_NEAR(g, 99.9, 1);
  Tensor tiny = full({1}, 1e-39, kF32).requires_grad_();
  expect_equal(grad(sum(pow(tiny, full({1}, 0., kF32).realize())), tiny), {0});
}

TEST(Numbers, a_product_is_the_same_wherever_it_is_computed) {
  for (const Dims& shape : {Dims{16, 16}, Dims{32, 10}, Dims{100, 1000}, Dims{1, 1000}, Dims{17, 17}}) {
    Tensor large = full(shape, 1e10, kF32).realize();
    const double each = 1.0 / static_cast<double>(shape[1]);
    for (double p : doubles(softmax(large * 0.3))) ASSERT_NEAR(p, each, 1e-6 * each);
    Tensor y = (rand(shape) + 1).realize() * 0.3;
    for (double root : doubles(sqrt(max(y, {1}, true) - y))) ASSERT_FALSE(std::isnan(root));
  }
  Tensor r = randn({50, 3}).realize() * 0.7, d = unsqueeze(r, 0) - unsqueeze(r, 1);
  EXPECT_EQ(sum(cast(sum(d * d, {2}) == 0, kI32)).item<int32_t>(), 50);
  Tensor a = randn({64}).realize() * 0.7;
  EXPECT_EQ(max(abs(a - gather(a, arange(64)))).item<float>(), 0);
}

TEST(Numbers, small_floats_divide_by_powers_of_two_without_a_reciprocal_that_does_not_fit) {
  expect_equal(tensor({0.001953125}, kF8E4M3) / 0.001953125, {1});
  expect_equal(tensor({448., -3.5}, kF8E4M3) / 128, {3.5, -0.02734375});
  expect_equal(tensor({57344.}, kF8E5M2) / 32768, {1.75});
}

TEST(Numbers, zeros_infinities_and_nan_are_not_simplified_away) {
  Tensor x = tensor({INFINITY, NAN, 2.});
  expect_equal(x * 0, {NAN, NAN, 0});
  expect_equal(x - x, {NAN, NAN, 0});
  expect_equal(x / x, {NAN, NAN, 1});
  expect_equal(exp(log(x * 1e38 * 10)), {INFINITY, NAN, INFINITY});
  Tensor big = tensor({3e38, 1e-30});
  EXPECT_EQ(doubles(big * 10 / 10)[0], INFINITY);
  EXPECT_EQ(doubles(big * 1e-20 * 1e20)[1], 0);
}

}  // namespace
}  // namespace heddle
