// Reverse differentiation, from graph to graph: what comes out can be differentiated again.
//
// Conventions where a derivative does not exist, or infinity meets zero:
//   max, min over axes     the first of the elements that tie gets all of it
//   scatter (max, min)     the same; the base comes before the updates
//   maximum, minimum       a tie gives each half; beside a constant (relu, clamp) it gives zero
//   abs at 0               zero
//   sqrt at 0              infinity, but zero where the gradient that arrives is zero: what `where` left out stays out,
//                          whatever it computed. The same for log, division and all others with poles
//   floor, round, sign     zero
//   scatter (set)          of equal indices the last one, which won, gets all of it
#pragma once

#include "graph/node.h"

namespace heddle {

// Gradients of sum(outputs[i] * cotangents[i]) with respect to some nodes of the graph, in their dtype and shape. Null
// for a node that the outputs do not depend on in a differentiable way. Follows realised data to the graph that it was
// computed from, where that was kept. Iterative; linear in nodes. Only floats have gradients. Steps that repeat are
// differentiated once, as the loop that they are, unless one of the nodes is computed from others.
std::vector<NodeRef> gradient(std::span<const NodeRef> outputs, std::span<const NodeRef> cotangents,
                              std::span<const NodeRef> inputs);
// The same without looking for such steps: for parts of a larger graph.
std::vector<NodeRef> gradient_as_recorded(std::span<const NodeRef> outputs, std::span<const NodeRef> cotangents,
                                          std::span<const NodeRef> inputs);

// Why gradient() gave null for this one, in words that follow "the output ".
std::string why_no_gradient(std::span<const NodeRef> outputs, const NodeRef& input);

// Nodes that realised data leads to: itself, or the history that was kept of it. For walks that follow gradients.
std::span<const NodeRef> differentiable_inputs(const Node& node);

// Every node that gradients can reach from here, inputs before users, each once.
std::vector<const Node*> differentiable_order(std::span<const NodeRef> roots);

// gradient * slope, and zero where the gradient is zero even if the slope is infinite or NaN. Linear in the gradient as
// far as differentiation can see.
NodeRef scaled(const NodeRef& gradient, const NodeRef& slope);

// `value`, differentiated as formula(inputs): another way to compute it, which is slower and has derivatives of every
// order where the first has none. `name` says what it is.
using Formula = std::function<NodeRef(std::span<const NodeRef> inputs)>;
NodeRef differentiated_as(const char* name, const NodeRef& value, std::span<const NodeRef> inputs, Formula formula);

// The rules, one per op: gradients for node.inputs, null where `wanted` is false or there is none.
using Wanted = GradientRule::Wanted;
void scalar_gradient(const Node& node, const NodeRef& gradient, Wanted wanted, std::span<NodeRef> result);
NodeRef reduce_gradient(const Node& node, const NodeRef& gradient);
NodeRef scan_gradient(const Node& node, const NodeRef& gradient);
void scatter_gradient(const Node& node, const NodeRef& gradient, Wanted wanted, std::span<NodeRef> result);
NodeRef gather_gradient(const Node& node, const NodeRef& gradient);
NodeRef movement_gradient(const Node& node, const NodeRef& gradient);
NodeRef get_gradient(const Node& node, const NodeRef& gradient);  // for the input of the node it gets from

}  // namespace heddle
