// Builders of movement nodes that rearrange: reshape, permute, expand, flip.
#include <algorithm>

#include "graph/build.h"

namespace heddle {
namespace {

// Moving axes of size one leaves the order of elements alone.
bool keeps_element_order(const Shape& shape, std::span<const int> axes) {
  int last = -1;
  for (int axis : axes) {
    if (shape[axis].is_const(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// Axis by axis the same size, on one side perhaps a symbol and on the other the number it stands for.
bool same_sizes(const Shape& a, const Shape& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = same_size(a[i], b[i]);
  return same;
}

}  // namespace

NodeRef make_reshape(const NodeRef& x, const Shape& shape) {
  check_operand("reshape", x);
  if (x->shape == shape) return x;
  check_shape("reshape", shape, x->dtype);
  // Between symbols and the numbers they stand for it is enough that these agree: every graph with this node had the
  // same check.
  std::optional<int64_t> before = known_value(x->shape.numel());
  bool for_all_sizes = same_dim(x->shape.numel(), shape.numel());
  if (!for_all_sizes && !(before && before == known_value(shape.numel())))
    throw ShapeError(
        text("reshape: ", x->dtype, x->shape, " has ", x->shape.numel(), " elements, ", shape, " has ", shape.numel()));
  if (x->op == NodeOp::Const) return const_like(x->literal, shape);
  if (x->op == NodeOp::Reshape) return make_reshape(x->inputs[0], shape);
  // [1, n] to [n, 1] is the same for all n, also where n is 1.
  if (x->op == NodeOp::Iota && (for_all_sizes ? same_shape(x->shape, shape) : same_sizes(x->shape, shape)))
    return make_iota(x->dtype, shape, static_cast<int>(x->attrs[0].value()));
  NewNode node = new_node(NodeOp::Reshape, x->dtype, shape);
  node->inputs.push_back(x);
  return finish(std::move(node));
}

NodeRef make_permute(const NodeRef& x, std::span<const int> axes) {
  check_operand("permute", x);
  int rank = x->shape.rank();
  auto complain = [&](const char* why) {
    std::string list;
    for (int axis : axes) list += text(list.empty() ? "" : ", ", axis);
    return text("permute: axes [", list, "] ", why, " shape ", x->shape);
  };
  if (static_cast<int>(axes.size()) != rank) throw ShapeError(complain("do not match the rank of"));
  SmallVector<int, 4> order;
  SmallVector<char, 8> used(axes.size());
  Shape result;
  for (int axis : axes) {
    order.push_back(normalize_axis("permute", axis, rank));
    if (used[order.back()]++) throw ValueError(complain("name an axis twice for"));
    result.push_back(x->shape[order.back()]);
  }
  if (std::is_sorted(order.begin(), order.end())) return x;
  if (x->op == NodeOp::Const) return const_like(x->literal, result);
  if (keeps_element_order(x->shape, order)) return make_reshape(x, result);
  if (x->op == NodeOp::Permute) {
    for (int& axis : order) axis = static_cast<int>(x->attrs[axis].value());
    return make_permute(x->inputs[0], order);
  }
  if (x->op == NodeOp::Expand) return make_expand(make_permute(x->inputs[0], order), result);
  NewNode node = new_node(NodeOp::Permute, x->dtype, result);
  node->inputs.push_back(x);
  for (int axis : order) node->attrs.push_back(axis);
  return finish(std::move(node));
}

NodeRef make_expand(const NodeRef& x, const Shape& shape) {
  check_operand("expand", x);
  if (x->shape == shape) return x;
  bool fits = x->shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = x->shape[i].is_const(1) || same_dim(x->shape[i], shape[i]);
  if (!fits)
    throw ShapeError(text("expand: ", x->dtype, x->shape, " does not repeat to ", shape,
                          ": the rank must agree and only dimensions of size 1 repeat"));
  check_shape("expand", shape, x->dtype);
  if (x->op == NodeOp::Const) return const_like(x->literal, shape);
  if (x->op == NodeOp::Expand) return make_expand(x->inputs[0], shape);
  NewNode node = new_node(NodeOp::Expand, x->dtype, shape);
  node->inputs.push_back(x);
  return finish(std::move(node));
}

NodeRef make_flip(const NodeRef& x, std::span<const int> axes) {
  check_operand("flip", x);
  const NodeRef& from = x->op == NodeOp::Flip || x->op == NodeOp::Expand ? x->inputs[0] : x;
  SmallVector<int, 4> flipped;  // axes along which the order matters
  for (int axis : normalize_axes("flip", x, axes))
    if (!from->shape[axis].is_const(1)) flipped.push_back(axis);
  if (flipped.empty() || x->op == NodeOp::Const) return x;
  if (x->op == NodeOp::Expand) return make_expand(make_flip(from, flipped), x->shape);
  if (x->op == NodeOp::Flip) {
    SmallVector<int, 4> before = axes_of(*x), both;
    std::set_symmetric_difference(before.begin(), before.end(), flipped.begin(), flipped.end(),
                                  std::back_inserter(both));
    return make_flip(from, both);
  }
  NewNode node = new_node(NodeOp::Flip, x->dtype, x->shape);
  node->inputs.push_back(x);
  for (int axis : flipped) node->attrs.push_back(axis);
  return finish(std::move(node));
}

}  // namespace heddle
