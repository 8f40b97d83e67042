// Checks and small helpers that all builders use.
#include "graph/build.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/control.h"
#include "graph/custom.h"
#include "graph/graph.h"

namespace heddle {

void check_operand(const char* op, const NodeRef& x) {
  if (!x) throw ValueError(text(op, ": an operand is empty"));
  if (x->gives_several())
    throw ValueError(text(op, ": the operand is ", name(x->op), " with ", x->result_count(),
                          " results; choose one of them with get"));
}

bool has_zero(const Shape& shape) {
  for (const Expr& dim : shape)
    if (dim.is_const(0)) return true;
  return false;
}

bool same_dim(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (a.is_const() && b.is_const()) return false;
  return provably_equal(a, b);
}

bool same_shape(const Shape& a, const Shape& b) {
  if (a == b) return true;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_dim);
}

SmallVector<int, 4> normalize_axes(const char* op, const NodeRef& x, std::span<const int> axes) {
  SmallVector<int, 4> result;
  for (int axis : axes) result.push_back(normalize_axis(op, axis, x->shape.rank()));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    throw ValueError(text(op, ": axis ", *std::adjacent_find(result.begin(), result.end()),
                          " is given more than once for shape ", x->shape));
  return result;
}

NodeRef const_like(const heddle::Scalar& value, const Shape& shape) {
  NewNode node = new_node(NodeOp::Const, value.dtype, shape);
  node->literal = value;
  return finish_as_is(std::move(node));
}

heddle::Scalar reduce_identity(ReduceOp op, DType dtype) {
  if (op == ReduceOp::Sum) return Scalar::of(dtype, 0);
  if (op == ReduceOp::Prod) return Scalar::of(dtype, 1);
  bool lowest = op == ReduceOp::Max;
  if (is_float(dtype)) {
    double limit = upper_limit(dtype);
    return Scalar::of(dtype, lowest ? -limit : limit);
  }
  if (dtype == DType::boolean) return Scalar::of(dtype, !lowest);
  int bits = 8 * size_of(dtype);
  uint64_t ones = ~uint64_t{0} >> (64 - bits);
  if (!is_signed(dtype)) return Scalar::from_bits(dtype, lowest ? 0 : ones);
  uint64_t sign = uint64_t{1} << (bits - 1);
  return Scalar::from_bits(dtype, lowest ? sign : ones ^ sign);
}

bool is_lossless(DType from, DType to) {
  if (from == to || from == DType::boolean) return true;
  if (to == DType::boolean) return false;
  if (is_float(from)) return is_float(to) && size_of(from) < size_of(to);
  if (is_float(to)) return precision(from) <= precision(to);
  if (is_signed(from) && !is_signed(to)) return false;
  return precision(from) <= precision(to);
}

NodeRef rebuild(const Node& node, std::span<const NodeRef> inputs) {
  auto number = [&](size_t i) { return node.attrs[i].value(); };
  auto axis = [&] { return static_cast<int>(node.attrs[0].value()); };
  switch (node.op) {
    case NodeOp::Const:
    case NodeOp::Buffer:
    case NodeOp::Input:
    case NodeOp::Iota: return NodeRef::share(&node);
    case NodeOp::Scalar: return make_scalar(node.scalar_op, inputs);
    case NodeOp::Cast: return make_cast(inputs[0], node.dtype);
    case NodeOp::Bitcast: return make_bitcast(inputs[0], node.dtype);
    case NodeOp::Reduce: return make_reduce(node.reduce_op, inputs[0], axes_of(node));
    case NodeOp::ArgReduce: return make_arg_reduce(node.reduce_op, inputs[0], axis());
    case NodeOp::Scan: return make_scan(node.reduce_op, inputs[0], axis());
    case NodeOp::Reshape: return make_reshape(inputs[0], node.shape);
    case NodeOp::Permute: return make_permute(inputs[0], axes_of(node));
    case NodeOp::Expand: return make_expand(inputs[0], node.shape);
    case NodeOp::Pad: {
      SmallVector<Expr, 4> before, after;
      for (size_t i = 0; i < node.attrs.size(); i += 2) {
        before.push_back(node.attrs[i]);
        after.push_back(node.attrs[i + 1]);
      }
      return make_pad(inputs[0], before, after, node.literal);
    }
    case NodeOp::Shrink: return make_shrink(inputs[0], node.attrs, node.shape);
    case NodeOp::Flip: return make_flip(inputs[0], axes_of(node));
    case NodeOp::Window: return make_window(inputs[0], axis(), number(1), number(2), number(3));
    case NodeOp::Unwindow: return make_unwindow(inputs[0], axis(), number(1), number(2), number(3), node.attrs[4]);
    case NodeOp::Cat: return make_cat(inputs, axis());
    case NodeOp::Gather:
      return number(1) ? make_gather_along(inputs[0], inputs[1], axis(), number(2))
                       : make_gather(inputs[0], inputs[1], axis(), number(2));
    case NodeOp::Scatter: return make_scatter(node.scatter_op, inputs[0], inputs[1], inputs[2], axis(), number(1));
    case NodeOp::Sort: return make_sort(inputs[0], number(0) != 0, node.shape.back());
    case NodeOp::Loop: return make_loop(inputs, node.control);
    case NodeOp::Cond: return make_cond(inputs, node.control);
    case NodeOp::Custom: return make_custom(inputs, node.custom);
    case NodeOp::To: return make_to(inputs[0], static_cast<DeviceNumber>(number(0)));
    case NodeOp::Get: return make_get(inputs[0], axis());
    case NodeOp::Barrier: return make_barrier_with(inputs[0], inputs[1], node.token);
    case NodeOp::Pullback: return make_pullback(inputs[0], inputs.subspan(1), node.rule);
  }
  __builtin_unreachable();
}

}  // namespace heddle
