// Numbers at the ends of their ranges: sizes that would overflow, values that do not fit, axes of scalars.
#include <limits>

#include "tensor/helpers.h"

namespace heddle {
namespace {

using testing::counting;
using testing::doubles;
using testing::expect_equal;
using testing::expect_error;
using testing::integers;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

TEST(Edges, convolutions_refuse_sizes_that_overflow) {
  Tensor x = ones({1, 1, 5}), w = ones({1, 1, 3});
  expect_error<ShapeError>([&] { conv1d(x, w, {}, {.padding = kMost}); }, {"conv1d", "2^60"});
  expect_error<ShapeError>([&] { conv1d(x, w, {}, {.padding = kMost / 2}); }, {"conv1d", "2^60"});
  expect_error<ShapeError>([&] { conv1d(x, w, {}, {.dilation = kMost}); }, {"conv1d", "does not fit"});
  expect_error<ShapeError>([&] { conv1d(x, w, {}, {.padding = "same", .dilation = kMost}); }, {"conv1d", "2^60"});
  expect_error<ShapeError>([&] { conv_transpose1d(x, w, {}, {.padding = kMost}); }, {"conv_transpose1d", "nothing"});
  expect_error<ShapeError>([&] { conv_transpose1d(x, w, {}, {.stride = kMost}); }, {"conv_transpose1d", "2^60"});
  expect_error<ShapeError>([&] { conv_transpose1d(x, w, {}, {.dilation = kMost}); }, {"conv_transpose1d", "2^60"});
  expect_error<ShapeError>(
      [&] { conv_transpose1d(x, w, {}, {.stride = kMost, .padding = kMost, .output_padding = kMost - 1}); },
      {"conv_transpose1d"});
}

TEST(Edges, steps_that_are_never_taken_may_be_large) {
  Tensor x = counting({1, 1, 5}).requires_grad_(), w = ones({1, 1, 3}).requires_grad_();
  Tensor y = conv1d(x, w, {}, {.stride = kMost});
  expect_equal(y, {3});
  TensorList g = grad(sum(y), {x, w});
  expect_equal(g[0], {1, 1, 1, 0, 0});
  expect_equal(g[1], {0, 1, 2});
  Tensor point = ones({1, 1, 1});
  expect_equal(conv1d(x, point, {}, {.dilation = kMost}), {0, 1, 2, 3, 4});
  expect_equal(conv_transpose1d(point, w, {}, {.stride = kMost}), {1, 1, 1});
  expect_equal(max_pool1d(x, 3, {.stride = kMost}), {2});
}

TEST(Edges, pools_refuse_sizes_that_overflow) {
  Tensor x = ones({1, 1, 5});
  expect_error<ShapeError>([&] { max_pool1d(x, kMost); }, {"max_pool1d", "does not fit"});
  expect_error<ShapeError>([&] { max_pool1d(x, 3, {.dilation = kMost}); }, {"max_pool1d", "does not fit"});
  expect_error<ValueError>([&] { max_pool1d(x, 3, {.padding = kMost}); }, {"max_pool1d", "half"});
  expect_error<ShapeError>([&] { max_pool1d(x, kMost, {.padding = kMost / 2}); }, {"max_pool1d"});
  expect_error<ShapeError>([&] { avg_pool1d(x, kMost, {.stride = kMost, .ceil_mode = true}); }, {"avg_pool1d"});
  expect_error<ShapeError>([&] { adaptive_max_pool1d(x, kMost); }, {"adaptive_max_pool1d", "windows"});
  expect_error<ShapeError>([&] { adaptive_avg_pool1d(x, kMost >> 20); }, {"adaptive_avg_pool1d", "windows"});
}

TEST(Edges, shapes_refuse_sizes_that_overflow) {
  Tensor x = ones({2, 3});
  expect_error<ShapeError>([&] { pad(x, {{kMost, 0}, {0, 0}}); }, {"pad", "overflows"});
  expect_error<ShapeError>([&] { pad(x, {{kMost / 2, kMost / 2}, {0, 0}}, PadMode::Circular); }, {"pad", "overflows"});
  expect_error<ShapeError>([&] { repeat(x, {kMost, 2}); }, {"repeat", "overflows"});
  expect_error<ShapeError>([&] { tile(x, {kMost}); }, {"tile", "overflows"});
  expect_error<ShapeError>([&] { repeat_interleave(x, kMost); }, {"repeat_interleave", "overflows"});
  expect_error<ShapeError>([&] { expand(ones({1}), {kMost, kMost}); }, {"expand", "2^63"});
  expect_error<ShapeError>([&] { arange(kMost); }, {"arange", "2^63"});
  expect_error<ValueError>([&] { arange(kLeast, kMost, 1); }, {"arange", "no count"});
  expect_error<ShapeError>([&] { linspace(0, 1, kMost); }, {"linspace", "2^63"});
  expect_error<ShapeError>([&] { logspace(0, 1, kMost); }, {"2^63"});
  expect_error<ShapeError>([&] { eye(kMost); }, {"eye", "2^63"});
  expect_error<ShapeError>([&] { one_hot(zeros({2}, kI64), kMost); }, {"one_hot", "2^63"});
  expect_error<ShapeError>([&] { diag_embed(x, kMost); }, {"diag_embed", "overflows"});
  expect_error<ShapeError>([&] { diag_embed(x, kLeast); }, {"diag_embed", "overflows"});
  expect_error<ShapeError>([&] { window(x, 1, kMost, 1, kMost); }, {"window"});
  expect_error<ShapeError>([&] { unfold(x, 1, kMost, 1); }, {"unfold"});
  expect_error<ValueError>([&] { window(x, 1, kLeast, 1, 1); }, {"window", "positive"});
  expect_error<ShapeError>([&] { histogram(x, kMost); }, {"histogram", "2^63"});
  expect_error<ShapeError>([&] { repeat_interleave(x, full({3}, kMost, kI64), 1); }, {"repeat_interleave", "2^63"});
  Tensor large = expand(zeros({1}, kU8), {kMost / 2 + 1});
  expect_error<ShapeError>([&] { cat({large, large}); }, {"cat"});
}

TEST(Edges, diagonals_beyond_the_corners) {
  Tensor x = ones({2, 3});
  expect_equal(cast(tri(2, 3, kMost), kF32), std::vector<double>(6, 1));
  expect_equal(cast(tri(2, 3, kLeast), kF32), std::vector<double>(6, 0));
  expect_equal(tril(x, kMost), std::vector<double>(6, 1));
  expect_equal(tril(x, kLeast), std::vector<double>(6, 0));
  expect_equal(triu(x, kMost), std::vector<double>(6, 0));
  expect_equal(triu(x, kLeast), std::vector<double>(6, 1));
  expect_equal(eye(2, 3, kMost), std::vector<double>(6, 0));
  expect_equal(eye(2, 3, kLeast), std::vector<double>(6, 0));
  EXPECT_EQ(diagonal(x, kMost).shape(), (Dims{0}));
  EXPECT_EQ(diagonal(x, kLeast).shape(), (Dims{0}));
}

TEST(Edges, sequences_fit_their_dtype) {
  expect_error<ValueError>([] { arange(100, 200, 50, kI8); }, {"arange", "150", "i8"});
  expect_error<ValueError>([] { arange(-1, 3, 1, kU8); }, {"arange", "-1", "u8"});
  expect_error<ValueError>([] { arange(0., 1e10, 1e9, kI32); }, {"arange", "i32"});
  expect_error<ValueError>([] { linspace(0, 300, 4, true, kU8); }, {"linspace", "300", "u8"});
  expect_error<ValueError>([] { logspace(0, 3, 4, true, 10, kI8); }, {"logspace", "1000", "i8"});
  expect_error<DTypeError>([] { linspace(0, 1, 2, true, kBool); }, {"linspace", "bool"});
  expect_error<DTypeError>([] { logspace(0, 1, 2, true, 10, kBool); }, {"logspace", "bool"});
  expect_error<DTypeError>([] { arange(2, kBool); }, {"arange", "bool"});
  EXPECT_EQ(integers(arange(100, 150, 27, kI8)), (std::vector<int64_t>{100, 127}));
  EXPECT_EQ(integers(arange(-128, -130, -1, kI16)), (std::vector<int64_t>{-128, -129}));
  EXPECT_EQ(integers(arange(200, 300, 500, kU8)), (std::vector<int64_t>{200}));
  EXPECT_EQ(integers(arange(kMost - 2, kMost, 1)), (std::vector<int64_t>{kMost - 2, kMost - 1}));
  EXPECT_EQ(integers(linspace(-0.5, 255.9, 2, true, kU8)), (std::vector<int64_t>{0, 255}));
  EXPECT_EQ(arange(300, 300, 1, kI8).shape(), (Dims{0}));
}

TEST(Edges, messages_show_whole_characters) {
  expect_error<ValueError>([] { einsum("é", {ones({2})}); }, {"'é' is no label"});
  expect_error<ValueError>([] { einsum("i€->i", {ones({2})}); }, {"'€' is no label"});
}

TEST(Edges, unsigned_and_signed_words_have_no_common_integer) {
  Tensor a = ones({2}, kU64), b = ones({2}, kI64), c = ones({2}, kI8);
  expect_error<DTypeError>([&] { bitwise_and(a, b); }, {"bitwise_and", "u64 and i64", "cast"});
  expect_error<DTypeError>([&] { bitwise_or(c, a); }, {"bitwise_or", "i8 and u64", "cast"});
  expect_error<DTypeError>([&] { shift_left(a, b); }, {"shift_left", "u64 and i64", "cast"});
  expect_error<DTypeError>([&] { bitwise_xor(a, ones({2})); }, {"bitwise_xor", "f32"});
  EXPECT_EQ(integers(bitwise_or(a, 2)), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(integers(bitwise_and(ones({2}, kU32), b)), (std::vector<int64_t>{1, 1}));
}

TEST(Edges, pools_in_ceil_mode_may_reach_beyond_the_end) {
  Tensor x = counting({1, 1, 3});
  expect_equal(max_pool1d(x, 5, {.stride = 3, .ceil_mode = true}), {2});
  expect_equal(avg_pool1d(x, 5, {.stride = 3, .ceil_mode = true}), {1});
  expect_equal(avg_pool1d(x, 4, {.stride = 4, .padding = 1, .ceil_mode = true}), {0.75});
  expect_equal(max_pool1d(x, 2, {.stride = 3, .dilation = 3, .ceil_mode = true}), {0});
  // Without a whole step of room there is none.
  expect_error<ShapeError>([&] { max_pool1d(x, 5, {.stride = 2, .ceil_mode = true}); }, {"max_pool1d", "does not fit"});
  expect_error<ShapeError>([&] { max_pool1d(x, 5, {.stride = 3}); }, {"max_pool1d", "does not fit"});
}

TEST(Edges, equal_elements_of_pools_go_by_rows) {
  // Even windows along one axis and uneven ones along the other, both ways.
  for (Dims shape : {Dims{1, 1, 5, 4}, Dims{1, 1, 4, 5}, Dims{1, 1, 4, 4}, Dims{1, 1, 5, 5}}) {
    Tensor x = zeros(shape).requires_grad_();
    std::vector<double> got = doubles(grad(sum(adaptive_max_pool2d(x, 2)), x));
    int64_t rows = shape[2], columns = shape[3];
    // Rows and columns differ where the first of a row is not the first of a column.
    Tensor y = cast(eq(add(arange(rows).reshape({rows, 1}), arange(columns)), 1), kF32).reshape(shape).requires_grad_();
    std::vector<double> flipped = doubles(grad(sum(adaptive_max_pool2d(y, 1)), y));
    std::vector<double> flipped_2 = doubles(grad(sum(slice(slice(adaptive_max_pool2d(y, 2), 2, 0, 1), 3, 0, 1)), y));
    EXPECT_EQ(got[0], 1) << shape[2] << " " << shape[3];
    EXPECT_EQ(flipped[1], 1) << shape[2] << " " << shape[3];
    EXPECT_EQ(flipped_2[1], 1) << shape[2] << " " << shape[3];
  }
  Tensor x = tensor({{0., 1.}, {1., 0.}}).reshape({1, 1, 2, 2}).requires_grad_();
  expect_equal(grad(sum(max_pool2d(x, 2)), x), {0, 1, 0, 0});
}

TEST(Edges, scalars_have_an_axis_to_reduce) {
  Tensor x = scalar(3.0);
  for (int64_t axis : {0, -1}) {
    for (const Tensor& y : {sum(x, axis),         prod(x, axis),           max(x, axis),
                            min(x, axis),         amax(x, axis),           mean(x, axis),
                            norm(x, 2, axis),     logsumexp(x, axis),      nansum(x, axis),
                            nanmean(x, axis),     nanmax(x, axis),         cumsum(x, axis),
                            cumprod(x, axis),     cummax(x, axis),         cummin_with_indices(x, axis).first,
                            sort(x, axis).values, topk(x, 1, axis).values, kthvalue(x, 1, axis).values,
                            median(x, axis),      quantile(x, 0.3, axis),  sum(x, axis, true),
                            median(x, axis, true)}) {
      EXPECT_EQ(y.rank(), 0);
      expect_equal(y, {3});
    }
    for (const Tensor& y : {argmax(x, axis), argmin(x, axis, true), argsort(x, axis), ptp(x, axis),
                            sort(x, axis).indices, kthvalue(x, 1, axis).indices, log_softmax(x, axis),
                            cummax_with_indices(x, axis).second, var(x, axis, false, 0), std(x, axis, false, 0)}) {
      EXPECT_EQ(y.rank(), 0);
      expect_equal(y.cast(kF32), {0});
    }
    expect_equal(softmax(x, axis), {1});
    expect_equal(softmin(x, axis), {1});
    EXPECT_TRUE(any(x, axis).item<bool>());
    EXPECT_TRUE(all(x, axis).item<bool>());
    EXPECT_EQ(count_nonzero(x, axis).item<int64_t>(), 1);
    Tensor leaf = scalar(3.0).requires_grad_();
    expect_equal(grad(square(cumsum(sort(leaf, axis).values, axis)), leaf), {6});
  }
  expect_error<IndexError>([&] { sum(x, 1); }, {"sum", "axis 1", "rank 0"});
  expect_error<IndexError>([&] { sum(x, {0, 0}); }, {"sum", "rank 0"});
  expect_error<IndexError>([&] { softmax(x, 1); }, {"softmax", "axis 1", "rank 0"});
  expect_error<IndexError>([&] { argmax(x, -2); }, {"argmax", "axis -2", "rank 0"});
  expect_error<IndexError>([&] { sort(x, 1); }, {"sort", "axis 1", "rank 0"});
}

}  // namespace
}  // namespace heddle
