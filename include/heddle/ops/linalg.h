// Products of matrices and of tensors.
#pragma once

#include <heddle/ops/operand.h>

#include <string_view>

namespace heddle {

// @dtypes integers, floats @shape matrix product

// NumPy's rules: batches broadcast, vectors are rows or columns.
//   matmul(tensor({{1, 2}, {3, 4}}), tensor({1, 10}))   // [21. 43.]
Tensor matmul(const Tensor& a, const Tensor& b);
// Products of the matrices of two batches of one size.
//   bmm(ones({2, 1, 3}), ones({2, 3, 1})).shape()   // [2, 1, 1]
Tensor bmm(const Tensor& a, const Tensor& b);
// NumPy's dot: sums over the last axis of a and the last but one of b, the only one of a vector; * with a scalar.
//   dot(tensor({1, 2}), tensor({3, 4}))   // 11.0
Tensor dot(const Tensor& a, const Tensor& b);
// The sum of all products of elements.
//   vdot(tensor({{1, 2}}), tensor({3, 4}))   // 11.0
Tensor vdot(const Tensor& a, const Tensor& b);
// Sums over the last axes of both.
//   inner(tensor({{1, 2}, {3, 4}}), tensor({1, 1}))   // [3. 7.]
Tensor inner(const Tensor& a, const Tensor& b);
// Every element of a times every element of b.
//   outer(tensor({1, 2}), tensor({3, 4}))   // [[3. 4.] [6. 8.]]
Tensor outer(const Tensor& a, const Tensor& b);
// Sums over the last `count` axes of a and the first of b, or over axes listed in pairs.
//   tensordot(ones({2, 3, 4}), ones({3, 4, 5})).shape()             // [2, 5]
//   tensordot(ones({2, 3}), ones({2, 4}), {0}, {0}).shape()         // [3, 4]
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t count = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const Axes& axes_a, const Axes& axes_b);
// Sums of products by labelled axes, NumPy's syntax: "ij,jk->ik", "ii", "...ij->...ji", "bhqd,bhkd->bhqk". A label in
// several operands multiplies along that axis; one that is not in the result is summed over; one that occurs twice in
// an operand takes its diagonal. Without "->" the result has the labels that occur once, in alphabetical order. More
// than two operands are multiplied in the order that takes the fewest operations.
//   einsum("ij,j->i", {tensor({{1, 2}, {3, 4}}), tensor({1, 10})})   // [21. 43.]
//   einsum("ii", {tensor({{1, 2}, {3, 4}})})                         // 5.0
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);
// Blocks of b, each times one element of a.
//   kron(tensor({1, 10}), tensor({1, 2}))   // [ 1.  2. 10. 20.]
Tensor kron(const Tensor& a, const Tensor& b);
// The cross product along an axis of size 3.
//   cross(tensor({1, 0, 0}), tensor({0, 1, 0}))   // [0. 0. 1.]
Tensor cross(const Tensor& a, const Tensor& b, int64_t axis = -1);

// @dtypes any but bool @shape n less along the axis

// Differences of neighbours, n times.
//   diff(tensor({1, 4, 9}))   // [3. 5.]
Tensor diff(const Tensor& x, int64_t n = 1, int64_t axis = -1);

}  // namespace heddle
