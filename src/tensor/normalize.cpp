#include <heddle/grad.h>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

// The last axes of a tensor; ValueError if it does not have so many.
Axes last_axes(const char* op, const Tensor& x, int64_t count) {
  if (count < 1 || count > x.rank())
    throw ValueError(text(op, ": a tensor of shape ", x.node()->shape, " has no ", count, " last axes"));
  Axes list;
  for (int64_t i = x.rank() - count; i < x.rank(); ++i) list.push_back(i);
  return list;
}

// A weight or bias has the shape of the last axes of x.
void check_last_shape(const char* op, const char* what, const Tensor& x, const Tensor& given) {
  Dims shape = x.shape(), last = given.shape();
  if (last.empty() || last.size() > shape.size() || !std::equal(last.rbegin(), last.rend(), shape.rbegin()))
    throw ShapeError(
        text(op, ": a ", what, " of shape ", list_text(last), " does not fit the last axes of ", list_text(shape)));
}

// A vector with a number for each channel, axis 1 of x: along that axis.
Tensor along_channels(const char* op, const char* what, const Tensor& x, const Tensor& given) {
  if (given.rank() != 1 || x.rank() < 2 || given.size(0) != x.size(1))
    throw ShapeError(
        text(op, ": a ", what, " of shape ", given.node()->shape, " for the channels (axis 1) of ", x.node()->shape));
  Dims shape(static_cast<size_t>(x.rank()) - 1, 1);
  shape[0] = given.size(0);
  return reshape(given, shape);
}

// f is wide.
Tensor softmax_of(const char* op, const Tensor& f, int64_t axis) {
  int64_t at = axis_along(op, axis, f.rank());
  Tensor e = exp(sub(f, shift_of(f, at)));
  return mul(e, reciprocal(sum(e, at, true)));  // one division per row
}
Tensor layer_norm_of(const Tensor& f, const Axes& axes, double epsilon) {
  Tensor centred = sub(f, mean(f, axes, true));
  return mul(centred, rsqrt(add(mean(square(centred), axes, true), epsilon)));
}
Tensor rms_norm_of(const Tensor& f, const Axes& axes, double epsilon) {
  return mul(f, rsqrt(add(mean(square(f), axes, true), epsilon)));
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis) {
  return from_wide_float(softmax_of("softmax", to_wide_float(x), axis), x);
}
Tensor softmin(const Tensor& x, int64_t axis) {
  return from_wide_float(softmax_of("softmin", neg(to_wide_float(x)), axis), x);
}
Tensor log_softmax(const Tensor& x, int64_t axis) {
  Tensor f = to_wide_float(x);
  int64_t at = axis_along("log_softmax", axis, f.rank());
  Tensor shifted = sub(f, shift_of(f, at));
  return from_wide_float(sub(shifted, log(sum(exp(shifted), at, true))), x);
}

Tensor layer_norm(const Tensor& x, int64_t axes, double epsilon) {
  return from_wide_float(layer_norm_of(to_wide_float(x), last_axes("layer_norm", x, axes), epsilon), x);
}
Tensor layer_norm(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, double epsilon) {
  check_last_shape("layer_norm", "weight", x, weight);
  if (bias) check_last_shape("layer_norm", "bias", x, *bias);
  Tensor result = layer_norm_of(to_wide_float(x), last_axes("layer_norm", x, weight.rank()), epsilon);
  result = mul(result, weight);
  return from_wide_float(bias ? add(result, *bias) : result, x);
}
Tensor rms_norm(const Tensor& x, int64_t axes, double epsilon) {
  return from_wide_float(rms_norm_of(to_wide_float(x), last_axes("rms_norm", x, axes), epsilon), x);
}
Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  check_last_shape("rms_norm", "weight", x, weight);
  return from_wide_float(mul(rms_norm_of(to_wide_float(x), last_axes("rms_norm", x, weight.rank()), epsilon), weight),
                         x);
}

Tensor group_norm(const Tensor& x, int64_t groups, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double epsilon) {
  if (x.rank() < 2) throw ShapeError(text("group_norm: an input of shape ", x.node()->shape, " has no channels"));
  if (groups < 1 || x.size(1) % groups != 0)
    throw ValueError(text("group_norm: ", groups, " groups of the channels (axis 1) of ", x.node()->shape));
  Tensor parts = unflatten(to_wide_float(x), 1, {groups, -1});
  Tensor result = flatten(layer_norm_of(parts, last_axes("group_norm", parts, x.rank() - 1), epsilon), 1, 2);
  if (weight) result = mul(result, along_channels("group_norm", "weight", x, *weight));
  if (bias) result = add(result, along_channels("group_norm", "bias", x, *bias));
  return from_wide_float(result, x);
}

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double epsilon) {
  Tensor scale = rsqrt(add(to_wide_float(along_channels("batch_norm", "variance", x, variance)), epsilon));
  if (weight) scale = mul(scale, along_channels("batch_norm", "weight", x, *weight));
  Tensor centred = sub(to_wide_float(x), along_channels("batch_norm", "mean", x, mean));
  Tensor result = mul(centred, scale);
  if (bias) result = add(result, along_channels("batch_norm", "bias", x, *bias));
  return from_wide_float(result, x);
}

}  // namespace heddle
