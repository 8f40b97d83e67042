// Choosing elements by index.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// @dtypes any; the index any integer @shape the index's in place of the axis

// Along `axis` of x the elements chosen by `index` (integers; negative ones count from the end), whose axes take that
// axis's place. Out of range is clamped.
//   gather(tensor({10, 20, 30}), tensor({2, 0, -1}, kI64))   // [30. 10. 30.]
Tensor gather(const Tensor& x, const Tensor& index, int64_t axis = 0);

}  // namespace heddle
