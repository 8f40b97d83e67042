// x(...) against NumPy's results.
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

Tensor ids(const Numbers& values) { return tensor(values, kI64); }

TEST(Indexing, numbers_slices_and_new_axes) {
  Tensor x = arange(24).reshape(2, 3, 4);
  expect_equal(x(1, 2), {20, 21, 22, 23});
  EXPECT_EQ(x(1, 2, 3).item<int>(), 23);
  EXPECT_EQ(x(-1, -1, -1).item<int>(), 23);
  expect_equal(x(0, Slice(1), Slice(0, 4, 2)), {4, 6, 8, 10});
  expect_equal(x(Slice(), 0, Slice({}, {}, -1)), {3, 2, 1, 0, 15, 14, 13, 12});
  expect_equal(x(Slice({}, {}, -1), 0, 0), {12, 0});
  expect_equal(x(0, 0, Slice(-3, -1)), {1, 2});
  EXPECT_EQ(x(Slice(5)).shape(), (Dims{0, 3, 4}));
  EXPECT_EQ(x(NewAxis).shape(), (Dims{1, 2, 3, 4}));
  EXPECT_EQ(x(Slice(), NewAxis, 0, NewAxis).shape(), (Dims{2, 1, 1, 4}));
  EXPECT_EQ(x(Ellipsis, 0).shape(), (Dims{2, 3}));
  EXPECT_EQ(x(0, Ellipsis, 0).shape(), (Dims{3}));
  EXPECT_EQ(x(Ellipsis).shape(), (Dims{2, 3, 4}));
  EXPECT_EQ(x(Ellipsis, NewAxis).shape(), (Dims{2, 3, 4, 1}));
  EXPECT_EQ(x(0, 0, 0, Ellipsis).shape(), Dims{});
  expect_equal(x.at({1, Slice(0, 1), 2}), {14});
}

TEST(Indexing, one_integer_tensor_takes_the_place_of_its_axis) {
  Tensor x = arange(24).reshape(2, 3, 4);
  expect_equal(x(ids({1, 0}), 0, 0), {12, 0});
  EXPECT_EQ(x(Slice(), ids({{0, 2}, {1, 1}})).shape(), (Dims{2, 2, 2, 4}));
  EXPECT_EQ(x(Slice(), Slice(), ids({0, -1, 1})).shape(), (Dims{2, 3, 3}));
  expect_equal(x(0, Slice(1, 3), ids({0, -1})), {4, 8, 7, 11});  // the number counts as a tensor: in front
  EXPECT_EQ(x(ids({0})).shape(), (Dims{1, 3, 4}));
  EXPECT_EQ(x(scalar(1, kI64)).shape(), (Dims{3, 4}));
  EXPECT_EQ(x(ids({})).shape(), (Dims{0, 3, 4}));
}

TEST(Indexing, several_integer_tensors_broadcast_together) {
  Tensor x = arange(24).reshape(2, 3, 4);
  expect_equal(x(ids({0, 1}), ids({2, 0}), ids({3, 1})), {11, 13});
  expect_equal(x(ids({{0}, {1}}), ids({2, 0}), 1), {9, 1, 21, 13});
  EXPECT_EQ(x(ids({0, 1}), ids({2, 0})).shape(), (Dims{2, 4}));
  // Side by side they stay in place; apart they go to the front.
  EXPECT_EQ(x(Slice(), ids({0, 1, 2, 0, 1}), ids({0, 1, 2, 3, 0})).shape(), (Dims{2, 5}));
  EXPECT_EQ(x(ids({0, 1, 0, 1, 0}), Slice(), ids({0, 1, 2, 3, 0})).shape(), (Dims{5, 3}));
  expect_equal(x(ids({0, 1}), Slice(), ids({3, 0})), {3, 7, 11, 12, 16, 20});
  Tensor y = arange(120).reshape(2, 3, 4, 5);
  EXPECT_EQ(y(Slice(), ids({0, 1}), Slice(), ids({1, 2})).shape(), (Dims{2, 2, 4}));
  EXPECT_EQ(y(Slice(), Slice(), ids({0, 1}), ids({1, 2})).shape(), (Dims{2, 3, 2}));
  EXPECT_EQ(y(Slice(), ids({0, 1, 2, 0, 1, 2}), 1).shape(), (Dims{2, 6, 5}));
  EXPECT_EQ(x(Slice(), ids({0, 1, 2}), Ellipsis, ids({0, 1, 2})).shape(), (Dims{3, 2}));
  // A number beside a tensor counts as one.
  EXPECT_EQ(y(0, Slice(), ids({0, 1})).shape(), (Dims{2, 3, 5}));
  EXPECT_EQ(y(0, ids({0, 1})).shape(), (Dims{2, 4, 5}));
  EXPECT_EQ(y(Slice(), 0, ids({0, 1})).shape(), (Dims{2, 2, 5}));
  EXPECT_EQ(y(Slice(), ids({0, 1}), NewAxis, ids({1, 2})).shape(), (Dims{2, 2, 1, 5}));
  expect_equal(y(Slice(), ids({0, 1}), 0, ids({1, 2})), {1, 22, 61, 82});
}

TEST(Indexing, agrees_with_loops_for_mixed_indices) {
  Tensor x = noise_tensor({3, 4, 5});
  std::vector<double> v = doubles(x);
  Tensor rows = ids({{2, 0}, {1, 1}}), columns = ids({4, -5});
  std::vector<double> want;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t k = 0; k < 2; ++k)
      for (int64_t j = 3; j >= 1; j -= 2) {
        int64_t r[2][2] = {{2, 0}, {1, 1}}, c[2] = {4, 0};
        want.push_back(v[static_cast<size_t>((r[i][k] * 4 + j) * 5 + c[k])]);
      }
  Tensor y = x(rows, Slice({}, 0, -2), columns);
  EXPECT_EQ(y.shape(), (Dims{2, 2, 2}));
  expect_equal(y, want);
}

TEST(Indexing, mistakes_are_named) {
  Tensor x = zeros({2, 3});
  expect_error<IndexError>([&] { x(0, 0, 0); }, {"at", "3", "[2, 3]"});
  expect_error<IndexError>([&] { x(2); }, {"at", "2", "[2, 3]"});
  expect_error<IndexError>([&] { x(Slice(), -4); }, {"at", "-4", "axis 1"});
  expect_error<IndexError>([&] { x(Ellipsis, Ellipsis); }, {"at", "Ellipsis"});
  expect_error<ValueError>([&] { x(Slice(0, 1, 0)); }, {"at", "zero"});
  expect_error<DTypeError>([&] { x(zeros(2)); }, {"at", "f32"});
  expect_error<ShapeError>([&] { x(ids({0, 1}), ids({0, 1, 2})); }, {"at", "[2]", "[3]"});
}

}  // namespace
}  // namespace heddle
