// Joining tensors, and taking them apart.
#pragma once

#include <heddle/ops/operand.h>

#include <string_view>

namespace heddle {

// @dtypes any; they promote @shape sum along the axis

// One after the other along an axis that they have.
//   cat({tensor({1, 2}), tensor({3})})   // [1. 2. 3.]
Tensor cat(const std::vector<Tensor>& parts, int64_t axis = 0);
// Along a new axis.
//   stack({tensor({1, 2}), tensor({3, 4})}, 1)   // [[1. 3.] [2. 4.]]
Tensor stack(const std::vector<Tensor>& parts, int64_t axis = 0);
// Below each other; vectors are rows.
//   vstack({tensor({1, 2}), tensor({3, 4})})   // [[1. 2.] [3. 4.]]
Tensor vstack(const std::vector<Tensor>& parts);
// Beside each other.
//   hstack({tensor({{1}, {2}}), tensor({{3}, {4}})})   // [[1. 3.] [2. 4.]]
Tensor hstack(const std::vector<Tensor>& parts);
// Along the third axis.
//   dstack({tensor({1, 2}), tensor({3, 4})})   // [[[1. 3.] [2. 4.]]]
Tensor dstack(const std::vector<Tensor>& parts);

// @dtypes any @shape parts along the axis

// Parts of `size` elements, the last one smaller; or of the sizes given.
//   split(arange(5), 2)        // [0 1], [2 3], [4]
//   split(arange(5), {1, 4})   // [0], [1 2 3 4]
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis = 0);
std::vector<Tensor> split(const Tensor& x, std::initializer_list<int64_t> sizes, int64_t axis = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis = 0);
// At most `count` parts of equal size, the last one smaller.
//   chunk(arange(5), 2)   // [0 1 2], [3 4]
std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t axis = 0);
// Exactly `count` parts; the first ones are one larger where it does not come out even.
//   array_split(arange(5), 3)   // [0 1], [2 3], [4]
std::vector<Tensor> array_split(const Tensor& x, int64_t count, int64_t axis = 0);
// Every position of an axis by itself.
//   unbind(tensor({{1, 2}, {3, 4}}))   // [1. 2.], [3. 4.]
std::vector<Tensor> unbind(const Tensor& x, int64_t axis = 0);

// @dtypes any @shape the sizes of all

// Coordinates of a grid: result i varies with axes[i] along one axis of the result. With "ij" that is axis i, with "xy"
// the first two are exchanged.
//   meshgrid({arange(2), arange(3)})   // [[0 1] [0 1] [0 1]], [[0 0] [1 1] [2 2]]
std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, std::string_view indexing = "xy");

}  // namespace heddle
