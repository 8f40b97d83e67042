// Drawn digits and minibatches.
#include <heddle/data.h>

#include <set>

#include "tensor/helpers.h"

namespace heddle::data {
namespace {

using namespace heddle::testing;

TEST(Digits, are_images_with_ink_and_all_labels) {
  Digits d = digits(500);
  EXPECT_EQ(d.images.shape(), (Dims{500, 28, 28}));
  EXPECT_EQ(d.images.dtype(), kF32);
  EXPECT_EQ(d.labels.dtype(), kI64);
  EXPECT_GE(d.images.min().item<float>(), 0);
  EXPECT_LE(d.images.max().item<float>(), 1);
  std::vector<double> ink = doubles(d.images.mean({1, 2}));
  for (double share : ink) {
    EXPECT_GT(share, 0.02);
    EXPECT_LT(share, 0.45);
  }
  std::vector<int64_t> labels = integers(d.labels);
  for (int64_t digit = 0; digit < 10; ++digit) EXPECT_GT(std::count(labels.begin(), labels.end(), digit), 20);
}

TEST(Digits, depend_on_seed_and_kind_alone) {
  Digits a = digits(20, {.seed = 3}), b = digits(50, {.seed = 3});
  EXPECT_TRUE(equal(a.images, b.images.slice(0, 0, 20)));
  EXPECT_TRUE(equal(a.labels, b.labels.slice(0, 0, 20)));
  EXPECT_FALSE(equal(a.images, digits(20, {.seed = 4}).images));
  EXPECT_FALSE(equal(a.images, digits(20, {.seed = 3, .held_out = true}).images));
  EXPECT_EQ(digits(0).images.shape(), (Dims{0, 28, 28}));
  expect_error<ValueError>([] { digits(-1); }, {"-1"});
}

// Each image is closer to the mean of its own digit than to others most of the time: the drawings mean something, and
// the held-out shapes are of the same kind, but not easy.
TEST(Digits, resemble_their_class_also_where_the_shape_was_held_out) {
  Digits train = digits(2000, {.seed = 1}), test = digits(500, {.seed = 2, .held_out = true});
  Tensor kinds = one_hot(train.labels, 10, kF32);
  Tensor means = matmul(kinds.t(), train.images.reshape(2000, 784)) / sum(kinds, 0).unsqueeze(1);
  Tensor x = test.images.reshape(500, 784);
  Tensor distance = sum(square(means), 1) - matmul(x, means.t()) * 2;
  double right = mean(cast(eq(argmin(distance, 1), test.labels), kF32)).item<double>();
  EXPECT_GT(right, 0.55);
  EXPECT_LT(right, 0.97);
}

TEST(Digits, can_be_shown_as_text) {
  Tensor image = zeros({4, 3}).realize();
  image.set({0, 0}, 1);
  image.set({1, 0}, 1);
  image.set({1, 1}, 1);
  image.set({2, 2}, 1);
  EXPECT_EQ(draw_text(image), "█▄ \n  ▀\n");
  EXPECT_EQ(draw_text(image, false), "@  \n@@ \n  @\n   \n");
  expect_error<ShapeError>([] { draw_text(zeros(3)); }, {"two axes"});
}

TEST(Batches, cover_every_row_once_in_order) {
  Tensor x = counting({10, 2}), t = arange(10).realize();
  Batches all = batches(x, t, 4);
  EXPECT_EQ(all.size(), 3);
  std::vector<int64_t> sizes, seen;
  for (auto [rows, labels] : all) {
    sizes.push_back(rows.size(0));
    EXPECT_TRUE(rows.is_realized() && labels.is_realized());
    for (int64_t label : integers(labels)) seen.push_back(label);
    EXPECT_TRUE(equal(cast(rows.select(1, 0), kI64), labels * 2));
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 2}));
  EXPECT_EQ(seen, integers(t));
  EXPECT_EQ(batches(x, t, 4, {.drop_last = true}).size(), 2);
}

TEST(Batches, a_shuffle_differs_from_walk_to_walk_and_repeats_by_seed) {
  Tensor x = counting({100, 1}), t = arange(100).realize();
  auto walk = [&](const Batches& b) {
    std::vector<int64_t> seen;
    for (auto [rows, labels] : b) {
      EXPECT_TRUE(equal(cast(rows.select(1, 0), kI64), labels));
      for (int64_t label : integers(labels)) seen.push_back(label);
    }
    return seen;
  };
  Batches a = batches(x, t, 32, {.shuffle_seed = 1}), b = batches(x, t, 32, {.shuffle_seed = 1});
  std::vector<int64_t> first = walk(a), second = walk(a);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, walk(b));
  EXPECT_EQ(second, walk(b));
  EXPECT_NE(first, walk(batches(x, t, 32, {.shuffle_seed = 2})));
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 100u);
}

TEST(Batches, of_any_number_of_tensors) {
  Tensor x = counting({10, 2}), t = arange(10).realize(), w = (arange(10) * 3).realize();
  int64_t rows = 0;
  for (auto [a, b, c] : batches({x, t, w}, 4, {.shuffle_seed = 3})) {
    EXPECT_TRUE(equal(cast(a.select(1, 0), kI64), b * 2));
    EXPECT_TRUE(equal(c, b * 3));
    EXPECT_TRUE(a.is_realized() && b.is_realized() && c.is_realized());
    rows += a.size(0);
  }
  EXPECT_EQ(rows, 10);
  rows = 0;
  for (auto [only] : batches({t}, 3)) rows += only.size(0);
  EXPECT_EQ(rows, 10);
  expect_error<ShapeError>([&] { batches({x, t, zeros(4)}, 1); }, {"10 rows of tensor 0, but 4 of tensor 2"});
  expect_error<ShapeError>([&] { batches({x, tensor(1.)}, 1); }, {"tensor 1 is a scalar"});
}

TEST(Batches, mistakes_are_named) {
  expect_error<ValueError>([] { batches(zeros({3, 2}), zeros(3), 0); }, {"a size of 0"});
  expect_error<ShapeError>([] { batches(zeros({3, 2}), zeros(4), 1); }, {"3 rows", "4"});
}

}  // namespace
}  // namespace heddle::data
