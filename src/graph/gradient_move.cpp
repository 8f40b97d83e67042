// Gradients of movement, and of nodes with several results.
#include "base/error.h"
#include "graph/arithmetic.h"
#include "graph/custom.h"
#include "graph/gradient.h"

namespace heddle {
using namespace arithmetic;
namespace {

NodeRef of_permute(const Node& node, const NodeRef& g) {
  SmallVector<int, 4> back(node.attrs.size(), 0);
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(node.attrs[i].value())] = static_cast<int>(i);
  return make_permute(g, back);
}

NodeRef of_expand(const Node& node, const NodeRef& g) {
  const Shape& from = node.inputs[0]->shape;
  SmallVector<int, 4> axes;
  for (int i = 0; i < from.rank(); ++i)
    if (from[i].is_const(1) && !node.shape[i].is_const(1)) axes.push_back(i);
  return axes.empty() ? g : sum_keeping(g, axes);
}

NodeRef of_pad(const Node& node, const NodeRef& g) {
  SmallVector<Expr, 4> begin;
  for (size_t i = 0; i < node.attrs.size(); i += 2) begin.push_back(node.attrs[i]);
  return make_shrink(g, begin, node.inputs[0]->shape);
}

NodeRef of_shrink(const Node& node, const NodeRef& g) {
  const Shape& from = node.inputs[0]->shape;
  SmallVector<Expr, 4> after;
  for (int i = 0; i < from.rank(); ++i) after.push_back(from[i] - node.attrs[static_cast<size_t>(i)] - node.shape[i]);
  return make_pad(g, node.attrs, after, Scalar::of(g->dtype, 0));
}

}  // namespace

NodeRef movement_gradient(const Node& node, const NodeRef& g) {
  const NodeRef& x = node.inputs[0];
  auto number = [&](size_t i) { return node.attrs[i].value(); };
  switch (node.op) {
    case NodeOp::Reshape: return make_reshape(g, x->shape);
    case NodeOp::Permute: return of_permute(node, g);
    case NodeOp::Expand: return of_expand(node, g);
    case NodeOp::Pad: return of_pad(node, g);
    case NodeOp::Shrink: return of_shrink(node, g);
    case NodeOp::Flip: {
      SmallVector<int, 4> axes;
      for (const Expr& axis : node.attrs) axes.push_back(static_cast<int>(axis.value()));
      return make_flip(g, axes);
    }
    case NodeOp::Window: {
      int axis = static_cast<int>(number(0));
      return make_unwindow(g, axis, number(1), number(2), number(3), x->shape[axis]);
    }
    case NodeOp::Unwindow: return make_window(g, static_cast<int>(number(0)), number(1), number(2), number(3));
    default: return {};
  }
}

NodeRef get_gradient(const Node& node, const NodeRef& g) {
  const NodeRef& source = node.inputs[0];
  const NodeRef& x = source->inputs[0];
  if (source->op == NodeOp::ArgReduce) {
    int axis = static_cast<int>(source->attrs[0].value());
    Shape kept = x->shape;
    kept[axis] = 1;
    auto spread = [&](const NodeRef& y) { return make_expand(make_reshape(y, kept), x->shape); };
    NodeRef here = equal(make_iota(DType::i64, x->shape, axis), spread(make_get(source, 1)));
    return choose(here, spread(g), 0);
  }
  if (source->op == NodeOp::Custom)
    throw ValueError(
        text("kernel ", source->custom->name,
             " has no gradient; give it one with custom_vjp(forward, backward), where `forward` calls it"));
  HD_ASSERT(source->op == NodeOp::Sort, "the results of ", name(source->op), " have no gradient");
  // Every element goes back to where it came from; those that were not kept get nothing.
  return make_scatter(ScatterOp::Add, like(x, 0), make_get(source, 1), g, x->shape.rank() - 1, kUncheckedIndex);
}

}  // namespace heddle
