// Order: sorting, selection, search.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

struct ValuesIndices {
  Tensor values, indices;  // indices: i64, along the axis
};

// Sorting is stable: equal elements keep their order, in descending order too. A NaN counts as larger than every
// number, -0 and 0 as equal.
ValuesIndices sort(const Tensor& x, int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);
// The k largest (smallest) elements along an axis in order, and where they are; the first ones among equals.
ValuesIndices topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);
// The k-th smallest element (from 1 on) along an axis.
ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t axis = -1, bool keepdim = false);

// The value below which a part q (0 to 1) of the elements lies, between two elements by straight line; NaN where there
// is a NaN. Over all axes when none is given. Floats keep their dtype, all else becomes f32.
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> axis = {}, bool keepdim = false);
Tensor median(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);  // as NumPy: quantile 1/2

// For each value the position in `sorted` (one axis, ascending) at which it would be put in: before equal elements, or
// behind them if `right`. i64.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

}  // namespace heddle
