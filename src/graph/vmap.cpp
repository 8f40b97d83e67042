#include "graph/vmap.h"

#include "graph/build.h"

namespace heddle {
namespace {

using Batched = std::unordered_map<const Node*, NodeRef>;

class Batching {
 public:
  explicit Batching(const Expr& count) : count_(count) {}

  Batched now;  // nodes that depend on the inputs, with the new axis

  void visit(const Node& node) {
    if (now.contains(&node)) return;
    bool depends = false;
    for (const NodeRef& input : node.inputs) depends |= now.contains(input.get());
    if (depends) now[&node] = rule(node);
  }

  // With the new axis in any case.
  NodeRef lifted(const NodeRef& x) const {
    if (auto found = now.find(x.get()); found != now.end()) return found->second;
    return make_expand(make_reshape(x, with_axis(x->shape, 1)), with_axis(x->shape, count_));
  }

 private:
  static Shape with_axis(const Shape& shape, const Expr& size) {
    Shape result;
    result.push_back(size);
    result.append(shape.begin(), shape.end());
    return result;
  }
  Shape with_axis(const Shape& shape) const { return with_axis(shape, count_); }

  NodeRef rule(const Node& node) {
    const NodeRef x = node.inputs.empty() ? NodeRef() : lifted(node.inputs[0]);
    auto number = [&](size_t i) { return node.attrs[i].value(); };
    auto axis = [&] { return static_cast<int>(number(0)) + 1; };
    SmallVector<int, 4> axes;
    SmallVector<Expr, 4> first, second;
    switch (node.op) {
      case NodeOp::Const:
      case NodeOp::Buffer:
      case NodeOp::Input:
      case NodeOp::Iota: break;
      case NodeOp::Scalar: return make_scalar(node.scalar_op, all_lifted(node));
      case NodeOp::Cast: return make_cast(x, node.dtype);
      case NodeOp::Bitcast: return make_bitcast(x, node.dtype);
      case NodeOp::Reduce:
        for (const Expr& attr : node.attrs) axes.push_back(static_cast<int>(attr.value()) + 1);
        return make_reduce(node.reduce_op, x, axes);
      case NodeOp::ArgReduce: return make_arg_reduce(node.reduce_op, x, axis());
      case NodeOp::Scan: return make_scan(node.reduce_op, x, axis());
      case NodeOp::Sort: return make_sort(x, number(0) != 0, node.shape.back());
      case NodeOp::Get: return make_get(now.at(node.inputs[0].get()), static_cast<int>(number(0)));
      case NodeOp::Reshape: return make_reshape(x, with_axis(node.shape));
      case NodeOp::Permute:
        axes.push_back(0);
        for (const Expr& attr : node.attrs) axes.push_back(static_cast<int>(attr.value()) + 1);
        return make_permute(x, axes);
      case NodeOp::Expand: return make_expand(x, with_axis(node.shape));
      case NodeOp::Pad:
        first.push_back(0);
        second.push_back(0);
        for (size_t i = 0; i < node.attrs.size(); i += 2) {
          first.push_back(node.attrs[i]);
          second.push_back(node.attrs[i + 1]);
        }
        return make_pad(x, first, second, node.literal);
      case NodeOp::Shrink:
        first.push_back(0);
        for (const Expr& begin : node.attrs) first.push_back(begin);
        return make_shrink(x, first, with_axis(node.shape));
      case NodeOp::Flip:
        for (const Expr& attr : node.attrs) axes.push_back(static_cast<int>(attr.value()) + 1);
        return make_flip(x, axes);
      case NodeOp::Window: return make_window(x, axis(), number(1), number(2), number(3));
      case NodeOp::Unwindow: return make_unwindow(x, axis(), number(1), number(2), number(3), node.attrs[4]);
      case NodeOp::Cat: return make_cat(all_lifted(node), axis());
      case NodeOp::Gather:
        if (number(1)) return make_gather_along(x, lifted(node.inputs[1]), axis(), number(2));
        return gather(node);
      case NodeOp::Scatter:
        return make_scatter(node.scatter_op, x, lifted(node.inputs[1]), lifted(node.inputs[2]), axis(), number(1));
      case NodeOp::Barrier: return make_barrier_with(x, lifted(node.inputs[1]), node.token);
      case NodeOp::Pullback: return pullback(node);
    }
    HD_ASSERT(false, "a leaf depends on something: ", name(node.op));
    return {};
  }

  SmallVector<NodeRef, 4> all_lifted(const Node& node) const {
    SmallVector<NodeRef, 4> result;
    for (const NodeRef& input : node.inputs) result.push_back(lifted(input));
    return result;
  }

  NodeRef gather(const Node& node) const {
    const NodeRef &x = node.inputs[0], &index = node.inputs[1];
    int axis = static_cast<int>(node.attrs[0].value());
    int64_t label = node.attrs[2].value();
    if (!now.contains(index.get())) return make_gather(lifted(x), index, axis + 1, label);
    if (!now.contains(x.get())) {
      // The new axis comes out in the place of x's axis: to the front.
      NodeRef y = make_gather(x, lifted(index), axis, label);
      SmallVector<int, 4> axes;
      axes.push_back(axis);
      for (int i = 0; i < y->shape.rank(); ++i)
        if (i != axis) axes.push_back(i);
      return make_permute(y, axes);
    }
    // Each example has an index of its own: all its axes as one, the same for every element of x's other axes.
    Shape thin = with_axis(Shape(x->shape.size(), Expr(1))), full = with_axis(x->shape);
    thin[axis + 1] = full[axis + 1] = index->shape.numel();
    NodeRef own = make_expand(make_reshape(lifted(index), thin), full);
    return make_reshape(make_gather_along(lifted(x), own, axis + 1, label), with_axis(node.shape));
  }

  // The rule is one of a single example. It is applied to placeholders, and what it gives is batched in turn.
  NodeRef pullback(const Node& node) const {
    NodeRef value = lifted(node.inputs[0]);
    if (!node.rule) return make_detached(value);
    if (node.rule->is_leaf) return value;
    SmallVector<NodeRef, 4> inputs = all_lifted(node);
    auto rule = std::make_shared<GradientRule>();
    rule->name = node.rule->name;
    rule->pull = [original = NodeRef::share(&node), count = count_](const Node& many, const NodeRef& gradient) {
      std::unordered_map<const Node*, NodeRef> bound;
      std::vector<NodeRef> stand_ins;
      for (size_t i = 0; i < original->inputs.size(); ++i) {
        stand_ins.push_back(make_placeholder(original->inputs[i]->dtype, original->inputs[i]->shape));
        bound[stand_ins[i].get()] = many.inputs[i];
      }
      NodeRef one = make_pullback(stand_ins[0], std::span(stand_ins).subspan(1), original->rule);
      bound[one.get()] = NodeRef::share(&many);
      NodeRef arriving = make_placeholder(original->dtype, original->shape);
      bound[arriving.get()] = gradient;
      std::vector<NodeRef> given = original->rule->pull(*one, arriving), roots, result;
      for (const NodeRef& g : given)
        if (g) roots.push_back(g);
      roots = batched(roots, bound, count);
      size_t next = 0;
      for (const NodeRef& g : given) result.push_back(g ? roots[next++] : NodeRef());
      return result;
    };
    return make_pullback(value, std::span(inputs.begin() + 1, inputs.end()), rule);
  }

  Expr count_;
};

}  // namespace

std::vector<NodeRef> batched(std::span<const NodeRef> roots, const std::unordered_map<const Node*, NodeRef>& inputs,
                             const Expr& count) {
  Batching batching(count);
  batching.now = inputs;
  for (const Node* node : topological(roots)) batching.visit(*node);
  std::vector<NodeRef> results;
  for (const NodeRef& root : roots) results.push_back(batching.lifted(root));
  return results;
}

}  // namespace heddle
