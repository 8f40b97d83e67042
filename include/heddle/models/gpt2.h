// GPT-2. Names and shapes of tensors are those of the published files ("wte.weight", "h.0.attn.c_attn.weight"): weights
// of the layers inside a block are [inputs, outputs].
#pragma once

#include <heddle/nn/layers.h>

namespace heddle::models {

struct GPT2Config {
  int64_t vocabulary = 50257, context = 1024, width = 768, layers = 12, heads = 12;
  double dropout = 0;
  DType dtype = kF32;
};
GPT2Config gpt2_tiny();    // 2 layers of 64, 256 tokens: for tests
GPT2Config gpt2_small();   // 124 million parameters
GPT2Config gpt2_medium();  // 355
GPT2Config gpt2_large();   // 774
GPT2Config gpt2_xl();      // 1558

// x W + b over the last axis.
struct GPT2Linear : nn::Module<GPT2Linear> {
  Tensor weight;  // [inputs, outputs]
  Tensor bias;

  GPT2Linear(int64_t inputs, int64_t outputs, double deviation, DType dtype, Generator& generator);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

struct GPT2Attention : nn::Module<GPT2Attention> {
  GPT2Linear c_attn, c_proj;
  nn::Dropout dropout;
  int64_t heads;

  GPT2Attention(const GPT2Config& config, Generator& generator);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("c_attn", c_attn);
    v("c_proj", c_proj);
    v("dropout", dropout);
    v.settings(heads);
  }
};

struct GPT2Perceptron : nn::Module<GPT2Perceptron> {
  GPT2Linear c_fc, c_proj;

  GPT2Perceptron(const GPT2Config& config, Generator& generator);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("c_fc", c_fc);
    v("c_proj", c_proj);
  }
};

struct GPT2Block : nn::Module<GPT2Block> {
  nn::LayerNorm ln_1;
  GPT2Attention attn;
  nn::LayerNorm ln_2;
  GPT2Perceptron mlp;
  nn::Dropout dropout;

  GPT2Block(const GPT2Config& config, Generator& generator);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("ln_1", ln_1);
    v("attn", attn);
    v("ln_2", ln_2);
    v("mlp", mlp);
    v("dropout", dropout);
  }
};

//   models::GPT2 net(models::gpt2_small());
//   Tensor loss = net.loss(ids, targets);
struct GPT2 : nn::Module<GPT2> {
  using ListsAll = GPT2;
  GPT2Config config;
  nn::Embedding wte, wpe;  // of tokens, which also makes the logits, and of places
  nn::Dropout dropout;
  std::vector<GPT2Block> h;
  nn::LayerNorm ln_f;

  explicit GPT2(const GPT2Config& settings, Generator& generator = default_generator());
  // Tokens [batch, time] to logits [batch, time, vocabulary].
  Tensor operator()(const Tensor& ids) const;
  // The mean cross-entropy of targets [batch, time].
  Tensor loss(const Tensor& ids, const Tensor& targets) const;
  template <class V>
  void visit(V& v) {
    v("wte", wte);
    v("wpe", wpe);
    v("dropout", dropout);
    v("h", h);
    v("ln_f", ln_f);
    v.settings(config.vocabulary, config.context, config.width, config.layers, config.heads, config.dropout,
               config.dtype);
  }
};

}  // namespace heddle::models
