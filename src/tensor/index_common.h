// What operators on indices share.
#pragma once

#include "tensor/build.h"

namespace heddle {

// Positions 0 to size - 1 from indices that may count from the end. DTypeError if they are no integers, IndexError for
// a number that is out of range or an axis that has no elements. A symbolic axis of x that may be empty gets its
// number.
NodeRef to_positions(const char* op, const Tensor& index, NodeRef& x, size_t axis);
// Several arrays of indices into consecutive axes, as positions along one axis that those axes merge into, each array
// checked on its own.
struct MergedIndex {
  NodeRef positions;
  Shape merged;  // of x, whose sizes are numbers, with the indexed axes as one
};
MergedIndex merge_indices(const char* op, const NodeRef& x, const std::vector<Tensor>& indices, size_t axis);
// index_put() on behalf of another operator. x's sizes are numbers.
NodeRef put_at(const char* op, ScatterOp how, const NodeRef& x, const std::vector<Tensor>& indices, size_t axis,
               const Operand& values);
// x with `value` at begins[i] + steps[i] * (0, 1, …) along each axis; symbolic where that is possible. Throws
// IndexError if some of it would lie outside.
NodeRef put_part(const char* op, NodeRef x, NodeRef value, std::vector<Expr> begins, const std::vector<int64_t>& steps);
// Begins of a slice as scalars, each checked against what is left of its axis.
std::vector<NodeRef> begins_of(const char* op, const Shape& of, const Tensor& begins, const Dims& sizes);

// The same positions, which must be in 0 .. count - 1: IndexError naming `op` when they are computed and are not.
Tensor checked_positions(const char* op, const Tensor& positions, int64_t count, int64_t axis);

}  // namespace heddle
