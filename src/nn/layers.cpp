#include <heddle/nn/init.h>
#include <heddle/nn/layers.h>
#include <heddle/ops.h>

#include <cmath>

#include "base/error.h"
#include "nn/parameter.h"

namespace heddle::nn {
namespace {

void check_sizes(const char* layer, std::initializer_list<int64_t> sizes) {
  for (int64_t size : sizes)
    if (size <= 0) throw ValueError(text(layer, ": a size of ", size, "; it must be positive"));
}

void check_width(const std::string& layer, const Tensor& x, int64_t width) {
  if (x.rank() == 0 || x.size(-1) != width)
    throw ShapeError(text(layer, ": an input of shape ", x.shape(), "; its last axis must have ", width));
}

Tensor filled(const Dims& shape, double value, DType dtype) { return parameter(full(shape, value, dtype)); }

}  // namespace

Linear::Linear(int64_t inputs, int64_t outputs, bool with_bias, DType dtype, Generator& generator) {
  check_sizes("Linear", {inputs, outputs});
  weight = parameter(init::kaiming_uniform({outputs, inputs}, std::sqrt(5.0), dtype, generator));
  double bound = 1 / std::sqrt(static_cast<double>(inputs));
  if (with_bias) bias = parameter(uniform(outputs, -bound, bound, dtype, generator));
}

Tensor Linear::operator()(const Tensor& x) const {
  int64_t inputs = weight.size(1);
  check_width(text("Linear(", inputs, ", ", weight.size(0), ")"), x, inputs);
  Tensor y = matmul(x, weight.t());
  return bias ? y + *bias : y;
}

Embedding::Embedding(int64_t rows, int64_t width, DType dtype, Generator& generator) {
  check_sizes("Embedding", {rows, width});
  weight = parameter(randn({rows, width}, dtype, generator));
}

Tensor Embedding::operator()(const Tensor& ids) const {
  if (!is_integer(ids.dtype()))
    throw DTypeError(text("Embedding(", weight.size(0), ", ", weight.size(1),
                          "): rows are chosen by whole numbers, not ", ids.dtype()));
  return embedding(weight, ids);
}

LayerNorm::LayerNorm(const Dims& shape, double eps, bool with_bias, DType dtype)
    : weight(filled(shape, 1, dtype)), epsilon(eps) {
  if (shape.empty()) throw ShapeError("LayerNorm: needs the sizes of the axes to normalise over");
  if (with_bias) bias = filled(shape, 0, dtype);
}

Tensor LayerNorm::operator()(const Tensor& x) const { return layer_norm(x, weight, bias, epsilon); }

RMSNorm::RMSNorm(const Dims& shape, double eps, DType dtype) : weight(filled(shape, 1, dtype)), epsilon(eps) {
  if (shape.empty()) throw ShapeError("RMSNorm: needs the sizes of the axes to normalise over");
}

Tensor RMSNorm::operator()(const Tensor& x) const { return rms_norm(x, weight, epsilon); }

Dropout::Dropout(double probability) : p(probability) {
  if (!(p >= 0 && p <= 1)) throw ValueError(text("Dropout: ", p, " is no probability"));
}

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t head_count, bool is_causal, DType dtype,
                                       Generator& generator)
    : out_proj(width, width, true, dtype, generator), heads(head_count), causal(is_causal) {
  check_sizes("MultiHeadAttention", {width, heads});
  if (width % heads != 0)
    throw ValueError(text("MultiHeadAttention: a width of ", width, " cannot be divided among ", heads, " heads"));
  in_proj_weight = parameter(init::xavier_uniform({3 * width, width}, 1, dtype, generator));
  in_proj_bias = filled(3 * width, 0, dtype);
  out_proj.bias = filled(width, 0, dtype);
}

Tensor MultiHeadAttention::operator()(const Tensor& x) const {
  int64_t width = in_proj_weight.size(1), part = width / heads;
  std::string layer = text("MultiHeadAttention(", width, ", ", heads, ")");
  check_width(layer, x, width);
  if (x.rank() < 2) throw ShapeError(text(layer, ": an input of shape ", x.shape(), " has no axis for time"));
  Tensor all = matmul(x, in_proj_weight.t()) + in_proj_bias;
  // [..., heads, time, part]
  auto head = [&](int64_t which) {
    Tensor piece = all.slice(-1, which * width, (which + 1) * width);
    return unflatten(piece, -1, {heads, part}).transpose(-3, -2);
  };
  Tensor mixed = scaled_dot_product_attention(head(0), head(1), head(2), {.causal = causal}).transpose(-3, -2);
  return out_proj(flatten(mixed, -2, -1));
}

}  // namespace heddle::nn
