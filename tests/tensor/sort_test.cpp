// Sorting, selection and search through the public interface.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace heddle::testing;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(SortOps, sorts_along_any_axis) {
  Tensor x = from_vector<float>({3, 1, 2, 9, 7, 8, 4, 6, 5, 0, 2, 1}, {2, 3, 2});
  ValuesIndices last = sort(x), middle = sort(x, 1), first = sort(x, 0, true);
  expect_equal(last.values, {1, 3, 2, 9, 7, 8, 4, 6, 0, 5, 1, 2});
  expect_equal(last.indices, {1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0});
  expect_equal(middle.values, {2, 1, 3, 8, 7, 9, 2, 0, 4, 1, 5, 6});
  expect_equal(middle.indices, {1, 0, 0, 2, 2, 1, 2, 1, 0, 2, 1, 0});
  expect_equal(first.values, {4, 6, 5, 9, 7, 8, 3, 1, 2, 0, 2, 1});
  EXPECT_EQ(sort(x, -3).values.shape(), (Dims{2, 3, 2}));
  EXPECT_EQ(last.indices.dtype(), kI64);
}

TEST(SortOps, orders_nan_last_and_keeps_equal_elements_in_order) {
  Tensor x = tensor({kNaN, 1, -kInfinity, 1, kInfinity, kNaN, -0.0, 0});
  expect_equal(argsort(x), {2, 6, 7, 1, 3, 4, 0, 5});
  expect_equal(argsort(x, 0, true), {0, 5, 4, 1, 3, 6, 7, 2});
  expect_equal(sort(x).values, {-kInfinity, -0.0, 0, 1, 1, kInfinity, kNaN, kNaN});
}

TEST(SortOps, every_dtype) {
  for (DType dtype : {kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64}) {
    Tensor x = cast(tensor({1, 0, 1, 0, 0, 1}), dtype);
    ValuesIndices sorted = sort(x.realize());
    EXPECT_EQ(sorted.values.dtype(), dtype);
    expect_equal(sorted.values, {0, 0, 0, 1, 1, 1});
    expect_equal(sorted.indices, {1, 3, 4, 0, 2, 5});
  }
  Tensor limits = from_vector<int64_t>({INT64_MAX, 0, INT64_MIN, -1}, {4});
  expect_equal(argsort(limits), {2, 3, 1, 0});
  Tensor large = from_vector<uint64_t>({UINT64_MAX, 0, 1ull << 63}, {3});
  expect_equal(argsort(large), {1, 2, 0});
}

TEST(SortOps, sizes_zero_and_one) {
  EXPECT_EQ(sort(zeros({3, 0})).indices.shape(), (Dims{3, 0}));
  EXPECT_EQ(sort(zeros({0, 3}), 1).values.numel(), 0);
  expect_equal(sort(tensor({5})).values, {5});
  expect_equal(argsort(tensor({5})), {0});
  EXPECT_EQ(topk(counting({2, 4}), 0).values.shape(), (Dims{2, 0}));
}

// Both the short way and the one for long rows.
TEST(SortOps, agrees_with_the_standard_library) {
  for (int64_t n : {100, 30000}) {
    std::vector<float> data = noise(2 * n, 3);
    for (float& v : data) v = std::round(v * 1000) / 1000;  // so that there are equal ones
    Tensor x = from_vector(data, {2, n});
    ValuesIndices sorted = sort(x);
    realize({sorted.values, sorted.indices});
    std::vector<int64_t> indices = integers(sorted.indices);
    std::vector<double> values = doubles(sorted.values);
    for (int64_t row = 0; row < 2; ++row) {
      const float* from = data.data() + row * n;
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return from[a] < from[b]; });
      for (int64_t i = 0; i < n; ++i) {
        auto at = static_cast<size_t>(row * n + i);
        ASSERT_EQ(indices[at], order[static_cast<size_t>(i)]) << row << ", " << i;
        ASSERT_EQ(values[at], static_cast<double>(from[order[static_cast<size_t>(i)]]));
      }
    }
  }
}

TEST(SortOps, topk_takes_the_first_of_a_stable_sort) {
  for (int64_t n : {40, 20011})
    for (bool largest : {true, false}) {
      Tensor x = floor(noise_tensor({n}, 5) * 500).realize();
      ValuesIndices top = topk(x, 20, 0, largest), all = sort(x, 0, largest);
      EXPECT_EQ(integers(top.indices), integers(slice(all.indices, 0, 0, 20)));
      EXPECT_EQ(doubles(top.values), doubles(slice(all.values, 0, 0, 20)));
    }
  ValuesIndices nan = topk(tensor({1, kNaN, 3, 2}), 2);
  expect_equal(nan.indices, {1, 2});
  expect_equal(topk(from_vector<int32_t>({1, 5, 2, 4, 3, 6}, {3, 2}), 2, 0).values, {3, 6, 2, 5});
}

TEST(SortOps, one_kernel_each_and_results_are_read_from_memory) {
  Tensor x = noise_tensor({64, 100}).realize();
  {
    StatsSince stats;
    sort(x.reshape({32, 200})).values.realize();
    EXPECT_EQ(stats->launches, 1u);
  }
  {
    StatsSince stats;
    ValuesIndices sorted = sort(relu(x));
    realize({sorted.values * 2, sorted.indices});
    EXPECT_EQ(stats->launches, 3u) << "relu, sort, product";
  }
  // Sorts of the same values, and a scalar that reads them, stay kernels of their own.
  {
    Tensor y = sin(x);
    Tensor up = sort(y).values, down = sort(y, 1, true).values, one = y[3][4] * 2;
    realize({up, down, one});
    EXPECT_EQ(doubles(flip(up, {1})), doubles(down));
    expect_close(one, {std::sin(doubles(x)[304]) * 2});
  }
  // A sort of a sort of a sum, used together with all of them.
  Tensor sums = sum(x, {1});
  ValuesIndices once = sort(sums), twice = sort(neg(once.values));
  Tensor all = once.values + twice.values * 2 + sums + cast(once.indices, kF32);
  std::vector<double> s = doubles(sums), sorted = s, want;
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> position = doubles(argsort(sums));
  for (size_t i = 0; i < s.size(); ++i) want.push_back(sorted[i] - 2 * sorted[63 - i] + s[i] + position[i]);
  expect_close(all, want, 1e-5);
}

TEST(SortOps, kthvalue_median_and_quantile) {
  Tensor x = tensor({5, 1, 4, 2});
  EXPECT_EQ(kthvalue(x, 2).values.item<float>(), 2);
  EXPECT_EQ(kthvalue(x, 2).indices.item<int64_t>(), 3);
  EXPECT_EQ(kthvalue(x, 4, 0, true).values.shape(), (Dims{1}));
  EXPECT_EQ(median(x).item<float>(), 3);
  EXPECT_EQ(median(tensor({3, 1, 2})).item<float>(), 2);
  expect_close(median(from_vector<int32_t>({1, 9, 2, 4, 8, 3}, {2, 3}), 1), {2, 4});
  expect_close(median(from_vector<float>({1, 9, 2, 4, 8, 3}, {2, 3}), 0, true), {2.5, 8.5, 2.5});
  EXPECT_EQ(median(from_vector<float>({1, 9, 2, 4}, {2, 2}), {}, true).shape(), (Dims{1, 1}));
  expect_close(quantile(x, 0.25), {1.75});
  expect_close(quantile(x, 0), {1});
  expect_close(quantile(x, 1), {5});
  expect_close(quantile(from_vector<float>({1, static_cast<float>(kNaN), 3, 4}, {2, 2}), 0.5, 1), {kNaN, 3.5});
  expect_close(median(tensor({kInfinity, kInfinity, 1})), {kInfinity});
  expect_close(median(tensor({-kInfinity, kInfinity, kInfinity, kInfinity})), {kInfinity});
}

TEST(SortOps, searchsorted_finds_places) {
  Tensor sorted = tensor({1, 2, 2, 2, 5});
  Tensor values = from_vector<float>({0, 1, 2, 3, 5, 9, static_cast<float>(kNaN), -1}, {2, 4});
  expect_equal(searchsorted(sorted, values), {0, 0, 1, 4, 4, 5, 5, 0});
  expect_equal(searchsorted(sorted, values, true), {0, 1, 4, 4, 5, 5, 5, 0});
  EXPECT_EQ(searchsorted(sorted, values).shape(), (Dims{2, 4}));
  expect_equal(searchsorted(tensor({}), values), std::vector<double>(8, 0));
  expect_equal(searchsorted(tensor({1, kNaN, kNaN}), tensor({kNaN, 1})), {1, 0});
  expect_equal(searchsorted(tensor({1, kNaN, kNaN}), tensor({kNaN, 1}), true), {3, 1});
  std::vector<float> many = noise(1000, 4);
  std::sort(many.begin(), many.end());
  std::vector<float> wanted = noise(300, 6);
  std::vector<int64_t> got = integers(searchsorted(from_vector(many, {1000}), from_vector(wanted, {300})));
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(got[i], std::lower_bound(many.begin(), many.end(), wanted[i]) - many.begin());
  expect_equal(searchsorted(from_vector<int32_t>({1, 3}, {2}), tensor({2.5})), {1});
  // Each row in its own.
  Tensor rows = tensor({{1, 2, 3}, {10, 20, 30}});
  expect_equal(searchsorted(rows, tensor({{0, 2, 9, 3}, {10, 25, 31, 0}})), {0, 1, 3, 2, 0, 2, 3, 0});
  expect_equal(searchsorted(rows, tensor({{2}, {30}}), true), {2, 3});
}

TEST(SortOps, refuse_bad_arguments) {
  Tensor x = counting({2, 3});
  expect_error<IndexError>([&] { sort(x, 2); }, {"sort", "2"});
  expect_error<IndexError>([&] { argsort(Tensor(), 1); }, {"argsort", "1", "rank 0"});
  expect_error<ValueError>([&] { topk(x, 4); }, {"topk", "4", "f32[2, 3]"});
  expect_error<ValueError>([&] { topk(x, -1); }, {"topk", "-1"});
  expect_error<ValueError>([&] { kthvalue(x, 0); }, {"kthvalue", "0"});
  expect_error<ValueError>([&] { quantile(x, 1.5); }, {"quantile", "1.5"});
  expect_error<ValueError>([&] { median(zeros({0})); }, {"median", "f32[0]"});
  expect_error<ShapeError>([&] { searchsorted(x, counting({3, 3})); }, {"searchsorted", "[2, 3]", "[3, 3]"});
}

}  // namespace
}  // namespace heddle
