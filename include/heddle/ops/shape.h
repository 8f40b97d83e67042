// Views: other shapes and orders of the same elements. None copies by itself; where several of them meet a computation,
// they become part of its addresses.
#pragma once

#include <heddle/ops/operand.h>

#include <string_view>

namespace heddle {

// @dtypes any @shape as given

// One -1 is worked out.
//   reshape(arange(6), {2, -1})   // [[0 1 2] [3 4 5]]
Tensor reshape(const Tensor& x, const Dims& shape);
// Another name of reshape.
//   view(arange(4), {2, 2})   // [[0 1] [2 3]]
Tensor view(const Tensor& x, const Dims& shape);
// Axes of size 1 repeat, axes in front are added; -1 keeps a size.
//   expand(tensor({{1}, {2}}), {2, 3})   // [[1. 1. 1.] [2. 2. 2.]]
Tensor expand(const Tensor& x, const Dims& shape);
// The same under NumPy's name.
//   broadcast_to(tensor({1, 2}), {2, 2})   // [[1. 2.] [1. 2.]]
Tensor broadcast_to(const Tensor& x, const Dims& shape);
// All of them in the shape they broadcast to.
//   broadcast_tensors({zeros({2, 1}), zeros(3)})[0].shape()   // [2, 3]
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
// One axis as several; one -1 is worked out.
//   unflatten(arange(6), 0, {2, -1})   // [[0 1 2] [3 4 5]]
Tensor unflatten(const Tensor& x, int64_t axis, const Dims& sizes);
// Element (i, j, ...) is number offset + i * strides[0] + j * strides[1] + ... of the elements of x in row-major order.
//   as_strided(arange(5), {2, 3}, {1, 1})   // [[0 1 2] [1 2 3]]
Tensor as_strided(const Tensor& x, const Dims& shape, const Dims& strides, int64_t offset = 0);

// @dtypes any @shape the axes in another order

//   permute(zeros({2, 3, 4}), {2, 0, 1}).shape()   // [4, 2, 3]
Tensor permute(const Tensor& x, const Axes& axes);
// Exchanges two axes.
//   transpose(tensor({{1, 2}, {3, 4}}))   // [[1. 3.] [2. 4.]]
Tensor transpose(const Tensor& x, int64_t axis0 = -2, int64_t axis1 = -1);
//   swapaxes(zeros({2, 3, 4}), 0, 2).shape()   // [4, 3, 2]
Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1);
// Of a matrix; a tensor with fewer axes stays as it is.
//   t(tensor({{1, 2}, {3, 4}}))   // [[1. 3.] [2. 4.]]
Tensor t(const Tensor& x);
// Moves axes to other places; the rest keep their order.
//   moveaxis(zeros({2, 3, 4}), 0, -1).shape()   // [3, 4, 2]
Tensor moveaxis(const Tensor& x, const Axes& from, const Axes& to);

// @dtypes any @shape axes of size 1 come or go

// Without these axes, which have size 1; without all such axes if none are listed.
//   squeeze(zeros({1, 3, 1})).shape()   // [3]
Tensor squeeze(const Tensor& x, const Axes& axes = {});
// With new axes at these places of the result.
//   unsqueeze(zeros(3), {0, -1}).shape()   // [1, 3, 1]
Tensor unsqueeze(const Tensor& x, const Axes& axes);
// The axes from begin to end, both included, as one.
//   flatten(zeros({2, 3, 4}), 1).shape()   // [2, 12]
Tensor flatten(const Tensor& x, int64_t begin = 0, int64_t end = -1);
// The elements in a row.
//   ravel(tensor({{1, 2}, {3, 4}}))   // [1. 2. 3. 4.]
Tensor ravel(const Tensor& x);

// @dtypes any @shape same

//   flip(tensor({{1, 2}, {3, 4}}), 0)   // [[3. 4.] [1. 2.]]
Tensor flip(const Tensor& x, const Axes& axes);
// Along axis 1.
//   fliplr(tensor({{1, 2}, {3, 4}}))   // [[2. 1.] [4. 3.]]
Tensor fliplr(const Tensor& x);
// Along axis 0.
//   flipud(tensor({{1, 2}, {3, 4}}))   // [[3. 4.] [1. 2.]]
Tensor flipud(const Tensor& x);
// A quarter turn, `times` times, in the plane of two axes: from the first towards the second.
//   rot90(tensor({{1, 2}, {3, 4}}))   // [[2. 4.] [1. 3.]]
Tensor rot90(const Tensor& x, int64_t times = 1, const Axes& plane = {0, 1});
// Moves elements along axes; those pushed out come in at the other end. Without axes: of the flattened tensor.
//   roll(arange(5), 2)                       // [3 4 0 1 2]
//   roll(tensor({{1, 2}, {3, 4}}), 1, 1)     // [[2. 1.] [4. 3.]]
Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes = {});
// Elements below diagonal k, and on it; zero elsewhere.
//   tril(ones({2, 3}))   // [[1. 0. 0.] [1. 1. 0.]]
Tensor tril(const Tensor& x, int64_t k = 0);
// Elements above diagonal k, and on it; zero elsewhere.
//   triu(ones({2, 3}), 1)   // [[0. 1. 1.] [0. 0. 1.]]
Tensor triu(const Tensor& x, int64_t k = 0);
// A tensor of its own with the same value: assigning to one does not change the other.
//   clone(tensor({1, 2}))   // [1. 2.]
Tensor clone(const Tensor& x);
// The same value; every tensor that is computed lies row by row in memory.
//   contiguous(tensor({1, 2}))   // [1. 2.]
Tensor contiguous(const Tensor& x);

// @dtypes any @shape larger or smaller along axes

// How pad() goes on beyond the edge of 1 2 3.
enum class PadMode {
  Constant,   // 0 0 1 2 3 0 0
  Reflect,    // 3 2 1 2 3 2 1
  Replicate,  // 1 1 1 2 3 3 3: NumPy's "edge"
  Circular,   // 2 3 1 2 3 1 2: NumPy's "wrap"
  Symmetric,  // 2 1 1 2 3 3 2
};
// Pairs (before, after) for every axis.
//   pad(tensor({1, 2}), {{1, 2}}, 9)   // [9. 1. 2. 9. 9.]
Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& before_after, const Operand& value = 0);
//   pad(tensor({1, 2, 3}), {{2, 1}}, PadMode::Reflect)   // [3. 2. 1. 2. 3. 2.]
Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& before_after, PadMode mode);
// Pairs (begin, end) for every axis.
//   shrink(arange(5), {{1, 4}})   // [1 2 3]
Tensor shrink(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& begin_end);
// Python's x[begin:end:step] along one axis: negative positions count from the end, out-of-range ones are clipped.
//   slice(arange(6), 0, 1, {}, 2)      // [1 3 5]
//   slice(arange(6), 0, {}, {}, -2)    // [5 3 1]
Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> begin, std::optional<int64_t> end = {},
             int64_t step = 1);
// One position, without the axis.
//   select(tensor({{1, 2}, {3, 4}}), 1, 0)   // [1. 3.]
Tensor select(const Tensor& x, int64_t axis, int64_t index);
// The whole tensor over and over, along every axis; missing axes are added in front.
//   tile(tensor({1, 2}), {2, 2})   // [[1. 2. 1. 2.] [1. 2. 1. 2.]]
Tensor tile(const Tensor& x, const Dims& counts);
// The same under PyTorch's name; every axis of x needs a count.
//   repeat(tensor({1, 2}), 2)   // [1. 2. 1. 2.]
Tensor repeat(const Tensor& x, const Dims& counts);
// Every element `count` times in a row along an axis, of the flattened tensor without one. NumPy's repeat.
//   repeat_interleave(tensor({1, 2}), 2)   // [1. 1. 2. 2.]
Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int64_t> axis = {});
// Position i as often as `counts` says, which is computed now.
//   repeat_interleave(tensor({1, 2, 3}), tensor({0, 2, 1}, kI64))   // [2. 2. 3.]
Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::optional<int64_t> axis = {});
// Windows of `size` elements every `stride` along an axis, inside the window every `dilation`: a new last axis.
//   window(arange(5), 0, 3, 2)   // [[0 1 2] [2 3 4]]
Tensor window(const Tensor& x, int64_t axis, int64_t size, int64_t stride = 1, int64_t dilation = 1);
// The same under PyTorch's name.
//   unfold(arange(4), 0, 2, 1)   // [[0 1] [1 2] [2 3]]
Tensor unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step);
// The transpose of window(): puts windows back onto an axis of `n` elements, adding up where they overlap.
//   unwindow(ones({3, 2}), 0, 2, 1, 1, 4)   // [1. 2. 2. 1.]
Tensor unwindow(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation, int64_t n);

// @dtypes any @shape the diagonal of two axes

// Elements whose position along axis1 minus that along axis0 is `offset`, as a new last axis.
//   diagonal(arange(9).reshape(3, 3), 1)   // [1 5]
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t axis0 = 0, int64_t axis1 = 1);
// The diagonal of a matrix; of a vector the matrix with that diagonal.
//   diag(tensor({1, 2}))                 // [[1. 0.] [0. 2.]]
//   diag(tensor({{1, 2}, {3, 4}}))       // [1. 4.]
Tensor diag(const Tensor& x, int64_t k = 0);
// Matrices whose diagonals are the last axis of x, at two axes of the result.
//   diag_embed(tensor({1, 2}), 1)   // [[0. 1. 0.] [0. 0. 2.] [0. 0. 0.]]
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t axis0 = -2, int64_t axis1 = -1);
// The sum of a diagonal.
//   trace(tensor({{1, 2}, {3, 4}}))   // 5.0
Tensor trace(const Tensor& x, int64_t offset = 0, int64_t axis0 = 0, int64_t axis1 = 1);

}  // namespace heddle
