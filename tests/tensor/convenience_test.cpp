// What people write first: single axes and sizes, nested braces, methods in chains.
#include <limits>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Convenience, one_axis_or_size_needs_no_braces) {
  Tensor x = counting({2, 3});
  expect_equal(x.sum(1), {3, 12});
  expect_equal(x.sum(-1, true), {3, 12});
  EXPECT_EQ(x.sum(-1, true).shape(), (Dims{2, 1}));
  EXPECT_EQ(zeros(3).shape(), Dims{3});
  EXPECT_EQ(zeros(3).shape(), (std::vector<int64_t>{3}));
  EXPECT_EQ(x.reshape(6).shape(), Dims{6});
  EXPECT_EQ(x.reshape(3, -1).shape(), (Dims{3, 2}));
  EXPECT_EQ(x.permute(1, 0).shape(), (Dims{3, 2}));
  expect_equal(flip(x, 0), {3, 4, 5, 0, 1, 2});
  int n = 4;
  size_t m = 2;
  EXPECT_EQ(zeros({n, static_cast<int64_t>(m)}).shape(), (Dims{4, 2}));
  static_assert(!std::is_convertible_v<bool, Axes> && !std::is_convertible_v<double, Dims>);
}

TEST(Convenience, nested_braces) {
  expect_equal(tensor({1, 2, 3}), {1, 2, 3});
  Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(x.shape(), (Dims{2, 3}));
  EXPECT_EQ(x.dtype(), kF32);
  expect_equal(x, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor({{{1}, {2}}}).shape(), (Dims{1, 2, 1}));
  EXPECT_EQ(tensor({{1}, {2}}).shape(), (Dims{2, 1}));
  EXPECT_EQ(tensor({{1, 2}}).shape(), (Dims{1, 2}));
  EXPECT_EQ(tensor({{}, {}}).shape(), (Dims{2, 0}));
  EXPECT_EQ(tensor({}).shape(), Dims{0});
  EXPECT_EQ(tensor(5).shape(), Dims{});
  EXPECT_EQ(tensor({5}).shape(), Dims{1});
  expect_error<ShapeError>([] { tensor({{1, 2}, {3}}); }, {"tensor"});
  expect_error<ShapeError>([] { tensor({{1, 2}, 3}); }, {"tensor"});
  expect_error<ShapeError>([] { tensor({1, {2}}); }, {"tensor"});
}

TEST(Convenience, numbers_reach_the_dtype_unharmed) {
  EXPECT_EQ(tensor({INT64_MAX, INT64_MIN}, kI64).to_vector<int64_t>(), (std::vector<int64_t>{INT64_MAX, INT64_MIN}));
  EXPECT_EQ(tensor({UINT64_MAX}, kU64).to_vector<uint64_t>(), (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(tensor({0.1}, kF64).item<double>(), 0.1);
  expect_equal(tensor({true, false}, kBool), {1, 0});
  expect_error<ValueError>([] { tensor({300}, kU8); }, {"tensor", "300", "u8"});
  expect_error<ValueError>([] { tensor({1.5}, kI32); }, {"tensor", "1.5", "i32"});
  expect_error<ValueError>([] { tensor({NAN}, kI32); }, {"tensor", "nan", "i32"});
}

TEST(Convenience, arange_counts_like_numpys) {
  EXPECT_EQ(arange(4).dtype(), kI64);
  EXPECT_EQ(arange(2, 10).to_vector<int64_t>(), (std::vector<int64_t>{2, 3, 4, 5, 6, 7, 8, 9}));
  expect_equal(arange(10, 2, -3), {10, 7, 4});
  expect_equal(arange(0, 10, 3), {0, 3, 6, 9});
  expect_equal(arange(0, 9, 3), {0, 3, 6});
  EXPECT_EQ(arange(5, 5).numel(), 0);
  EXPECT_EQ(arange(5, 2).numel(), 0);
  EXPECT_EQ(arange(-3).numel(), 0);
  EXPECT_EQ(arange(0, 1, 0.25).dtype(), kF32);
  expect_equal(arange(0, 1, 0.25), {0, 0.25, 0.5, 0.75});
  expect_equal(arange(2.5), {0, 1, 2});
  EXPECT_EQ(arange(3, kF16).dtype(), kF16);
  EXPECT_EQ(arange(0, 4, 1, kU8).dtype(), kU8);
  EXPECT_EQ(arange(INT64_MAX - 1, INT64_MAX).to_vector<int64_t>(), std::vector<int64_t>{INT64_MAX - 1});
  EXPECT_EQ(arange(INT64_MIN, INT64_MAX, INT64_MAX).numel(), 3);
  expect_error<ValueError>([] { arange(0, 1, 0); }, {"arange"});
  expect_error<ValueError>([] { arange(0, zeros(1)); }, {"arange"});
}

TEST(Convenience, spaces) {
  expect_equal(linspace(2, 3, 5), {2, 2.25, 2.5, 2.75, 3});
  expect_equal(linspace(2, 3, 4, false), {2, 2.25, 2.5, 2.75});
  expect_equal(linspace(5, 1, 3), {5, 3, 1});
  expect_equal(linspace(7, 9, 1), {7});
  EXPECT_EQ(linspace(7, 9, 0).numel(), 0);
  std::vector<double> fine = doubles(linspace(0, 0.7, 50, true, kF64));
  EXPECT_EQ(fine.front(), 0);
  EXPECT_EQ(fine.back(), 0.7);
  for (int i = 0; i < 50; ++i) EXPECT_NEAR(fine[static_cast<size_t>(i)], 0.7 * i / 49, 1e-15);
  expect_close(logspace(0, 2, 3), {1, 10, 100});
  expect_close(logspace(0, 3, 4, true, 2), {1, 2, 4, 8});
  expect_error<ValueError>([] { linspace(0, 1, -1); }, {"linspace", "-1"});
}

TEST(Convenience, likes) {
  Tensor x = counting({2, 3}, kI16);
  EXPECT_EQ(zeros_like(x).dtype(), kI16);
  EXPECT_EQ(ones_like(x, kF64).dtype(), kF64);
  expect_equal(full_like(x, 7), {7, 7, 7, 7, 7, 7});
  EXPECT_EQ(empty_like(x).shape(), x.shape());
  EXPECT_EQ(empty({2, 2}, kU8).dtype(), kU8);
  expect_error<ValueError>([&] { full_like(x, 100000); }, {"full_like", "i16"});
}

TEST(Convenience, matrices) {
  expect_equal(eye(2, 3, 1), {0, 1, 0, 0, 0, 1});
  expect_equal(eye(3, 2, -1), {0, 0, 1, 0, 0, 1});
  expect_equal(tri(3, 2), {1, 0, 1, 1, 1, 1});
  expect_equal(tri(2, 3, 1), {1, 1, 0, 1, 1, 1});
  expect_error<ShapeError>([] { eye(-1); }, {"eye", "-1"});
  expect_error<ShapeError>([] { tri(2, -3); }, {"tri", "-3"});
}

TEST(Convenience, methods_chain) {
  Tensor x = noise_tensor({4, 5});
  expect_close(x.exp().sum(-1).log(), doubles(logsumexp(x, -1)));
  expect_close(x.abs().sqrt().square(), doubles(abs(x)));
  expect_close(x.t().matmul(x).flatten(), doubles(matmul(transpose(x), x)));
  expect_close(x.softmax().sum(-1), {1, 1, 1, 1});
  EXPECT_EQ(x.unsqueeze(0).expand({3, 4, 5}).squeeze({}).shape(), (Dims{3, 4, 5}));
  EXPECT_EQ(x.to(kF16).dtype(), kF16);
  EXPECT_EQ(x.argmax(1).shape(), Dims{4});
  expect_close(x.std(0), doubles(sqrt(var(x, 0))));
  expect_close(x[1][2], doubles(x.slice(0, 1, 2).slice(1, 2, 3)));
  expect_close(x.clamp(-1, 1).pow(2), doubles(square(clamp(x, -1, 1))));
  Tensor copy = x.clone();
  copy += 1;
  EXPECT_FALSE(equal(copy, x));
}

TEST(Convenience, operators_that_change_nothing_still_make_a_new_tensor) {
  Tensor x = tensor({{1, 2}, {3, 4}});
  std::vector<Tensor> made{roll(x, 0, 0),
                           rot90(x, 4),
                           pad(x, {{0, 0}, {0, 0}}, PadMode::Reflect),
                           diff(x, 0),
                           contiguous(x),
                           expand(x, {2, 2}),
                           abs(x),
                           floor(x),
                           cast(x, kF32),
                           split(x, 2)[0],
                           cat({x}),
                           einsum("ij", {x}),
                           pow(x, 1),
                           nan_to_num(cast(x, kI32))};
  for (Tensor& y : made) y.assign(zeros_like(y));
  expect_equal(x, {1, 2, 3, 4});
}

TEST(Convenience, messages_name_what_was_called) {
  Tensor x = zeros({2, 3});
  expect_error<ValueError>([&] { x.sum({1, 1}); }, {"sum", "[1, 1]", "axis 1 twice"});
  expect_error<ShapeError>([] { ones({-1}); }, {"ones", "-1"});
  expect_error<ValueError>([] { scalar(300, kU8); }, {"scalar", "300"});
  expect_error<IndexError>([&] { x[5]; }, {"operator[]", "5", "[2, 3]"});
  expect_error<IndexError>([&] { x.std(4); }, {"std", "4"});
  expect_error<ShapeError>([&] { x.view({4}); }, {"view", "[2, 3]"});
  expect_error<ValueError>([] { amax(zeros({0})); }, {"amax", "[0]"});
  expect_error<ValueError>([] { norm(zeros({0}), INFINITY); }, {"norm", "[0]"});
  expect_error<IndexError>([&] { logsumexp(x, 7); }, {"logsumexp", "7"});
  expect_error<IndexError>([&] { softmin(x, 7); }, {"softmin", "7"});
}

}  // namespace
}  // namespace heddle
