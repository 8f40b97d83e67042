// Scans: each element combines all elements up to its own along an axis. The shape stays. Without an axis the tensor is
// flattened first, as in NumPy. For the other direction, flip() before and after: that is still one kernel.
#pragma once

#include <heddle/ops/operand.h>

#include <utility>

namespace heddle {

// @dtypes any @shape same

// Sums and products of bool and narrow integers are i64, of unsigned ones u64; f16 and bf16 are added up in f32 and
// rounded once.
//   cumsum(tensor({1, 2, 3}))   // [1. 3. 6.]
Tensor cumsum(const Tensor& x, std::optional<int64_t> axis = {});
//   cumprod(tensor({1, 2, 3}))   // [1. 2. 6.]
Tensor cumprod(const Tensor& x, std::optional<int64_t> axis = {});
// The largest (smallest) element so far. From the first NaN on everything is NaN.
//   cummax(tensor({1, 3, 2}))   // [1. 3. 3.]
Tensor cummax(const Tensor& x, std::optional<int64_t> axis = {});
//   cummin(tensor({3, 1, 2}))   // [3. 1. 1.]
Tensor cummin(const Tensor& x, std::optional<int64_t> axis = {});
// The same with the i64 position of each along the axis, as torch.cummax: the last among equals, and the last NaN.
//   cummax_with_indices(tensor({1, 3, 3, 2})).first    // [1. 3. 3. 3.]
//   cummax_with_indices(tensor({1, 3, 3, 2})).second   // [0 1 2 2]
std::pair<Tensor, Tensor> cummax_with_indices(const Tensor& x, std::optional<int64_t> axis = {});
//   cummin_with_indices(tensor({3, 1, 1, 2})).first   // [3. 1. 1. 1.]
std::pair<Tensor, Tensor> cummin_with_indices(const Tensor& x, std::optional<int64_t> axis = {});

}  // namespace heddle
