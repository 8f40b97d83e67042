// Convolutions against plain loops, over many sizes; launches and bytes; errors.
#include <random>

#include "graph/gradient_check.h"
#include "graph/graph.h"
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

struct Sizes {
  int64_t batch, inputs, outputs, groups;
  std::vector<int64_t> size, kernel, stride, padding, dilation;
};

std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << "batch " << s.batch << " inputs " << s.inputs << " outputs " << s.outputs << " groups " << s.groups
             << " size " << Dims(s.size) << " kernel " << Dims(s.kernel) << " stride " << Dims(s.stride) << " padding "
             << Dims(s.padding) << " dilation " << Dims(s.dilation);
}

int64_t product(const std::vector<int64_t>& list) {
  int64_t total = 1;
  for (int64_t n : list) total *= n;
  return total;
}

// The parts of a number in a mixed base.
std::vector<int64_t> digits(int64_t number, const std::vector<int64_t>& base) {
  std::vector<int64_t> result(base.size());
  for (size_t i = base.size(); i-- > 0; number /= base[i]) result[i] = number % base[i];
  return result;
}

std::vector<int64_t> result_size(const Sizes& s) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < s.size.size(); ++i)
    result.push_back((s.size[i] + 2 * s.padding[i] - s.dilation[i] * (s.kernel[i] - 1) - 1) / s.stride[i] + 1);
  return result;
}

// Calls f(x element, w element, y element) for every product that a convolution adds up.
template <class F>
void each_product(const Sizes& s, const F& f) {
  std::vector<int64_t> places = result_size(s);
  int64_t c_count = s.inputs / s.groups, o_count = s.outputs / s.groups, x_size = product(s.size),
          y_size = product(places), k_size = product(s.kernel);
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.outputs; ++o)
      for (int64_t p = 0; p < y_size; ++p)
        for (int64_t c = 0; c < c_count; ++c)
          for (int64_t k = 0; k < k_size; ++k) {
            std::vector<int64_t> at = digits(p, places), in = digits(k, s.kernel);
            int64_t x = 0;
            bool inside = true;
            for (size_t i = 0; i < at.size(); ++i) {
              int64_t position = at[i] * s.stride[i] + in[i] * s.dilation[i] - s.padding[i];
              inside = inside && position >= 0 && position < s.size[i];
              x = x * s.size[i] + position;
            }
            int64_t channel = o / o_count * c_count + c;
            if (inside)
              f(static_cast<size_t>((n * s.inputs + channel) * x_size + x),
                static_cast<size_t>((o * c_count + c) * k_size + k),
                static_cast<size_t>((n * s.outputs + o) * y_size + p));
          }
}

Tensor conv(const Tensor& x, const Tensor& w, const Sizes& s) {
  ConvOptions options{s.stride, Dims(s.padding), s.dilation, s.groups};
  if (s.size.size() == 1) return conv1d(x, w, {}, options);
  return s.size.size() == 2 ? conv2d(x, w, {}, options) : conv3d(x, w, {}, options);
}

Dims shape_of(int64_t first, int64_t second, const std::vector<int64_t>& rest) {
  Dims shape = {first, second};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

// Forward and both gradients, realised, against the sums of products.
void check(const Sizes& s, double tolerance = 2e-5) {
  std::ostringstream name;
  name << s;
  SCOPED_TRACE(name.str());
  Tensor x = noise_tensor(shape_of(s.batch, s.inputs, s.size), 1);
  Tensor w = noise_tensor(shape_of(s.outputs, s.inputs / s.groups, s.kernel), 2);
  Tensor g = noise_tensor(shape_of(s.batch, s.outputs, result_size(s)), 3);
  std::vector<double> xv = doubles(x), wv = doubles(w), gv = doubles(g);
  std::vector<double> y(gv.size()), dx(xv.size()), dw(wv.size());
  each_product(s, [&](size_t i, size_t k, size_t p) {
    y[p] += xv[i] * wv[k];
    dx[i] += gv[p] * wv[k];
    dw[k] += gv[p] * xv[i];
  });
  auto [value, pull] = vjp([&](const TensorList& in) { return conv(in[0], in[1], s); }, TensorList{x, w});
  EXPECT_EQ(value.shape(), g.shape());
  expect_close(value, y, tolerance);
  TensorList gradients = pull(g);
  EXPECT_EQ(gradients[0].shape(), x.shape());
  EXPECT_EQ(gradients[1].shape(), w.shape());
  expect_close(gradients[0], dx, tolerance);
  expect_close(gradients[1], dw, tolerance * 4);
}

TEST(Conv, of_one_axis) {
  check({1, 1, 1, 1, {5}, {3}, {1}, {0}, {1}});
  check({2, 3, 4, 1, {9}, {3}, {1}, {1}, {1}});
  check({2, 3, 4, 1, {10}, {3}, {2}, {1}, {1}});
  check({2, 4, 6, 2, {11}, {4}, {3}, {2}, {1}});
  check({1, 2, 2, 1, {17}, {3}, {1}, {2}, {4}});
  check({1, 2, 3, 1, {17}, {3}, {2}, {3}, {2}});  // stride and dilation
  check({1, 2, 2, 1, {3}, {1}, {2}, {0}, {1}});
  check({1, 2, 2, 1, {4}, {2}, {5}, {3}, {1}});  // windows that see nothing of x
}

TEST(Conv, of_images) {
  check({1, 1, 1, 1, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  check({2, 3, 5, 1, {8, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  check({2, 3, 8, 1, {12, 12}, {7, 7}, {2, 2}, {3, 3}, {1, 1}});
  check({2, 8, 16, 1, {9, 9}, {1, 1}, {2, 2}, {0, 0}, {1, 1}});
  check({1, 4, 4, 1, {10, 9}, {3, 2}, {2, 1}, {0, 1}, {1, 2}});
  check({8, 16, 32, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1e-4);
  check({2, 33, 35, 1, {15, 17}, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, 1e-4);
}

TEST(Conv, in_groups_and_depthwise) {
  check({2, 6, 4, 2, {7, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  check({2, 8, 8, 8, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  check({1, 6, 12, 6, {9, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}});
  check({1, 32, 32, 32, {20, 20}, {5, 5}, {1, 1}, {2, 2}, {1, 1}});
}

TEST(Conv, of_volumes) {
  check({1, 2, 3, 1, {4, 5, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}});
  check({2, 4, 4, 2, {5, 4, 5}, {2, 3, 1}, {2, 1, 2}, {1, 0, 0}, {1, 1, 1}});
}

TEST(Conv, of_random_sizes) {
  std::mt19937 random(5);
  auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int round = 0; round < 40; ++round) {
    Sizes s;
    s.groups = draw(0, 2) == 0 ? draw(2, 4) : 1;
    s.batch = draw(1, 3);
    s.inputs = s.groups * draw(1, 5);
    s.outputs = s.groups * draw(1, 5);
    int64_t axes = draw(1, 3);
    for (int64_t i = 0; i < axes; ++i) {
      s.kernel.push_back(draw(1, 4));
      s.stride.push_back(draw(1, 3));
      s.padding.push_back(draw(0, 3));
      s.dilation.push_back(draw(0, 2) == 0 ? draw(2, 3) : 1);
      s.size.push_back(std::max<int64_t>(s.dilation.back() * (s.kernel.back() - 1) + 1 - 2 * s.padding.back(), 1) +
                       draw(0, axes == 3 ? 3 : 12));
    }
    check(s);
  }
}

TEST(Conv, agrees_with_the_evaluator_in_every_dtype) {
  for (DType dtype : {kI8, kI32, kU8, kI64, kF16, kBF16, kF32, kF64}) {
    SCOPED_TRACE(name(dtype));
    Tensor x = (counting({2, 3, 6, 5}) % 5 - (dtype == kU8 ? 0 : 2)).cast(dtype).realize();
    Tensor w = (counting({4, 3, 3, 2}) % 3).cast(dtype).realize();
    Tensor y = conv2d(x, w, {}, {.stride = {2, 1}, .padding = 1});
    EXPECT_EQ(y.dtype(), dtype);
    NodeRef node = y.node();
    HostArray want = evaluate(std::span(&node, 1))[0];
    std::vector<double> values = want.floats;
    for (uint64_t v : want.integers) values.push_back(static_cast<double>(static_cast<int64_t>(v)));
    expect_equal(y, values);
  }
}

TEST(Conv, padding_by_word_and_bias) {
  Tensor x = noise_tensor({2, 3, 7, 6}), w = noise_tensor({4, 3, 3, 2}, 2), b = noise_tensor({4}, 3);
  EXPECT_EQ(conv2d(x, w, {}, {.padding = "same"}).shape(), (Dims{2, 4, 7, 6}));
  EXPECT_EQ(conv2d(x, w, {}, {.padding = "valid"}).shape(), (Dims{2, 4, 5, 5}));
  // An odd number of zeros: one more behind.
  Tensor padded = pad(x, {{0, 0}, {0, 0}, {1, 1}, {0, 1}});
  expect_equal(conv2d(x, w, {}, {.padding = "same"}), doubles(conv2d(padded, w)));
  expect_close(conv2d(x, w, b), doubles(conv2d(x, w) + b.reshape(4, 1, 1)));
  expect_equal(conv2d(x[0], w, b), doubles(conv2d(x, w, b)[0]));
  EXPECT_EQ(conv2d(x[0], w).shape(), (Dims{4, 5, 5}));
}

TEST(Conv, transposed_is_the_gradient) {
  for (int64_t stride : {1, 2, 3})
    for (int64_t padding : {0, 1})
      for (int64_t groups : {1, 2}) {
        SCOPED_TRACE(std::to_string(stride) + " " + std::to_string(padding) + " " + std::to_string(groups));
        Tensor x = noise_tensor({2, 4, 5, 4}, 1), w = noise_tensor({4, 3, 3, 2}, 2);
        ConvTransposeOptions options{stride, padding, stride - 1, groups};
        Tensor y = conv_transpose2d(x, w, {}, options);
        Dims shape = {2, 3 * groups, (5 - 1) * stride - 2 * padding + 3 + stride - 1,
                      (4 - 1) * stride - 2 * padding + 2 + stride - 1};
        ASSERT_EQ(y.shape(), shape);
        auto forward = [&](const Tensor& in) {
          return conv2d(in, w, {}, {.stride = stride, .padding = padding, .groups = groups});
        };
        // Windows that begin in the output padding are not positions of the convolution.
        Tensor image = noise_tensor(shape, 3);
        auto [value, pull] = vjp(forward, image);
        Tensor g = slice(slice(x, 2, 0, value.size(2)), 3, 0, value.size(3));
        ASSERT_EQ(value.shape(), x.shape());
        expect_close(y, doubles(pull(g)), 1e-5);
      }
  expect_close(conv_transpose1d(tensor({{{1, 2}}}), tensor({{{1, 10}}}), tensor({100}), {.stride = 2}),
               {101, 110, 102, 120});
}

// By the definition: x[i] is the sum of w[k] y[p] over p * stride + k * dilation = i + padding.
TEST(Conv, transposed_in_every_form) {
  for (int64_t stride = 1; stride <= 4; ++stride)
    for (int64_t kernel = 1; kernel <= 5; ++kernel)
      for (int64_t dilation = 1; dilation <= 2; ++dilation)
        for (int64_t size : {1, 2, 5})
          for (int64_t padding = 0; padding <= 3; ++padding) {
            int64_t all = (size - 1) * stride + dilation * (kernel - 1) + stride, wanted = all - 2 * padding;
            if (wanted < 1) continue;
            std::vector<float> y = noise(size, 3), w = noise(kernel, 4);
            Tensor x = conv_transpose1d(
                from_vector(y, {1, 1, size}), from_vector(w, {1, 1, kernel}), {},
                {.stride = stride, .padding = padding, .output_padding = stride - 1, .dilation = dilation});
            std::vector<double> want(static_cast<size_t>(wanted));
            for (int64_t p = 0; p < size; ++p)
              for (int64_t k = 0; k < kernel; ++k)
                if (int64_t i = p * stride + k * dilation - padding; i >= 0 && i < wanted)
                  want[static_cast<size_t>(i)] += double{w[static_cast<size_t>(k)]} * y[static_cast<size_t>(p)];
            NodeRef root = x.node();
            std::vector<double> got = evaluate({&root, 1})[0].floats;
            ASSERT_EQ(got.size(), want.size());
            for (size_t i = 0; i < want.size(); ++i)
              ASSERT_NEAR(got[i], want[i], 1e-5) << "stride " << stride << ", kernel " << kernel << ", dilation "
                                                 << dilation << ", size " << size << ", padding " << padding;
          }
}

// Zeros between elements, and taps that meet none, are not multiplied.
TEST(Conv, transposed_multiplies_little_that_does_not_count) {
  auto share = [](int64_t size, int64_t kernel, const ConvTransposeOptions& options) {
    Tensor y = noise_tensor({2, 16, size, size}).realize(), w = noise_tensor({16, 16, kernel, kernel}, 2).realize();
    Profile p = profile();
    conv_transpose2d(y, w, {}, options).realize();
    p.stop();
    double flops = 0;
    for (const KernelProfile& k : p.result().kernels) flops += static_cast<double>(k.flops);
    return static_cast<double>(2 * 2 * 16 * 16 * size * size * kernel * kernel) / flops;
  };
  EXPECT_GT(share(16, 4, {.stride = 2, .padding = 1}), 0.85);
  EXPECT_GT(share(16, 2, {.stride = 2}), 0.99);
  EXPECT_GT(share(1, 4, {}), 0.99);
  EXPECT_GT(share(16, 3, {.stride = 2, .padding = 1, .output_padding = 1}), 0.5);
}

TEST(Conv, derivatives_of_second_order) {
  using Shapes = std::vector<std::vector<int64_t>>;
  auto checked = [](const char* what, const Shapes& shapes, const std::function<Tensor(const TensorList&)>& f) {
    auto on_nodes = [&](const std::vector<NodeRef>& nodes) {
      TensorList x;
      for (const NodeRef& node : nodes) x.push_back(Tensor(node));
      return f(x).node();
    };
    check_gradients(what, random_point(shapes, -2, 2, 7), on_nodes);
  };
  checked("conv1d", {{2, 2, 6}, {3, 2, 3}},
          [](const TensorList& x) { return conv1d(x[0], x[1], {}, {.stride = 2, .padding = 1}); });
  checked("conv2d in groups", {{1, 4, 4, 3}, {2, 2, 2, 2}, {2}},
          [](const TensorList& x) { return square(conv2d(x[0], x[1], x[2], {.groups = 2})); });
  checked("conv1d, dilated", {{1, 2, 9}, {2, 2, 3}},
          [](const TensorList& x) { return conv1d(x[0], x[1], {}, {.stride = 2, .padding = 2, .dilation = 2}); });
  checked("conv_transpose1d", {{2, 2, 4}, {2, 3, 3}}, [](const TensorList& x) {
    return conv_transpose1d(x[0], x[1], {}, {.stride = 2, .padding = 1, .output_padding = 1});
  });
  checked("conv_transpose2d", {{1, 2, 3, 2}, {2, 1, 2, 3}},
          [](const TensorList& x) { return square(conv_transpose2d(x[0], x[1], {}, {.padding = {0, 1}})); });
}

TEST(Conv, inside_vmap_and_jit) {
  Tensor many = noise_tensor({3, 2, 2, 5, 5}, 4), w = noise_tensor({3, 4, 2, 3, 3}, 2);
  auto one = [](const Tensor& a, const Tensor& b) { return conv2d(a, b, {}, {.padding = 1}); };
  Tensor together = vmap(one)(many, w);
  for (int64_t i = 0; i < 3; ++i) expect_close(together[i], doubles(one(many[i], w[i])), 1e-5);
  auto slope = [&](const Tensor& a) { return grad([&](const Tensor& in) { return sum(square(one(in, w[0]))); })(a); };
  Tensor slopes = vmap(slope)(many);
  for (int64_t i = 0; i < 3; ++i) expect_close(slopes[i], doubles(slope(many[i])), 1e-5);
  auto captured = jit([&](const Tensor& a) { return one(a, w[0]); });
  expect_close(captured(many[1]), doubles(one(many[1], w[0])), 1e-5);
}

TEST(Conv, one_plan_for_all_sizes_of_a_batch) {
  Dim n = dim("n", 1, 16);
  Tensor w = noise_tensor({4, 3, 3, 3}, 2);
  for (int64_t batch : {3, 1, 7}) {
    Tensor x = noise_tensor({batch, 3, 6, 6}, static_cast<uint64_t>(batch));
    StatsSince stats;
    Tensor y = conv2d(x.with_dim(0, n), w, {}, {.padding = 1}).realize();
    EXPECT_EQ(stats->plan_misses, batch == 3 ? 1u : 0u) << batch;
    expect_close(y, doubles(conv2d(x, w, {}, {.padding = 1})), 1e-5);
  }
}

TEST(Conv, with_empty_sizes) {
  EXPECT_EQ(conv2d(zeros({0, 3, 5, 5}), zeros({2, 3, 3, 3})).realize().shape(), (Dims{0, 2, 3, 3}));
  EXPECT_EQ(conv2d(ones({1, 3, 5, 5}), zeros({0, 3, 3, 3})).realize().shape(), (Dims{1, 0, 3, 3}));
  expect_equal(conv1d(zeros({1, 0, 3}), zeros({2, 0, 1})), std::vector<double>(6, 0));
}

// Bytes that kernels move, packing of factors aside: no buffer of windows, which would be nine times the input.
TEST(Conv, is_one_kernel_without_a_copy_of_the_windows) {
  if (packs_in_kernels()) GTEST_SKIP() << "a GPU packs the factors of small images in kernels of their own";
  Tensor x = noise_tensor({2, 16, 30, 30}), w = noise_tensor({24, 16, 3, 3}, 2), b = noise_tensor({24}, 3);
  uint64_t values = 4 * (2 * 16 * 900 + 24 * 16 * 9 + 2 * 24 * 900 + 24);
  auto check_moved = [&](const char* what, const Tensor& y, uint64_t launches) {
    SCOPED_TRACE(what);
    StatsSince stats;
    y.realize();
    EXPECT_EQ(stats->launches, launches);
    EXPECT_LE(stats.bytes(), 3 * values);
  };
  check_moved("conv", conv2d(x, w, b, {.padding = 1}), 1);
  check_moved("conv and relu", relu(conv2d(x, w, b, {.padding = 1})), 1);
  // Each element would be computed for every window and every channel of the result.
  check_moved("of something computed", conv2d(x * 2, w, b, {.padding = 1}), 2);
  Tensor g = noise_tensor({2, 24, 30, 30}, 4);
  auto pulled = [&](size_t which) {
    auto f = [&](const TensorList& in) { return conv2d(in[0], in[1], {}, {.padding = 1}); };
    return vjp(f, TensorList{x, w}).second(g)[which];
  };
  check_moved("gradient of the input", pulled(0), 1);
  check_moved("gradient of the weight", pulled(1), 1);
}

// Two reductions in one kernel could not be blocked for registers.
TEST(Conv, products_do_not_share_a_kernel) {
  if (packs_in_kernels()) GTEST_SKIP() << "a GPU packs the factors of small images in kernels of their own";
  Tensor x = noise_tensor({2, 16, 14, 14}), w = noise_tensor({32, 16, 3, 3}, 2), v = noise_tensor({32, 16, 1, 1}, 3);
  auto launches = [](const std::vector<Tensor>& results) {
    StatsSince stats;
    realize(results);
    return stats->launches;
  };
  Tensor a = conv2d(x, w, {}, {.padding = 1}), b = conv2d(x, v);
  EXPECT_EQ(launches({relu(a + b)}), 2u);
  Tensor m = noise_tensor({64, 80}, 4), p = noise_tensor({80, 48}, 5), q = noise_tensor({80, 48}, 6);
  EXPECT_EQ(launches({matmul(m, p) + matmul(m, q)}), 2u);
  EXPECT_EQ(launches({matmul(m, p) * 2, matmul(m, q) * 3}), 2u);
  // Small ones cost less together than a launch.
  Tensor s = noise_tensor({8, 9}, 7), t = noise_tensor({9, 8}, 8), u = noise_tensor({9, 8}, 9);
  EXPECT_EQ(launches({matmul(s, t) + matmul(s, u)}), 1u);
}

TEST(Conv, bad_arguments) {
  Tensor x = zeros({2, 4, 5, 5}), w = zeros({6, 4, 3, 3});
  expect_error<ShapeError>([&] { conv2d(x, zeros({6, 3, 3, 3})); }, {"conv2d", "[2, 4, 5, 5]", "[6, 3, 3, 3]"});
  expect_error<ShapeError>([&] { conv2d(x, zeros({6, 4, 3})); }, {"conv2d", "[6, 4, 3]", "4 axes"});
  expect_error<ShapeError>([&] { conv2d(zeros({5, 5}), w); }, {"conv2d", "[5, 5]"});
  expect_error<ShapeError>([&] { conv2d(x, zeros({6, 4, 6, 1})); }, {"conv2d", "[6, 1]", "[2, 4, 5, 5]"});
  expect_error<ShapeError>([&] { conv2d(x, w, zeros({5})); }, {"conv2d", "[5]", "6 channels"});
  expect_error<ShapeError>([&] { conv2d(x, w, {}, {.groups = 3}); }, {"conv2d", "3 groups"});
  expect_error<ValueError>([&] { conv2d(x, w, {}, {.groups = 0}); }, {"conv2d", "groups"});
  expect_error<ValueError>([&] { conv2d(x, w, {}, {.stride = 0}); }, {"conv2d", "stride", "[0]"});
  expect_error<ValueError>([&] { conv2d(x, w, {}, {.stride = {1, 2, 3}}); }, {"conv2d", "stride", "[1, 2, 3]"});
  expect_error<ValueError>([&] { conv2d(x, w, {}, {.padding = -1}); }, {"conv2d", "padding", "[-1]"});
  expect_error<ValueError>([&] { conv2d(x, w, {}, {.stride = 2, .padding = "same"}); }, {"conv2d", "same"});
  expect_error<ValueError>([&] { conv2d(x, w, {}, {.padding = "full"}); }, {"convolution", "full", "same", "valid"});
  expect_error<DTypeError>([&] { conv2d(x.cast(kBool), w.cast(kBool)); }, {"conv2d", "bool"});
  expect_error<ShapeError>([&] { conv_transpose2d(x, zeros({3, 2, 2, 2})); }, {"conv_transpose2d", "[3, 2, 2, 2]"});
  expect_error<ValueError>([&] { conv_transpose2d(x, zeros({4, 2, 2, 2}), {}, {.output_padding = 1}); },
                           {"conv_transpose2d", "output_padding"});
  expect_error<ShapeError>([&] { conv_transpose2d(x, zeros({4, 2, 1, 1}), {}, {.padding = 3}); },
                           {"conv_transpose2d", "nothing"});
}

}  // namespace
}  // namespace heddle
