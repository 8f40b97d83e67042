// Views beyond the basic ones: turns, tiles, diagonals, padding, strides, splitting.
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Shape, axes_move) {
  Tensor x = counting({2, 3, 4});
  EXPECT_EQ(moveaxis(x, 0, -1).shape(), (Dims{3, 4, 2}));
  EXPECT_EQ(moveaxis(x, {0, 1}, {-1, 0}).shape(), (Dims{3, 4, 2}));
  EXPECT_EQ(moveaxis(x, {2, 0}, {0, 1}).shape(), (Dims{4, 2, 3}));
  expect_equal(moveaxis(x, 0, 2), doubles(permute(x, {1, 2, 0})));
  expect_equal(swapaxes(x, 0, -1), doubles(transpose(x, 0, 2)));
  expect_error<ValueError>([&] { moveaxis(x, {0, 0}, {1, 2}); }, {"moveaxis", "twice"});
  expect_error<ValueError>([&] { moveaxis(x, {0, 1}, 1); }, {"moveaxis"});
  expect_error<IndexError>([&] { moveaxis(x, 3, 0); }, {"moveaxis", "3"});
  expect_error<IndexError>([&] { swapaxes(x, 0, 3); }, {"swapaxes", "3"});
  expect_error<ShapeError>([&] { t(x); }, {"t:", "[2, 3, 4]"});
  expect_equal(t(tensor({1, 2})), {1, 2});
}

TEST(Shape, several_axes_of_size_one) {
  EXPECT_EQ(squeeze(zeros({1, 2, 1, 3, 1}), {0, -1}).shape(), (Dims{2, 1, 3}));
  EXPECT_EQ(squeeze(zeros({1, 2, 1})).shape(), Dims{2});
  EXPECT_EQ(unsqueeze(zeros({2, 3}), {0, 2, -1}).shape(), (Dims{1, 2, 1, 3, 1}));
  EXPECT_EQ(unflatten(zeros({2, 12}), 1, {3, -1}).shape(), (Dims{2, 3, 4}));
  EXPECT_EQ(ravel(scalar(1)).shape(), Dims{1});
  expect_error<ShapeError>([] { squeeze(zeros({1, 2}), {0, 1}); }, {"squeeze", "[1, 2]"});
  expect_error<ValueError>([] { unsqueeze(zeros(2), {0, 0}); }, {"unsqueeze", "twice"});
  expect_error<ShapeError>([] { unflatten(zeros({2, 12}), 1, {5, -1}); }, {"unflatten"});
}

TEST(Shape, broadcasting_by_name) {
  std::vector<Tensor> all = broadcast_tensors({counting({2, 1}), counting(3), scalar(5)});
  for (const Tensor& x : all) EXPECT_EQ(x.shape(), (Dims{2, 3}));
  expect_equal(all[0], {0, 0, 0, 1, 1, 1});
  expect_equal(all[2], {5, 5, 5, 5, 5, 5});
  expect_equal(broadcast_to(tensor({1, 2}), {2, 2}), {1, 2, 1, 2});
  expect_error<ShapeError>([] { broadcast_tensors({zeros(2), zeros(3)}); }, {"broadcast_tensors", "[2]", "[3]"});
  expect_error<ShapeError>([] { broadcast_to(zeros(2), {3}); }, {"broadcast_to", "[2]", "[3]"});
}

TEST(Shape, turns_and_rolls) {
  Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  expect_equal(rot90(x), {3, 6, 2, 5, 1, 4});
  expect_equal(rot90(x, 2), {6, 5, 4, 3, 2, 1});
  expect_equal(rot90(x, 3), {4, 1, 5, 2, 6, 3});
  expect_equal(rot90(x, -1), {4, 1, 5, 2, 6, 3});
  expect_equal(rot90(x, 1, {1, 0}), {4, 1, 5, 2, 6, 3});
  expect_equal(fliplr(x), {3, 2, 1, 6, 5, 4});
  expect_equal(flipud(x), {4, 5, 6, 1, 2, 3});
  expect_equal(roll(x, 1), {6, 1, 2, 3, 4, 5});
  expect_equal(roll(x, -1, 1), {2, 3, 1, 5, 6, 4});
  expect_equal(roll(x, 7, 1), {3, 1, 2, 6, 4, 5});
  expect_equal(roll(x, {1, 1}, {0, 1}), {6, 4, 5, 3, 1, 2});
  expect_equal(roll(x, 1, {1, 1}), {2, 3, 1, 5, 6, 4});  // twice along one axis, as NumPy
  EXPECT_EQ(roll(zeros({0, 2}), 3, 0).shape(), (Dims{0, 2}));
  expect_error<ValueError>([&] { rot90(x, 1, {0, 0}); }, {"rot90", "twice"});
  expect_error<ValueError>([&] { roll(x, {1, 2}); }, {"roll"});
  expect_error<ValueError>([&] { roll(x, {1, 2, 3}, {0, 1}); }, {"roll"});
  expect_error<ShapeError>([] { fliplr(zeros(3)); }, {"fliplr"});
}

TEST(Shape, repeats) {
  Tensor x = tensor({{1, 2}, {3, 4}});
  expect_equal(tile(x, 2), {1, 2, 1, 2, 3, 4, 3, 4});
  expect_equal(tile(x, {2, 1}), {1, 2, 3, 4, 1, 2, 3, 4});
  EXPECT_EQ(tile(x, {3, 2, 1}).shape(), (Dims{3, 4, 2}));
  EXPECT_EQ(tile(x, {0, 2}).shape(), (Dims{0, 4}));
  expect_equal(repeat(tensor({1, 2}), {2, 2}), {1, 2, 1, 2, 1, 2, 1, 2});
  expect_error<ShapeError>([&] { repeat(x, 2); }, {"repeat"});
  expect_error<ValueError>([&] { tile(x, -1); }, {"tile", "-1"});
  expect_equal(repeat_interleave(x, 2, 0), {1, 2, 1, 2, 3, 4, 3, 4});
  expect_equal(repeat_interleave(x, 2, 1), {1, 1, 2, 2, 3, 3, 4, 4});
  expect_equal(repeat_interleave(x, tensor({2, 1}, kI32), 1), {1, 1, 2, 3, 3, 4});
  expect_equal(repeat_interleave(x, tensor({2}, kI32), 1), {1, 1, 2, 2, 3, 3, 4, 4});
  EXPECT_EQ(repeat_interleave(x, tensor({0, 0}, kI32), 1).shape(), (Dims{2, 0}));
  expect_error<ShapeError>([&] { repeat_interleave(x, tensor({1, 2, 3}, kI32), 1); }, {"repeat_interleave"});
  expect_error<DTypeError>([&] { repeat_interleave(x, tensor({1, 2}), 1); }, {"repeat_interleave", "f32"});
  expect_error<ValueError>([&] { repeat_interleave(x, tensor({1, -2}, kI32), 1); }, {"repeat_interleave", "-2"});
}

// Where position i beyond the edges of n elements comes from.
int64_t source(int64_t i, int64_t n, PadMode mode) {
  auto wrap = [](int64_t a, int64_t m) { return ((a % m) + m) % m; };
  switch (mode) {
    case PadMode::Replicate: return std::clamp<int64_t>(i, 0, n - 1);
    case PadMode::Circular: return wrap(i, n);
    case PadMode::Symmetric: return std::min(wrap(i, 2 * n), 2 * n - 1 - wrap(i, 2 * n));
    case PadMode::Reflect: {
      if (n == 1) return 0;
      int64_t at = wrap(i, 2 * n - 2);
      return std::min(at, 2 * n - 2 - at);
    }
    default: return 0;
  }
}

TEST(Shape, padding_goes_on_beyond_the_edge_however_far) {
  for (PadMode mode : {PadMode::Reflect, PadMode::Replicate, PadMode::Circular, PadMode::Symmetric})
    for (int64_t n : {1, 2, 3, 5})
      for (int64_t before : {0, 1, 2, 4, 11})
        for (int64_t after : {0, 1, 3, 12}) {
          Tensor x = counting(n);
          std::vector<double> want;
          for (int64_t i = -before; i < n + after; ++i) want.push_back(static_cast<double>(source(i, n, mode)));
          SCOPED_TRACE(::testing::Message() << static_cast<int>(mode) << " " << n << " " << before << " " << after);
          expect_equal(pad(x, {{before, after}}, mode), want);
        }
}

TEST(Shape, padding_of_several_axes) {
  Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  expect_equal(pad(x, {{1, 0}, {1, 1}}, PadMode::Reflect), {5, 4, 5, 6, 5, 2, 1, 2, 3, 2, 5, 4, 5, 6, 5});
  expect_equal(pad(x, {{0, 1}, {0, 1}}, PadMode::Circular), {1, 2, 3, 1, 4, 5, 6, 4, 1, 2, 3, 1});
  expect_equal(pad(x, {{0, 0}, {1, 0}}, PadMode::Constant), {0, 1, 2, 3, 0, 4, 5, 6});
  EXPECT_EQ(pad(zeros({0, 2}), {{0, 0}, {1, 1}}, PadMode::Reflect).shape(), (Dims{0, 4}));
  expect_error<ValueError>([] { pad(zeros({0, 2}), {{1, 0}, {1, 1}}, PadMode::Reflect); }, {"pad", "[0, 2]"});
  expect_error<ValueError>([&] { pad(x, {{0, 0}, {-1, 0}}, PadMode::Reflect); }, {"pad", "-1"});
  expect_error<ShapeError>([&] { pad(x, {{0, 0}}, PadMode::Reflect); }, {"pad", "[2, 3]"});
}

TEST(Shape, padding_is_part_of_the_kernel_that_reads_it) {
  Tensor x = noise_tensor({100, 120});
  for (PadMode mode : {PadMode::Reflect, PadMode::Replicate, PadMode::Circular, PadMode::Symmetric}) {
    Tensor y = pad(x, {{3, 3}, {2, 2}}, mode) * 2 + 1;
    StatsSince stats;
    y.realize();
    EXPECT_EQ(stats->launches, 1u);
  }
}

TEST(Shape, strides_over_the_elements) {
  Tensor x = counting(12);
  expect_equal(as_strided(x, {3, 4}, {1, 3}), {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  expect_equal(as_strided(x, {3, 3}, {2, 1}, 1), {1, 2, 3, 3, 4, 5, 5, 6, 7});
  expect_equal(as_strided(x, {3}, {-2}, 4), {4, 2, 0});
  expect_equal(as_strided(x, {2, 2}, {0, 1}, 5), {5, 6, 5, 6});
  expect_equal(as_strided(x, {}, {}, 7), {7});
  EXPECT_EQ(as_strided(x, {0, 5}, {100, 100}).shape(), (Dims{0, 5}));
  expect_error<IndexError>([&] { as_strided(x, {3, 4}, {1, 4}); }, {"as_strided", "12"});
  expect_error<IndexError>([&] { as_strided(x, {3}, {-1}, 1); }, {"as_strided"});
  expect_error<IndexError>([&] { as_strided(x, {2}, {INT64_MAX}, 1); }, {"as_strided"});
  expect_error<ShapeError>([&] { as_strided(x, {2, 2}, {1}); }, {"as_strided"});
}

TEST(Shape, diagonals) {
  Tensor x = counting({3, 4});
  expect_equal(diagonal(x), {0, 5, 10});
  expect_equal(diagonal(x, 1), {1, 6, 11});
  expect_equal(diagonal(x, 3), {3});
  expect_equal(diagonal(x, -2), {8});
  EXPECT_EQ(diagonal(x, 4).numel(), 0);
  EXPECT_EQ(diagonal(x, -9).numel(), 0);
  expect_equal(diagonal(x, 1, 1, 0), {4, 9});
  EXPECT_EQ(diagonal(zeros({2, 3, 4, 5}), 0, 1, 3).shape(), (Dims{2, 4, 3}));
  expect_equal(diagonal(counting({2, 3, 3}), 0, 1, 2), {0, 4, 8, 9, 13, 17});
  expect_equal(diag(x), {0, 5, 10});
  expect_equal(diag(tensor({1, 2}), -1), {0, 0, 0, 1, 0, 0, 0, 2, 0});
  EXPECT_EQ(trace(x).item<float>(), 15);
  EXPECT_EQ(trace(x, 1).item<float>(), 18);
  expect_equal(diag_embed(tensor({{1, 2}, {3, 4}})), {1, 0, 0, 2, 3, 0, 0, 4});
  expect_equal(diag_embed(tensor({1, 2}), 1, 1, 0), {0, 0, 0, 1, 0, 0, 0, 2, 0});
  for (int64_t k : {-2, -1, 0, 1, 3}) expect_equal(diagonal(diag_embed(tensor({4, 5, 6}), k), k), {4, 5, 6});
  expect_error<ValueError>([&] { diagonal(x, 0, 1, -1); }, {"diagonal", "same"});
  expect_error<ShapeError>([] { diag(zeros({2, 2, 2})); }, {"diag"});
}

TEST(Shape, triangles) {
  Tensor x = counting({3, 3}) + 1;
  expect_equal(tril(x), {1, 0, 0, 4, 5, 0, 7, 8, 9});
  expect_equal(tril(x, -1), {0, 0, 0, 4, 0, 0, 7, 8, 0});
  expect_equal(triu(x, 1), {0, 2, 3, 0, 0, 6, 0, 0, 0});
  EXPECT_EQ(triu(zeros({2, 3, 4}, kI8)).dtype(), kI8);
  expect_equal(tril(full({2, 2}, NAN)), {NAN, 0, NAN, NAN});
  expect_error<ShapeError>([] { tril(zeros(3)); }, {"tril", "[3]"});
}

TEST(Join, stacks) {
  Tensor a = tensor({1, 2}), b = tensor({3, 4});
  EXPECT_EQ(vstack({a, b}).shape(), (Dims{2, 2}));
  expect_equal(hstack({a, b}), {1, 2, 3, 4});
  expect_equal(hstack({counting({2, 1}), counting({2, 2})}), {0, 0, 1, 1, 2, 3});
  EXPECT_EQ(dstack({counting({2, 3}), counting({2, 3})}).shape(), (Dims{2, 3, 2}));
  expect_equal(vstack({tensor({{1, 2}}), b}), {1, 2, 3, 4});
  expect_equal(hstack({scalar(1), scalar(2)}), {1, 2});
  expect_error<ShapeError>([] { vstack({zeros(2), zeros(3)}); }, {"vstack"});
  expect_error<ValueError>([] { hstack({}); }, {"hstack"});
}

TEST(Join, splits) {
  Tensor x = counting({7, 2});
  auto sizes = [](const std::vector<Tensor>& parts, int64_t axis) {
    std::vector<int64_t> result;
    for (const Tensor& p : parts) result.push_back(p.size(axis));
    return result;
  };
  using List = std::vector<int64_t>;
  EXPECT_EQ(sizes(split(x, 3), 0), (List{3, 3, 1}));
  EXPECT_EQ(sizes(split(x, {2, 0, 5}), 0), (List{2, 0, 5}));
  EXPECT_EQ(sizes(split(x, {7}), 0), List{7});
  EXPECT_EQ(sizes(chunk(x, 3), 0), (List{3, 3, 1}));
  EXPECT_EQ(sizes(chunk(x, 5), 0), (List{2, 2, 2, 1}));
  EXPECT_EQ(sizes(chunk(x, 100), 0), (List(7, 1)));
  EXPECT_EQ(sizes(array_split(x, 3), 0), (List{3, 2, 2}));
  EXPECT_EQ(sizes(array_split(x, 9), 0), (List{1, 1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(unbind(x, 1).size(), 2u);
  expect_equal(unbind(x, 1)[1], {1, 3, 5, 7, 9, 11, 13});
  expect_equal(cat(split(x, 2)), doubles(x));
  expect_equal(cat(split(x, 1, -1), 1), doubles(x));
  expect_error<ValueError>([&] { split(x, 0); }, {"split"});
  expect_error<ShapeError>([&] { split(x, {3, 3}); }, {"split", "[3, 3]", "[7, 2]"});
  expect_error<ValueError>([&] { chunk(x, 0); }, {"chunk"});
  expect_error<IndexError>([&] { unbind(x, 2); }, {"unbind", "2"});
}

TEST(Join, grids) {
  std::vector<Tensor> ij = meshgrid({arange(2), arange(3)}, "ij");
  expect_equal(ij[0], {0, 0, 0, 1, 1, 1});
  expect_equal(ij[1], {0, 1, 2, 0, 1, 2});
  EXPECT_EQ(meshgrid({arange(2), arange(3), arange(4)})[2].shape(), (Dims{3, 2, 4}));
  expect_error<ValueError>([] { meshgrid({arange(2)}, "yx"); }, {"meshgrid", "yx"});
  expect_error<ShapeError>([] { meshgrid({zeros({2, 2})}); }, {"meshgrid"});
}

TEST(Join, windows_under_pytorchs_name) {
  expect_equal(unfold(arange(5), 0, 3, 2), {0, 1, 2, 2, 3, 4});
  expect_error<ShapeError>([] { unfold(arange(2), 0, 3, 1); }, {"unfold", "[2]"});
}

}  // namespace
}  // namespace heddle
