// Private to src/nn.
#pragma once

#include <heddle/tensor.h>

namespace heddle::nn {

// A parameter asks for gradients from the beginning.
inline Tensor parameter(const Tensor& value) { return value.realize().requires_grad_(); }

}  // namespace heddle::nn
