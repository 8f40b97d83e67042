// Layers for images, sound and volumes: [batch, channels, ...]. Names of parameters and first values are PyTorch's.
#pragma once

#include <heddle/nn/module.h>
#include <heddle/ops/conv.h>
#include <heddle/ops/random.h>
#include <heddle/ops/shape.h>

namespace heddle::nn {

struct ConvLayerOptions {
  Dims stride = 1;
  Padding padding = 0;
  Dims dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  DType dtype = kF32;
};
struct ConvTransposeLayerOptions {
  Dims stride = 1;
  Dims padding = 0;
  Dims output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Dims dilation = 1;
  DType dtype = kF32;
};

namespace detail {
template <class V>
void list_settings(V& v, const ConvOptions& o) {
  v.settings(o.stride, o.padding.sizes(), o.padding.is_same(), o.dilation, o.groups);
}
template <class V>
void list_settings(V& v, const ConvTransposeOptions& o) {
  v.settings(o.stride, o.padding, o.output_padding, o.groups, o.dilation);
}
}  // namespace detail

// nn::Conv2d(3, 64, 7, {.stride = 2, .padding = 3, .bias = false}). Weight [outputs, inputs / groups, kernel ...].
#define HD_CONV_LAYER(name, layer_options, run_options)                                        \
  struct name : Module<name> {                                                                 \
    using ListsAll = name;                                                                     \
    Tensor weight;                                                                             \
    std::optional<Tensor> bias;                                                                \
    run_options options;                                                                       \
                                                                                               \
    name(int64_t inputs, int64_t outputs, const Dims& kernel, const layer_options& layer = {}, \
         Generator& generator = default_generator());                                          \
    Tensor operator()(const Tensor& x) const;                                                  \
    template <class V>                                                                         \
    void visit(V& v) {                                                                         \
      v("weight", weight);                                                                     \
      v("bias", bias);                                                                         \
      detail::list_settings(v, options);                                                       \
    }                                                                                          \
  };
HD_CONV_LAYER(Conv1d, ConvLayerOptions, ConvOptions)
HD_CONV_LAYER(Conv2d, ConvLayerOptions, ConvOptions)
HD_CONV_LAYER(Conv3d, ConvLayerOptions, ConvOptions)
// Weight [inputs, outputs / groups, kernel ...].
HD_CONV_LAYER(ConvTranspose1d, ConvTransposeLayerOptions, ConvTransposeOptions)
HD_CONV_LAYER(ConvTranspose2d, ConvTransposeLayerOptions, ConvTransposeOptions)
HD_CONV_LAYER(ConvTranspose3d, ConvTransposeLayerOptions, ConvTransposeOptions)
#undef HD_CONV_LAYER

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  // the part that a batch has in the running statistics
  bool affine = true;     // with weight and bias
  DType dtype = kF32;
};

// Mean 0 and variance 1 of every channel, then times weight, plus bias. While training these are the batch's own, and
// the running statistics follow them (the variance as that of a sample, n - 1); after eval() the running ones are used.
// Statistics are state: saved and loaded with the parameters, but not trained.
#define HD_BATCH_NORM(name)                                                \
  struct name : Module<name> {                                             \
    std::optional<Tensor> weight, bias;                                    \
    Tensor running_mean, running_var, num_batches_tracked;                 \
    double epsilon, momentum;                                              \
                                                                           \
    explicit name(int64_t channels, const BatchNormOptions& options = {}); \
    Tensor operator()(const Tensor& x) const;                              \
    template <class V>                                                     \
    void visit(V& v) {                                                     \
      v("weight", weight);                                                 \
      v("bias", bias);                                                     \
      v("running_mean", running_mean);                                     \
      v("running_var", running_var);                                       \
      v("num_batches_tracked", num_batches_tracked);                       \
      v.settings(epsilon, momentum);                                       \
    }                                                                      \
  };
HD_BATCH_NORM(BatchNorm1d)  // [batch, channels] or [batch, channels, n]
HD_BATCH_NORM(BatchNorm2d)
HD_BATCH_NORM(BatchNorm3d)
#undef HD_BATCH_NORM

// What BatchNorm does while training, for layers of one's own: x [batch, channels, ...] normalised by its own
// statistics, which the running ones follow; batches_tracked, an integer without axes, counts one more.
Tensor batch_norm_training(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                           const Tensor& batches_tracked, const std::optional<Tensor>& weight = {},
                           const std::optional<Tensor>& bias = {}, double epsilon = 1e-5, double momentum = 0.1);

// Mean 0 and variance 1 over each of `groups` parts of the channels, then times weight, plus bias.
struct GroupNorm : Module<GroupNorm> {
  std::optional<Tensor> weight, bias;
  int64_t groups, channels;
  double epsilon;

  GroupNorm(int64_t group_count, int64_t channel_count, double epsilon = 1e-5, bool affine = true, DType dtype = kF32);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("weight", weight);
    v("bias", bias);
    v.settings(groups, channels, epsilon);
  }
};

struct MaxPool2d : Module<MaxPool2d> {
  using ListsAll = MaxPool2d;
  Dims kernel;
  MaxPoolOptions options;

  explicit MaxPool2d(const Dims& kernel_size, const MaxPoolOptions& pool = {}) : kernel(kernel_size), options(pool) {}
  Tensor operator()(const Tensor& x) const { return max_pool2d(x, kernel, options); }
  template <class V>
  void visit(V& v) {
    v.settings(kernel, options.stride, options.padding, options.dilation, options.ceil_mode);
  }
};

struct AvgPool2d : Module<AvgPool2d> {
  using ListsAll = AvgPool2d;
  Dims kernel;
  AvgPoolOptions options;

  explicit AvgPool2d(const Dims& kernel_size, const AvgPoolOptions& pool = {}) : kernel(kernel_size), options(pool) {}
  Tensor operator()(const Tensor& x) const { return avg_pool2d(x, kernel, options); }
  template <class V>
  void visit(V& v) {
    v.settings(kernel, options.stride, options.padding, options.ceil_mode, options.count_include_pad);
  }
};

struct AdaptiveAvgPool2d : Module<AdaptiveAvgPool2d> {
  Dims size;

  explicit AdaptiveAvgPool2d(const Dims& output_size) : size(output_size) {}
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool2d(x, size); }
  template <class V>
  void visit(V& v) {
    v.settings(size);
  }
};

// The axes from begin to end, both included, as one.
struct Flatten : Module<Flatten> {
  int64_t begin, end;

  explicit Flatten(int64_t first = 1, int64_t last = -1) : begin(first), end(last) {}
  Tensor operator()(const Tensor& x) const { return flatten(x, begin, end); }
  template <class V>
  void visit(V& v) {
    v.settings(begin, end);
  }
};

}  // namespace heddle::nn
