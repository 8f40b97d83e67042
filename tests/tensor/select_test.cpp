// Operators whose results' sizes depend on the data.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace heddle::testing;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(SelectOps, nonzero_gives_positions_in_order) {
  Tensor x = from_vector<float>({0, 1, -0.0f, static_cast<float>(kNaN), 0, 2}, {2, 3});
  Tensor at = nonzero(x);
  EXPECT_EQ(at.shape(), (Dims{3, 2}));
  EXPECT_EQ(at.dtype(), kI64);
  expect_equal(at, {0, 1, 1, 0, 1, 2});
  expect_equal(count_nonzero(x), {3});
  expect_equal(count_nonzero(x, {1}), {1, 2});
  EXPECT_EQ(nonzero(zeros({4})).shape(), (Dims{0, 1}));
  EXPECT_EQ(nonzero(zeros({0, 2})).shape(), (Dims{0, 2}));
  EXPECT_EQ(nonzero(scalar(3)).shape(), (Dims{1, 0}));
  EXPECT_EQ(nonzero(scalar(0)).shape(), (Dims{0, 0}));
  expect_equal(nonzero(ones({3}, kBool)), {0, 1, 2});
  std::vector<float> data = noise(50000, 9);
  std::vector<int64_t> want;
  for (size_t i = 0; i < data.size(); ++i)
    if (data[i] > 1) want.push_back(static_cast<int64_t>(i));
  EXPECT_EQ(integers(nonzero(from_vector(data, {50000}) > 1)), want);
}

TEST(SelectOps, masked_select_broadcasts) {
  Tensor x = counting({2, 3});
  expect_equal(masked_select(x, x > 2), {3, 4, 5});
  expect_equal(masked_select(x, from_vector<bool>({true, false, true}, {3})), {0, 2, 3, 5});
  expect_equal(masked_select(tensor({1, 2, 3}), from_vector<bool>({true, false}, {2, 1})), {1, 2, 3});
  EXPECT_EQ(masked_select(x, x > 9).shape(), (Dims{0}));
  EXPECT_EQ(masked_select(zeros({0}), zeros({0}, kBool)).shape(), (Dims{0}));
}

TEST(SelectOps, unique_values_counts_and_inverse) {
  Tensor x = from_vector<int32_t>({5, 3, 5, -1, 3, 5}, {2, 3});
  UniqueResult u = unique(x, true, true);
  expect_equal(u.values, {-1, 3, 5});
  expect_equal(*u.counts, {1, 2, 3});
  expect_equal(*u.inverse, {2, 1, 2, 0, 1, 2});
  EXPECT_EQ(u.inverse->shape(), (Dims{2, 3}));
  EXPECT_EQ(u.values.dtype(), kI32);
  EXPECT_FALSE(unique(x).inverse || unique(x).counts);
  UniqueResult nan = unique(tensor({kNaN, 1, kNaN, -0.0, 0}), true, true);
  expect_equal(nan.values, {0, 1, kNaN});
  expect_equal(*nan.counts, {2, 1, 2});
  expect_equal(*nan.inverse, {2, 1, 2, 0, 0});
  UniqueResult none = unique(zeros({0}), true, true);
  EXPECT_EQ(none.values.numel() + none.inverse->numel() + none.counts->numel(), 0);
  expect_equal(unique(ones({3}, kBool)).values, {1});
  expect_equal(unique(tensor({7})).values, {7});
}

TEST(SelectOps, unique_of_many) {
  std::vector<int64_t> data;
  std::map<int64_t, int64_t> counts;
  for (float v : noise(20000, 2)) {
    data.push_back(static_cast<int64_t>(v * 300));
    ++counts[data.back()];
  }
  UniqueResult u = unique(from_vector(data, {20000}), true, true);
  std::vector<int64_t> values = integers(u.values), inverse = integers(*u.inverse), many = integers(*u.counts);
  ASSERT_EQ(values.size(), counts.size());
  size_t i = 0;
  for (auto [value, count] : counts) {
    EXPECT_EQ(values[i], value);
    EXPECT_EQ(many[i++], count);
  }
  for (size_t k = 0; k < data.size(); ++k) ASSERT_EQ(values[static_cast<size_t>(inverse[k])], data[k]);
}

TEST(SelectOps, bincount_and_histogram) {
  Tensor x = from_vector<int32_t>({1, 4, 1, 0, 4, 4}, {6});
  expect_equal(bincount(x), {1, 2, 0, 0, 3});
  expect_equal(bincount(x, 7), {1, 2, 0, 0, 3, 0, 0});
  expect_equal(bincount(zeros({0}, kI32), 2), {0, 0});
  Histogram h = histogram(tensor({1, 2, 1, 5, 3}), 4);
  expect_equal(h.counts, {2, 1, 1, 1});
  expect_equal(h.edges, {1, 2, 3, 4, 5});
  Histogram limited = histogram(tensor({-1, 0, 0.5, 1, 2, kNaN}), 2, std::pair(0.0, 1.0));
  expect_equal(limited.counts, {1, 2});
  expect_equal(histogram(tensor({3, 3}), 2).edges, {2.5, 3, 3.5});
  expect_equal(histogram(zeros({0}), 2).counts, {0, 0});
}

// What NumPy counts: by comparing with the edges.
std::vector<int64_t> counted_by_edges(const std::vector<double>& values, const std::vector<double>& edges) {
  const size_t bins = edges.size() - 1;
  std::vector<int64_t> counts(bins);
  for (double v : values) {
    if (!(v >= edges.front() && v <= edges.back())) continue;
    const auto above = std::upper_bound(edges.begin(), edges.end(), v);
    ++counts[std::min(bins, static_cast<size_t>(above - edges.begin())) - 1];
  }
  return counts;
}

TEST(SelectOps, histogram_of_numbers_at_the_edges) {
  struct Case {
    double low, high;
    int64_t bins;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  // The last ones have bins that are as narrow as numbers are apart, or limits that no arithmetic can be done with.
  const Case cases[] = {{-4, 4, 100},       {0, 1, 10},        {0.1, 0.7, 7},   {-3, -1, 33},
                        {1e-30, 3e-30, 9},  {0, 1e30, 11},     {0, 1, 100000},  {1000, 1001, 50},
                        {1e6, 1e6 + 1, 20}, {1e-44, 1e-43, 3}, {-1e38, 1e38, 5}};
  for (DType dtype : {kF32, kF64})
    for (const auto& [low, high, bins] : cases) {
      SCOPED_TRACE(text(dtype, " ", low, " to ", high, " in ", bins));
      const std::pair limits(low, high);
      const std::vector<double> edges = doubles(histogram(zeros({1}, dtype), bins, limits).edges);
      std::vector<double> values{low, high, kNaN, infinity, -infinity, 0, -1e38, 1e38};
      for (double edge : edges) {
        const float narrow = static_cast<float>(edge);
        for (double side : {-infinity, infinity})
          values.push_back(dtype == kF64 ? std::nextafter(edge, side)
                                         : std::nextafter(narrow, static_cast<float>(side)));
        values.push_back(edge);
      }
      const Tensor x = from_vector(values, {static_cast<int64_t>(values.size())}).to(dtype);
      EXPECT_EQ(integers(histogram(x, bins, limits).counts), counted_by_edges(doubles(x), edges));
    }
}

// Edges are rounded once: 0.9 in f32 begins the tenth part of [0, 1], as a user would expect.
TEST(SelectOps, histogram_rounds_edges_once) {
  Tensor tenths = cast(arange(11), kF64) / 10;
  const Histogram h = histogram(cast(tenths, kF32), 10, std::pair(0.0, 1.0));
  expect_equal(h.counts, {1, 1, 1, 1, 1, 1, 1, 1, 1, 2});
  EXPECT_EQ(h.edges.to_vector<float>(), cast(tenths, kF32).to_vector<float>());
  expect_equal(histogram(tensor({-2, -1, 0, 1, 2}), 4, std::pair(-2.0, 2.0)).counts, {1, 1, 1, 2});
  const Histogram widest = histogram(tensor({3e38, -3e38}), 4);
  expect_equal(widest.counts, {1, 0, 0, 1});
  expect_close(widest.edges / 1e38, {-3, -1.5, 0, 1.5, 3}, 1e-6);
}

TEST(SelectOps, histogram_and_bincount_of_many) {
  const std::vector<float> data = noise(100001, 5);
  const Tensor x = from_vector(data, {100001});
  const std::vector<double> values(data.begin(), data.end());
  for (int64_t bins : {1, 2, 100, 5000}) {
    const Histogram limited = histogram(x, bins, std::pair(-1.5, 1.25)), whole = histogram(x, bins);
    EXPECT_EQ(integers(limited.counts), counted_by_edges(values, doubles(limited.edges))) << bins;
    EXPECT_EQ(integers(whole.counts), counted_by_edges(values, doubles(whole.edges))) << bins;
    EXPECT_EQ(sum(whole.counts).item<int64_t>(), 100001);
  }
  std::vector<int64_t> wanted(8);
  std::vector<int32_t> numbers;
  for (float v : data) {
    numbers.push_back(static_cast<int32_t>(2 * (v + 2)));
    ++wanted[static_cast<size_t>(numbers.back())];
  }
  EXPECT_EQ(integers(bincount(from_vector(numbers, {100001}))), wanted);
  EXPECT_EQ(integers(bincount(from_vector(numbers, {100001}).to(kU8), 8)), wanted);
  EXPECT_EQ(integers(histogram(from_vector(numbers, {100001}), 8, std::pair(0.0, 8.0)).counts), wanted);
  EXPECT_EQ(integers(histogram(ones({3}, kBool), 2, std::pair(0.0, 1.0)).counts), (std::vector<int64_t>{0, 3}));
}

TEST(SelectOps, refuse_bad_arguments) {
  expect_error<DTypeError>([] { masked_select(ones({2}), ones({2})); }, {"masked_select", "bool", "f32[2]"});
  expect_error<ShapeError>([] { masked_select(ones({2}), ones({3}, kBool)); }, {"masked_select"});
  expect_error<ValueError>([] { bincount(ones({2})); }, {"bincount", "f32[2]"});
  expect_error<ValueError>([] { bincount(from_vector<int32_t>({1, -2}, {2})); }, {"bincount", "-2"});
  expect_error<ValueError>([] { histogram(ones({2}), 0); }, {"histogram"});
  expect_error<ValueError>([] { histogram(tensor({1, kNaN})); }, {"histogram"});
}

}  // namespace
}  // namespace heddle
