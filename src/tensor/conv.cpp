#include <heddle/ops/conv.h>

#include "base/error.h"
#include "tensor/contract.h"
#include "tensor/conv_common.h"
#include "tensor/conv_form.h"

namespace heddle {

Padding::Padding(std::string_view word) {
  if (word != "same" && word != "valid")
    throw ValueError(text("convolution: a padding is a number of elements, \"same\" or \"valid\", not \"", word, "\""));
  same_ = word == "same";
}
Padding::Padding(const char* word) : Padding(std::string_view(word)) {}

Dims per_axis(const char* op, const char* what, const Dims& given, size_t axes, int64_t least) {
  Dims result = given;
  if (given.size() == 1 && axes > 1) result.assign(axes, given[0]);
  if (result.size() != axes)
    throw ValueError(text(op, ": a ", what, " of ", list_text(given), " for ", axes, axes == 1 ? " axis" : " axes"));
  for (int64_t size : result)
    if (size < least) throw ValueError(text(op, ": a ", what, " of ", list_text(given), "; the least is ", least));
  return result;
}

int64_t checked_extent(const char* op, Int128 extent) {
  constexpr Int128 kMost = Int128{1} << 60;
  if (extent > kMost) throw ShapeError(text(op, ": an axis of more than 2^60 elements, with padding and dilation"));
  return static_cast<int64_t>(extent);
}

Tensor with_batch(const char* op, const Tensor& x, size_t axes, bool& alone) {
  alone = x.rank() == static_cast<int>(axes) + 1;
  if (!alone && x.rank() != static_cast<int>(axes) + 2)
    throw ShapeError(text(op, ": an input of shape ", x.node()->shape, "; it has ", axes + 2,
                          " axes (batch, channels, ...), or ", axes + 1, " without the batch"));
  return alone ? unsqueeze(x, 0) : x;
}

namespace {

struct Operands {
  Tensor x, w;
  std::optional<Tensor> bias;
  bool alone = false;  // x had no batch
};

Operands operands(const char* op, size_t axes, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                  int64_t groups, bool transposed) {
  check_same_device(op, x.node()->device, weight.node()->device);
  if (bias) check_same_device(op, x.node()->device, bias->node()->device);
  Operands result;
  std::vector<Tensor> factors = product_operands(op, {x, weight});
  result.x = with_batch(op, factors[0], axes, result.alone);
  result.w = factors[1];
  if (result.w.rank() != static_cast<int>(axes) + 2)
    throw ShapeError(text(op, ": a weight of shape ", weight.shape(), "; it has ", axes + 2, " axes"));
  if (groups < 1) throw ValueError(text(op, ": ", groups, " groups; there is at least one"));
  int64_t channels = result.x.size(1), per_group = channels / groups, first = result.w.size(0);
  bool fits = transposed ? first == channels && channels % groups == 0
                         : result.w.size(1) * groups == channels && first % groups == 0;
  if (!fits) {
    std::string wanted = transposed ? text("[", channels, ", outputs / groups, ...]")
                                    : text("[outputs, ", per_group, ", ...] with outputs a multiple of the groups");
    throw ShapeError(text(op, ": an input of shape ", x.shape(), " in ", groups, groups == 1 ? " group" : " groups",
                          " with a weight of shape ", weight.shape(), "; the weight must be ", wanted,
                          channels % groups != 0 ? ", and the groups must divide the channels" : ""));
  }
  int64_t outputs = transposed ? result.w.size(1) * groups : first;
  if (bias) {
    if (bias->rank() != 1 || bias->size(0) != outputs)
      throw ShapeError(text(op, ": a bias of shape ", bias->shape(), " for ", outputs, " channels"));
    Dims shape(axes + 1, 1);
    shape[0] = outputs;
    result.bias = reshape(*bias, shape);
  }
  return result;
}

Tensor finished(const Operands& o, const Tensor& y) {
  Tensor result = o.bias ? add(y, *o.bias) : y;
  return o.alone ? squeeze(result, 0) : result;
}

std::vector<int64_t> spatial(const Tensor& x) {
  std::vector<int64_t> shape = x.shape();
  return {shape.begin() + 2, shape.end()};
}

// A step that is never taken may be as large as any number; gradients would fill it with zeros.
void forget_idle_steps(ConvForm& form, size_t axis) {
  if (form.y_size[axis] == 1) form.stride[axis] = 1;
  if (form.kernel[axis] == 1) form.dilation[axis] = 1;
}

Tensor conv(const char* op, size_t axes, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
            const ConvOptions& options) {
  Operands o = operands(op, axes, x, weight, bias, options.groups, false);
  ConvForm form{per_axis(op, "stride", options.stride, axes, 1),
                per_axis(op, "dilation", options.dilation, axes, 1),
                per_axis(op, "padding", options.padding.sizes(), axes, 0),
                spatial(o.w),
                spatial(o.x),
                {},
                options.groups};
  for (size_t i = 0; i < axes; ++i) {
    Int128 far = static_cast<Int128>(form.dilation[i]) * (form.kernel[i] - 1), zeros = 2 * Int128{form.before[i]};
    if (options.padding.is_same()) {
      if (form.stride[i] != 1) throw ValueError(text(op, ": padding \"same\" with a stride of ", form.stride[i]));
      zeros = far;
      form.before[i] = checked_extent(op, far) / 2;
    }
    if (form.kernel[i] < 1 || form.x_size[i] + zeros <= far)
      throw ShapeError(text(op, ": a kernel of ", list_text(form.kernel), " with dilation ", list_text(form.dilation),
                            " does not fit into an input of shape ", x.shape(), " with a padding of ",
                            list_text(form.before)));
    int64_t all = checked_extent(op, form.x_size[i] + zeros), reach = static_cast<int64_t>(far);
    form.y_size.push_back((all - reach - 1) / form.stride[i] + 1);
    forget_idle_steps(form, i);
  }
  return finished(o, conv_y(form, o.x, o.w));
}

Tensor conv_transpose(const char* op, size_t axes, const Tensor& x, const Tensor& weight,
                      const std::optional<Tensor>& bias, const ConvTransposeOptions& options) {
  Operands o = operands(op, axes, x, weight, bias, options.groups, true);
  ConvForm form{per_axis(op, "stride", options.stride, axes, 1),
                per_axis(op, "dilation", options.dilation, axes, 1),
                per_axis(op, "padding", options.padding, axes, 0),
                spatial(o.w),
                {},
                spatial(o.x),
                options.groups};
  Dims more = per_axis(op, "output_padding", options.output_padding, axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    if (more[i] >= form.stride[i] && more[i] >= form.dilation[i])
      throw ValueError(text(op, ": an output_padding of ", more[i], " is not less than the stride, ", form.stride[i],
                            ", or the dilation, ", form.dilation[i]));
    Int128 all = static_cast<Int128>(form.y_size[i] - 1) * form.stride[i] +
                 static_cast<Int128>(form.dilation[i]) * (form.kernel[i] - 1) + 1 + more[i];
    Int128 size = all - 2 * Int128{form.before[i]};
    if (form.kernel[i] < 1 || form.y_size[i] < 1 || size < 1)
      throw ShapeError(text(op, ": an input of shape ", x.shape(), " with a kernel of ", list_text(form.kernel),
                            " and a padding of ", list_text(form.before), " leaves nothing"));
    checked_extent(op, all);
    form.x_size.push_back(static_cast<int64_t>(size));
    forget_idle_steps(form, i);
  }
  return finished(o, conv_x(form, o.w, o.x));
}

}  // namespace

#define HD_CONV(axes)                                                                                      \
  Tensor conv##axes##d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,           \
                       const ConvOptions& options) {                                                       \
    return conv("conv" #axes "d", axes, x, weight, bias, options);                                         \
  }                                                                                                        \
  Tensor conv_transpose##axes##d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, \
                                 const ConvTransposeOptions& options) {                                    \
    return conv_transpose("conv_transpose" #axes "d", axes, x, weight, bias, options);                     \
  }
HD_CONV(1)
HD_CONV(2)
HD_CONV(3)
#undef HD_CONV

}  // namespace heddle
