// Order: sorting, selection, search.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

struct ValuesIndices {
  Tensor values, indices;  // indices: i64, along the axis
};

// @dtypes any @shape same

// Sorting is stable: equal elements keep their order, in descending order too. A NaN counts as larger than every
// number, -0 and 0 as equal.
//   sort(tensor({3, 1, 2})).values   // [1. 2. 3.]
ValuesIndices sort(const Tensor& x, int64_t axis = -1, bool descending = false);
//   argsort(tensor({3, 1, 2}))   // [1 2 0]
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);

// @dtypes any @shape k in place of the axis

// The k largest (smallest) elements along an axis in order, and where they are; the first ones among equals.
//   topk(tensor({3, 1, 2}), 2).values    // [3. 2.]
//   topk(tensor({3, 1, 2}), 2).indices   // [0 2]
ValuesIndices topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);

// @dtypes any @shape without the axis

// The k-th smallest element (from 1 on) along an axis.
//   kthvalue(tensor({3, 1, 2}), 1).values   // 1.0
ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t axis = -1, bool keepdim = false);

// @dtypes floats; integers and bool become f32 @shape without the axis

// The value below which a part q (0 to 1) of the elements lies, between two elements by straight line; NaN where there
// is a NaN. Over all axes when none is given. Floats keep their dtype, all else becomes f32.
//   quantile(tensor({1, 2, 3, 4, 5}), 0.25)   // 2.0
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> axis = {}, bool keepdim = false);
// As NumPy has it: quantile 1/2.
//   median(tensor({4, 1, 2, 3}))   // 2.5
Tensor median(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);

// @dtypes any -> i64 @shape of the values

// For each value the position in `sorted` (ascending) at which it would be put in: before equal elements, or behind
// them if `right`. i64. Of several axes the last is sorted, and the values have the same sizes on all others.
//   searchsorted(tensor({1, 3, 5}), tensor({3, 4}))   // [1 2]
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

// ---- results whose size depends on the data: these compute x now ----

// @dtypes any @shape depends on the data

// Where x is not zero (or true): [count, rank], i64, one row per element, in row-major order.
//   nonzero(tensor({{0, 5}, {7, 0}}))   // [[0 1] [1 0]]
Tensor nonzero(const Tensor& x);
// The elements of x where the mask (bool, broadcast against x) is true, in row-major order, along one axis.
//   masked_select(tensor({1, 2, 3}), tensor({1, 0, 1}, kBool))   // [1. 3.]
Tensor masked_select(const Tensor& x, const Tensor& mask);

struct UniqueResult {
  Tensor values;                  // ascending, each once; all NaNs are one
  std::optional<Tensor> inverse;  // i64, shape of x: which of the values
  std::optional<Tensor> counts;   // i64: how often
};
//   unique(tensor({3, 1, 3})).values   // [1. 3.]
UniqueResult unique(const Tensor& x, bool return_inverse = false, bool return_counts = false);

// How often 0, 1, 2, ... occur among integers that are not negative: i64, max(x) + 1 of them and at least `minlength`.
//   bincount(tensor({0, 2, 2}, kI32))   // [1 0 2]
Tensor bincount(const Tensor& x, int64_t minlength = 0);

struct Histogram {
  Tensor counts, edges;  // i64; bins + 1
};
// How many elements lie in each of `bins` equal parts of [low, high], the last part being closed; without limits from
// the smallest to the largest element. Others are not counted.
//   histogram(tensor({1, 2, 2, 4}), 3).counts   // [1 2 1]
Histogram histogram(const Tensor& x, int64_t bins = 10, std::optional<std::pair<double, double>> limits = {});

}  // namespace heddle
