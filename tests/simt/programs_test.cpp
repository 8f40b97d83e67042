// Products of bf16 and f16 on a GPU, in all positions, with what stands around them and their gradients, as people
// write them. HEDDLE_DEVICE=null compiles them; HEDDLE_DEVICE=simulated runs small ones against the evaluator.
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <cmath>
#include <random>

#include "base/config.h"
#include "graph/graph.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

bool runs() { return config().device != "null"; }

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed), dtype_(draw(2) ? kBF16 : kF16) {}

  int64_t draw(int64_t count) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(count)); }
  int64_t size() {
    static constexpr int64_t kSmall[] = {40, 64, 72}, kLarge[] = {17, 64, 100, 128, 200, 256, 512};
    return runs() ? kSmall[draw(3)] : kLarge[draw(7)];
  }
  // Multiples of an eighth, small beside the sizes.
  Tensor leaf(const Dims& shape, double scale = 1) {
    int64_t count = 1;
    for (int64_t d : shape) count *= d;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = static_cast<float>(static_cast<double>(draw(17) - 8) / 8 * scale);
    Tensor x = from_vector(values, shape).cast(dtype_).realize();
    x.requires_grad_();
    leaves_.push_back(x);
    return x;
  }
  Tensor transposed(Dims shape) {
    if (draw(2) == 0) return leaf(shape, 0.25);
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    return transpose(leaf(shape, 0.25));
  }
  Tensor before(const Tensor& x) {
    switch (draw(8)) {
      case 0: return relu(x);
      case 1: return x * leaf({x.size(-1)});
      case 2: return layer_norm(x);
      case 3: return x + 0.125;
      default: return x;
    }
  }
  Tensor after(const Tensor& x) {
    switch (draw(10)) {
      case 0: return relu(x) * x;  // a gradient that does not jump where rounding turns a sign
      case 1: return gelu(x + leaf({x.size(-1)}));
      case 2: return x + leaf(x.shape());
      case 3: return softmax(x, -1);
      case 4: return tanh(x.cast(kF32));
      case 5: return layer_norm(x);
      case 6: return transpose(x);
      case 7: return x * x.mean(-1, true);
      default: return x;
    }
  }
  // x[.., m, k] times something.
  Tensor product(const Tensor& x) {
    Dims shape{x.size(-1), size()};
    if (x.rank() == 3 && draw(2)) shape.insert(shape.begin(), x.size(0));
    if (x.rank() == 3 && shape.size() == 2 && draw(3) == 0)  // on the other side
      return matmul(transposed({size(), x.size(-2)}), x.cast(dtype_));
    return matmul(before(x.cast(dtype_)), before(transposed(shape)));
  }
  // Nothing whose gradient is zero but for rounding, or jumps with it.
  Tensor last(const Tensor& x) {
    switch (draw(4)) {
      case 0: return (x * leaf(x.shape())).sum();
      case 1: return square(x + leaf(x.shape())).sum() * 0.125;
      case 2: return tanh((x * leaf(x.shape())).sum(-2) * 0.125).sum();
      default: {
        Tensor flat = x.rank() == 3 ? x.mean(1) : x;
        return cross_entropy(flat.cast(kF32) * 4, arange(flat.size(0)) % flat.size(1)) * 16;
      }
    }
  }

  std::vector<Tensor> program() {
    const int64_t batch = draw(3) == 0 ? 0 : 1 + draw(runs() ? 2 : 8), m = size(), k = size();
    Tensor x = transposed(batch ? Dims{batch, m, k} : Dims{m, k});
    Tensor y = after(product(x));
    if (draw(2)) y = after(product(y));
    std::vector<Tensor> results;
    if (draw(2)) results.push_back(y);
    if (draw(3) == 0) results.push_back(relu(y) * 2);
    if (draw(3) == 0) results.push_back(y.sum(0));
    if (draw(6) != 0 || results.empty())
      for (const Tensor& g : grad(last(y), TensorList(leaves_))) results.push_back(g);
    return results;
  }

 private:
  std::mt19937_64 random_;
  DType dtype_;
  TensorList leaves_;
};

void expect_near_evaluator(const std::vector<Tensor>& results, const std::vector<HostArray>& want) {
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<double> got = results[i].to_vector<double>();
    double largest = 1e-3, error = 0;
    size_t where = 0;
    ASSERT_EQ(got.size(), want[i].floats.size());
    for (size_t e = 0; e < got.size(); ++e) {
      largest = std::max(largest, std::fabs(want[i].floats[e]));
      const double off = std::fabs(got[e] - want[i].floats[e]);
      if (!(off <= error)) error = off, where = e;
    }
    // Rounding to few bits between two products; an element that is wrong is off by far more.
    EXPECT_LE(error, 0.04 * largest) << "result " << i << ", element " << where << ": " << got[where] << " instead of "
                                     << want[i].floats[where];
  }
}

void expect_right(const std::vector<Tensor>& results) {
  std::vector<NodeRef> nodes;
  for (const Tensor& r : results) nodes.push_back(r.node());
  std::vector<HostArray> want;
  if (runs()) want = evaluate(nodes);
  ASSERT_NO_THROW(realize(results));
  if (runs()) expect_near_evaluator(results, want);
}

TEST(ProgramsSimt, products_and_their_gradients) {
  const int programs = runs() ? 12 : 60;
  for (int seed = 0; seed < programs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_right(Writer(static_cast<uint64_t>(seed)).program());
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(replaced_schedules(), 0u);
}

// Layers whose gradients need each other's factors, at the sizes where they were first seen, or small ones that run.
TEST(ProgramsSimt, layers) {
  Writer writer(1);
  const int64_t batch = runs() ? 4 : 64, inputs = runs() ? 64 : 128, outputs = runs() ? 256 : 512;
  {
    SCOPED_TRACE("a linear layer from the left");
    Tensor x = writer.leaf({batch, inputs, 64}), w = writer.leaf({outputs, inputs}, 0.25);
    expect_right(grad(relu(matmul(w, x)).sum(), {x, w}));
  }
  {
    SCOPED_TRACE("a convolution of 1 x 1");
    Tensor x = writer.leaf({batch, inputs, 8, 8}), w = writer.leaf({outputs, inputs, 1, 1}, 0.25);
    expect_right(grad(relu(conv2d(x, w)).sum(), {x, w}));
  }
  {
    SCOPED_TRACE("a classifier of means");
    const int64_t side = runs() ? 3 : 14;
    Tensor x = writer.leaf({8, inputs, side, side}), w = writer.leaf({100, inputs});
    expect_right(grad(cross_entropy(matmul(relu(x).mean({2, 3}), transpose(w)), arange(8)), {x, w}));
  }
}

// Depthwise convolution, normalised, and a feed-forward network in the channels: ConvNeXt.
TEST(ProgramsSimt, blocks_of_convolutions) {
  if (runs()) GTEST_SKIP() << "takes long in the interpreter";
  Writer writer(2);
  Tensor x = writer.leaf({4, 128, 28, 28});
  TensorList leaves{x};
  auto weight = [&](const Dims& shape) { return leaves.emplace_back(writer.leaf(shape, 0.25)); };
  Tensor y = x;
  for (int block = 0; block < 2; ++block) {
    Tensor h = permute(conv2d(y, weight({128, 1, 7, 7}), {}, {.padding = 3, .groups = 128}), {0, 2, 3, 1});
    h = layer_norm(h, weight({128}), weight({128}));
    h = gelu(matmul(h, weight({128, 512})) + weight({512}));
    h = matmul(h, weight({512, 128})) + weight({128});
    y = y + permute(h, {0, 3, 1, 2});
  }
  expect_right(grad(square(y).mean(), leaves));
}

}  // namespace
}  // namespace heddle
