#include <heddle/nn/conv.h>
#include <heddle/nn/init.h>
#include <heddle/ops.h>

#include <cmath>

#include "base/error.h"
#include "nn/parameter.h"
#include "tensor/together.h"

namespace heddle::nn {
namespace {

// Weight and bias of a convolution, as PyTorch begins: uniform, by the number of inputs of an output.
template <class Layer, class Options>
void begin(Layer& layer, const char* name, size_t axes, int64_t first, int64_t second, int64_t outputs,
           const Dims& kernel, const Options& options, Generator& generator) {
  if (kernel.size() != 1 && kernel.size() != axes)
    throw ValueError(text(name, ": a kernel of ", kernel, " for ", axes, axes == 1 ? " axis" : " axes"));
  Dims shape = {first, second};
  for (size_t i = 0; i < axes; ++i) shape.push_back(kernel[kernel.size() == 1 ? 0 : i]);
  for (int64_t size : shape)
    if (size <= 0) throw ValueError(text(name, ": a weight of shape ", shape, "; its sizes must be positive"));
  layer.weight = parameter(init::kaiming_uniform(shape, std::sqrt(5.0), options.dtype, generator));
  double bound = 1 / std::sqrt(static_cast<double>(init::fans(shape).in));
  if (options.bias) layer.bias = parameter(uniform(outputs, -bound, bound, options.dtype, generator));
}

void check_groups(const char* name, int64_t inputs, int64_t outputs, int64_t groups) {
  if (groups < 1 || inputs % groups != 0 || outputs % groups != 0)
    throw ValueError(text(name, "(", inputs, ", ", outputs, "): ", groups, " groups do not divide the channels"));
}

}  // namespace

#define HD_CONV_LAYER(name, axes, function)                                                                            \
  name::name(int64_t inputs, int64_t outputs, const Dims& kernel, const ConvLayerOptions& layer, Generator& generator) \
      : options{layer.stride, layer.padding, layer.dilation, layer.groups} {                                           \
    check_groups(#name, inputs, outputs, layer.groups);                                                                \
    begin(*this, #name, axes, outputs, inputs / layer.groups, outputs, kernel, layer, generator);                      \
  }                                                                                                                    \
  Tensor name::operator()(const Tensor& x) const { return function(x, weight, bias, options); }
HD_CONV_LAYER(Conv1d, 1, conv1d)
HD_CONV_LAYER(Conv2d, 2, conv2d)
HD_CONV_LAYER(Conv3d, 3, conv3d)
#undef HD_CONV_LAYER

#define HD_CONV_LAYER(name, axes, function)                                                               \
  name::name(int64_t inputs, int64_t outputs, const Dims& kernel, const ConvTransposeLayerOptions& layer, \
             Generator& generator)                                                                        \
      : options{layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation} {        \
    check_groups(#name, inputs, outputs, layer.groups);                                                   \
    begin(*this, #name, axes, inputs, outputs / layer.groups, outputs, kernel, layer, generator);         \
  }                                                                                                       \
  Tensor name::operator()(const Tensor& x) const { return function(x, weight, bias, options); }
HD_CONV_LAYER(ConvTranspose1d, 1, conv_transpose1d)
HD_CONV_LAYER(ConvTranspose2d, 2, conv_transpose2d)
HD_CONV_LAYER(ConvTranspose3d, 3, conv_transpose3d)
#undef HD_CONV_LAYER

namespace {

template <class Layer>
void begin(Layer& layer, const char* name, int64_t channels, const BatchNormOptions& options) {
  if (channels <= 0) throw ValueError(text(name, ": ", channels, " channels"));
  if (options.affine) {
    layer.weight = parameter(ones(channels, options.dtype));
    layer.bias = parameter(zeros(channels, options.dtype));
  }
  layer.running_mean = zeros(channels, options.dtype).realize();
  layer.running_var = ones(channels, options.dtype).realize();
  layer.num_batches_tracked = zeros({}, kI64).realize();
  layer.epsilon = options.epsilon;
  layer.momentum = options.momentum;
  layer.buffers = {"running_mean", "running_var", "num_batches_tracked"};
}

void follow(const Tensor& running, const Tensor& now, double part) {
  update("BatchNorm", running,
         [&](const Tensor& before) { return cast(before * (1 - part) + now.detach() * part, before.dtype()); });
}

// `layer` is "BatchNorm2d(64)", for messages.
Tensor train_step(const std::string& layer, const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& batches_tracked, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                  double epsilon, double momentum) {
  Axes others = {0};
  for (int64_t axis = 2; axis < x.rank(); ++axis) others.push_back(axis);
  double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  if (count < 2)
    throw ValueError(text(layer, ": an input of shape ", x.shape(),
                          " has no variance: training takes more than one element for each channel"));
  Tensor wide = size_of(x.dtype()) < 4 ? cast(x, kF32) : x;
  Tensor centre = mean(wide, others), variance = var(wide, others, false, 0);
  follow(running_mean, centre, momentum);
  follow(running_var, variance * (count / (count - 1)), momentum);
  Tensor batches = batches_tracked;  // a handle to the same slot: the layer itself is not changed
  batches += 1;
  return batch_norm(x, centre, variance, weight, bias, epsilon);
}

template <class Layer>
Tensor normalized(const Layer& layer, const char* name, const Tensor& given, int axes, int or_axes) {
  Tensor x(given.node());
  int64_t channels = layer.running_mean.size(0);
  if ((x.rank() != axes && x.rank() != or_axes) || x.size(1) != channels)
    throw ShapeError(text(name, "(", channels, "): an input of shape ", x.shape(), "; it has ", axes, " axes",
                          axes == or_axes ? "" : text(" or ", or_axes), ", and ", channels, " channels (axis 1)"));
  if (!layer.training)
    return batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias, layer.epsilon);
  return train_step(text(name, "(", channels, ")"), x, layer.running_mean, layer.running_var, layer.num_batches_tracked,
                    layer.weight, layer.bias, layer.epsilon, layer.momentum);
}

}  // namespace

#define HD_BATCH_NORM(name, axes, or_axes)                                                                  \
  name::name(int64_t channels, const BatchNormOptions& options) { begin(*this, #name, channels, options); } \
  Tensor name::operator()(const Tensor& x) const { return normalized(*this, #name, x, axes, or_axes); }
HD_BATCH_NORM(BatchNorm1d, 2, 3)
HD_BATCH_NORM(BatchNorm2d, 4, 4)
HD_BATCH_NORM(BatchNorm3d, 5, 5)
#undef HD_BATCH_NORM

Tensor batch_norm_training(const Tensor& given, const Tensor& running_mean, const Tensor& running_var,
                           const Tensor& batches_tracked, const std::optional<Tensor>& weight,
                           const std::optional<Tensor>& bias, double epsilon, double momentum) {
  Tensor x(given.node());
  if (x.rank() < 2 || running_mean.rank() != 1 || x.size(1) != running_mean.size(0))
    throw ShapeError(text("batch_norm_training: an input of shape ", x.shape(), " and statistics of shape ",
                          running_mean.shape(), "; they are for the channels, axis 1 of the input"));
  return train_step("batch_norm_training", x, running_mean, running_var, batches_tracked, weight, bias, epsilon,
                    momentum);
}

GroupNorm::GroupNorm(int64_t group_count, int64_t channel_count, double eps, bool affine, DType dtype)
    : groups(group_count), channels(channel_count), epsilon(eps) {
  if (groups < 1 || channels < 1 || channels % groups != 0)
    throw ValueError(text("GroupNorm: ", channels, " channels in ", groups, " groups"));
  if (!affine) return;
  weight = parameter(ones(channels, dtype));
  bias = parameter(zeros(channels, dtype));
}

Tensor GroupNorm::operator()(const Tensor& x) const {
  if (x.rank() < 2 || x.size(1) != channels)
    throw ShapeError(text("GroupNorm(", groups, ", ", channels, "): an input of shape ", x.shape(), "; it must have ",
                          channels, " channels (axis 1)"));
  return group_norm(x, groups, weight, bias, epsilon);
}

}  // namespace heddle::nn
