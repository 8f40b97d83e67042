// Choosing elements by index, and what happens when there is no such element.
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

Tensor ids(const std::vector<int64_t>& values, const Dims& shape) { return from_vector(values, shape); }

TEST(Gather, chooses_and_counts_from_the_end) {
  Tensor x = tensor({10, 11, 12, 13});
  expect_equal(gather(x, tensor({0, 3, 3, 1}, kI64)), {10, 13, 13, 11});
  expect_equal(gather(x, tensor({-1, -4}, kI32)), {13, 10});
  expect_equal(gather(x, scalar(2, kU8)), {12});
}

TEST(Gather, narrow_indices_into_a_long_axis) {
  Tensor x = counting({300});
  expect_equal(gather(x, tensor({-1, 5, -128, 127}, kI8)), {299, 5, 172, 127});
  expect_equal(gather(x, tensor({255, 0}, kU8)), {255, 0});
}

TEST(Gather, along_any_axis_with_indices_of_any_rank) {
  Tensor x = counting({3, 4});
  expect_equal(gather(x, tensor({2, 0}, kI64), 0), {8, 9, 10, 11, 0, 1, 2, 3});
  expect_equal(gather(x, tensor({2, 0}, kI64), 1), {2, 0, 6, 4, 10, 8});
  Tensor index = reshape(tensor({0, 1, 2, 3}, kI32), {2, 2});
  EXPECT_EQ(gather(x, index, 1).shape(), (Dims{3, 2, 2}));
  EXPECT_EQ(gather(x, index, -1).shape(), (Dims{3, 2, 2}));
  expect_equal(gather(x * 2, index % 3, 0).sum({2}).reshape({-1}), doubles((gather(x, index % 3, 0) * 2).sum({2})));
  EXPECT_EQ(gather(x, zeros({0}, kI64), 0).shape(), (Dims{0, 4}));
  expect_error<IndexError>([&] { gather(zeros({0, 2}), tensor({0}, kI64), 0); }, {"gather", "[0, 2]"});
}

TEST(Take, works_on_the_flattened_tensor_without_an_axis) {
  Tensor x = counting({3, 4});
  expect_equal(take(x, ids({11, -12, 5}, {3})), {11, 0, 5});
  expect_equal(take(x, ids({1, -1}, {2}), 1), {1, 3, 5, 7, 9, 11});
  expect_equal(index_select(x, 0, ids({2, 2}, {2})), {8, 9, 10, 11, 8, 9, 10, 11});
  expect_error<ShapeError>([&] { index_select(x, 0, ids({2, 2}, {1, 2})); }, {"index_select", "[1, 2]"});
}

TEST(TakeAlongAxis, follows_the_other_axes) {
  Tensor x = counting({3, 4});
  expect_equal(take_along_axis(x, ids({3, 0, -1}, {3, 1}), 1), {3, 4, 11});
  expect_equal(take_along_axis(x, ids({2, 0, 1, 2}, {1, 4}), 0), {8, 1, 6, 11});
  EXPECT_EQ(take_along_axis(x, ids({1, 2}, {1, 2}), 1).shape(), (Dims{3, 2}));  // broadcasts over the rows
  expect_equal(take_along_axis(x, ids({1, 2}, {1, 2}), 1), {1, 2, 5, 6, 9, 10});
  expect_equal(take_along_axis(x, argmax(-x, 1, true), 1), {0, 4, 8});
  expect_error<ShapeError>([&] { take_along_axis(x, ids({1}, {1}), 1); }, {"take_along_axis", "[3, 4]"});
  expect_error<ShapeError>([&] { take_along_axis(x, ids({1, 1}, {2, 1}), 1); }, {"take_along_axis"});
}

TEST(Embedding, gives_a_row_for_every_id) {
  Tensor table = counting({5, 2});
  Tensor rows = embedding(table, ids({4, 0, 0, 1}, {2, 2}));
  EXPECT_EQ(rows.shape(), (Dims{2, 2, 2}));
  expect_equal(rows, {8, 9, 0, 1, 0, 1, 2, 3});
  expect_equal(embedding(table * 2, ids({4}, {1})).sum(), {34});
}

TEST(Index, takes_an_array_for_each_axis) {
  Tensor x = counting({3, 4, 2});
  expect_equal(index(x, {ids({0, 2}, {2}), ids({-1, 1}, {2})}), {6, 7, 18, 19});
  expect_equal(index(x, {ids({0, 2}, {2, 1}), ids({0, 3}, {2}), ids({1}, {1})}), {1, 7, 17, 23});
  expect_equal(index(x, {ids({1, 3}, {2})}, 1).sum({0, 2}), doubles(gather(x, ids({1, 3}, {2}), 1).sum({0, 2})));
  expect_error<IndexError>([&] { index(x, {ids({0}, {1}), ids({0}, {1})}, 2); }, {"index", "too many"});
}

TEST(OneHot, marks_positions_and_ignores_strangers) {
  expect_equal(one_hot(ids({2, 0, 7, -1}, {4}), 3), {0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(one_hot(tensor({1}, kU8), 300, kF32).shape(), (Dims{1, 300}));
  expect_equal(one_hot(tensor({255}, kU8), 300, kF32).sum(), {1});
}

TEST(DynamicSlice, begins_where_data_says) {
  Tensor x = counting({4, 5}), at = ids({1, 2}, {2});
  expect_equal(dynamic_slice(x, at, {2, 3}), {7, 8, 9, 12, 13, 14});
  expect_equal(dynamic_slice(x, at + 1, {2, 2}), {13, 14, 18, 19});
  expect_error<IndexError>([&] { dynamic_slice(x, at + 1, {2, 3}).realize(); }, {"dynamic_slice", "index 3", "axis 1"});
  expect_error<ShapeError>([&] { dynamic_slice(x, at, {5, 1}); }, {"dynamic_slice", "[4, 5]"});
}

TEST(OutOfRange, is_reported_with_operator_axis_and_index) {
  Tensor x = counting({10, 3});
  expect_error<IndexError>([&] { gather(x, ids({1, 17, 2}, {3})).realize(); },
                           {"gather: index 17 is out of range for axis 0 of size 10"});
  expect_error<IndexError>([&] { take(x, ids({0, -4}, {2}), 1).realize(); },
                           {"take: index -4 is out of range for axis 1 of size 3"});
  expect_error<IndexError>([&] { embedding(x, from_vector(std::vector<uint8_t>{200}, {1})).realize(); },
                           {"embedding: index 200 is out of range for axis 0 of size 10"});
  expect_error<IndexError>([&] { gather(x, from_vector(std::vector<uint64_t>{UINT64_MAX}, {1})).realize(); },
                           {"gather", "of size 10"});
  expect_error<IndexError>([&] { take_along_axis(x, ids({0, 1, 10}, {1, 3}), 0).realize(); },
                           {"take_along_axis: index 10 is out of range for axis 0 of size 10"});
  expect_error<IndexError>([&] { index(x, {ids({3}, {1}), ids({3}, {1})}).realize(); },
                           {"index: index 3 is out of range for axis 1 of size 3"});
  expect_error<IndexError>([&] { gather(ones({4}), ids({4}, {1})).realize(); }, {"gather: index 4"});
  expect_error<IndexError>([&] { gather(counting({1, 2}), ids({1}, {1})).realize(); }, {"gather: index 1"});
}

TEST(OutOfRange, is_found_wherever_the_gather_is_fused) {
  Tensor x = counting({50, 40}), bad = ids({1, 2, 50, 3}, {4}), good = ids({1, 2, 49, 3}, {4});
  auto uses = std::vector<std::function<Tensor(const Tensor&)>>{
      [&](const Tensor& i) { return gather(x, i).sum(); },
      [&](const Tensor& i) { return softmax(gather(x, i) * 0.01, 1); },
      [&](const Tensor& i) { return matmul(gather(x, i), counting({40, 8})); },
      [&](const Tensor& i) { return cat({gather(x, i), ones({1, 40})}); },
      [&](const Tensor& i) { return gather(x, i, 1).transpose(); },
      [&](const Tensor& i) { return gather(gather(x, gather(i, ids({0, 2}, {2}))), ids({0, 1}, {2}), 1); },
  };
  for (size_t k = 0; k < uses.size(); ++k) {
    SCOPED_TRACE(k);
    if (k != 4) expect_error<IndexError>([&] { uses[k](bad).realize(); }, {"gather: index 50", "size 50"});
    if (k == 4) expect_error<IndexError>([&] { uses[k](bad).realize(); }, {"gather", "size 40"});
    if (k != 4) uses[k](good).realize();
  }
}

TEST(OutOfRange, every_position_of_a_long_index_is_looked_at) {
  Tensor x = counting({16});
  for (int64_t n : {1, 7, 16, 33, 1000}) {
    for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
      std::vector<int64_t> values(static_cast<size_t>(n), 3);
      values[static_cast<size_t>(at)] = 16;
      SCOPED_TRACE(::testing::Message() << at << " of " << n);
      expect_error<IndexError>([&] { gather(x, ids(values, {n})).realize(); }, {"index 16"});
      std::vector<int32_t> narrow(values.begin(), values.end());
      expect_error<IndexError>([&] { gather(x, from_vector(narrow, {n})).realize(); }, {"index 16"});
    }
  }
}

TEST(OutOfRange, leaves_everything_as_it_was) {
  Tensor x = counting({4}), index = ids({0, 9}, {2});
  Tensor bad = gather(x, index);
  for (int round = 0; round < 2; ++round) EXPECT_THROW(bad.realize(), IndexError);
  EXPECT_FALSE(bad.is_realized());
  x += gather(x, ids({3, 2, 1, 7}, {4}));
  EXPECT_THROW(x.realize(), IndexError);
  EXPECT_THROW(x.realize(), IndexError);
  expect_equal(gather(counting({4}), ids({3, 0}, {2})), {3, 0});  // nothing is left of the failure
}

TEST(OutOfRange, is_an_error_at_the_call_for_a_number) {
  Tensor x = counting({4});
  expect_error<IndexError>([&] { gather(x, full({2}, 4, kI64)); }, {"gather: index 4", "axis 0 of size 4"});
  expect_error<IndexError>([&] { take(x, scalar(-5, kI32)); }, {"take: index -5"});
  expect_equal(gather(x, scalar(-4, kI64)), {0});
  expect_error<DTypeError>([&] { gather(x, tensor({1.0})); }, {"gather", "f32"});
}

TEST(OutOfRange, padding_is_not_looked_up) {
  Tensor x = counting({4});
  Tensor rows = pad(gather(x, ids({3, 1}, {2})), {{1, 2}}, -1);
  expect_equal(rows, {-1, 3, 1, -1, -1});
}

}  // namespace
}  // namespace heddle
