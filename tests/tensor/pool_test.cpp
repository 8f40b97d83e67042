// Pooling against plain loops.
#include <random>

#include "graph/gradient_check.h"
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

struct Axis {
  int64_t size, kernel, stride, padding, dilation;
  bool ceil_mode;
  // PyTorch's rule.
  int64_t positions() const {
    int64_t rest = size + 2 * padding - dilation * (kernel - 1) - 1;
    int64_t count = (ceil_mode ? rest + stride - 1 : rest) / stride + 1;
    return ceil_mode && (count - 1) * stride >= size + padding ? count - 1 : count;
  }
};

// Calls f(position, element or -1 in the padding or -2 beyond it) for every element of every window of an image.
template <class F>
void each_window(const Axis& y, const Axis& x, const F& f) {
  auto place = [](const Axis& a, int64_t p, int64_t k) {
    int64_t at = p * a.stride + k * a.dilation - a.padding;
    return at >= 0 && at < a.size ? at : at < a.size + a.padding ? -1 : -2;
  };
  for (int64_t p = 0; p < y.positions(); ++p)
    for (int64_t q = 0; q < x.positions(); ++q)
      for (int64_t k = 0; k < y.kernel; ++k)
        for (int64_t l = 0; l < x.kernel; ++l) {
          int64_t row = place(y, p, k), column = place(x, q, l);
          f(static_cast<size_t>(p * x.positions() + q),
            row < 0 || column < 0 ? std::min(row, column) < -1 ? -2 : -1 : row * x.size + column);
        }
}

void check_image(const Axis& y, const Axis& x) {
  constexpr int64_t kPlanes = 6;
  Tensor image = noise_tensor({2, 3, y.size, x.size});
  std::vector<double> values = doubles(image), largest, mean, mean_inside;
  size_t plane = static_cast<size_t>(y.size * x.size), count = static_cast<size_t>(y.positions() * x.positions());
  for (size_t c = 0; c < kPlanes; ++c) {
    std::vector<double> best(count, -INFINITY), sum(count), with_padding(count), inside(count);
    each_window(y, x, [&](size_t at, int64_t element) {
      if (element >= 0) {
        double v = values[c * plane + static_cast<size_t>(element)];
        best[at] = std::max(best[at], v);
        sum[at] += v;
        ++inside[at];
      }
      if (element >= -1) ++with_padding[at];
    });
    for (size_t i = 0; i < count; ++i) {
      largest.push_back(best[i]);
      mean.push_back(sum[i] / with_padding[i]);
      mean_inside.push_back(sum[i] / inside[i]);
    }
  }
  Dims kernel = {y.kernel, x.kernel}, stride = {y.stride, x.stride}, padding = {y.padding, x.padding},
       dilation = {y.dilation, x.dilation};
  Tensor pooled = max_pool2d(image, kernel, {stride, padding, dilation, y.ceil_mode});
  EXPECT_EQ(pooled.shape(), (Dims{2, 3, y.positions(), x.positions()}));
  expect_equal(pooled, largest);
  if (y.dilation > 1 || x.dilation > 1) return;
  expect_close(avg_pool2d(image, kernel, {stride, padding, y.ceil_mode}), mean);
  expect_close(avg_pool2d(image, kernel, {stride, padding, y.ceil_mode, false}), mean_inside);
}

TEST(Pool, of_images) {
  check_image({6, 2, 2, 0, 1, false}, {8, 2, 2, 0, 1, false});
  check_image({7, 3, 2, 1, 1, false}, {8, 3, 2, 1, 1, false});
  check_image({7, 3, 2, 1, 1, true}, {8, 3, 2, 1, 1, true});
  check_image({9, 3, 1, 1, 2, false}, {10, 2, 3, 1, 3, false});
  check_image({5, 5, 5, 0, 1, false}, {4, 1, 3, 0, 1, false});
}

TEST(Pool, of_random_sizes) {
  std::mt19937 random(3);
  auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int round = 0; round < 30; ++round) {
    bool ceil_mode = draw(0, 1) == 1;
    auto axis = [&] {
      Axis a{0, draw(1, 4), draw(1, 4), 0, draw(0, 3) == 0 ? 2 : 1, ceil_mode};
      a.padding = draw(0, a.kernel / 2);
      a.size = a.dilation * (a.kernel - 1) + 1 + draw(0, 9);
      return a;
    };
    Axis y = axis(), x = axis();
    SCOPED_TRACE(round);
    check_image(y, x);
  }
}

TEST(Pool, of_one_and_three_axes_and_one_example) {
  expect_equal(max_pool1d(tensor({{{1, 5, 2, 3}}}), 2, {.stride = 1}), {5, 5, 3});
  expect_close(avg_pool1d(tensor({{1, 5, 2, 3}}), 3, {.stride = 1, .padding = 1}), {2, 8 / 3.0, 10 / 3.0, 5 / 3.0});
  Tensor volume = counting({1, 1, 2, 4, 2});
  expect_equal(max_pool3d(volume, 2), {11, 15});
  expect_equal(avg_pool3d(volume, 2), {5.5, 9.5});
  EXPECT_EQ(max_pool2d(zeros({3, 8, 8}), 2).shape(), (Dims{3, 4, 4}));
}

TEST(Pool, of_integers_and_small_floats) {
  Tensor x = (counting({1, 1, 4, 4}) - 20).cast(kI8);
  EXPECT_EQ(max_pool2d(x, 3, {.padding = 1}).dtype(), kI8);
  expect_equal(max_pool2d(x, 3, {.stride = 2, .padding = 1}), {-15, -13, -7, -5});
  EXPECT_EQ(avg_pool2d(x, 2).dtype(), kF32);
  EXPECT_EQ(avg_pool2d(x.cast(kBF16), 2).dtype(), kBF16);
  // A sum of many elements would leave the range of f16.
  expect_equal(avg_pool2d(full({1, 1, 16, 16}, 1000).cast(kF16), 16), {1000});
  expect_equal(max_pool1d(full({1, 2}, -INFINITY), 2), {-INFINITY});
}

TEST(Pool, adaptive) {
  Tensor x = noise_tensor({2, 3, 7, 12});
  for (Dims size : {Dims{1, 1}, Dims{3, 4}, Dims{7, 5}, Dims{10, 12}, Dims{-1, 2}}) {
    SCOPED_TRACE(to_string(zeros(size.size())));
    int64_t rows = size[0] < 0 ? 7 : size[0], columns = size[1];
    std::vector<double> means, largest, values = doubles(x);
    for (int64_t plane = 0; plane < 6; ++plane)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          double sum = 0, count = 0, best = -INFINITY;
          for (int64_t r = i * 7 / rows; r < ((i + 1) * 7 + rows - 1) / rows; ++r)
            for (int64_t c = j * 12 / columns; c < ((j + 1) * 12 + columns - 1) / columns; ++c) {
              double v = values[static_cast<size_t>((plane * 7 + r) * 12 + c)];
              sum += v;
              ++count;
              best = std::max(best, v);
            }
          means.push_back(sum / count);
          largest.push_back(best);
        }
    EXPECT_EQ(adaptive_avg_pool2d(x, size).shape(), (Dims{2, 3, rows, columns}));
    expect_close(adaptive_avg_pool2d(x, size), means);
    expect_equal(adaptive_max_pool2d(x, size), largest);
  }
  expect_close(adaptive_avg_pool1d(tensor({{1, 2, 3, 4, 5}}), 2), {2, 4});
  expect_equal(adaptive_max_pool3d(counting({1, 2, 2, 2}), 1), {7});
}

TEST(Pool, gradients) {
  using Function = std::function<Tensor(const Tensor&)>;
  auto checked = [](const char* what, const std::vector<int64_t>& shape, const Function& f) {
    auto on_nodes = [&](const std::vector<NodeRef>& nodes) { return square(f(Tensor(nodes[0]))).node(); };
    check_gradients(what, random_point({shape}, -2, 2, 11), on_nodes);
  };
  checked("max_pool2d", {1, 2, 5, 4}, [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
  checked("max_pool1d", {1, 2, 9},
          [](const Tensor& x) { return max_pool1d(x, 3, {.dilation = 2, .ceil_mode = true}); });
  checked("avg_pool2d", {1, 2, 4, 5}, [](const Tensor& x) {
    return avg_pool2d(x, {2, 3}, {.stride = 2, .padding = 1, .count_include_pad = false});
  });
  checked("adaptive_avg_pool2d", {1, 1, 5, 4}, [](const Tensor& x) { return adaptive_avg_pool2d(x, {3, 2}); });
  checked("adaptive_max_pool1d", {1, 2, 7}, [](const Tensor& x) { return adaptive_max_pool1d(x, 3); });
}

TEST(Pool, is_one_pass) {
  Tensor x = noise_tensor({2, 8, 32, 32});
  auto check = [](const Tensor& y, uint64_t values) {
    StatsSince stats;
    y.realize();
    EXPECT_EQ(stats->launches, 1u);
    EXPECT_EQ(stats.bytes(), 4 * values);
  };
  check(max_pool2d(x, 3, {.stride = 2, .padding = 1}), 2 * 8 * (32 * 32 + 16 * 16));
  check(avg_pool2d(x, 2), 2 * 8 * (32 * 32 + 16 * 16));
  check(adaptive_avg_pool2d(x, 1), 2 * 8 * (32 * 32 + 1));
}

TEST(Pool, bad_arguments) {
  Tensor x = zeros({1, 2, 4, 4});
  expect_error<ValueError>([&] { max_pool2d(x, 2, {.padding = 2}); }, {"max_pool2d", "padding", "half"});
  expect_error<ValueError>([&] { max_pool2d(x, 0); }, {"max_pool2d", "kernel", "[0]"});
  expect_error<ValueError>([&] { max_pool2d(x, {1, 2, 3}); }, {"max_pool2d", "kernel", "[1, 2, 3]", "2 axes"});
  expect_error<ShapeError>([&] { max_pool2d(x, 5); }, {"max_pool2d", "[5, 5]", "[1, 2, 4, 4]"});
  expect_error<ShapeError>([&] { avg_pool2d(zeros({4, 4}), 2); }, {"avg_pool2d", "[4, 4]"});
  expect_error<DTypeError>([&] { max_pool2d(x.cast(kBool), 2); }, {"max_pool2d", "bool"});
  expect_error<ShapeError>([&] { adaptive_avg_pool2d(x, 0); }, {"adaptive_avg_pool2d", "0 windows"});
}

}  // namespace
}  // namespace heddle
