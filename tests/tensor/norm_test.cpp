// Norms, deviations, and reductions that leave NaN out.
#include <limits>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

const double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Norm, of_any_order) {
  Tensor x = tensor({{3, -4, 0}, {1, 2, -2}}, kF64);
  expect_close(norm(x, 2, 1), {5, 3}, 1e-15);
  expect_close(norm(x, 1, 1), {7, 5}, 1e-15);
  expect_close(norm(x, 0, 1), {2, 3}, 1e-15);
  expect_close(norm(x, kInfinity, 1), {4, 2}, 1e-15);
  expect_close(norm(x, -kInfinity, 1), {0, 1}, 1e-15);
  expect_close(norm(x, 3, 1), {std::cbrt(27 + 64), std::cbrt(1 + 8 + 8)}, 1e-14);
  expect_close(norm(x, 0.5, 0), {std::pow(std::sqrt(3) + 1, 2), std::pow(2 + std::sqrt(2), 2), 2}, 1e-14);
  expect_close(norm(x), {std::sqrt(9 + 16 + 1 + 4 + 4.0)}, 1e-15);
  EXPECT_EQ(norm(x, 2, 1, true).shape(), (Dims{2, 1}));
  EXPECT_EQ(norm(tensor({3, 4}, kI32)).item<float>(), 5);
  EXPECT_EQ(norm(full(100, 1000, kF16)).item<float>(), 10000);  // squares leave the range of f16
  EXPECT_EQ(norm(zeros({0})).item<float>(), 0);
  expect_error<ValueError>([&] { norm(x, kNan); }, {"norm"});
}

TEST(Norm, deviations_over_any_axes) {
  Tensor x = noise_tensor({3, 4, 5});
  std::vector<double> v = doubles(x);
  double mean_of = 0, square_of = 0;
  for (double e : v) mean_of += e / 60;
  for (double e : v) square_of += (e - mean_of) * (e - mean_of);
  EXPECT_NEAR(heddle::std(x).item<double>(), std::sqrt(square_of / 59), 1e-6);
  EXPECT_NEAR(heddle::std(x, {}, false, 0).item<double>(), std::sqrt(square_of / 60), 1e-6);
  EXPECT_EQ(heddle::std(x, {0, 2}, true).shape(), (Dims{1, 4, 1}));
  expect_close(heddle::std(tensor({1})), {kNan});
  expect_close(var(zeros({0})), {kNan});
  expect_close(average(tensor({1, 2, 3}), tensor({1, 0, 1})), {2});
  expect_close(average(tensor({{1, 2}, {3, 4}}), tensor({1, 3}), 1), {1.75, 3.75});
  expect_error<ShapeError>([] { average(zeros({2}), zeros({3})); }, {"average"});
  expect_error<ShapeError>([] { average(zeros({2}), zeros({3, 2})); }, {"average"});
}

TEST(Norm, reductions_without_nan) {
  Tensor x = tensor({{1, kNan, 3}, {kNan, kNan, kNan}, {-1, -2, -6}});
  expect_equal(nansum(x, 1), {4, 0, -9});
  expect_equal(nanprod(x, 1), {3, 1, -12});
  expect_equal(nanmax(x, 1), {3, kNan, -1});
  expect_equal(nanmin(x, 1), {1, kNan, -6});
  expect_equal(nanmean(x, 1), {2, kNan, -3});
  expect_close(nanvar(x, 1, false, 0), {1, kNan, 14.0 / 3});
  expect_close(nanstd(x, 1, true, 0), {1, kNan, std::sqrt(14.0 / 3)});
  expect_close(nanvar(x, 1), {2, kNan, 7});
  expect_equal(nanmax(tensor({-kInfinity, kNan})), {-kInfinity});
  EXPECT_EQ(nansum(tensor({1, 2}, kI8)).dtype(), kI64);
  expect_equal(nanmax(tensor({1, 2}, kI8)), {2});
  expect_error<ValueError>([] { nanmax(zeros({0})); }, {"nanmax", "[0]"});
}

TEST(Norm, others) {
  expect_equal(ptp(tensor({{3, 9}, {4, 4}}), 1), {6, 0});
  expect_equal(count_nonzero(tensor({{0, 9}, {4, kNan}}), 1), {1, 2});
  EXPECT_EQ(count_nonzero(tensor({0, 1})).dtype(), kI64);
  expect_equal(amax(tensor({1, 3})), {3});
  expect_equal(amin(tensor({1, 3})), {1});
  expect_close(logsumexp(tensor({{-kInfinity, -kInfinity}, {kInfinity, 0}, {1000, 1000}}), 1),
               {-kInfinity, kInfinity, 1000 + std::log(2.0)});
  expect_close(logsumexp(zeros({2, 0}), 1), {-kInfinity, -kInfinity});
  EXPECT_EQ(logsumexp(zeros({2, 3, 4}), {0, 2}).shape(), Dims{3});
  expect_close(softmin(tensor({1, 2})), doubles(softmax(tensor({-1, -2}))));
}

TEST(Norm, logsumexp_of_long_rows_and_columns_with_infinities) {
  for (int64_t axis : {1, 0}) {
    const Dims shape = axis == 1 ? Dims{3, 100003} : Dims{70001, 8};
    const int64_t n = shape[static_cast<size_t>(axis)];
    Tensor place = axis == 1 ? arange(n) : unsqueeze(arange(n), 1);
    auto all = [&](const Tensor& x) { return logsumexp(broadcast_to(x, shape), axis); };
    auto expect_all = [&](const Tensor& x, double value) {
      expect_close(all(x), doubles(full({all(x).size(0)}, value)));
    };
    expect_all(where(lt(place, n - 2), -kInfinity, -500), -500 + std::log(2.0));
    expect_all(where(lt(place, n - 2), -kInfinity, 500), 500 + std::log(2.0));
    expect_all(where(lt(place, 2), 500, -500), 500 + std::log(2.0));
    expect_all(where(lt(place, n - 1), 0, kInfinity), kInfinity);
    expect_all(where(lt(place, n - 1), -kInfinity, kInfinity), kInfinity);
    expect_all(where(lt(place, n), -kInfinity, 0), -kInfinity);
    EXPECT_TRUE(heddle::all(isnan(all(where(lt(place, 1), kNan, 0)))).item<bool>());
  }
}

TEST(Norm, layers) {
  Tensor x = noise_tensor({6, 8}), w = noise_tensor({8}, 2), b = noise_tensor({8}, 3);
  expect_close(layer_norm(x, w, b), doubles(layer_norm(x) * w + b), 1e-5);
  expect_close(layer_norm(x, w), doubles(layer_norm(x) * w), 1e-5);
  Tensor w2 = noise_tensor({6, 8}, 4);
  expect_close(layer_norm(x, w2), doubles(layer_norm(x, 2) * w2), 1e-5);
  expect_close(rms_norm(x), doubles(x / sqrt(mean(square(x), 1, true) + 1e-6)), 1e-5);
  expect_close(rms_norm(x, w), doubles(rms_norm(x) * w), 1e-5);
  EXPECT_EQ(layer_norm(cast(x, kF16), w, b).dtype(), kF16);
  expect_error<ShapeError>([&] { layer_norm(x, zeros(7)); }, {"layer_norm", "weight", "[7]", "[6, 8]"});
  expect_error<ShapeError>([&] { layer_norm(x, w, zeros(7)); }, {"layer_norm", "bias", "[7]"});
  expect_error<ShapeError>([&] { rms_norm(x, zeros({2, 6, 8})); }, {"rms_norm"});
  Tensor large = noise_tensor({64, 512}), gain = noise_tensor({512}, 2), shift = noise_tensor({512}, 3);
  Tensor y = layer_norm(large, gain, shift), z = rms_norm(large, gain);
  StatsSince stats;
  y.realize();
  EXPECT_EQ(stats->launches, 1u);
  z.realize();
  EXPECT_EQ(stats->launches, 2u);
}

}  // namespace
}  // namespace heddle
