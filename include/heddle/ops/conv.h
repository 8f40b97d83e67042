// Convolutions and pooling over the last one, two or three axes of [batch, channels, ...], or of [channels, ...] for
// one example alone. What they are made of are windows of their input (`window`), products and sums: there is no copy
// of the windows in memory, and what follows or precedes them shares their kernel.
//
// Sizes of a kernel, strides and the like are one number for all axes, or one for each: `{.stride = 2}`,
// `{.stride = {2, 1}}`.
#pragma once

#include <heddle/ops/operand.h>

#include <string_view>

namespace heddle {

// Zeros around the input: as many on both sides of each axis, or "valid" (none), or "same" (the result has the size of
// the input; strides must be 1; if the number is odd, one more at the end).
class Padding {
 public:
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Padding(I size) : sizes_(size) {}
  Padding(const Dims& sizes) : sizes_(sizes) {}
  Padding(std::initializer_list<int64_t> sizes) : sizes_(sizes) {}
  Padding(const char* word);  // ValueError if it is neither
  Padding(std::string_view word);

  bool is_same() const { return same_; }
  const Dims& sizes() const { return sizes_; }

 private:
  Dims sizes_ = 0;
  bool same_ = false;
};

struct ConvOptions {
  Dims stride = 1;
  Padding padding = 0;
  Dims dilation = 1;   // distance of the kernel's elements
  int64_t groups = 1;  // parts of the channels that are convolved apart; as many as there are channels: depthwise
};
struct ConvTransposeOptions {
  Dims stride = 1;
  Dims padding = 0;         // cut off on both sides of the result
  Dims output_padding = 0;  // more elements at the end of the result, less than a stride
  int64_t groups = 1;
  Dims dilation = 1;
};
struct MaxPoolOptions {
  Dims stride = {};  // empty: that of the kernel
  Dims padding = 0;  // with the lowest number; at most half the kernel
  Dims dilation = 1;
  bool ceil_mode = false;  // a last window that the input fills only in part counts
};
struct AvgPoolOptions {
  Dims stride = {};  // empty: that of the kernel
  Dims padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // zeros of the padding count as elements
};

// @dtypes integers, floats @shape [batch, outputs, positions ...]

// x [batch, inputs, n], weight [outputs, inputs / groups, kernel]. The kernel is not flipped.
//   conv1d(tensor({{{1, 2, 3, 4}}}), tensor({{{1, 0, -1}}}))                       // [[[-2. -2.]]]
//   conv1d(tensor({{{1, 2, 3}}}), tensor({{{1, 1, 1}}}), {}, {.padding = "same"})  // [[[3. 6. 5.]]]
Tensor conv1d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {},
              const ConvOptions& options = {});
// x [batch, inputs, height, width], weight [outputs, inputs / groups, rows, columns].
//   conv2d(ones({1, 3, 5, 5}), ones({8, 3, 3, 3}), {}, {.stride = 2, .padding = 1}).shape()   // [1, 8, 3, 3]
Tensor conv2d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {},
              const ConvOptions& options = {});
// The same with three axes.
//   conv3d(ones({1, 2, 4, 4, 4}), ones({5, 2, 3, 3, 3})).shape()   // [1, 5, 2, 2, 2]
Tensor conv3d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {},
              const ConvOptions& options = {});
// What the gradient of conv1d with respect to its input computes. Weight [inputs, outputs / groups, kernel]; the result
// has (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + output_padding positions.
//   conv_transpose1d(tensor({{{1, 2}}}), tensor({{{1, 10}}}), {}, {.stride = 2})   // [[[ 1. 10.  2. 20.]]]
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {},
                        const ConvTransposeOptions& options = {});
//   conv_transpose2d(ones({1, 8, 3, 3}), ones({8, 4, 2, 2}), {}, {.stride = 2}).shape()   // [1, 4, 6, 6]
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {},
                        const ConvTransposeOptions& options = {});
//   conv_transpose3d(ones({1, 2, 2, 2, 2}), ones({2, 3, 2, 2, 2})).shape()   // [1, 3, 3, 3, 3]
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {},
                        const ConvTransposeOptions& options = {});

// @dtypes any but bool @shape [batch, channels, positions ...]

// The largest element of each window.
//   max_pool1d(tensor({{1, 5, 2, 3}}), 2)   // [[5. 3.]]
Tensor max_pool1d(const Tensor& x, const Dims& kernel, const MaxPoolOptions& options = {});
//   max_pool2d(arange(16).reshape(1, 4, 4), 2)   // [[[ 5  7] [13 15]]]
Tensor max_pool2d(const Tensor& x, const Dims& kernel, const MaxPoolOptions& options = {});
//   max_pool3d(ones({2, 4, 4, 4}), 2).shape()   // [2, 2, 2, 2]
Tensor max_pool3d(const Tensor& x, const Dims& kernel, const MaxPoolOptions& options = {});

// @dtypes floats; integers become f32 @shape [batch, channels, positions ...]

// The mean of each window.
//   avg_pool1d(tensor({{1, 5, 2, 3}}), 2)                     // [[3.  2.5]]
//   avg_pool1d(tensor({{1, 5, 2}}), 2, {.ceil_mode = true})   // [[3. 2.]]
Tensor avg_pool1d(const Tensor& x, const Dims& kernel, const AvgPoolOptions& options = {});
//   avg_pool2d(arange(16).reshape(1, 4, 4), 2)   // [[[ 2.5  4.5] [10.5 12.5]]]
Tensor avg_pool2d(const Tensor& x, const Dims& kernel, const AvgPoolOptions& options = {});
//   avg_pool3d(ones({2, 4, 4, 4}), 2).shape()   // [2, 2, 2, 2]
Tensor avg_pool3d(const Tensor& x, const Dims& kernel, const AvgPoolOptions& options = {});
// Means of `size` windows that together cover the axis: window i goes from floor(i * n / size) to
// ceil((i + 1) * n / size). A size of -1 keeps the axis as it is.
//   adaptive_avg_pool1d(tensor({{1, 2, 3, 4, 5}}), 2)   // [[2. 4.]]
Tensor adaptive_avg_pool1d(const Tensor& x, const Dims& size);
//   adaptive_avg_pool2d(arange(16).reshape(1, 4, 4), 1)   // [[[7.5]]]
Tensor adaptive_avg_pool2d(const Tensor& x, const Dims& size);
//   adaptive_avg_pool3d(ones({2, 4, 4, 4}), {2, 1, 3}).shape()   // [2, 2, 1, 3]
Tensor adaptive_avg_pool3d(const Tensor& x, const Dims& size);

// @dtypes any but bool @shape [batch, channels, positions ...]

// The largest elements of the windows of adaptive_avg_pool1d.
//   adaptive_max_pool1d(tensor({{1, 2, 3, 4, 5}}), 2)   // [[3. 5.]]
Tensor adaptive_max_pool1d(const Tensor& x, const Dims& size);
//   adaptive_max_pool2d(arange(16).reshape(1, 4, 4), 2)   // [[[ 5  7] [13 15]]]
Tensor adaptive_max_pool2d(const Tensor& x, const Dims& size);
//   adaptive_max_pool3d(ones({2, 4, 4, 4}), 2).shape()   // [2, 2, 2, 2]
Tensor adaptive_max_pool3d(const Tensor& x, const Dims& size);

}  // namespace heddle
