#include "compile/fuse/index_map.h"

#include "base/error.h"

namespace heddle {
namespace {

// Axes [first, last) of both shapes hold the same elements.
void reshape_part(const Shape& from, const Shape& to, const Index& index, size_t from_first, size_t from_last,
                  size_t to_first, size_t to_last, Index& source) {
  Expr flat = 0;
  for (size_t axis = to_first; axis < to_last; ++axis) flat = flat * to[axis] + index[axis];
  for (size_t axis = from_last; axis-- > from_first;) {
    // The outermost digit needs no modulo: the number is below the product of these dimensions.
    source[axis] = axis == from_first ? flat : mod(flat, from[axis]);
    flat = floordiv(flat, from[axis]);
  }
}

// Axes that stay as they are keep their positions, also those outside of the tensor, which a pad excludes: the
// simplifier could not take them out of one number for all axes again.
Index reshape_source(const Shape& from, const Shape& to, const Index& index) {
  Index source(from.size(), Expr(0));
  size_t i = from.size(), j = to.size();
  while (i > 0 && j > 0) {
    if (from[i - 1].is_const(1)) {
      --i;
    } else if (to[j - 1].is_const(1)) {
      --j;
    } else {
      size_t first_i = i - 1, first_j = j - 1;
      Expr ours = from[first_i], theirs = to[first_j];
      while (!(ours == theirs)) {
        const bool known = ours.is_const() && theirs.is_const() && !ours.is_const(0) && !theirs.is_const(0);
        if (known && ours.value() < theirs.value() && first_i > 0) {
          ours = ours * from[--first_i];
        } else if (known && ours.value() > theirs.value() && first_j > 0) {
          theirs = theirs * to[--first_j];
        } else {
          first_i = first_j = 0;  // all that is left
          break;
        }
      }
      reshape_part(from, to, index, first_i, i, first_j, j, source);
      i = first_i, j = first_j;
    }
  }
  return source;
}

}  // namespace

bool is_movement(const Node& node) { return info(node.op).kind == NodeKind::Movement; }

const Node* rearranged(const Node* node) {
  while (is_movement(*node)) node = node->inputs[0].get();
  return node;
}

Index source_index(const Node& node, const Index& index, Expr* guard) {
  const Shape& from = node.inputs[0]->shape;
  Index source = index;
  switch (node.op) {
    case NodeOp::Reshape: return reshape_source(from, node.shape, index);
    case NodeOp::Permute:
      for (size_t i = 0; i < node.attrs.size(); ++i) source[node.attrs[i].value()] = index[i];
      return source;
    case NodeOp::Expand:
      for (size_t i = 0; i < from.size(); ++i)
        if (from[i].is_const(1)) source[i] = 0;
      return source;
    case NodeOp::Pad:
      for (size_t i = 0; i < from.size(); ++i) {
        source[i] = index[i] - node.attrs[2 * i];
        if (guard && !node.attrs[2 * i].is_const(0)) *guard = logical_and(*guard, ge(source[i], 0));
        if (guard && !node.attrs[2 * i + 1].is_const(0)) *guard = logical_and(*guard, lt(source[i], from[i]));
      }
      return source;
    case NodeOp::Shrink:
      for (size_t i = 0; i < from.size(); ++i) source[i] = index[i] + node.attrs[i];
      return source;
    case NodeOp::Flip:
      for (const Expr& axis : node.attrs) source[axis.value()] = from[axis.value()] - 1 - index[axis.value()];
      return source;
    case NodeOp::Window: {
      int64_t axis = node.attrs[0].value();
      source[axis] = index[axis] * node.attrs[2] + index.back() * node.attrs[3];
      source.pop_back();
      return source;
    }
    case NodeOp::Barrier:
    case NodeOp::Pullback: return source;
    case NodeOp::Const:
    case NodeOp::Buffer:
    case NodeOp::Input:
    case NodeOp::Iota:
    case NodeOp::Scalar:
    case NodeOp::Cast:
    case NodeOp::Bitcast:
    case NodeOp::Reduce:
    case NodeOp::ArgReduce:
    case NodeOp::Scan:
    case NodeOp::Unwindow:
    case NodeOp::Cat:
    case NodeOp::Gather:
    case NodeOp::Scatter:
    case NodeOp::Sort:
    case NodeOp::Loop:
    case NodeOp::Cond:
    case NodeOp::Custom:
    case NodeOp::To:
    case NodeOp::Get: break;
  }
  HD_ASSERT(false, name(node.op), " is not a movement");
  return source;
}

bool depends_on(const Index& index, const Expr& var) {
  return std::ranges::any_of(index, [&](const Expr& e) { return depends_on(e, var); });
}

Expr linear_address(const Shape& shape, const Index& index) {
  Expr address = 0;
  for (size_t i = 0; i < shape.size(); ++i) address = address * shape[i] + index[i];
  return address;
}

bool is_whole(const Node& node, const Index& index) {
  for (size_t i = 0; i < index.size(); ++i) {
    if (node.shape[i].is_const(1)) continue;
    if (!index[i].is_var() || !(index[i].extent() == node.shape[i])) return false;
    for (size_t j = 0; j < i; ++j)
      if (index[j] == index[i]) return false;
  }
  return true;
}

}  // namespace heddle
