// Joining tensors, and taking them apart.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

Tensor cat(const std::vector<Tensor>& parts, int64_t axis = 0);
Tensor stack(const std::vector<Tensor>& parts, int64_t axis = 0);

}  // namespace heddle
