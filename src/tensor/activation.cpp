#include "base/error.h"
#include "tensor/build.h"

namespace heddle {

Tensor relu(const Tensor& x) { return maximum(x, 0); }
Tensor sigmoid(const Tensor& x) { return div(1, add(1, exp(neg(to_float(x))))); }
Tensor silu(const Tensor& x) { return mul(x, sigmoid(x)); }
Tensor gelu(const Tensor& x) { return mul(mul(x, 0.5), add(1, erf(mul(x, 0.70710678118654752440)))); }

}  // namespace heddle
