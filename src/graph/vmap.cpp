#include "graph/vmap.h"

#include <memory>

#include "graph/arithmetic.h"
#include "graph/control.h"
#include "graph/custom.h"
#include "graph/graph.h"

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
      case NodeOp::Get: return get(node);
      case NodeOp::Loop: return loop(node);
      case NodeOp::Cond: return cond(node);
      case NodeOp::Custom: return custom(node);
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
      case NodeOp::To: return make_to(x, node.device);
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

  NodeRef custom(const Node& node) const {
    std::vector<NodeRef> inputs;
    std::unique_ptr<bool[]> batched = std::make_unique<bool[]>(node.inputs.size());
    for (const NodeRef& input : node.inputs) {
      auto found = now.find(input.get());
      batched[inputs.size()] = found != now.end();
      inputs.push_back(found != now.end() ? found->second : input);
    }
    if (!count_.is_const())
      throw ValueError(
          text("vmap: kernel ", node.custom->name, " is written for numbers; the size ", count_, " is none"));
    return make_custom(inputs, node.custom->batch(std::span(batched.get(), inputs.size()), count_.value()));
  }

  NodeRef get(const Node& node) const {
    const NodeRef& from = node.inputs[0];
    const auto result = static_cast<size_t>(node.attrs[0].value());
    if (auto chosen = chosen_.find(from.get()); chosen != chosen_.end()) return chosen->second[result];
    NodeRef y = make_get(now.at(from.get()), static_cast<int>(result));
    // Rounds come first in what a loop stacks.
    return from->op == NodeOp::Loop && result >= from->control->carried ? swapped(y) : y;
  }

  // The first two axes in the other order.
  static NodeRef swapped(const NodeRef& x) {
    SmallVector<int, 4> axes;
    for (int i = 0; i < x->shape.rank(); ++i) axes.push_back(i < 2 ? 1 - i : i);
    return make_permute(x, axes);
  }

  // A region for many examples. Parameters that are the same for all of them stay.
  Region of_many(const Region& one, std::span<const bool> same) const {
    Region many;
    std::unordered_map<const Node*, NodeRef> bound;
    for (size_t i = 0; i < one.parameters.size(); ++i) {
      const Node& parameter = *one.parameters[i];
      many.parameters.push_back(
          make_placeholder(parameter.dtype, same[i] ? parameter.shape : with_axis(parameter.shape), parameter.device));
      bound[&parameter] = many.parameters.back();
    }
    // Those that stay are replaced afterwards: batched() takes all that it is given for many.
    std::unordered_map<const Node*, NodeRef> stay;
    for (size_t i = 0; i < one.parameters.size(); ++i)
      if (same[i]) stay.insert(bound.extract(one.parameters[i].get()));
    many.results = replace(batched(one.results, bound, count_), stay);
    return many;
  }

  // Every example has carried values of its own. With a condition the rounds go on while that of any example holds, and
  // change those examples alone whose does.
  NodeRef loop(const Node& node) const {
    const Control& one = *node.control;
    auto many = std::make_shared<Control>();
    many->carried = one.carried;
    many->stacked = one.stacked;
    many->length = one.length;
    many->reverse = one.reverse;
    const size_t captured = one.carried + one.stacked;
    std::vector<NodeRef> inputs;
    std::unique_ptr<bool[]> same(new bool[node.inputs.size()]);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      same[i] = i >= one.carried && !now.contains(node.inputs[i].get());
      NodeRef input = same[i] ? node.inputs[i] : lifted(node.inputs[i]);
      inputs.push_back(i >= one.carried && i < captured && !same[i] ? swapped(input) : input);
    }
    const std::span<const bool> which(same.get(), node.inputs.size());
    Region body = of_many(one.body(), which);
    if (const Region* condition = one.condition()) {
      Region test = of_many(*condition, which);
      std::unordered_map<const Node*, NodeRef> of_body;
      for (size_t i = 0; i < inputs.size(); ++i) of_body[test.parameters[i].get()] = body.parameters[i];
      const NodeRef holds = replace(test.results, of_body)[0];
      for (size_t r = 0; r < one.carried; ++r) {
        const NodeRef& old = body.parameters[r];
        Shape thin(old->shape.size(), Expr(1));
        thin[0] = count_;
        NodeRef each = make_expand(make_reshape(holds, thin), old->shape);
        body.results[r] = arithmetic::choose(each, body.results[r], old);
      }
      const int axis = 0;
      test.results[0] = make_reduce(ReduceOp::Max, test.results[0], std::span(&axis, 1));
      many->regions = {std::move(body), std::move(test)};
    } else {
      many->regions = {std::move(body)};
    }
    return make_loop(inputs, many);
  }

  // Examples that want other branches: both are computed.
  NodeRef cond(const Node& node) {
    const Control& one = *node.control;
    if (!now.contains(node.inputs[0].get())) {
      auto many = std::make_shared<Control>();
      std::vector<NodeRef> inputs{node.inputs[0]};
      std::unique_ptr<bool[]> same(new bool[node.inputs.size()]);
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        same[i - 1] = !now.contains(node.inputs[i].get());
        inputs.push_back(same[i - 1] ? node.inputs[i] : lifted(node.inputs[i]));
      }
      for (const Region& branch : one.regions)
        many->regions.push_back(of_many(branch, std::span<const bool>(same.get(), node.inputs.size() - 1)));
      return make_cond(inputs, many);
    }
    std::vector<std::vector<NodeRef>> of_branch;
    for (const Region& branch : one.regions) {
      std::unordered_map<const Node*, NodeRef> bound;
      for (size_t i = 0; i < branch.parameters.size(); ++i)
        bound[branch.parameters[i].get()] = lifted(node.inputs[i + 1]);
      of_branch.push_back(batched(branch.results, bound, count_));
    }
    std::vector<NodeRef>& results = chosen_[&node];
    for (size_t r = 0; r < of_branch[0].size(); ++r) {
      const NodeRef &yes = of_branch[0][r], &no = of_branch[1][r];
      Shape thin(yes->shape.size(), Expr(1));
      thin[0] = count_;
      NodeRef each = make_expand(make_reshape(now.at(node.inputs[0].get()), thin), yes->shape);
      results.push_back(arithmetic::choose(each, yes, no));
    }
    return results[0];  // read through get() alone
  }

  // The rule is one of a single example. It is applied to placeholders, and what it gives is batched in turn.
  NodeRef pullback(const Node& node) const {
    NodeRef value = lifted(node.inputs[0]);
    if (!node.rule) return make_detached(value);
    if (node.rule->is_leaf) return value;
    SmallVector<NodeRef, 4> inputs = all_lifted(node);
    auto rule = std::make_shared<GradientRule>();
    rule->name = node.rule->name;
    rule->pull = [original = NodeRef::share(&node), count = count_](const Node& many, const NodeRef& gradient,
                                                                    GradientRule::Wanted wanted) {
      std::unordered_map<const Node*, NodeRef> bound;
      std::vector<NodeRef> stand_ins;
      for (size_t i = 0; i < original->inputs.size(); ++i) {
        stand_ins.push_back(
            make_placeholder(original->inputs[i]->dtype, original->inputs[i]->shape, original->inputs[i]->device));
        bound[stand_ins[i].get()] = many.inputs[i];
      }
      NodeRef one = make_pullback(stand_ins[0], std::span(stand_ins).subspan(1), original->rule);
      bound[one.get()] = NodeRef::share(&many);
      NodeRef arriving = make_placeholder(original->dtype, original->shape, original->device);
      bound[arriving.get()] = gradient;
      std::vector<NodeRef> given = original->rule->pull(*one, arriving, wanted), roots, result;
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
  std::unordered_map<const Node*, std::vector<NodeRef>>
      chosen_;  // results of conditions of which both sides are computed
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
