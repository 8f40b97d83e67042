// Ordinary sums of products on a GPU, beside PyTorch on the same one: convolutions of all kinds, their gradients, sums
// over several axes, attention. Nobody tuned for any of them; a bar is the share of PyTorch's speed that each must
// reach.
#include <heddle/heddle.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/device.h"
#include "tools/contest.h"

namespace heddle::tools {
namespace {

using Work = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

struct Pattern {
  const char* name;
  double flops, bar;
  std::vector<Dims> inputs;  // of bf16
  Work work;
};

// Gradients by the inputs with these numbers; the last input is the gradient that arrives.
Work gradients(std::vector<size_t> of, std::function<Tensor(const std::vector<Tensor>&)> forward) {
  return [of, forward](const std::vector<Tensor>& in) {
    std::vector<Tensor> leaves = in, wanted;
    for (size_t i : of) {
      leaves[i] = in[i].detach();
      leaves[i].requires_grad_();
      wanted.push_back(leaves[i]);
    }
    Tensor y = forward(leaves);
    return std::vector<Tensor>(grad((y.cast(kF32) * in.back().cast(kF32)).sum(), wanted));
  };
}

Work forward(std::function<Tensor(const std::vector<Tensor>&)> f) {
  return [f](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in)}; };
}

std::function<Tensor(const std::vector<Tensor>&)> conv(ConvOptions options) {
  return [options](const std::vector<Tensor>& in) {
    if (in[0].rank() == 3) return conv1d(in[0], in[1], {}, options);
    if (in[0].rank() == 4) return conv2d(in[0], in[1], {}, options);
    return conv3d(in[0], in[1], {}, options);
  };
}

// A weight and its moments after a step of AdamW.
std::vector<Tensor> updated(const Tensor& gradient, const Tensor& weight, const std::vector<Tensor>& moments) {
  Tensor g = gradient.cast(kF32), w = weight.cast(kF32);
  Tensor m = moments[0] * 0.9 + g * 0.1, v = moments[1] * 0.999 + square(g) * 0.001;
  return {(w * 0.9999 - m / (sqrt(v) + 1e-8) * 1e-4).cast(weight.dtype()), m, v};
}

std::vector<Pattern> patterns() {
  const Dims image{128, 256, 14, 14}, filter{256, 256, 3, 3};
  const double flops = 2.0 * 128 * 256 * 196 * 256 * 9;
  auto same = conv({.padding = 1});
  auto attend = [](const std::vector<Tensor>& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
  };
  auto gated = [](const std::vector<Tensor>& in) { return silu(matmul(in[0], in[1])) * matmul(in[0], in[2]); };
  auto attention_flops = [](double batch, double heads, double time, double width) {
    return 4 * batch * heads * time * time * width / 2;
  };
  auto pool = [](const std::vector<Tensor>& in) { return max_pool2d(in[0], {3}, {.stride = 2, .padding = 1}); };
  auto transposed = [](const std::vector<Tensor>& in) {
    return conv_transpose2d(in[0], in[1], {}, {.stride = 2, .padding = 1});
  };
  auto decode = [](const std::vector<Tensor>& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); };
  return {
      {"conv 3x3 forward", flops, 0.35, {image, filter}, forward(same)},
      {"conv 3x3 by input", flops, 0.35, {image, filter, image}, gradients({0}, same)},
      {"conv 3x3 by weight", flops, 0.35, {image, filter, image}, gradients({1}, same)},
      {"conv 3x3 strided",
       2.0 * 128 * 256 * 196 * 128 * 9,
       0.25,
       {{128, 128, 28, 28}, {256, 128, 3, 3}},
       forward(conv({.stride = 2, .padding = 1}))},
      {"conv 7x7 stem",
       2.0 * 128 * 64 * 112 * 112 * 3 * 49,
       0.25,
       {{128, 3, 224, 224}, {64, 3, 7, 7}},
       forward(conv({.stride = 2, .padding = 3}))},
      {"conv 1-d",
       2.0 * 64 * 256 * 1024 * 256 * 5,
       0.25,
       {{64, 256, 1024}, {256, 256, 5}},
       forward(conv({.padding = 2}))},
      {"conv 3-d",
       2.0 * 8 * 64 * 16 * 28 * 28 * 64 * 27,
       0.25,
       {{8, 64, 16, 28, 28}, {64, 64, 3, 3, 3}},
       forward(same)},
      {"conv grouped", flops / 8, 0.25, {image, {256, 32, 3, 3}}, forward(conv({.padding = 1, .groups = 8}))},
      {"conv transposed 4x4",
       2.0 * 64 * 256 * 196 * 128 * 16,
       0.25,
       {{64, 256, 14, 14}, {256, 128, 4, 4}},
       forward(transposed)},
      {"conv 1x1 of 7x7", 2.0 * 128 * 512 * 49 * 512, 0.25, {{128, 512, 7, 7}, {512, 512, 1, 1}}, forward(conv({}))},
      {"depthwise 7x7",
       2.0 * 128 * 256 * 28 * 28 * 49,
       0.5,
       {{128, 256, 28, 28}, {256, 1, 7, 7}},
       forward(conv({.padding = 3, .groups = 256}))},
      {"einsum bit,btj->ij",
       2.0 * 64 * 197 * 768 * 768,
       0.35,
       {{64, 768, 197}, {64, 197, 768}},
       forward([](const std::vector<Tensor>& in) { return einsum("bit,btj->ij", {in[0], in[1]}); })},
      {"gradients of silu(x w1) * (x w3)",
       6 * 2.0 * 4096 * 2048 * 5632,
       0.5,
       {{4096, 2048}, {2048, 5632}, {2048, 5632}, {4096, 5632}},
       gradients({0, 1, 2}, gated)},
      {"weight gradient with AdamW",
       2.0 * 12608 * 768 * 3072,
       0.5,
       {{12608, 768}, {12608, 3072}, {768, 3072}},
       [moments = std::vector<Tensor>{zeros({768, 3072}).realize(), zeros({768, 3072}).realize()}](
           const std::vector<Tensor>& in) { return updated(matmul(transpose(in[0]), in[1]), in[2], moments); }},
      {"attention of grouped heads forward",
       attention_flops(4, 32, 2048, 128),
       0.5,
       {{4, 32, 2048, 128}, {4, 8, 2048, 128}, {4, 8, 2048, 128}},
       forward(attend)},
      {"attention of grouped heads backward",
       3.5 * attention_flops(4, 32, 2048, 128),
       0.25,
       {{4, 32, 2048, 128}, {4, 8, 2048, 128}, {4, 8, 2048, 128}, {4, 32, 2048, 128}},
       gradients({0, 1, 2}, attend)},
      {"attention of heads of 32",
       attention_flops(8, 16, 1024, 32),
       0.5,
       {{8, 16, 1024, 32}, {8, 16, 1024, 32}, {8, 16, 1024, 32}},
       forward(attend)},
      {"attention of heads of 40",
       attention_flops(8, 16, 1024, 40),
       0.5,
       {{8, 16, 1024, 40}, {8, 16, 1024, 40}, {8, 16, 1024, 40}},
       forward(attend)},
      {"attention 4 x 16 x 4096 x 128 backward",
       3.5 * attention_flops(4, 16, 4096, 128),
       0.25,
       {{4, 16, 4096, 128}, {4, 16, 4096, 128}, {4, 16, 4096, 128}, {4, 16, 4096, 128}},
       gradients({0, 1, 2}, attend)},
      {"attention of one query",
       4.0 * 32 * 32 * 4096 * 128,
       0.5,
       {{32, 32, 1, 128}, {32, 8, 4096, 128}, {32, 8, 4096, 128}},
       forward(decode)},
      {"max_pool backward", 0, 0.5, {{128, 64, 112, 112}, {128, 64, 56, 56}}, gradients({0}, pool)},
      {"top-k of 128k",
       0,
       0.5,
       {{32, 128000}},
       [](const std::vector<Tensor>& in) {
         auto [values, indices] = topk(in[0], 50);
         return std::vector<Tensor>{values, indices};
       }},
  };
}

}  // namespace

void measure_patterns(double seconds, const Report& report) {
  Backend& gpu = device();
  if (gpu.target().machine != Machine::Simt)
    throw ValueError(
        text("bench patterns: needs a GPU, for instance HEDDLE_DEVICE=cuda; the device is ", gpu.name(), " now"));
  Peers peers(1, peers_python(), false, "cuda");
  for (const Pattern& pattern : patterns()) {
    if (!wanted(pattern.name)) continue;
    Contest c{.name = pattern.name, .group = "patterns", .unit = "ms"};
    std::vector<Tensor> inputs;
    double bytes = 0;
    nlohmann::json shapes = nlohmann::json::array();
    for (const Dims& dims : pattern.inputs) {
      shapes.push_back(std::vector<int64_t>(dims.begin(), dims.end()));
      inputs.push_back((randn(dims) * 0.2).cast(kBF16).realize());
      bytes += 2 * static_cast<double>(inputs.back().numel());
    }
    c.row = {{"work", "pattern"}, {"name", pattern.name}, {"dtype", "bf16"}, {"inputs", shapes}, {"device", "cuda"}};
    c.flops = pattern.flops;
    c.bytes = bytes;
    c.bar = pattern.bar;
    auto step = jit([work = pattern.work](std::vector<Tensor> in) { return work(in); });
    const double floor = std::max(pattern.flops / 990e12, bytes / 4e12);
    c.repeat = static_cast<int>(std::clamp(2e-3 / floor, 1.0, 50.0));
    c.floor_seconds = floor;
    c.floor_name = "an H200";
    c.row["repeat"] = c.repeat;
    c.row["captured"] = false;
    c.ours = [&, n = c.repeat] {
      for (int i = 0; i < n; ++i) step(inputs);
      gpu.synchronize();
    };
    run_contest(peers, c, seconds, report);
  }
}

}  // namespace heddle::tools
