// The sum that convolutions and their gradients are parts of. Private to src/tensor.
//
//   F(x, w, y) = sum over n, g, o, c, p, k of   x[n, g, c, p * stride + k * dilation - before] * w[g, o, c, k] * y[n,
//   g, o, p]
//
// It is linear in each of three tensors. Its derivative with respect to y is the convolution of x with w; the one with
// respect to x is the transposed convolution of y with w; the one with respect to w is the gradient of a weight. So the
// gradients of each of these three are the two others, to any order, and each is one sum of products.
#pragma once

#include <vector>

#include "tensor/build.h"

namespace heddle {

// One entry for each axis that windows move along.
struct ConvForm {
  std::vector<int64_t> stride, dilation;
  std::vector<int64_t> before;  // zeros in front of x
  std::vector<int64_t> kernel, x_size, y_size;
  int64_t groups = 1;
};

// x [batch, groups * c, ...], w [groups * o, c, ...], y [batch, groups * o, ...]; of one float or integer dtype.
Tensor conv_y(const ConvForm& form, const Tensor& x, const Tensor& w);
Tensor conv_x(const ConvForm& form, const Tensor& w, const Tensor& y);
Tensor conv_w(const ConvForm& form, const Tensor& x, const Tensor& y);

// `count` elements of an axis, the first of them at -before: `value`, or zero, where x has none.
Tensor framed(const Tensor& x, int64_t axis, int64_t before, int64_t count, std::optional<Scalar> value = {});

}  // namespace heddle
