// Choosing elements by index.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// Along `axis` of x the elements chosen by `index` (integers; negative ones count from the end), whose axes take that
// axis's place. Out of range is clamped.
Tensor gather(const Tensor& x, const Tensor& index, int64_t axis = 0);

}  // namespace heddle
