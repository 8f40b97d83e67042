// Writing elements by index. Nothing is changed in place: the result is a new tensor, x with some elements replaced or
// combined. Indices as for <heddle/ops/index.h>; nothing is written for one that is out of range, and it is reported.
// Where several updates go to one element they are done one after the other in the order of the index, so the last one
// wins and sums have the same bits on any number of threads. In f16 and bf16 every step rounds.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// @dtypes any; the index any integer @shape that of x

// out[index[i, j], j] = updates[i, j] for axis 0, and so on (torch.scatter). The updates, a tensor of the index's shape
// or one that broadcasts to it or a number, take the dtype of x. Along the other axes the index may be shorter than x.
//   scatter(zeros({3}), 0, tensor({2, 0}, kI64), tensor({5, 6}))   // [6. 0. 5.]
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Operand& updates);
// The same, adding to what is there. Floats cannot be added to integers.
//   scatter_add(zeros({3}), 0, tensor({2, 2}, kI64), tensor({5, 6}))   // [ 0.  0. 11.]
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Operand& updates);
// The same with "sum", "prod", "amax", "amin" or "mean"; without include_self the elements of x that are written to do
// not count.
//   scatter_reduce(zeros({2}), 0, tensor({1, 1}, kI64), tensor({5, 6}), "amax")   // [0. 6.]
Tensor scatter_reduce(const Tensor& x, int64_t axis, const Tensor& index, const Operand& updates,
                      const std::string& reduce, bool include_self = true);
// NumPy's put_along_axis: x with values[i, j] at [index[i, j], j] for axis 0. All axes but that one broadcast.
//   put_along_axis(tensor({{1, 9}, {8, 2}}), tensor({{1}, {0}}, kI64), 0, 1)   // [[1. 0.] [0. 2.]]
Tensor put_along_axis(const Tensor& x, const Tensor& index, const Operand& values, int64_t axis);
// Adds alpha * source[i] to x[index[i]] along an axis; the index has one axis.
//   index_add(zeros({3, 2}), 0, tensor({1, 1}, kI64), ones({2, 2}))   // [[0. 0.] [2. 2.] [0. 0.]]
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Operand& source, const Operand& alpha = 1);
// Puts source[i] to x[index[i]] along an axis.
//   index_copy(zeros({3, 2}), 0, tensor({2}, kI64), ones({1, 2}))   // [[0. 0.] [0. 0.] [1. 1.]]
Tensor index_copy(const Tensor& x, int64_t axis, const Tensor& index, const Operand& source);
// x[i, j, ...] = values, or += values: integer arrays on consecutive axes from `axis` on, as for index(). The values
// broadcast to the shape of index(x, indices, axis).
//   index_put(zeros({3, 2}), {tensor({2}, kI64), tensor({0}, kI64)}, 7)   // [[0. 0.] [0. 0.] [7. 0.]]
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Operand& values, bool accumulate = false,
                 int64_t axis = 0);
// x with value[i, j] at [begins[0] + i * steps[0], begins[1] + j * steps[1]]. A step may be negative, and is 1 if none
// are given. The value has as many axes as x and takes its dtype; all of it must fit. A list from shape() with symbolic
// sizes is as good as one of numbers: one plan serves all of their values. State of a captured function that becomes
// its own update is changed in place: only the value is written.
//   update_slice(zeros({4}), tensor({1, 2}), {1}, {2})   // [0. 1. 0. 2.]
Tensor update_slice(const Tensor& x, const Tensor& value, const Dims& begins, const std::vector<int64_t>& steps = {});
// The same with begins known only when it is computed: a tensor with one integer for each axis of x, or a single one
// for the only axis along which the value is shorter than x. Steps of 1. IndexError if the value would not fit there.
//   update_slice(zeros({4}), tensor({1, 2}), tensor({2}, kI64))   // [0. 0. 1. 2.]
//   update_slice(zeros({2, 2}), ones({1, 2}), tensor(1, kI64))    // [[0. 0.] [1. 1.]]
Tensor update_slice(const Tensor& x, const Tensor& value, const Tensor& begins);
// x with `value` (a number, or a tensor that broadcasts) where the mask holds. The dtype stays.
//   masked_fill(tensor({1, -2}), tensor({1, -2}) < 0, 0)   // [1. 0.]
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value);

}  // namespace heddle
