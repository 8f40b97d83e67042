#include <heddle/models/gpt2.h>
#include <heddle/nn/loss.h>
#include <heddle/ops.h>

#include <cmath>

#include "base/error.h"

namespace heddle::models {
namespace {

constexpr double kDeviation = 0.02;

// What adds to the residual stream begins smaller, so that the sum over all layers stays in bounds.
double residual_deviation(const GPT2Config& config) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
}

Tensor parameter(const Tensor& value) { return value.realize().requires_grad_(); }

GPT2Config of_size(int64_t width, int64_t layers, int64_t heads) {
  GPT2Config config;
  config.width = width;
  config.layers = layers;
  config.heads = heads;
  return config;
}

}  // namespace

GPT2Config gpt2_tiny() {
  GPT2Config config = of_size(64, 2, 4);
  config.vocabulary = 256;
  config.context = 64;
  return config;
}
GPT2Config gpt2_small() { return of_size(768, 12, 12); }
GPT2Config gpt2_medium() { return of_size(1024, 24, 16); }
GPT2Config gpt2_large() { return of_size(1280, 36, 20); }
GPT2Config gpt2_xl() { return of_size(1600, 48, 25); }

GPT2Linear::GPT2Linear(int64_t inputs, int64_t outputs, double deviation, DType dtype, Generator& generator)
    : weight(parameter(normal({inputs, outputs}, 0, deviation, dtype, generator))),
      bias(parameter(zeros(outputs, dtype))) {}

Tensor GPT2Linear::operator()(const Tensor& x) const { return matmul(x, weight) + bias; }

GPT2Attention::GPT2Attention(const GPT2Config& config, Generator& generator)
    : c_attn(config.width, 3 * config.width, kDeviation, config.dtype, generator),
      c_proj(config.width, config.width, residual_deviation(config), config.dtype, generator),
      dropout(config.dropout),
      heads(config.heads) {}

Tensor GPT2Attention::operator()(const Tensor& x) const {
  int64_t width = c_proj.weight.size(0), part = width / heads, time = x.size(-2);
  Tensor all = c_attn(x);
  // [..., heads, time, part]
  auto head = [&](int64_t which) {
    Tensor piece = all.slice(-1, which * width, (which + 1) * width);
    return unflatten(piece, -1, {heads, part}).transpose(-3, -2);
  };
  Tensor scores = matmul(head(0), head(1).transpose()) * (1 / std::sqrt(static_cast<double>(part)));
  scores = where(tri(time, time, 0, kBool), scores, -INFINITY);
  Tensor mixed = matmul(dropout(softmax(scores, -1)), head(2)).transpose(-3, -2);
  return c_proj(flatten(mixed, -2, -1));
}

GPT2Perceptron::GPT2Perceptron(const GPT2Config& config, Generator& generator)
    : c_fc(config.width, 4 * config.width, kDeviation, config.dtype, generator),
      c_proj(4 * config.width, config.width, residual_deviation(config), config.dtype, generator) {}

Tensor GPT2Perceptron::operator()(const Tensor& x) const { return c_proj(gelu(c_fc(x), "tanh")); }

GPT2Block::GPT2Block(const GPT2Config& config, Generator& generator)
    : ln_1(config.width, 1e-5, true, config.dtype),
      attn(config, generator),
      ln_2(config.width, 1e-5, true, config.dtype),
      mlp(config, generator),
      dropout(config.dropout) {}

Tensor GPT2Block::operator()(const Tensor& x) const {
  Tensor y = x + dropout(attn(ln_1(x)));
  return y + dropout(mlp(ln_2(y)));
}

GPT2::GPT2(const GPT2Config& settings, Generator& generator)
    : config(settings),
      wte(settings.vocabulary, settings.width, settings.dtype, generator),
      wpe(settings.context, settings.width, settings.dtype, generator),
      dropout(settings.dropout),
      ln_f(settings.width, 1e-5, true, settings.dtype) {
  if (config.layers < 1 || config.heads < 1 || config.width % config.heads != 0)
    throw ValueError(text("GPT2: ", config.layers, " layers of width ", config.width, " with ", config.heads,
                          " heads, which must divide the width"));
  wte.weight.assign(wte.weight * kDeviation);
  wpe.weight.assign(wpe.weight * (kDeviation / 2));
  realize({wte.weight, wpe.weight});
  for (int64_t i = 0; i < config.layers; ++i) h.emplace_back(config, generator);
}

Tensor GPT2::operator()(const Tensor& ids) const {
  if (ids.rank() < 1 || ids.size(-1) > config.context)
    throw ShapeError(text("GPT2: tokens of shape ", ids.shape(), "; the context has ", config.context, " places"));
  Tensor x = dropout(wte(ids) + slice(wpe.weight, 0, 0, ids.size(-1)));
  for (const GPT2Block& block : h) x = block(x);
  return matmul(ln_f(x), wte.weight.t());
}

Tensor GPT2::loss(const Tensor& ids, const Tensor& targets) const {
  Tensor logits = (*this)(ids);
  return cross_entropy(reshape(logits, {-1, config.vocabulary}), reshape(targets, -1));
}

}  // namespace heddle::models
