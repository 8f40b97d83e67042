// Operators that normalise along axes.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

Tensor softmax(const Tensor& x, int64_t axis);
Tensor log_softmax(const Tensor& x, int64_t axis);
Tensor layer_norm(const Tensor& x, int64_t axes = 1, double epsilon = 1e-5);  // over the last `axes` axes

}  // namespace heddle
