// Operators that normalise along axes.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// @dtypes floats; integers and bool become f32 @shape same

// exp(x) / sum(exp(x)).
//   softmax(tensor({1, 2, 3}))   // [0.09003056 0.24472849 0.66524094]
Tensor softmax(const Tensor& x, int64_t axis = -1);
// softmax(-x).
//   softmin(tensor({3, 2, 1}))   // [0.09003056 0.24472849 0.66524094]
Tensor softmin(const Tensor& x, int64_t axis = -1);
// log(softmax(x)), exact where softmax is tiny.
//   log_softmax(tensor({0, 200}))   // [-200.    0.]
Tensor log_softmax(const Tensor& x, int64_t axis = -1);
// Mean 0 and variance 1 over the last `axes` axes.
//   layer_norm(tensor({1, 3}))   // [-0.999995 0.999995]
Tensor layer_norm(const Tensor& x, int64_t axes = 1, double epsilon = 1e-5);
// Over the axes that `weight` has; then times weight, plus bias.
//   layer_norm(tensor({1, 3}), tensor({2, 2}), tensor({10, 20}))   // [ 8.00001 21.99999]
Tensor layer_norm(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {}, double epsilon = 1e-5);
// x / sqrt(mean(x * x) + epsilon) over the last `axes` axes.
//   rms_norm(tensor({3, 4}))   // [0.8485281 1.1313708]
Tensor rms_norm(const Tensor& x, int64_t axes = 1, double epsilon = 1e-6);
// Over the axes that `weight` has; then times weight.
//   rms_norm(tensor({3, 4}), tensor({1, 2}))   // [0.8485281 2.2627416]
Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon = 1e-6);
// Mean 0 and variance 1 over each of `groups` parts of the channels, axis 1 of x, with all axes behind it; then times
// weight, plus bias, of a channel.
//   group_norm(tensor({{1, 3, 10, 12}}), 2)   // [[-0.999995 0.999995 -0.999995 0.999995]]
Tensor group_norm(const Tensor& x, int64_t groups, const std::optional<Tensor>& weight = {},
                  const std::optional<Tensor>& bias = {}, double epsilon = 1e-5);
// (x - mean) / sqrt(variance + epsilon) with a mean and a variance for each channel, axis 1 of x; then times weight,
// plus bias.
//   batch_norm(tensor({{1, 2}}), tensor({0, 1}), tensor({1, 4}), {}, tensor({0, 10}), 0)   // [[ 1.  10.5]]
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const std::optional<Tensor>& weight = {},
                  const std::optional<Tensor>& bias = {}, double epsilon = 1e-5);

}  // namespace heddle
