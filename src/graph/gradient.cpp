#include "graph/gradient.h"

#include <unordered_map>

#include "graph/arithmetic.h"
#include "graph/control.h"
#include "graph/graph.h"
#include "graph/walk.h"

namespace heddle {
using namespace arithmetic;

std::span<const NodeRef> differentiable_inputs(const Node& node) {
  switch (node.op) {
    case NodeOp::Const:
    case NodeOp::Input:
    case NodeOp::Iota: return {};
    case NodeOp::Buffer:
      if (!node.rule || !node.rule->computed_from) return {};
      return {&node.rule->computed_from, 1};
    case NodeOp::Barrier: return {node.inputs.begin(), 1};
    case NodeOp::Pullback: return {node.inputs.begin() + 1, node.inputs.end()};
    case NodeOp::Get:
      if (node.inputs[0]->control) return {node.inputs.begin(), 1};
      return node.inputs[0]->inputs;  // its source's: gradients go to them from each of its results
    case NodeOp::Scalar:
    case NodeOp::Cast:
    case NodeOp::Bitcast:
    case NodeOp::Reduce:
    case NodeOp::ArgReduce:
    case NodeOp::Scan:
    case NodeOp::Reshape:
    case NodeOp::Permute:
    case NodeOp::Expand:
    case NodeOp::Pad:
    case NodeOp::Shrink:
    case NodeOp::Flip:
    case NodeOp::Window:
    case NodeOp::Unwindow:
    case NodeOp::Cat:
    case NodeOp::Gather:
    case NodeOp::Scatter:
    case NodeOp::To:
    case NodeOp::Sort:
    case NodeOp::Loop:
    case NodeOp::Cond:
    case NodeOp::Custom: return node.inputs;
  }
  __builtin_unreachable();
}

std::vector<const Node*> differentiable_order(std::span<const NodeRef> roots) {
  return inputs_first(roots, differentiable_inputs);
}

namespace {

// Whether gradients pass from a node to one of its differentiable inputs.
bool passes(const Node& node, size_t input) {
  if (!is_float(node.dtype)) return false;
  switch (node.op) {
    case NodeOp::Scalar: return is_float(node.inputs[input]->dtype);
    case NodeOp::Cast: return is_float(node.inputs[0]->dtype);
    case NodeOp::Bitcast: return false;
    case NodeOp::Gather: return input == 0;
    case NodeOp::Scatter: return input != 1;
    case NodeOp::Pullback: return is_float(node.inputs[input + 1]->dtype);
    case NodeOp::Loop:
    case NodeOp::Cond: return is_float(node.inputs[input]->dtype);
    default: return true;
  }
}

// Of what has no place, and was taken to several devices, gradients come from all of these.
NodeRef added(const NodeRef& sum, const NodeRef& g) {
  return sum + (sum->device != kAnywhere && g->device != kAnywhere ? make_to(g, sum->device) : g);
}

// Gradients for the differentiable inputs of a node.
void pull(const Node& node, const NodeRef& g, Wanted wanted, std::span<NodeRef> result) {
  switch (node.op) {
    case NodeOp::Scalar: return scalar_gradient(node, g, wanted, result);
    case NodeOp::Cast: result[0] = make_cast(g, node.inputs[0]->dtype); return;
    case NodeOp::Reduce: result[0] = reduce_gradient(node, g); return;
    case NodeOp::Scan: result[0] = scan_gradient(node, g); return;
    case NodeOp::Gather: result[0] = gather_gradient(node, g); return;
    case NodeOp::Scatter: return scatter_gradient(node, g, wanted, result);
    case NodeOp::Get: result[0] = get_gradient(node, g); return;
    case NodeOp::To: result[0] = make_to(g, node.inputs[0]->device); return;
    case NodeOp::Buffer:
    case NodeOp::Barrier: result[0] = g; return;
    case NodeOp::Cat: {
      int axis = static_cast<int>(node.attrs[0].value());
      SmallVector<Expr, 4> begin(node.shape.size(), Expr(0));
      for (size_t i = 0; i < result.size(); ++i) {
        const Shape& part = node.inputs[i]->shape;
        if (wanted[i]) result[i] = make_shrink(g, begin, part);
        begin[static_cast<size_t>(axis)] = begin[static_cast<size_t>(axis)] + part[axis];
      }
      return;
    }
    case NodeOp::Pullback: {
      std::vector<NodeRef> given = node.rule->pull(node, g, wanted);
      if (given.size() != result.size())
        throw ValueError(text("the gradient rule of ", node.rule->name, " gave ", given.size(), " gradients for ",
                              result.size(), " inputs"));
      for (size_t i = 0; i < result.size(); ++i) {
        const NodeRef& x = node.inputs[i + 1];
        if (!given[i] || !wanted[i]) continue;
        // A rule may know the numbers of symbols alone.
        if (given[i]->dtype == x->dtype &&
            std::equal(given[i]->shape.begin(), given[i]->shape.end(), x->shape.begin(), x->shape.end(), same_size)) {
          result[i] = make_reshape(given[i], x->shape);
          continue;
        }
        throw ShapeError(text("the gradient rule of ", node.rule->name, " gave ", given[i]->dtype, given[i]->shape,
                              " for input ", i, ", which is ", x->dtype, x->shape));
      }
      return;
    }
    case NodeOp::Reshape:
    case NodeOp::Permute:
    case NodeOp::Expand:
    case NodeOp::Pad:
    case NodeOp::Shrink:
    case NodeOp::Flip:
    case NodeOp::Window:
    case NodeOp::Unwindow: result[0] = movement_gradient(node, g); return;
    case NodeOp::Const:
    case NodeOp::Input:
    case NodeOp::Iota:
    case NodeOp::Bitcast:    // gradients do not pass
    case NodeOp::ArgReduce:  // nor to nodes with several results: Get passes them on
    case NodeOp::Sort:
    case NodeOp::Loop:  // gradient() itself
    case NodeOp::Cond:
    case NodeOp::Custom: break;
  }
  HD_ASSERT(false, "no gradient passes through ", name(node.op));
}

bool is_computed(const Node& node) {
  return !leaf_rule(node) && (!node.inputs.empty() || !differentiable_inputs(node).empty());
}

}  // namespace

std::vector<NodeRef> gradient(std::span<const NodeRef> outputs, std::span<const NodeRef> cotangents,
                              std::span<const NodeRef> inputs) {
  if (std::any_of(inputs.begin(), inputs.end(), [](const NodeRef& x) { return is_computed(*x); }))
    return gradient_as_recorded(outputs, cotangents, inputs);
  return gradient_as_recorded(roll(outputs), cotangents, inputs);
}

std::vector<NodeRef> gradient_as_recorded(std::span<const NodeRef> outputs, std::span<const NodeRef> cotangents,
                                          std::span<const NodeRef> inputs) {
  std::vector<const Node*> order = differentiable_order(outputs);
  NodeMap number;
  for (uint32_t i = 0; i < order.size(); ++i) number.insert(order[i], i);
  // Only what leads to an input is differentiated. A realised input counts, and so does the graph it came from: the
  // outputs may have been recorded before or after.
  std::vector<bool> leads(order.size(), false);
  std::unordered_map<const GradientRule*, std::vector<uint32_t>> leaves;
  for (uint32_t i = 0; i < order.size(); ++i)
    if (const GradientRule* leaf = leaf_rule(*order[i])) leaves[leaf].push_back(i);
  std::vector<std::vector<uint32_t>> places;  // for each input: nodes whose gradients add up to its own
  for (const NodeRef& input : inputs) {
    const Node* node = input.get();
    std::vector<uint32_t>& at = places.emplace_back();
    if (const GradientRule* leaf = leaf_rule(*node)) {
      if (auto found = leaves.find(leaf); found != leaves.end()) at = found->second;
    } else {
      // Of a realised input the history has it all: what was recorded before, and, through the buffer, after.
      if (node->op == NodeOp::Buffer)
        for (const NodeRef& history : differentiable_inputs(*node))
          if (number.find(history.get()) != NodeMap::kNone) node = history.get();
      if (uint32_t found = number.find(node); found != NodeMap::kNone) at.push_back(found);
    }
    for (uint32_t i : at) leads[i] = true;
  }
  for (size_t i = 0; i < order.size(); ++i) {
    std::span<const NodeRef> from = differentiable_inputs(*order[i]);
    for (size_t k = 0; k < from.size() && !leads[i]; ++k)
      leads[i] = passes(*order[i], k) && leads[number.find(from[k].get())];
  }

  std::vector<NodeRef> total(order.size());
  auto add = [&](const Node* node, const NodeRef& g) {
    NodeRef& sum = total[number.find(node)];
    sum = sum ? added(sum, g) : g;
  };
  for (size_t i = 0; i < outputs.size(); ++i) add(outputs[i].get(), cotangents[i]);
  // Wanted is a span of bool, which std::vector<bool> has not.
  SmallVector<NodeRef, 4> result;
  std::unique_ptr<bool[]> wanted;
  // Of control flow, which is differentiated once, with what arrives at all of its results.
  std::unordered_map<const Node*, std::vector<NodeRef>> at_results;
  size_t room = 0;
  for (size_t i = order.size(); i-- > 0;) {
    if (!total[i] || !leads[i]) continue;
    std::span<const NodeRef> from = differentiable_inputs(*order[i]);
    if (from.empty()) continue;
    if (room < from.size()) wanted = std::make_unique<bool[]>(room = 2 * from.size());
    bool any = false;
    for (size_t k = 0; k < from.size(); ++k)
      any |= wanted[k] = passes(*order[i], k) && leads[number.find(from[k].get())];
    if (!any) continue;
    result.clear();
    for (size_t k = 0; k < from.size(); ++k) result.push_back(NodeRef());
    if (order[i]->op == NodeOp::Get && from[0]->control) {
      std::vector<NodeRef>& all = at_results[from[0].get()];
      all.resize(static_cast<size_t>(from[0]->result_count()));
      all[static_cast<size_t>(order[i]->attrs[0].value())] = total[i];
      total[number.find(from[0].get())] = total[i];  // something arrives there
      continue;
    }
    const Wanted which(wanted.get(), from.size());
    const std::span<NodeRef> pulled(result.begin(), result.size());
    if (order[i]->control) {
      auto differentiate = order[i]->op == NodeOp::Loop ? loop_gradient : cond_gradient;
      differentiate(*order[i], at_results.at(order[i]), which, pulled);
      for (size_t k = 0; k < from.size(); ++k)
        if (wanted[k] && result[k]) add(from[k].get(), result[k]);
      continue;
    }
    // Nothing arrives, so nothing leaves: no kernels that move zeros.
    if (arithmetic::is_number(total[i], 0) && order[i]->op != NodeOp::Pullback) {
      for (size_t k = 0; k < from.size(); ++k)
        if (wanted[k]) add(from[k].get(), const_like(Scalar::of(from[k]->dtype, 0), from[k]->shape));
      continue;
    }
    pull(*order[i], total[i], which, pulled);
    for (size_t k = 0; k < from.size(); ++k)
      if (wanted[k] && result[k]) add(from[k].get(), result[k]);
  }

  std::vector<NodeRef> gradients;
  for (const std::vector<uint32_t>& place : places) {
    NodeRef& sum = gradients.emplace_back();
    for (uint32_t at : place)
      if (total[at]) sum = sum ? added(sum, total[at]) : total[at];
  }
  return gradients;
}

NodeRef differentiated_as(const char* name, const NodeRef& value, std::span<const NodeRef> inputs, Formula formula) {
  auto rule = std::make_shared<GradientRule>();
  rule->name = name;
  rule->pull = [formula = std::move(formula)](const Node& of, const NodeRef& arriving, Wanted) {
    // With placeholders: an input may have been computed from another one, and has its own part of the gradient.
    std::unordered_map<const Node*, NodeRef> meant;
    auto stand_in = [&](const NodeRef& for_this) {
      NodeRef made = make_placeholder(for_this->dtype, for_this->shape, for_this->device);
      meant[made.get()] = for_this;
      return made;
    };
    std::vector<NodeRef> from, found;
    for (const NodeRef& input : std::span(of.inputs).subspan(1)) from.push_back(stand_in(input));
    NodeRef cotangent = stand_in(arriving), other = formula(from);
    std::vector<NodeRef> gradients = gradient(std::span(&other, 1), std::span(&cotangent, 1), from);
    for (const NodeRef& g : gradients)
      if (g) found.push_back(g);
    found = replace(found, meant);
    size_t next = 0;
    for (NodeRef& g : gradients)
      if (g) g = found[next++];
    return gradients;
  };
  return make_pullback(value, inputs, rule);
}

std::string why_no_gradient(std::span<const NodeRef> outputs, const NodeRef& input) {
  // Walk again over every edge of the graph; the first that gradients do not pass and that leads to the input tells.
  std::vector<const Node*> order = topological(outputs);
  NodeMap number;
  for (uint32_t i = 0; i < order.size(); ++i) number.insert(order[i], i);
  uint32_t at = number.find(input.get());
  if (at == NodeMap::kNone) return "does not depend on it";
  std::vector<bool> leads(order.size(), false);
  leads[at] = true;
  for (size_t i = 0; i < order.size(); ++i) {
    const Node& node = *order[i];
    for (const NodeRef& from : node.inputs) {
      if (!leads[number.find(from.get())]) continue;
      leads[i] = true;
      if (node.op == NodeOp::Pullback && !node.rule) return "depends on it only through detach()";
      bool stops = !is_float(node.dtype) || node.op == NodeOp::Bitcast;
      if (!stops || node.gives_several()) continue;
      if (node.op == NodeOp::Get) {
        const Node& of = *node.inputs[0];
        const char* what = of.op != NodeOp::ArgReduce      ? name(of.op)
                           : of.reduce_op == ReduceOp::Max ? "argmax"
                                                           : "argmin";
        return text("depends on it only through the positions that ", what, " gives, which are ", node.dtype);
      }
      std::string what = node.op == NodeOp::Scalar ? info(node.scalar_op).name : name(node.op);
      return text("depends on it only through ", what, " to ", node.dtype, ", which has no gradient");
    }
  }
  return "depends on it only through what has no gradient";
}

}  // namespace heddle
