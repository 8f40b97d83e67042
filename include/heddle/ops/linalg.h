// Products of matrices and of tensors.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

Tensor matmul(const Tensor& a, const Tensor& b);  // NumPy's rules: batches broadcast, vectors are rows or columns

}  // namespace heddle
