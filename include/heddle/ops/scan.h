// Scans: each element combines all elements up to its own along an axis. The shape stays. Without an axis the tensor is
// flattened first, as in NumPy. For the other direction, flip() before and after: that is still one kernel.
#pragma once

#include <heddle/ops/operand.h>

#include <utility>

namespace heddle {

// cumsum([1, 2, 3]) is [1, 3, 6]. Sums and products of bool and narrow integers are i64, of unsigned ones u64; f16 and
// bf16 are added up in f32 and rounded once.
Tensor cumsum(const Tensor& x, std::optional<int64_t> axis = {});
Tensor cumprod(const Tensor& x, std::optional<int64_t> axis = {});
// The largest (smallest) element so far: cummax([1, 3, 2]) is [1, 3, 3]. From the first NaN on everything is NaN.
Tensor cummax(const Tensor& x, std::optional<int64_t> axis = {});
Tensor cummin(const Tensor& x, std::optional<int64_t> axis = {});
// The same with the i64 position of each along the axis, PyTorch's torch.cummax: the last one among equals, and the
// last NaN among those. cummax_with_indices([1, 3, 3, 2]).second is [0, 1, 2, 2].
std::pair<Tensor, Tensor> cummax_with_indices(const Tensor& x, std::optional<int64_t> axis = {});
std::pair<Tensor, Tensor> cummin_with_indices(const Tensor& x, std::optional<int64_t> axis = {});

}  // namespace heddle
