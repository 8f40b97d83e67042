// Builders of movement nodes that change how far a tensor reaches: pad, shrink.
#include <algorithm>

#include "graph/build.h"

namespace heddle {
namespace {

std::string list_of(std::span<const Expr> items) {
  std::string list;
  for (const Expr& item : items) list += text(list.empty() ? "" : ", ", item);
  return "[" + list + "]";
}

// What bounds do not show of a size may still be so: its value does, in every graph anew.
bool may_be_negative(const Expr& size) { return size.lo() < 0 && known_value(size).value_or(-1) < 0; }
bool fits(const Expr& begin, const Expr& size, const Expr& extent) {
  Expr inside = le(begin + size, extent);
  return provably_true(inside) || known_value(inside).value_or(0) != 0;
}

// A shrink may travel down through pads, expands and cats; each step costs one unit, so that deep alternations of
// these neither recurse far nor make building quadratic.
constexpr int kShrinkFuel = 8;
NodeRef shrink_within(const NodeRef& x, std::span<const Expr> begin, std::span<const Expr> size, int fuel);

// shrink(pad(x)) as pad(shrink(x)) with what is left of the padding; null when a symbolic size leaves that open.
NodeRef shrink_of_pad(const Node& pad, std::span<const Expr> begin, std::span<const Expr> size, int fuel) {
  const NodeRef& x = pad.inputs[0];
  SmallVector<Expr, 4> inner_begin, inner_size, before, after;
  bool outside = false;
  for (size_t i = 0; i < size.size(); ++i) {
    const Expr &left = pad.attrs[2 * i], &right = pad.attrs[2 * i + 1], &extent = x->shape[i];
    bool unpadded = left.is_const(0) && right.is_const(0);
    bool whole = begin[i].is_const(0) && size[i] == pad.shape[i];
    if (unpadded || whole) {
      inner_begin.push_back(whole ? Expr(0) : begin[i]);
      inner_size.push_back(whole ? extent : size[i]);
      before.push_back(left);
      after.push_back(right);
      continue;
    }
    if (!left.is_const() || !extent.is_const() || !begin[i].is_const() || !size[i].is_const()) return {};
    int64_t first = begin[i].value() - left.value(), end = first + size[i].value(), n = extent.value();
    int64_t from = std::clamp<int64_t>(first, 0, n), to = std::clamp<int64_t>(end, 0, n);
    if (to <= from) outside = true;
    inner_begin.push_back(from);
    inner_size.push_back(std::max<int64_t>(to - from, 0));
    before.push_back(std::max<int64_t>(from - first, 0));
    after.push_back(std::max<int64_t>(end - to, 0));
  }
  if (outside) return make_unmoved(const_like(pad.literal, Shape(size)), std::span(&x, 1));
  return make_pad(shrink_within(x, inner_begin, inner_size, fuel), before, after, pad.literal);
}

NodeRef shrink_of_expand(const Node& expand, std::span<const Expr> begin, std::span<const Expr> size, int fuel) {
  const NodeRef& x = expand.inputs[0];
  SmallVector<Expr, 4> inner_begin, inner_size;
  for (size_t i = 0; i < size.size(); ++i) {
    bool repeated = x->shape[i].is_const(1);
    inner_begin.push_back(repeated ? Expr(0) : begin[i]);
    inner_size.push_back(repeated ? Expr(1) : size[i]);
  }
  return make_expand(shrink_within(x, inner_begin, inner_size, fuel), Shape(size));
}

// A region that lies within one operand of a cat; null otherwise.
NodeRef shrink_of_cat(const Node& cat, std::span<const Expr> begin, std::span<const Expr> size, int fuel) {
  size_t axis = static_cast<size_t>(cat.attrs[0].value());
  if (!begin[axis].is_const() || !size[axis].is_const() || cat.inputs.size() > 64) return {};
  int64_t start = 0;
  for (const NodeRef& part : cat.inputs) {
    if (!part->shape[axis].is_const()) return {};
    int64_t end = start + part->shape[axis].value();
    if (begin[axis].value() >= start && begin[axis].value() + size[axis].value() <= end) {
      SmallVector<Expr, 4> inner(begin);
      inner[axis] = begin[axis].value() - start;
      return shrink_within(part, inner, size, fuel);
    }
    start = end;
  }
  return {};
}

// The region is known to lie within x.
NodeRef shrink_within(const NodeRef& x, std::span<const Expr> begin, std::span<const Expr> size, int fuel) {
  Shape result(size);
  if (result == x->shape) return x;
  if (has_zero(result)) return make_unmoved(const_like(Scalar::of(x->dtype, 0), result), std::span(&x, 1));
  bool may_move = fuel > 0;
  switch (x->op) {
    case NodeOp::Const: return const_like(x->literal, result);
    case NodeOp::Shrink: {
      SmallVector<Expr, 4> sum;
      for (size_t i = 0; i < size.size(); ++i) sum.push_back(begin[i] + x->attrs[i]);
      return shrink_within(x->inputs[0], sum, size, fuel - 1);
    }
    case NodeOp::Expand:
      if (may_move) return shrink_of_expand(*x, begin, size, fuel - 1);
      break;
    case NodeOp::Pad:
      if (NodeRef merged = may_move ? shrink_of_pad(*x, begin, size, fuel - 1) : NodeRef()) return merged;
      break;
    case NodeOp::Cat:
      if (NodeRef part = may_move ? shrink_of_cat(*x, begin, size, fuel - 1) : NodeRef())
        return make_unmoved(part, std::span(&x, 1));
      break;
    default: break;
  }
  NewNode node = new_node(NodeOp::Shrink, x->dtype, result);
  node->inputs.push_back(x);
  for (const Expr& first : begin) node->attrs.push_back(first);
  return finish(std::move(node));
}

}  // namespace

NodeRef make_pad(const NodeRef& x, std::span<const Expr> before, std::span<const Expr> after,
                 const heddle::Scalar& value) {
  check_operand("pad", x);
  size_t rank = x->shape.size();
  if (before.size() != rank || after.size() != rank)
    throw ShapeError(text("pad: ", list_of(before), " before and ", list_of(after), " after do not match the rank of ",
                          x->dtype, x->shape));
  if (value.dtype != x->dtype)
    throw DTypeError(text("pad: cannot fill ", x->dtype, x->shape, " with ", value, " of ", value.dtype));
  Shape result;
  bool idle = true;
  for (size_t i = 0; i < rank; ++i) {
    if (may_be_negative(before[i]) || may_be_negative(after[i]))
      throw ValueError(text("pad: negative padding ", list_of(before), " before, ", list_of(after), " after for ",
                            x->dtype, x->shape, "; use shrink"));
    idle = idle && before[i].is_const(0) && after[i].is_const(0);
    result.push_back(x->shape[i] + before[i] + after[i]);
  }
  if (idle) return x;
  check_shape("pad", result, x->dtype);
  if (has_zero(x->shape)) return make_unmoved(const_like(value, result), std::span(&x, 1));
  if (x->op == NodeOp::Const && x->literal == value) return const_like(value, result);
  if (x->op == NodeOp::Pad && x->literal == value) {
    SmallVector<Expr, 4> all_before, all_after;
    for (size_t i = 0; i < rank; ++i) {
      all_before.push_back(before[i] + x->attrs[2 * i]);
      all_after.push_back(after[i] + x->attrs[2 * i + 1]);
    }
    return make_pad(x->inputs[0], all_before, all_after, value);
  }
  NewNode node = new_node(NodeOp::Pad, x->dtype, result);
  node->inputs.push_back(x);
  node->literal = value;
  for (size_t i = 0; i < rank; ++i) {
    node->attrs.push_back(before[i]);
    node->attrs.push_back(after[i]);
  }
  return finish(std::move(node));
}

NodeRef make_shrink(const NodeRef& x, std::span<const Expr> begin, std::span<const Expr> size) {
  check_operand("shrink", x);
  size_t rank = x->shape.size();
  if (begin.size() != rank || size.size() != rank)
    throw ShapeError(text("shrink: begin ", list_of(begin), " and size ", list_of(size), " do not match the rank of ",
                          x->dtype, x->shape));
  bool idle = true;
  SmallVector<Expr, 4> from(begin.begin(), begin.end());
  for (size_t i = 0; i < rank; ++i) {
    bool whole = begin[i].is_const(0) && size[i] == x->shape[i];
    if (size[i] == x->shape[i]) from[i] = 0;  // whatever expression says so: it fits nowhere else
    idle = idle && size[i] == x->shape[i];
    if (!whole && (may_be_negative(begin[i]) || may_be_negative(size[i]) || !fits(begin[i], size[i], x->shape[i])))
      throw IndexError(text("shrink: ", size[i], " elements from ", begin[i], " on do not lie within axis ", i, " of ",
                            x->dtype, x->shape));
  }
  return idle ? x : shrink_within(x, from, size, kShrinkFuel);
}

}  // namespace heddle
