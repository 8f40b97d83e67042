// Layers. Names of parameters and first values are PyTorch's.
#pragma once

#include <heddle/nn/module.h>
#include <heddle/ops/activation.h>
#include <heddle/ops/random.h>
#include <heddle/ops/unary.h>

namespace heddle::nn {

// x W^T + b over the last axis.
struct Linear : Module<Linear> {
  Tensor weight;  // [outputs, inputs]
  std::optional<Tensor> bias;

  Linear(int64_t inputs, int64_t outputs, bool with_bias = true, DType dtype = kF32,
         Generator& generator = default_generator());
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

// Rows of a table: whole numbers in, a new last axis of `width` out.
struct Embedding : Module<Embedding> {
  Tensor weight;  // [rows, width]

  Embedding(int64_t rows, int64_t width, DType dtype = kF32, Generator& generator = default_generator());
  Tensor operator()(const Tensor& ids) const;
  template <class V>
  void visit(V& v) {
    v("weight", weight);
  }
};

// Mean 0 and variance 1 over the last axes, then times weight, plus bias.
struct LayerNorm : Module<LayerNorm> {
  Tensor weight;
  std::optional<Tensor> bias;
  double epsilon;

  explicit LayerNorm(const Dims& shape, double epsilon = 1e-5, bool with_bias = true, DType dtype = kF32);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("weight", weight);
    v("bias", bias);
    v.settings(epsilon);
  }
};

// Mean square 1 over the last axes, then times weight.
struct RMSNorm : Module<RMSNorm> {
  Tensor weight;
  double epsilon;

  explicit RMSNorm(const Dims& shape, double epsilon = 1e-6, DType dtype = kF32);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("weight", weight);
    v.settings(epsilon);
  }
};

// Zero with probability p while training, else x / (1 - p). Nothing happens after eval().
struct Dropout : Module<Dropout> {
  double p;

  explicit Dropout(double probability = 0.5);
  Tensor operator()(const Tensor& x) const { return dropout(x, p, training); }
  template <class V>
  void visit(V& v) {
    v.settings(p);
  }
};

// Self-attention over the last but one axis of x [..., time, width], in several heads; causal: no position sees a
// later one.
struct MultiHeadAttention : Module<MultiHeadAttention> {
  using ListsAll = MultiHeadAttention;
  Tensor in_proj_weight;  // [3 * width, width]: queries, keys, values
  Tensor in_proj_bias;
  Linear out_proj;
  int64_t heads;
  bool causal;

  MultiHeadAttention(int64_t width, int64_t head_count, bool is_causal = false, DType dtype = kF32,
                     Generator& generator = default_generator());
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("in_proj_weight", in_proj_weight);
    v("in_proj_bias", in_proj_bias);
    v("out_proj", out_proj);
    v.settings(heads, causal);
  }
};

// Operators as layers, for Sequential.
#define HD_LAYER(name, function)                                            \
  struct name : Module<name> {                                              \
    Tensor operator()(const Tensor& x) const { return ::heddle::function; } \
    template <class V>                                                      \
    void visit(V&) {}                                                       \
  };
HD_LAYER(ReLU, relu(x))
HD_LAYER(GELU, gelu(x))
HD_LAYER(SiLU, silu(x))
HD_LAYER(Tanh, tanh(x))
HD_LAYER(Sigmoid, sigmoid(x))
#undef HD_LAYER

}  // namespace heddle::nn
