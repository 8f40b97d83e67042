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

// ---- results whose size depends on the data: these compute x now ----

Tensor count_nonzero(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  // i64; does not wait
// Where x is not zero (or true): [count, rank], i64, one row per element, in row-major order.
Tensor nonzero(const Tensor& x);
// The elements of x where the mask (bool, broadcast against x) is true, in row-major order, along one axis.
Tensor masked_select(const Tensor& x, const Tensor& mask);

struct UniqueResult {
  Tensor values;                  // ascending, each once; all NaNs are one
  std::optional<Tensor> inverse;  // i64, shape of x: which of the values
  std::optional<Tensor> counts;   // i64: how often
};
UniqueResult unique(const Tensor& x, bool return_inverse = false, bool return_counts = false);

// How often 0, 1, 2, ... occur among integers that are not negative: i64, max(x) + 1 of them and at least `minlength`.
Tensor bincount(const Tensor& x, int64_t minlength = 0);

struct Histogram {
  Tensor counts, edges;  // i64; bins + 1
};
// How many elements lie in each of `bins` equal parts of [low, high], the last part being closed; without limits from
// the smallest to the largest element. Others are not counted.
Histogram histogram(const Tensor& x, int64_t bins = 10, std::optional<std::pair<double, double>> limits = {});

}  // namespace heddle
