// Choosing elements by index. Indices are integers of any dtype; negative ones count from the end. An index that is out
// of range raises IndexError: at the call if it is a number known there, else when the value is computed. Kernels never
// read outside a tensor.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// Along `axis` of x the elements chosen by `index`, whose axes take that axis's place (NumPy's take).
//   gather(x /*[5, 3]*/, tensor({4, 0}, kI64))   // [2, 3]: the last row and the first
Tensor gather(const Tensor& x, const Tensor& index, int64_t axis = 0);
// The same; without an axis x counts as flattened.
//   take(x /*[5, 3]*/, tensor({14}, kI64))   // [1]: the last element
Tensor take(const Tensor& x, const Tensor& index, std::optional<int64_t> axis = {});
// The same with the spelling of PyTorch, for an index of one axis.
//   index_select(x /*[5, 3]*/, 1, tensor({2, 0}, kI64))   // [5, 2]
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index);
// out[i, j] = x[index[i, j], j] for axis 0, and so on (torch.gather). The other axes of x and the index broadcast.
//   take_along_axis(x, argmax(x, 1, true), 1)   // the largest element of every row
Tensor take_along_axis(const Tensor& x, const Tensor& index, int64_t axis);
// Rows of a table: weight[ids]. The result has the shape of ids and a last axis of one row.
//   embedding(weight /*[1000, 64]*/, ids /*[8, 16]*/)   // [8, 16, 64]
Tensor embedding(const Tensor& weight, const Tensor& ids);
// x[i, j, ...] with integer arrays on consecutive axes from `axis` on. The arrays broadcast against each other; their
// axes take the place of those that they index.
//   index(x /*[5, 3]*/, {tensor({0, 4}, kI64), tensor({2, 1}, kI64)})   // [2]: x[0, 2] and x[4, 1]
Tensor index(const Tensor& x, const std::vector<Tensor>& indices, int64_t axis = 0);
// A new last axis of `classes` elements: 1 at the position that the id names, 0 elsewhere. An id outside gives zeros.
//   one_hot(tensor({2, 0}, kI64), 3)   // [[0, 0, 1], [1, 0, 0]]
Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype = kI64);
// A part of x of the given sizes that begins at `begins`, a tensor with one integer for each axis: known only when it
// is computed. All of the part must lie inside of x.
//   dynamic_slice(x /*[5, 3]*/, tensor({2, 0}, kI64), {2, 3})   // [2, 3]: rows 2 and 3
Tensor dynamic_slice(const Tensor& x, const Tensor& begins, const Dims& sizes);

}  // namespace heddle
