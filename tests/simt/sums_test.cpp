// Sums of products over several axes on a GPU: convolutions of all kinds, their gradients, einsum. All of them are
// products of two matrices, and none is left off the matrix unit.
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <cmath>
#include <random>

#include "base/config.h"
#include "compile/loops/contraction.h"
#include "compile/schedule/schedule.h"
#include "graph/graph.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

bool runs() { return config().device != "null"; }

// Multiples of an eighth: sums of their products are exact in f32.
Tensor leaf(const Dims& shape, DType dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 9) - 4) / 8;
  Tensor x = from_vector(values, shape).cast(dtype).realize();
  x.requires_grad_();
  return x;
}

// Sums of products that were compiled, and those of them that no matrix unit computes.
struct Products {
  int all = 0;
  std::vector<std::string> elsewhere;
};

bool on_unit(const StageSchedule& plan) { return plan.is<MatrixContraction>() || plan.is<NestedContraction>(); }

Products realize_counted(const std::vector<Tensor>& results) {
  Products products;
  clear_kernel_cache();
  observe_steps([&](const Program::Step& step, Backend& device) {
    if (step.direct || !find_contraction(step.loops, step.loops.stages[0])) return;
    ++products.all;
    const Schedule schedule = default_schedule(step.loops, device.target_for(step.tf32));
    if (!on_unit(schedule.stages[0])) products.elsewhere.push_back(print(step.loops));
  });
  realize(results);
  observe_steps(nullptr);
  return products;
}

void expect_right(const std::vector<Tensor>& results) {
  std::vector<NodeRef> nodes;
  for (const Tensor& r : results) nodes.push_back(r.node());
  std::vector<HostArray> want;
  if (runs()) want = evaluate(nodes);
  const Products products = realize_counted(results);
  EXPECT_GT(products.all, 0);
  for (const std::string& loops : products.elsewhere) ADD_FAILURE() << "not on a matrix unit: " << loops;
  for (size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> got = results[i].to_vector<double>();
    ASSERT_EQ(got.size(), want[i].floats.size());
    for (size_t e = 0; e < got.size(); ++e)
      ASSERT_NEAR(got[e], want[i].floats[e], 0.01 * std::fabs(want[i].floats[e]) + 1e-3)
          << "result " << i << ", element " << e;
  }
}

// The value and all gradients, each realised with kernels of its own.
void expect_right_with_gradients(const Tensor& y, const Tensor& x, const Tensor& w) {
  Tensor factor = leaf(y.shape(), y.dtype(), 3);
  std::vector<Tensor> g = grad((y * factor).cast(kF32).sum(), {x, w});
  expect_right({y});
  expect_right({g[0]});
  expect_right({g[1]});
}

struct Case {
  const char* name;
  Dims x, w;
  ConvOptions options;
};

void expect_convolution(const Case& c, DType dtype) {
  SCOPED_TRACE(c.name);
  Tensor x = leaf(c.x, dtype, 1), w = leaf(c.w, dtype, 2);
  switch (c.x.size()) {
    case 3: return expect_right_with_gradients(conv1d(x, w, {}, c.options), x, w);
    case 4: return expect_right_with_gradients(conv2d(x, w, {}, c.options), x, w);
    default: return expect_right_with_gradients(conv3d(x, w, {}, c.options), x, w);
  }
}

TEST(SumsSimt, convolutions) {
  const Case cases[] = {
      {"3 x 3", {2, 16, 14, 14}, {24, 16, 3, 3}, {.padding = 1}},
      {"no padding, odd channels", {2, 19, 9, 11}, {33, 19, 3, 3}, {}},
      {"strided", {2, 16, 15, 15}, {40, 16, 3, 3}, {.stride = 2, .padding = 1}},
      {"dilated", {2, 16, 15, 15}, {24, 16, 3, 3}, {.padding = 2, .dilation = 2}},
      {"strided and dilated", {2, 24, 15, 15}, {40, 24, 3, 3}, {.stride = 2, .padding = 2, .dilation = 2}},
      {"strides beyond the filter", {2, 32, 24, 24}, {32, 32, 2, 2}, {.stride = 3}},
      {"a stem", {2, 3, 30, 30}, {32, 3, 7, 7}, {.stride = 2, .padding = 3}},
      {"groups", {2, 32, 14, 14}, {64, 16, 3, 3}, {.padding = 1, .groups = 2}},
      {"one axis", {2, 32, 60}, {48, 32, 5}, {.padding = 2}},
      {"three axes", {1, 16, 5, 6, 7}, {24, 16, 3, 3, 3}, {.padding = 1}},
      {"1 x 1 of small images", {12, 48, 7, 7}, {48, 48, 1, 1}, {}},
  };
  for (const Case& c : cases) expect_convolution(c, kBF16);
  expect_convolution(cases[0], kF16);
}

TEST(SumsSimt, transposed_convolutions) {
  Tensor x = leaf({2, 32, 7, 7}, kBF16, 1), w = leaf({32, 24, 4, 4}, kBF16, 2);
  expect_right_with_gradients(conv_transpose2d(x, w, {}, {.stride = 2, .padding = 1}), x, w);
}

TEST(SumsSimt, several_axes) {
  Tensor x = leaf({5, 40, 37}, kBF16, 1), y = leaf({5, 37, 48}, kBF16, 2);
  expect_right_with_gradients(einsum("bit,btj->ij", {x, y}), x, y);
}

// What finishes a convolution stays in its kernel, and what makes its input is computed where that is packed.
TEST(SumsSimt, layers) {
  Tensor x = leaf({2, 16, 12, 12}, kBF16, 1), w = leaf({32, 16, 3, 3}, kBF16, 2), b = leaf({32}, kBF16, 3),
         skip = leaf({2, 32, 12, 12}, kBF16, 4);
  expect_right({relu(conv2d(relu(x), w, b, {.padding = 1}) + skip)});
  expect_right({conv2d(silu(x), w, b, {.padding = 1})});
  expect_right({conv2d(x + 1, w, b, {.padding = 1})});
}

// All gradients of attention, together and apart: every product of every nest is on the matrix unit, and no scores are
// in memory.
TEST(SumsSimt, gradients_of_attention) {
  struct Heads {
    Dims q, k;
    bool causal, masked, together;
  };
  const int64_t length = runs() ? 96 : 1024;
  const Heads cases[] = {{{1, 2, length, 64}, {1, 2, length, 64}, true, false, true},
                         {{1, 2, length, 64}, {1, 2, length, 64}, false, true, true},
                         {{1, 2, length, 128}, {1, 2, length, 128}, true, false, true},
                         {{1, 4, length, 32}, {1, 2, length, 32}, true, false, false}};
  for (const Heads& c : cases) {
    Tensor q = leaf(c.q, kBF16, 1), k = leaf(c.k, kBF16, 2), v = leaf(c.k, kBF16, 3);
    AttentionOptions options{.causal = c.causal};
    if (c.masked) options.mask = (leaf({1, 1, 1, length}, kF32, 4) < 0.4).realize();
    Tensor y = scaled_dot_product_attention(q, k, v, options);
    std::vector<Tensor> results = grad((y * leaf(y.shape(), kBF16, 5)).cast(kF32).sum(), {q, k, v});
    if (c.together) results.push_back(y);
    clear_kernel_cache();
    std::vector<std::string> large;
    const int64_t scores = c.q[1] * length * length;
    observe_steps([&](const Program::Step& step, Backend& device) {
      if (step.direct) return;
      const Schedule schedule = default_schedule(step.loops, device.target_for(step.tf32));
      for (const kernel::Buffer& buffer : step.loops.buffers)
        if (!runs() && buffer.size.hi() >= scores) large.push_back(print(step.loops));
      for (size_t s = 0; s < step.loops.stages.size(); ++s)
        if (auto product = find_contraction(step.loops, step.loops.stages[s]);
            !runs() && product && product->is_matmul() && !on_unit(schedule.stages[s]))
          large.push_back(print(step.loops) + print(schedule));
    });
    std::vector<NodeRef> nodes;
    for (const Tensor& r : results) nodes.push_back(r.node());
    std::vector<HostArray> want;
    if (runs()) want = evaluate(nodes);
    realize(results);
    observe_steps(nullptr);
    for (const std::string& step : large) ADD_FAILURE() << "scores in memory, or not on a matrix unit: " << step;
    for (size_t i = 0; i < want.size(); ++i) {
      const std::vector<double> got = results[i].to_vector<double>();
      for (size_t e = 0; e < got.size(); ++e)
        ASSERT_NEAR(got[e], want[i].floats[e], 0.02 * std::fabs(want[i].floats[e]) + 2e-2) << i << " " << e;
    }
  }
}

// Without a unit for f32 they are ordinary arithmetic, in blocks.
TEST(SumsSimt, floats) {
  Tensor x = leaf({2, 16, 14, 14}, kF32, 1), w = leaf({24, 16, 3, 3}, kF32, 2);
  Tensor y = conv2d(x, w, {}, {.padding = 1});
  std::vector<Tensor> g = grad((y * leaf(y.shape(), kF32, 3)).sum(), {x, w});
  std::vector<Tensor> results{y, g[0], g[1]};
  std::vector<NodeRef> nodes;
  for (const Tensor& r : results) nodes.push_back(r.node());
  std::vector<HostArray> want;
  if (runs()) want = evaluate(nodes);
  realize(results);
  for (size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> got = results[i].to_vector<double>();
    for (size_t e = 0; e < got.size(); ++e) ASSERT_NEAR(got[e], want[i].floats[e], 1e-3) << i << " " << e;
  }
}

}  // namespace
}  // namespace heddle
