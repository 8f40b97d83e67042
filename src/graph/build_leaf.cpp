// Builders of leaves.
#include "graph/build.h"

namespace heddle {

NodeRef make_const(const heddle::Scalar& value, const Shape& shape) {
  check_shape("const", shape, value.dtype);
  return const_like(value, shape);
}

NodeRef make_buffer(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape,
                    std::shared_ptr<const GradientRule> rule) {
  check_shape("buffer", shape, dtype);
  if (!storage) throw ValueError(text("buffer: no storage for ", dtype, shape));
  if (shape.is_static()) {
    uint64_t needed = static_cast<uint64_t>(shape.static_numel()) * static_cast<uint64_t>(size_of(dtype));
    if (storage->bytes() < needed)
      throw ShapeError(text("buffer: ", dtype, shape, " takes ", needed, " bytes, the storage has ", storage->bytes()));
  }
  NewNode node = new_node(NodeOp::Buffer, dtype, shape);
  node->storage = std::move(storage);
  node->rule = std::move(rule);
  return finish_as_is(std::move(node));
}

NodeRef make_input(int64_t number, int64_t function, DType dtype, const Shape& shape, DeviceNumber device) {
  check_shape("input", shape, dtype);
  NewNode node = new_node(NodeOp::Input, dtype, shape);
  node->attrs = {Expr(number), Expr(function)};
  node->device = device;
  return finish_as_is(std::move(node));
}

NodeRef make_iota(DType dtype, const Shape& shape, int axis) {
  check_shape("iota", shape, dtype);
  if (dtype != DType::i32 && dtype != DType::i64)
    throw DTypeError(text("iota: counts in i32 or i64, not ", dtype, " (shape ", shape, ")"));
  axis = normalize_axis("iota", axis, shape.rank());
  if (shape[axis].is_const(1)) return const_like(heddle::Scalar::of(dtype, 0), shape);
  NewNode node = new_node(NodeOp::Iota, dtype, shape);
  node->attrs.push_back(axis);
  return finish(std::move(node));
}

}  // namespace heddle
