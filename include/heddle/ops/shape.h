// Views: other shapes and orders of the same elements. None copies by itself.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

Tensor reshape(const Tensor& x, const Dims& shape);  // one -1 is worked out
Tensor permute(const Tensor& x, const Axes& axes);
Tensor transpose(const Tensor& x, int64_t axis0 = -2, int64_t axis1 = -1);
Tensor expand(const Tensor& x, const Dims& shape);
Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& before_after, const Operand& value = 0);
Tensor shrink(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& begin_end);
// Python's x[begin:end:step] along one axis: negative positions count from the end, out-of-range ones are clipped.
Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> begin, std::optional<int64_t> end = {},
             int64_t step = 1);
Tensor select(const Tensor& x, int64_t axis, int64_t index);  // one position, without the axis
Tensor flip(const Tensor& x, const Axes& axes);
Tensor squeeze(const Tensor& x, std::optional<int64_t> axis = {});
Tensor unsqueeze(const Tensor& x, int64_t axis);
Tensor flatten(const Tensor& x, int64_t begin = 0, int64_t end = -1);
// Windows of `size` elements every `stride` along an axis, inside the window every `dilation`: a new last axis.
Tensor window(const Tensor& x, int64_t axis, int64_t size, int64_t stride = 1, int64_t dilation = 1);
// The transpose of window(): puts windows back onto an axis of `n` elements, adding up where they overlap.
Tensor unwindow(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation, int64_t n);

}  // namespace heddle
