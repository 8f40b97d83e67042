// Reductions over any set of axes: a list, one axis, or none listed for all. `keepdim` leaves them with size 1.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// @dtypes any; sums of bool and signed integers are i64, of unsigned ones u64 @shape without the axes

//   sum(tensor({{1, 2}, {3, 4}}), 0)   // [4. 6.]
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
//   prod(tensor({{1, 2}, {3, 4}}))   // 24.0
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// NaN counts as 0, here and below.
//   nansum(tensor({1, NAN, 3}))   // 4.0
Tensor nansum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// NaN counts as 1.
//   nanprod(tensor({2, NAN, 3}))   // 6.0
Tensor nanprod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// @dtypes any @shape without the axes

// NaN if there is one. ValueError over an empty axis, here and below.
//   max(tensor({{1, 5}, {7, 2}}), 1)   // [5. 7.]
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
//   min(tensor({{1, 5}, {7, 2}}), 1, true)   // [[1.] [2.]]
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// Other names of max and min.
//   amax(tensor({1, 5, 2}))   // 5.0
Tensor amax(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
//   amin(tensor({1, 5, 2}))   // 1.0
Tensor amin(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// Leaves NaN out; NaN if there is nothing else.
//   nanmax(tensor({1, NAN, 3}))   // 3.0
Tensor nanmax(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
//   nanmin(tensor({1, NAN, 3}))   // 1.0
Tensor nanmin(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// max - min.
//   ptp(tensor({3, 9, 4}))   // 6.0
Tensor ptp(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// @dtypes floats; integers and bool become f32 @shape without the axes

//   mean(tensor({{1, 2}, {3, 4}}), -1)   // [1.5 3.5]
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// Leaves NaN out; NaN if there is nothing else.
//   nanmean(tensor({1, NAN, 3}))   // 2.0
Tensor nanmean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// The mean with weights: of the shape of x, or broadcast to it.
//   average(tensor({1, 2}), tensor({3, 1}))   // 1.25
Tensor average(const Tensor& x, const Tensor& weights, const Axes& axes = {}, bool keepdim = false);
// The variance. Divides by n - correction: 1 as in PyTorch; NumPy's default is 0.
//   var(tensor({1, 2, 3, 4}))                  // 1.6666666
//   var(tensor({1, 2, 3, 4}), {}, false, 0)    // 1.25
Tensor var(const Tensor& x, const Axes& axes = {}, bool keepdim = false, int64_t correction = 1);
// The root of var.
//   std(tensor({1, 3}), 0, false, 0)   // 1.0
Tensor std(const Tensor& x, const Axes& axes = {}, bool keepdim = false, int64_t correction = 1);
// Leave NaN out.
//   nanvar(tensor({1, NAN, 3}), {}, false, 0)   // 1.0
Tensor nanvar(const Tensor& x, const Axes& axes = {}, bool keepdim = false, int64_t correction = 1);
//   nanstd(tensor({1, NAN, 3}), {}, false, 0)   // 1.0
Tensor nanstd(const Tensor& x, const Axes& axes = {}, bool keepdim = false, int64_t correction = 1);
// The p-norm of the elements: p = 0 counts those that are not zero, +-infinity is the largest or smallest size.
//   norm(tensor({3, 4}))             // 5.0
//   norm(tensor({3, -4}), INFINITY)  // 4.0
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdim = false);
// log(sum(exp(x))) without overflow on the way.
//   logsumexp(tensor({1000, 1000}))   // 1000.6932
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// @dtypes any -> bool @shape without the axes

//   any(tensor({{0, 2}, {0, 0}}), 1)   // [ True False]
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
//   all(tensor({{1, 2}, {1, 0}}), 1)   // [ True False]
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// @dtypes any -> i64 @shape without the axes

// How many elements are not zero.
//   count_nonzero(tensor({0, 3, 4}))   // 2
Tensor count_nonzero(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// The position of the largest along an axis, of the flattened tensor without one: the first among equals; a NaN wins.
//   argmax(tensor({{1, 5}, {7, 2}}), 1)   // [1 0]
Tensor argmax(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);
//   argmin(tensor({4, 1, 1}))   // 1
Tensor argmin(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);

}  // namespace heddle
