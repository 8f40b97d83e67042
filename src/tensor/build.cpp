#include "tensor/build.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace heddle {

std::string describe(const NodeRef& x) { return text(x->dtype, x->shape); }

std::vector<Tensor> to_tensors(std::span<const NodeRef> nodes) {
  std::vector<Tensor> list;
  for (const NodeRef& node : nodes) list.push_back(Tensor(node));
  return list;
}
std::vector<NodeRef> to_nodes(std::span<const Tensor> tensors) {
  std::vector<NodeRef> nodes;
  for (const Tensor& x : tensors) nodes.push_back(x.node());
  return nodes;
}

std::string list_text(std::span<const int64_t> list) {
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) out += text(i ? ", " : "", list[i]);
  return out + "]";
}

Shape to_shape(const char* op, const Dims& dims, DType dtype) {
  Shape shape;
  for (int64_t d : dims) {
    if (d < 0) {
      throw ShapeError(text(op, ": the shape ", list_text(dims), " has a negative dimension"));
    }
    shape.push_back(d);
  }
  check_shape(op, shape, dtype);
  return shape;
}

int axis_along(const char* op, int64_t axis, int rank) {
  return rank == 0 && (axis == 0 || axis == -1) ? 0 : normalize_axis(op, axis, rank);
}

std::vector<int> to_axes(const char* op, const Axes& axes, int rank, bool empty_means_all) {
  std::vector<int> result;
  if (empty_means_all && rank == 0 && axes.size() == 1) {
    axis_along(op, axes[0], rank);
    return result;
  }
  for (int64_t axis : axes) result.push_back(normalize_axis(op, axis, rank));
  std::sort(result.begin(), result.end());
  auto twice = std::adjacent_find(result.begin(), result.end());
  if (twice != result.end()) throw ValueError(text(op, ": ", list_text(axes), " names axis ", *twice, " twice"));
  if (axes.empty() && empty_means_all && !axes.is_none())
    for (int i = 0; i < rank; ++i) result.push_back(i);
  return result;
}

NodeRef broadcast_to(const NodeRef& x, const Shape& shape) {
  if (x->shape == shape) return x;
  Shape padded;
  for (size_t i = x->shape.size(); i < shape.size(); ++i) padded.push_back(1);
  padded.append(x->shape.begin(), x->shape.end());
  for (size_t i = 0; i < shape.size(); ++i)  // a number beside the symbol that stands for it
    if (!padded[i].is_const(1) && same_size(padded[i], shape[i])) padded[i] = shape[i];
  return make_expand(make_reshape(x, padded), shape);
}

namespace {

ScalarClass class_of(Operand::Kind kind) {
  return kind == Operand::Kind::Bool      ? ScalarClass::Bool
         : kind == Operand::Kind::Integer ? ScalarClass::Integer
                                          : ScalarClass::Float;
}

}  // namespace

Scalar number_scalar(const char* op, const Operand& number, DType dtype) {
  bool real = number.kind() == Operand::Kind::Float;
  if (is_float(dtype)) return Scalar::of(dtype, number.real());
  Scalar value = real ? Scalar::of(dtype, number.real()) : Scalar::of(dtype, number.integer());
  bool exact = dtype == kBool || value.as_double() == number.real();
  if (!exact) throw ValueError(text(op, ": the number ", number.real(), " does not fit a tensor of dtype ", dtype));
  return value;
}

NodeRef number_node(const char* op, const Operand& number, DType dtype, const Shape& shape) {
  return make_const(number_scalar(op, number, dtype), shape);
}

Pair promote_pair(const char* op, const Operand& a, const Operand& b) {
  bool a_is = a.kind() == Operand::Kind::Tensor, b_is = b.kind() == Operand::Kind::Tensor;
  if (a_is && b_is) {
    NodeRef x = a.tensor().node(), y = b.tensor().node();
    check_same_device(op, x->device, y->device);
    if (x->dtype != y->dtype) {
      DType dtype = promote(x->dtype, y->dtype);
      x = make_cast(x, dtype);
      y = make_cast(y, dtype);
    }
    if (!(x->shape == y->shape)) {
      Shape shape = broadcast_shapes(op, x->shape, y->shape);
      check_shape(op, shape, x->dtype);
      x = broadcast_to(x, shape);
      y = broadcast_to(y, shape);
    }
    return {std::move(x), std::move(y)};
  }
  if (!a_is && !b_is) throw ValueError(text(op, ": one operand must be a tensor"));
  NodeRef x = (a_is ? a : b).tensor().node();
  const Operand& number = a_is ? b : a;
  DType dtype = promote_weak(x->dtype, class_of(number.kind()));
  x = make_cast(x, dtype);
  NodeRef y = number_node(op, number, dtype, x->shape);
  if (a_is) return {std::move(x), std::move(y)};
  return {std::move(y), std::move(x)};
}

NodeRef scalar_node(ScalarOp op, std::initializer_list<NodeRef> inputs) {
  return make_scalar(op, std::span<const NodeRef>(inputs.begin(), inputs.size()));
}

DType signed_of_size(int bytes) { return bytes == 1 ? kI8 : bytes == 2 ? kI16 : bytes == 4 ? kI32 : kI64; }

Scalar limit_scalar(DType dtype, bool largest) {
  double infinity = std::numeric_limits<double>::infinity();
  Scalar limit = Scalar::of(dtype, infinity);
  // The bit pattern below infinity is the largest finite number; a dtype without infinity has one NaN above it.
  Scalar top = Scalar::from_bits(dtype, std::isinf(limit.as_double()) ? limit.bits() - 1 : 0x7e);
  return largest ? top : Scalar::of(dtype, -top.as_double());
}

Tensor to_float(const Tensor& x) { return is_float(x.dtype()) ? Tensor(x.node()) : cast(x, kF32); }
Tensor to_wide_float(const Tensor& x) {
  Tensor f = to_float(x);
  return cast(f, compute_dtype(f.dtype()));
}
Tensor from_wide_float(const Tensor& result, const Tensor& x) {
  return is_float(x.dtype()) ? cast(result, x.dtype()) : result;
}

NodeRef widened(const Tensor& x) {
  NodeRef n = x.node();
  if (is_float(n->dtype) || n->dtype == kI64 || n->dtype == kU64) return n;
  return make_cast(n, is_signed(n->dtype) || n->dtype == kBool ? kI64 : kU64);
}

}  // namespace heddle
