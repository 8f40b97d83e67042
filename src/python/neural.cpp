// Convolutions, pooling, normalisation, attention and losses.
#include <heddle/nn/conv.h>
#include <heddle/nn/init.h>
#include <heddle/nn/layers.h>
#include <heddle/nn/loss.h>

#include "base/error.h"
#include "python/bind.h"
#include "python/function.h"

namespace heddle::python {
namespace {

Padding padding_of(PyObject* object) {
  if (PyUnicode_Check(object)) return Padding(std::string_view(to_text(object)));
  return Padding(Dims(to_ints(object)));
}

using Conv = Tensor (*)(const Tensor&, const Tensor&, const std::optional<Tensor>&, const ConvOptions&);
template <Conv F>
Tensor conv(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Dims& stride,
            PyObject* padding, const Dims& dilation, int64_t groups) {
  return F(x, weight, bias, {.stride = stride, .padding = padding_of(padding), .dilation = dilation, .groups = groups});
}
using ConvTranspose = Tensor (*)(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                 const ConvTransposeOptions&);
template <ConvTranspose F>
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Dims& stride,
                      const Dims& padding, const Dims& output_padding, int64_t groups, const Dims& dilation) {
  return F(
      x, weight, bias,
      {.stride = stride, .padding = padding, .output_padding = output_padding, .groups = groups, .dilation = dilation});
}
using MaxPool = Tensor (*)(const Tensor&, const Dims&, const MaxPoolOptions&);
template <MaxPool F>
Tensor max_pool(const Tensor& x, const Dims& kernel, const std::optional<Dims>& stride, const Dims& padding,
                const Dims& dilation, bool ceil_mode) {
  return F(x, kernel,
           {.stride = stride.value_or(Dims{}), .padding = padding, .dilation = dilation, .ceil_mode = ceil_mode});
}
using AvgPool = Tensor (*)(const Tensor&, const Dims&, const AvgPoolOptions&);
template <AvgPool F>
Tensor avg_pool(const Tensor& x, const Dims& kernel, const std::optional<Dims>& stride, const Dims& padding,
                bool ceil_mode, bool count_include_pad) {
  return F(x, kernel,
           {.stride = stride.value_or(Dims{}),
            .padding = padding,
            .ceil_mode = ceil_mode,
            .count_include_pad = count_include_pad});
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool causal,
                 const std::optional<double>& scale) {
  return scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = causal, .scale = scale});
}
// Over the last axes, whose sizes `shape` lists.
Tensor layer_normed(const Tensor& x, const Dims& shape, const std::optional<Tensor>& weight,
                    const std::optional<Tensor>& bias, double epsilon) {
  auto rank = static_cast<int64_t>(shape.size());
  for (int64_t i = 0; i < rank; ++i)
    if (rank > x.rank() || x.size(i - rank) != shape[static_cast<size_t>(i)])
      throw ShapeError(text("layer_norm: the last axes of a tensor of shape ", x.shape(), " are not ", shape));
  if (weight) return layer_norm(x, *weight, bias, epsilon);
  Tensor y = layer_norm(x, rank, epsilon);
  return bias ? y + *bias : y;
}
Tensor rms_normed(const Tensor& x, const Dims& shape, const std::optional<Tensor>& weight, double epsilon) {
  return weight ? rms_norm(x, *weight, epsilon) : rms_norm(x, static_cast<int64_t>(shape.size()), epsilon);
}
Tensor linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  if (weight.rank() != 2 || x.rank() == 0 || x.size(-1) != weight.size(1))
    throw ShapeError(text("linear: an input of shape ", x.shape(), " does not fit a weight of shape ", weight.shape(),
                          ", [outputs, inputs]"));
  Tensor y = matmul(x, weight.t());
  return bias ? y + *bias : y;
}

Reduction reduction_of(const std::string& name) {
  if (name == "mean") return Reduction::Mean;
  if (name == "sum") return Reduction::Sum;
  if (name == "none") return Reduction::None;
  if (name == "batchmean") return Reduction::BatchMean;
  throw ValueError(text("there is no reduction '", name, "'; there are mean, sum, none and batchmean"));
}
using Loss = Tensor (*)(const Tensor&, const Tensor&, Reduction);
template <Loss F>
Tensor loss(const Tensor& x, const Tensor& target, const std::string& reduction) {
  return F(x, target, reduction_of(reduction));
}
using ScaledLoss = Tensor (*)(const Tensor&, const Tensor&, double, Reduction);
template <ScaledLoss F>
Tensor scaled_loss(const Tensor& x, const Tensor& target, double scale, const std::string& reduction) {
  return F(x, target, scale, reduction_of(reduction));
}
Tensor cross_entropy_of(const Tensor& x, const Tensor& target, const std::optional<Tensor>& weight,
                        int64_t ignore_index, double label_smoothing, const std::string& reduction) {
  return cross_entropy(x, target,
                       {.weight = weight,
                        .ignore_index = ignore_index,
                        .label_smoothing = label_smoothing,
                        .reduction = reduction_of(reduction)});
}
Tensor nll_of(const Tensor& x, const Tensor& target, const std::optional<Tensor>& weight, int64_t ignore_index,
              const std::string& reduction) {
  return nll_loss(x, target, {.weight = weight, .ignore_index = ignore_index, .reduction = reduction_of(reduction)});
}
Tensor bce_of(const Tensor& x, const Tensor& target, const std::optional<Tensor>& weight,
              const std::string& reduction) {
  return bce_loss(x, target, {.weight = weight, .pos_weight = {}, .reduction = reduction_of(reduction)});
}
Tensor bce_logits_of(const Tensor& x, const Tensor& target, const std::optional<Tensor>& weight,
                     const std::string& reduction, const std::optional<Tensor>& pos_weight) {
  return bce_with_logits(x, target, {.weight = weight, .pos_weight = pos_weight, .reduction = reduction_of(reduction)});
}
Tensor kl_of(const Tensor& x, const Tensor& target, const std::string& reduction, bool log_target) {
  return kl_div(x, target, reduction_of(reduction), log_target);
}

// First values of layers, by name. Computed at once.
TensorMap linear_state(int64_t inputs, int64_t outputs, bool bias, DType dtype, Generator& generator) {
  return nn::Linear(inputs, outputs, bias, dtype, generator).state();
}
TensorMap embedding_state(int64_t rows, int64_t width, DType dtype, Generator& generator) {
  return nn::Embedding(rows, width, dtype, generator).state();
}
TensorMap attention_state(int64_t width, int64_t heads, DType dtype, Generator& generator) {
  return nn::MultiHeadAttention(width, heads, false, dtype, generator).state();
}
TensorMap conv_state(int64_t axes, int64_t inputs, int64_t outputs, const Dims& kernel, int64_t groups, bool bias,
                     bool transposed, DType dtype, Generator& generator) {
  auto state = [&]<class Layer, class Options>(Layer*, Options*) {
    Options given{.groups = groups, .bias = bias, .dtype = dtype};
    return Layer(inputs, outputs, kernel, given, generator).state();
  };
  nn::ConvLayerOptions* plain = nullptr;
  nn::ConvTransposeLayerOptions* options = nullptr;
  if (axes == 1)
    return transposed ? state(static_cast<nn::ConvTranspose1d*>(nullptr), options)
                      : state(static_cast<nn::Conv1d*>(nullptr), plain);
  if (axes == 2)
    return transposed ? state(static_cast<nn::ConvTranspose2d*>(nullptr), options)
                      : state(static_cast<nn::Conv2d*>(nullptr), plain);
  return transposed ? state(static_cast<nn::ConvTranspose3d*>(nullptr), options)
                    : state(static_cast<nn::Conv3d*>(nullptr), plain);
}

}  // namespace

void bind_neural(nb::module_& module) {
  using enum Row::Kind;
#define HD_CONV(n)                                                                                                    \
  {"conv" #n "d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)", call<conv<conv##n##d>>, Function}, \
      {"conv_transpose" #n "d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)",    \
       call<conv_transpose<conv_transpose##n##d>>, Function},                                                         \
      {"max_pool" #n "d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False)",                        \
       call<max_pool<max_pool##n##d>>, Function},                                                                     \
      {"avg_pool" #n "d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True)",            \
       call<avg_pool<avg_pool##n##d>>, Function},                                                                     \
      {"adaptive_avg_pool" #n "d(x, output_size)", call<adaptive_avg_pool##n##d>, Function}, {                        \
    "adaptive_max_pool" #n "d(x, output_size)", call<adaptive_max_pool##n##d>, Function                               \
  }
  static constexpr Row rows[] = {
      HD_CONV(1),
      HD_CONV(2),
      HD_CONV(3),
      {"linear(x, weight, bias=None)", call<linear>, Function},
      {"scaled_dot_product_attention(query, key, value, attn_mask=None, is_causal=False, scale=None)", call<attention>,
       Function},
      {"layer_norm(x, normalized_shape, weight=None, bias=None, epsilon=1e-5)", call<layer_normed>, Function},
      {"rms_norm(x, normalized_shape, weight=None, epsilon=1e-6)", call<rms_normed>, Function},
      {"group_norm(x, num_groups, weight=None, bias=None, epsilon=1e-5)", call<group_norm>, Function},
      {"batch_norm(x, running_mean, running_var, weight=None, bias=None, epsilon=1e-5)", call<batch_norm>, Function},
      {"mse_loss(x, target, reduction='mean')", call<loss<mse_loss>>, Function},
      {"l1_loss(x, target, reduction='mean')", call<loss<l1_loss>>, Function},
      {"rss_loss(x, target)", call<rss_loss>, Function},
      {"smooth_l1_loss(x, target, beta=1.0, reduction='mean')", call<scaled_loss<smooth_l1_loss>>, Function},
      {"huber_loss(x, target, delta=1.0, reduction='mean')", call<scaled_loss<huber_loss>>, Function},
      {"cross_entropy(x, target, weight=None, ignore_index=-100, label_smoothing=0.0, reduction='mean')",
       call<cross_entropy_of>, Function},
      {"nll_loss(x, target, weight=None, ignore_index=-100, reduction='mean')", call<nll_of>, Function},
      {"binary_cross_entropy(x, target, weight=None, reduction='mean')", call<bce_of>, Function},
      {"binary_cross_entropy_with_logits(x, target, weight=None, reduction='mean', pos_weight=None)",
       call<bce_logits_of>, Function},
      {"kl_div(x, target, reduction='mean', log_target=False)", call<kl_of>, Function},
      {"_batch_norm_training(x, running_mean, running_var, batches, weight=None, bias=None, epsilon=1e-5, "
       "momentum=0.1)",
       call<nn::batch_norm_training>, Function},
      {"_linear_state(inputs, outputs, bias=True, dtype='float32', generator=None)", compute<linear_state>, Function},
      {"_embedding_state(rows, width, dtype='float32', generator=None)", compute<embedding_state>, Function},
      {"_attention_state(width, heads, dtype='float32', generator=None)", compute<attention_state>, Function},
      {"_conv_state(axes, inputs, outputs, kernel, groups=1, bias=True, transposed=False, dtype='float32', "
       "generator=None)",
       compute<conv_state>, Function},
      {"_xavier_uniform(shape, gain=1.0, dtype='float32', generator=None)", compute<nn::init::xavier_uniform>,
       Function},
      {"_xavier_normal(shape, gain=1.0, dtype='float32', generator=None)", compute<nn::init::xavier_normal>, Function},
      {"_kaiming_uniform(shape, a=0.0, dtype='float32', generator=None)", compute<nn::init::kaiming_uniform>, Function},
      {"_kaiming_normal(shape, a=0.0, dtype='float32', generator=None)", compute<nn::init::kaiming_normal>, Function},
  };
#undef HD_CONV
  add_functions(module, rows);
  add_alias(module, "bce_loss", "binary_cross_entropy");
  add_alias(module, "bce_with_logits", "binary_cross_entropy_with_logits");
}

}  // namespace heddle::python
