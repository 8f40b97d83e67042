// Activation functions: elementwise, floats in and out.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

Tensor relu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor gelu(const Tensor& x);  // exact, by erf

}  // namespace heddle
