// Small nets of the kinds that people train: ten captured steps of AdamW, and the losses of each must be those of the
// same training by the evaluator in double precision.
#include <heddle/heddle.h>

#include "graph/graph.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;
using optim::AdamWOptions;
constexpr int kSteps = 10;

// Nothing is ill-conditioned: a gradient that is rounding noise alone is small beside epsilon.
const AdamWOptions kOptions{.lr = 0.01, .epsilon = 1e-3, .weight_decay = 0.05};

// The losses by the evaluator; the update by a loop.
template <class Net>
std::vector<double> reference(Net net, const Tensor& x, const Tensor& targets) {
  net.to(kF64);
  const AdamWOptions& o = kOptions;
  std::vector<Tensor> parameters = net.parameters();
  std::vector<std::vector<double>> p, m, v;
  for (const Tensor& tensor : parameters) {
    p.push_back(doubles(tensor));
    m.emplace_back(p.back().size());
    v.emplace_back(p.back().size());
  }
  std::vector<double> losses;
  for (int64_t t = 0; t < kSteps; ++t) {
    Tensor loss = cross_entropy(net(cast(x, kF64)), targets);
    std::vector<NodeRef> roots{loss.node()};
    for (const Tensor& g : grad(loss, parameters)) roots.push_back(g.node());
    std::vector<HostArray> values = evaluate(roots);
    losses.push_back(values[0].floats[0]);
    double n = static_cast<double>(t + 1), lr = o.lr(t);
    for (size_t i = 0; i < p.size(); ++i) {
      for (size_t k = 0; k < p[i].size(); ++k) {
        double g = values[i + 1].floats[k];
        p[i][k] *= 1 - lr * o.weight_decay;
        m[i][k] = o.beta1 * m[i][k] + (1 - o.beta1) * g;
        v[i][k] = o.beta2 * v[i][k] + (1 - o.beta2) * g * g;
        double root = std::sqrt(v[i][k] / (1 - std::pow(o.beta2, n)));
        p[i][k] -= lr * m[i][k] / (1 - std::pow(o.beta1, n)) / (root + o.epsilon);
      }
      parameters[i].assign(from_vector(p[i], parameters[i].shape()));
    }
  }
  return losses;
}

// Losses by kernels, in one captured program per step.
template <class Net>
std::vector<double> trained(Net net, const Tensor& images, const Tensor& targets, DType dtype) {
  net.to(dtype);
  Tensor x = cast(images, dtype).realize();
  optim::AdamW opt(net, kOptions);
  auto step = jit([&](const Tensor& in, const Tensor& wanted) {
    Tensor loss = cross_entropy(net(in), wanted);
    opt.step(grad(loss, net.parameters()));
    return loss;
  });
  std::vector<double> losses;
  for (int t = 0; t < kSteps; ++t) losses.push_back(step(x, targets).template item<double>());
  return losses;
}

// Sums of thousands of terms round by some 1e-6 of the result in f32 and by 1e-14 in f64. A step turns a relative error
// of a gradient into one of at most the rate times as much, which later steps repeat. What is rounded are logits around
// one, also where the loss has become small.
template <class Net>
void check(const Net& net, const Tensor& x, const Tensor& targets) {
  std::vector<double> want = reference(net.copy(), x, targets);
  for (DType dtype : {kF64, kF32}) {
    double tolerance = dtype == kF64 ? 1e-9 : 1e-4;
    std::vector<double> got = trained(net.copy(), x, targets, dtype);
    for (size_t t = 0; t < want.size(); ++t)
      EXPECT_NEAR(got[t], want[t], tolerance * std::max(1.0, want[t])) << name(dtype) << " at step " << t;
  }
  EXPECT_LT(want.back(), want.front());
}

Tensor classes(const Dims& shape, int64_t count) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return (arange(n) * 7 % count).reshape(shape).realize();
}

TEST(Zoo, vgg) {
  manual_seed(1);
  nn::Sequential net(nn::Conv2d(3, 8, 3, {.padding = 1}), nn::ReLU(), nn::Conv2d(8, 8, 3, {.padding = 1}), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Conv2d(8, 16, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2),
                     nn::Flatten(), nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 10));
  check(net, noise_tensor({8, 3, 8, 8}), classes({8}, 10));
}

struct DoubleConv : nn::Module<DoubleConv> {
  nn::Conv2d first, second;
  DoubleConv(int64_t inputs, int64_t outputs)
      : first(inputs, outputs, 3, {.padding = 1}), second(outputs, outputs, 3, {.padding = 1}) {}
  Tensor operator()(const Tensor& x) const { return relu(second(relu(first(x)))); }
  template <class V>
  void visit(V& v) {
    v("first", first);
    v("second", second);
  }
};

struct UNet : nn::Module<UNet> {
  DoubleConv down{1, 6}, bottom{6, 12}, up{12, 6};
  nn::ConvTranspose2d grow{12, 6, 2, {.stride = 2}};
  nn::Conv2d out{6, 3, 1};
  Tensor operator()(const Tensor& x) const {
    Tensor skip = down(x), low = bottom(max_pool2d(skip, 2));
    return out(up(cat({skip, grow(low)}, 1)));
  }
  template <class V>
  void visit(V& v) {
    v("down", down);
    v("bottom", bottom);
    v("up", up);
    v("grow", grow);
    v("out", out);
  }
};

// Two levels, the lower one enlarged by repeating.
struct UpsampledUNet : nn::Module<UpsampledUNet> {
  DoubleConv down{1, 6}, bottom{6, 12}, up{18, 6};
  nn::Conv2d out{6, 3, 1};
  Tensor operator()(const Tensor& x) const {
    Tensor skip = down(x), low = bottom(max_pool2d(skip, 2));
    return out(up(cat({skip, repeat_interleave(repeat_interleave(low, 2, 2), 2, 3)}, 1)));
  }
  template <class V>
  void visit(V& v) {
    v("down", down);
    v("bottom", bottom);
    v("up", up);
    v("out", out);
  }
};

TEST(Zoo, unet_with_transposed_convolution) {
  manual_seed(2);
  check(UNet(), noise_tensor({2, 1, 8, 8}), classes({2, 8, 8}, 3));
}

TEST(Zoo, unet_with_upsampling) {
  manual_seed(3);
  check(UpsampledUNet(), noise_tensor({2, 1, 8, 8}), classes({2, 8, 8}, 3));
}

struct Separable : nn::Module<Separable> {
  nn::Conv2d depthwise, pointwise;
  nn::BatchNorm2d first, second;
  Separable(int64_t inputs, int64_t outputs, int64_t stride)
      : depthwise(inputs, inputs, 3, {.stride = stride, .padding = 1, .groups = inputs, .bias = false}),
        pointwise(inputs, outputs, 1, {.bias = false}),
        first(inputs),
        second(outputs) {}
  Tensor operator()(const Tensor& x) const { return relu6(second(pointwise(relu6(first(depthwise(x)))))); }
  template <class V>
  void visit(V& v) {
    v("depthwise", depthwise);
    v("pointwise", pointwise);
    v("first", first);
    v("second", second);
  }
};

TEST(Zoo, mobilenet) {
  manual_seed(4);
  nn::Sequential net(nn::Conv2d(3, 8, 3, {.stride = 2, .padding = 1, .bias = false}), nn::BatchNorm2d(8), nn::ReLU(),
                     Separable(8, 16, 1), Separable(16, 32, 2), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                     nn::Linear(32, 48), nn::SiLU(), nn::Linear(48, 10));
  check(net, noise_tensor({8, 3, 10, 10}), classes({8}, 10));
}

struct ConvNeXtBlock : nn::Module<ConvNeXtBlock> {
  nn::Conv2d depthwise;
  nn::LayerNorm norm;
  nn::Linear wide, narrow;
  explicit ConvNeXtBlock(int64_t channels)
      : depthwise(channels, channels, 7, {.padding = 3, .groups = channels}),
        norm(channels),
        wide(channels, 4 * channels),
        narrow(4 * channels, channels) {}
  Tensor operator()(const Tensor& x) const {
    Tensor y = norm(permute(depthwise(x), {0, 2, 3, 1}));
    return x + permute(narrow(gelu(wide(y))), {0, 3, 1, 2});
  }
  template <class V>
  void visit(V& v) {
    v("depthwise", depthwise);
    v("norm", norm);
    v("wide", wide);
    v("narrow", narrow);
  }
};

TEST(Zoo, convnext) {
  manual_seed(5);
  nn::Sequential net(nn::Conv2d(3, 16, 2, {.stride = 2}), ConvNeXtBlock(16), ConvNeXtBlock(16),
                     nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(16, 10));
  check(net, noise_tensor({4, 3, 12, 12}), classes({4}, 10));
}

nn::Sequential wide_head(int64_t hidden, int64_t count) {
  return nn::Sequential(nn::Linear(12, hidden), nn::Tanh(), nn::Linear(hidden, count));
}

TEST(Zoo, thousands_of_classes) {
  manual_seed(6);
  check(wide_head(32, 3001), noise_tensor({8, 12}), classes({8}, 3001));
}

TEST(ZooSlow, fifty_thousand_classes) {
  manual_seed(7);
  check(wide_head(32, 50257), noise_tensor({8, 12}), classes({8}, 50257));
}

}  // namespace
}  // namespace heddle
