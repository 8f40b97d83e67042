// Creating tensors and reading them back.
#include <limits>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

template <class T>
void round_trip(DType dtype, const std::vector<T>& elements) {
  Tensor x = from_vector(elements, {static_cast<int64_t>(elements.size())});
  EXPECT_EQ(x.dtype(), dtype);
  EXPECT_TRUE(x.is_realized());
  EXPECT_EQ(x.to_vector<T>(), elements);
  for (size_t i = 0; i < elements.size(); ++i) EXPECT_EQ(x[static_cast<int64_t>(i)].item<T>(), elements[i]);
}

TEST(Create, elements_come_back_in_every_dtype) {
  round_trip<bool>(kBool, {true, false, true});
  round_trip<int8_t>(kI8, {-128, 127, 0});
  round_trip<int16_t>(kI16, {-32768, 32767, 5});
  round_trip<int32_t>(kI32, {INT32_MIN, INT32_MAX, -1});
  round_trip<int64_t>(kI64, {INT64_MIN, INT64_MAX, -1});
  round_trip<uint8_t>(kU8, {0, 255, 7});
  round_trip<uint16_t>(kU16, {0, 65535, 7});
  round_trip<uint32_t>(kU32, {0, UINT32_MAX, 7});
  round_trip<uint64_t>(kU64, {0, UINT64_MAX, uint64_t{1} << 63});
  round_trip<float>(kF32, {0.1f, -3e38f, 1e-45f});
  round_trip<double>(kF64, {0.1, -1e308, 5e-324});
}

TEST(Create, data_gives_the_elements_themselves) {
  Tensor x = from_vector(std::vector<float>{1, 2, 3}, {3});
  Tensor y = (x + 1).realize();
  EXPECT_EQ(y.data<float>()[2], 4);
  expect_error<DTypeError>([&] { y.data<double>(); }, {"data", "f32", "f64"});
}

TEST(Create, shapes_and_dtypes_are_known_before_anything_runs) {
  StatsSince stats;
  Tensor x = zeros({2, 3, 4}, kBF16) + 1;
  EXPECT_EQ(x.shape(), (Dims{2, 3, 4}));
  EXPECT_EQ(x.rank(), 3);
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.size(0), 2);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.dtype(), kBF16);
  EXPECT_FALSE(x.is_realized());
  EXPECT_EQ(stats->launches, 0u);
}

TEST(Create, makers) {
  expect_equal(zeros({2}), {0, 0});
  expect_equal(ones({2}), {1, 1});
  expect_equal(full({2, 2}, 2.5), {2.5, 2.5, 2.5, 2.5});
  expect_equal(full({2}, 300, kI32), {300, 300});
  expect_equal(tensor({1, 2.5, -3}), {1, 2.5, -3});
  EXPECT_EQ(tensor({1, 2}, kI64).dtype(), kI64);
  expect_equal(arange(4), {0, 1, 2, 3});
  EXPECT_EQ(arange(4).dtype(), kI64);
  EXPECT_EQ(arange(0).numel(), 0);
  EXPECT_EQ(arange(-3).numel(), 0);
  expect_close(arange(0, 1, 0.25), {0, 0.25, 0.5, 0.75});
  expect_close(arange(1, -1, -0.5), {1, 0.5, 0, -0.5});
  EXPECT_EQ(arange(0, 1, 0.1).numel(), 10);
  expect_equal(eye(3), {1, 0, 0, 0, 1, 0, 0, 0, 1});
  EXPECT_EQ(Tensor().item<float>(), 0);
  EXPECT_EQ(scalar(7, kI32).item<int>(), 7);
  EXPECT_EQ(scalar(7).rank(), 0);
}

TEST(Create, reading_converts) {
  Tensor x = tensor({-1.75, 2.5, 300});
  EXPECT_EQ(x.to_vector<int32_t>(), (std::vector<int32_t>{-1, 2, 300}));
  EXPECT_EQ(x.to_vector<uint8_t>(), (std::vector<uint8_t>{0, 2, 255}));  // floats saturate
  EXPECT_EQ(x.to_vector<bool>(), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(scalar(-1, kI8).item<int64_t>(), -1);
  EXPECT_EQ(scalar(-1, kI8).item<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(full({1, 1}, 4.5).item<double>(), 4.5);
}

TEST(Create, constants_fill_large_tensors_exactly) {
  EXPECT_EQ(ones({1000, 1000}).sum().item<float>(), 1e6f);
  EXPECT_EQ(full({1 << 20}, 3, kU8).sum().item<int64_t>(), 3 << 20);
}

TEST(Create, bool_from_numbers) {
  Tensor x = tensor({0, 1, -2, 0.5}, kBool);
  EXPECT_EQ(x.to_vector<bool>(), (std::vector<bool>{false, true, true, true}));
}

}  // namespace
}  // namespace heddle
