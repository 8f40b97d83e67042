// Shapes, slices, joins, gathers.
#include <optional>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Movement, reshape_permute_transpose) {
  Tensor x = counting({2, 3, 4});
  EXPECT_EQ(x.reshape({4, -1}).shape(), (Dims{4, 6}));
  expect_equal(x.permute({2, 0, 1}).reshape({-1}),
               {0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23});
  EXPECT_EQ(x.transpose().shape(), (Dims{2, 4, 3}));
  EXPECT_EQ(x.transpose(0, 1).shape(), (Dims{3, 2, 4}));
  EXPECT_EQ(x.permute({-1, 0, 1}).shape(), (Dims{4, 2, 3}));
  EXPECT_EQ(zeros({0, 3}).reshape({3, 0}).shape(), (Dims{3, 0}));
  EXPECT_EQ(flatten(x).shape(), (Dims{24}));
  EXPECT_EQ(flatten(x, 1).shape(), (Dims{2, 12}));
  EXPECT_EQ(flatten(scalar(1)).shape(), (Dims{1}));
  EXPECT_EQ(squeeze(zeros({1, 2, 1})).shape(), (Dims{2}));
  EXPECT_EQ(squeeze(zeros({1, 2, 1}), -1).shape(), (Dims{1, 2}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), (Dims{2, 3, 4, 1}));
  EXPECT_EQ(unsqueeze(x, 0).shape(), (Dims{1, 2, 3, 4}));
}

TEST(Movement, large_transposes) {
  for (auto [n, m] : {std::pair<int64_t, int64_t>{64, 64}, {33, 70}, {1, 100}, {257, 3}}) {
    std::vector<double> got = doubles(counting({n, m}).transpose());
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) ASSERT_EQ(got[static_cast<size_t>(i * n + j)], static_cast<double>(j * m + i));
  }
}

TEST(Movement, expand_pad_shrink_flip) {
  expect_equal(expand(reshape(tensor({1, 2}), {2, 1}), {2, 3}), {1, 1, 1, 2, 2, 2});
  EXPECT_EQ(expand(zeros({2, 1}), {5, -1, 3}).shape(), (Dims{5, 2, 3}));
  expect_equal(pad(tensor({1, 2}), {{1, 2}}), {0, 1, 2, 0, 0});
  expect_equal(pad(tensor({1, 2}), {{1, 0}}, -7.5), {-7.5, 1, 2});
  expect_equal(pad(zeros({0}), {{1, 1}}, 3), {3, 3});
  expect_equal(shrink(tensor({1, 2, 3, 4}), {{1, 3}}), {2, 3});
  EXPECT_EQ(shrink(tensor({1, 2}), {{1, 1}}).numel(), 0);
  expect_equal(flip(reshape(tensor({1, 2, 3, 4}), {2, 2}), {0}), {3, 4, 1, 2});
  expect_equal(flip(reshape(tensor({1, 2, 3, 4}), {2, 2}), {0, -1}), {4, 3, 2, 1});
}

TEST(Movement, chains_of_views_around_arithmetic) {
  Tensor x = counting({4, 5});
  Tensor y = flip(pad(x.transpose(), {{1, 1}, {0, 2}}, 1), {1}) * 2;
  std::vector<double> got = doubles(y), want;
  for (int64_t r = 0; r < 7; ++r)
    for (int64_t c = 5; c >= 0; --c)
      want.push_back(r >= 1 && r <= 5 && c < 4 ? 2.0 * static_cast<double>(c * 5 + r - 1) : 2);
  EXPECT_EQ(got, want);
}

// Positions that Python's range(*slice(begin, end, step).indices(n)) walks through.
std::vector<double> sliced(int64_t n, std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step) {
  auto clip = [&](int64_t i, int64_t low, int64_t high) { return std::min(std::max(i < 0 ? i + n : i, low), high); };
  int64_t first = step > 0 ? (begin ? clip(*begin, 0, n) : 0) : (begin ? clip(*begin, -1, n - 1) : n - 1);
  int64_t last = step > 0 ? (end ? clip(*end, 0, n) : n) : (end ? clip(*end, -1, n - 1) : -1);
  std::vector<double> result;
  for (int64_t i = first; step > 0 ? i < last : i > last; i += step) result.push_back(static_cast<double>(i));
  return result;
}

TEST(Slice, every_case_as_python_does_it) {
  for (int64_t n : {0, 1, 5}) {
    Tensor x = counting({n});
    std::vector<Tensor> results;
    std::vector<std::vector<double>> wanted;
    for (int64_t begin = -n - 2; begin <= n + 2; ++begin)
      for (int64_t end = -n - 2; end <= n + 2; ++end)
        for (int64_t step : {1, 2, 3, 7, -1, -2, -3, -7}) {
          std::optional<int64_t> b = begin == -n - 2 ? std::nullopt : std::optional(begin);
          std::optional<int64_t> e = end == -n - 2 ? std::nullopt : std::optional(end);
          Tensor part = slice(x, 0, b, e, step);
          wanted.push_back(sliced(n, b, e, step));
          ASSERT_EQ(part.numel(), static_cast<int64_t>(wanted.back().size()))
              << n << " " << begin << ":" << end << ":" << step;
          results.push_back(part);
        }
    // All in one go, so that this takes no second.
    Tensor all = cat(results);
    std::vector<double> want;
    for (const auto& w : wanted) want.insert(want.end(), w.begin(), w.end());
    EXPECT_EQ(doubles(all), want);
  }
}

TEST(Slice, extreme_positions_and_steps) {
  Tensor x = counting({5});
  expect_equal(slice(x, 0, INT64_MIN, INT64_MAX), {0, 1, 2, 3, 4});
  expect_equal(slice(x, 0, INT64_MAX, INT64_MIN, -1), {4, 3, 2, 1, 0});
  expect_equal(slice(x, 0, 1, {}, INT64_MAX), {1});
  expect_equal(slice(x, 0, {}, {}, INT64_MIN), {4});
  EXPECT_THROW(slice(x, 0, 0, 5, 0), ValueError);
}

TEST(Slice, inner_axes_and_single_positions) {
  Tensor x = counting({2, 3, 4});
  expect_equal(select(slice(x, 1, {}, {}, -2), -1, 0), {8, 0, 20, 12});
  expect_equal(select(x, 1, -1), {8, 9, 10, 11, 20, 21, 22, 23});
  expect_equal(x[1][2], {20, 21, 22, 23});
  EXPECT_EQ(x[-1][-1][-1].item<float>(), 23);
}

TEST(Window, slides_and_puts_back) {
  Tensor x = counting({6});
  Tensor w = window(x, 0, 3, 2);
  EXPECT_EQ(w.shape(), (Dims{2, 3}));
  expect_equal(w, {0, 1, 2, 2, 3, 4});
  expect_equal(window(x, 0, 2, 1, 3), {0, 3, 1, 4, 2, 5});
  expect_equal(unwindow(w, 0, 3, 2, 1, 6), {0, 1, 4, 3, 4, 0});
  expect_equal(window(x.reshape({2, 3}), -1, 2).max({-1}), {1, 2, 4, 5});
}

TEST(Join, cat_and_stack) {
  Tensor a = counting({2, 2}), b = counting({2, 3}) + 10;
  expect_equal(cat({a, b}, 1), {0, 1, 10, 11, 12, 2, 3, 13, 14, 15});
  expect_equal(cat({a, zeros({0, 2}), a}), {0, 1, 2, 3, 0, 1, 2, 3});
  EXPECT_EQ(cat({tensor({1}, kI32), tensor({1.5})}).dtype(), kF32);
  Tensor s = stack({a, a * 2}, 1);
  EXPECT_EQ(s.shape(), (Dims{2, 2, 2}));
  expect_equal(s, {0, 1, 0, 2, 2, 3, 4, 6});
  EXPECT_EQ(stack({a, a}, -1).shape(), (Dims{2, 2, 2}));
  std::vector<Tensor> many(50, a);
  EXPECT_EQ(cat(many).sum().item<float>(), 300);
}

TEST(Join, parts_that_are_reductions_or_constants) {
  Tensor x = counting({3, 4});
  expect_equal(cat({x.sum({1}), zeros({2}), x.max({1})}), {6, 22, 38, 0, 0, 3, 7, 11});
  expect_equal(pad(x.sum({0}), {{1, 2}}, 5), {5, 12, 15, 18, 21, 5, 5});
  expect_equal(shrink(x.sum({0}), {{1, 3}}), {15, 18});
  expect_equal(flip(cat({x.sum({0}), x.sum({0})}), {0}), {21, 18, 15, 12, 21, 18, 15, 12});
}

TEST(Movement, views_do_not_alias) {
  Tensor x = counting({4}), view = x.reshape({2, 2}), row = view[0];
  x += 10;
  expect_equal(view, {0, 1, 2, 3});
  expect_equal(row, {0, 1});
  expect_equal(x, {10, 11, 12, 13});
}

}  // namespace
}  // namespace heddle
