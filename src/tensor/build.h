// Helpers for operators: shapes and dtypes from what users write.
#pragma once

#include <heddle/ops.h>

#include "core/shape.h"
#include "graph/node.h"

namespace heddle {

__extension__ using Int128 = __int128;

std::string list_text(std::span<const int64_t> list);  // "[2, 3]"
std::string describe(const NodeRef& x);                // "f32[2, 3]"
std::vector<Tensor> to_tensors(std::span<const NodeRef> nodes);
std::vector<NodeRef> to_nodes(std::span<const Tensor> tensors);
// Checks sizes (none negative, product within bounds).
Shape to_shape(const char* op, const Dims& dims, DType dtype);
// Normalised. Along axis 0 or -1 a scalar counts as a vector of one element.
int axis_along(const char* op, int64_t axis, int rank);
// Normalised, sorted, each once; with `empty_means_all`, of a reduction: all axes when none are given, and none of a
// scalar for its axis 0 or -1.
std::vector<int> to_axes(const char* op, const Axes& axes, int rank, bool empty_means_all);
// Expands x to `shape`, adding axes in front as broadcasting does.
NodeRef broadcast_to(const NodeRef& x, const Shape& shape);
// The operands as nodes of one dtype and shape.
struct Pair {
  NodeRef a, b;
};
Pair promote_pair(const char* op, const Operand& a, const Operand& b);
// A number as a value of this dtype; ValueError naming `op` when an integer dtype cannot hold it.
Scalar number_scalar(const char* op, const Operand& number, DType dtype);
NodeRef number_node(const char* op, const Operand& number, DType dtype, const Shape& shape);
// Elements copied from the host.
NodeRef buffer_node(const void* data, DType dtype, const Shape& shape);
// Buffers and random keys that an operator makes beside x are made where x is; constants need no place.
class OnDeviceOf {
 public:
  explicit OnDeviceOf(const Tensor& x);
  explicit OnDeviceOf(DeviceNumber device);

 private:
  HomeScope scope_;
};
// A value without a place as one of that device, if it would go elsewhere.
NodeRef placed_at(const NodeRef& value, DeviceNumber device);
NodeRef scalar_node(ScalarOp op, std::initializer_list<NodeRef> inputs);
// The signed integer of so many bytes.
DType signed_of_size(int bytes);
// The largest finite value of a float dtype, or the lowest.
Scalar limit_scalar(DType dtype, bool largest);
// What sums and products are made of: bool and narrow integers, which would overflow at once, as i64 or u64.
NodeRef widened(const Tensor& x);
// Integers and bool become f32, the default float; floats stay.
Tensor to_float(const Tensor& x);
// Counts and sums of many elements leave the range of small floats: what is made of them is computed in f32 ...
Tensor to_wide_float(const Tensor& x);
// The maximum along axes, which stay with size 1: the lowest number where there are no elements. A constant for
// gradients, to be subtracted before exp().
Tensor shift_of(const Tensor& x, const Axes& axes);
// ... and goes back to the dtype of x, if that is a float.
Tensor from_wide_float(const Tensor& result, const Tensor& x);

}  // namespace heddle
