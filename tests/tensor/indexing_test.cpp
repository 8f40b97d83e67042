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

TEST(Indexing, masks_stand_for_the_positions_of_their_true_elements) {
  Tensor x = arange(24).reshape(2, 3, 4);
  Tensor rows = tensor({1, 0, 1}, kBool), both = tensor({{0, 1, 0}, {1, 0, 0}}, kBool);
  expect_equal(x(ge(x, 21)), {21, 22, 23});
  EXPECT_EQ(x(lt(x, 0)).shape(), Dims{0});
  EXPECT_EQ(x(both).shape(), (Dims{2, 4}));
  expect_equal(x(both), {4, 5, 6, 7, 12, 13, 14, 15});
  expect_equal(x(both, 1), {5, 13});
  expect_equal(x(1, rows, 0), {12, 20});
  EXPECT_EQ(x(Slice(), rows).shape(), (Dims{2, 2, 4}));
  EXPECT_EQ(x(Slice(), rows, ids({0, 3})).shape(), (Dims{2, 2}));
  expect_equal(x(Slice(), rows, ids({0, 3})), {0, 11, 12, 23});
  expect_equal(x(Ellipsis, tensor({0, 0, 0, 1}, kBool)), {3, 7, 11, 15, 19, 23});
  EXPECT_EQ(x(zeros({2, 3}, kBool)).shape(), (Dims{0, 4}));
  expect_error<IndexError>([&] { x(ones(3, kBool)); }, {"at", "[3]", "[2, 3, 4]", "axis 0"});
  expect_error<IndexError>([&] { x(0, 0, both); }, {"at", "4 axes", "[2, 3, 4]"});
}

TEST(Indexing, positions_out_of_range_are_reported) {
  Tensor x = zeros({2, 3});
  Tensor bad = tensor({0, 3}, kI64).realize();
  expect_error<IndexError>([&] { x(bad).realize(); }, {"at", "3"});
  expect_error<IndexError>([&] { x(Slice(), bad).realize(); }, {"at", "3"});
  expect_error<IndexError>([&] { x(ids({0, 1}), bad).realize(); }, {"at", "3"});
  expect_error<IndexError>([&] { set_at(x, {ids({0, 1}), bad}, 1).realize(); }, {"set_at", "3"});
}

// set_at() against writing one element after the other at the places where at() finds them.
void expect_set(const Tensor& x, std::initializer_list<Index> indices, const Operand& value) {
  Tensor places = at(arange(x.numel()).reshape(x.shape()), indices);
  Tensor spread = value.kind() == Operand::Kind::Tensor ? expand(value.tensor(), places.shape())
                                                        : expand(scalar(value.real()), places.shape());
  std::vector<double> want = doubles(x), values = doubles(spread);
  std::vector<int64_t> to = integers(places);
  for (size_t i = 0; i < to.size(); ++i) want[static_cast<size_t>(to[i])] = values[i];
  Tensor changed = set_at(x, indices, value);
  EXPECT_EQ(changed.shape(), x.shape());
  EXPECT_EQ(changed.dtype(), x.dtype());
  expect_equal(changed, want);
}

TEST(Indexing, setting_writes_where_reading_reads) {
  Tensor x = noise_tensor({3, 4, 5});
  expect_set(x, {1}, 7);
  expect_set(x, {Slice(1, 3), 0}, 7);
  expect_set(x, {-1, Slice({}, {}, -2), Slice(1, {}, 3)}, counting({2, 2}));
  expect_set(x, {Slice({}, {}, -1)}, counting({3, 1, 5}));
  expect_set(x, {Slice(-9, 9), Slice(9, -9, -3)}, counting({3, 2, 5}));
  expect_set(x, {Slice(0, 1, INT64_MAX), Slice(3, 2, INT64_MIN)}, 4);
  expect_set(x, {Slice(2, 1)}, 4);
  expect_set(x, {Ellipsis, -1}, counting({4}));
  expect_set(x, {Slice(), NewAxis, 0, NewAxis}, counting({3, 1, 1, 5}));
  expect_set(x, {Ellipsis}, counting({5}));
  expect_set(x, {2, 3, 4}, 9);
  expect_set(x, {ids({2, 0, 2})}, counting({3, 4, 5}));
  expect_set(x, {Slice(), ids({{1, -1}, {1, 0}})}, counting({2, 2, 5}));
  expect_set(x, {Slice(1), ids({3, 0, 3}), Slice({}, {}, 2)}, counting({2, 3, 3}));
  expect_set(x, {ids({0, 2, 0}), ids({1, 1, 1})}, counting({3, 5}));
  expect_set(x, {ids({{0}, {1}}), Slice(1, 3), ids({4, 0})}, counting({2, 2, 2}));
  expect_set(x, {0, Slice(), ids({4, 0})}, counting({2, 4}));
  expect_set(x, {Slice(), ids({4 - 1, 0}), NewAxis, ids({1, 2})}, counting({2, 3, 1}));
  expect_set(x, {ids({})}, 3);
}

TEST(Indexing, setting_where_a_mask_holds) {
  Tensor x = noise_tensor({3, 4, 5});
  Tensor rows = tensor({1, 0, 1}, kBool), columns = tensor({0, 1, 1, 0}, kBool);
  expect_set(x, {gt(x, 0)}, 0);
  expect_set(x, {gt(x, 0)}, tensor({8}));
  expect_set(x, {gt(x, 0)}, counting({sum(gt(x, 0)).item<int64_t>()}));
  expect_set(x, {rows}, counting({5}));
  expect_set(x, {rows}, counting({4, 1}));
  expect_set(x, {rows}, counting({2, 4, 5}));
  expect_set(x, {Slice(), columns}, counting({3, 1, 5}));
  expect_set(x, {Slice(), columns}, counting({3, 2, 1}));
  expect_set(x, {Slice(1), columns, 0}, 5);
  expect_set(x, {rows, columns}, counting({2, 5}));
  expect_set(x, {gt(x(Ellipsis, 0), 0)}, counting({1, 5}));
  expect_set(x, {zeros({3, 4}, kBool)}, 1);
}

TEST(Indexing, set_gives_the_slot_another_value) {
  Tensor x = arange(6).reshape(2, 3), same = x;
  x.set({1, Slice(1)}, tensor({8.7, 9.2}));  // takes the dtype of x, as in NumPy
  expect_equal(same, {0, 1, 2, 3, 8, 9});
  x.set({Slice(), Slice(1)}, x(Slice(), Slice(0, 2)));  // reads what was there before
  expect_equal(same, {0, 0, 1, 3, 3, 8});
  x.set({0}, ones({1, 1, 3}));  // axes of one element in front do not matter
  expect_equal(same, {1, 1, 1, 3, 3, 8});
  Tensor named = noise_tensor({4, 3}).with_dim(0, dim("n", 1, 100));
  expect_set(named, {Slice(1), 0}, 7);
  expect_set(named, {ids({3, 1})}, counting({3}));
  expect_set(named, {gt(named, 0)}, 0);
  expect_error<ShapeError>([&] { x.set({0}, ones({2})); }, {"set_at", "[2]", "[3]"});
  expect_error<ShapeError>([&] { x.set({Slice(), ids({0, 1})}, ones({3, 2, 2})); }, {"set_at", "[3, 2, 2]", "[2, 2]"});
  expect_error<ShapeError>([&] { x.set({ge(x, 0)}, ones({4})); }, {"set_at", "[4]", "[6]"});
  expect_error<IndexError>([&] { x.set({0, 3}, 1); }, {"set_at", "3", "[2, 3]"});
  expect_error<IndexError>([&] { x.set({0, 0, 0}, 1); }, {"set_at", "3 axes", "[2, 3]"});
  expect_error<DTypeError>([&] { x.set({zeros(2)}, 1); }, {"set_at", "f32"});
  expect_error<ValueError>([&] { x.set({Slice(0, 1, 0)}, 1); }, {"set_at", "zero"});
}

TEST(Indexing, a_mask_without_axes_makes_a_new_one) {
  Tensor x = arange(6).reshape(2, 3), yes = full({}, 1, kBool), no = full({}, 0, kBool);
  EXPECT_EQ(x(yes).shape(), (Dims{1, 2, 3}));
  EXPECT_EQ(x(no).shape(), (Dims{0, 2, 3}));
  EXPECT_EQ(x(Slice(), yes).shape(), (Dims{2, 1, 3}));
  expect_equal(x(yes, 1), {3, 4, 5});
  EXPECT_EQ(x(no, ids({0})).shape(), (Dims{0, 3}));
  EXPECT_EQ(full({}, 7)(yes).shape(), Dims{1});
  x.set({no}, 9);
  expect_equal(x, {0, 1, 2, 3, 4, 5});
  x.set({yes, Slice(), 0}, ids({{7}, {8}}).reshape(1, 2));
  expect_equal(x, {7, 1, 2, 8, 4, 5});
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
