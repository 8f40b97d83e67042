#include <heddle/grad.h>

#include <unordered_map>

#include "base/error.h"
#include "graph/control.h"
#include "graph/gradient.h"
#include "graph/graph.h"
#include "tensor/build.h"
#include "tensor/recording.h"
#include "tensor/slot.h"
#include "tensor/track.h"

namespace heddle {
namespace {

NodeRef zeros_of(const NodeRef& x) { return placed_at(make_const(Scalar::of(x->dtype, 0), x->shape), x->device); }

void check_differentiable(const char* op, const char* what, const NodeRef& x) {
  if (!is_float(x->dtype)) throw DTypeError(text(op, ": ", what, " is ", describe(x), "; only floats have gradients"));
}

// What arrives at an output.
NodeRef cotangent_of(const char* op, const NodeRef& output, const std::optional<Tensor>& given,
                     const char* otherwise = "give a cotangent") {
  check_differentiable(op, "the output", output);
  if (!given) {
    if (output->shape.known_numel() != 1)
      throw ShapeError(text(op, ": the output is ", describe(output),
                            "; gradients are of one element: take a sum or a mean, or ", otherwise));
    return make_const(Scalar::of(output->dtype, 1), output->shape);
  }
  NodeRef g = given->node();
  if (g->dtype != output->dtype || !(g->shape == output->shape))
    throw ShapeError(text(op, ": a cotangent of ", describe(g), " for an output of ", describe(output)));
  check_same_device(op, g->device, output->device);
  return g;
}

// Leaves in place of x, so that nothing else can be taken for them.
TensorList as_leaves(const char* op, const TensorList& x, OpenLeaves& open) {
  TensorList leaves;
  for (const Tensor& t : x) {
    NodeRef node = t.node();
    check_differentiable(op, "an argument", node);
    leaves.push_back(Tensor(open.add(node)));
  }
  return leaves;
}

std::vector<NodeRef> or_zeros(std::vector<NodeRef> gradients, std::span<const NodeRef> inputs) {
  for (size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i]) gradients[i] = zeros_of(inputs[i]);
  return gradients;
}

}  // namespace

TensorList grad(const Tensor& output, const TensorList& inputs, const GradOptions& options) {
  NodeRef from = output.node(), cotangent = cotangent_of("grad", from, options.cotangent);
  std::vector<NodeRef> to = to_nodes(inputs);
  for (size_t i = 0; i < to.size(); ++i) {
    check_differentiable("grad", text("input ", i).c_str(), to[i]);
    if (!is_tracked(to[i]))
      throw ValueError(text("grad: input ", i, ", ", describe(to[i]),
                            ", does not require gradients: call requires_grad_() before computing with it, or "
                            "differentiate a function: grad(f)(x)"));
  }
  std::vector<NodeRef> gradients = gradient(std::span(&from, 1), std::span(&cotangent, 1), to);
  for (size_t i = 0; i < to.size(); ++i) {
    if (gradients[i]) continue;
    if (!options.allow_unused) {
      bool earlier = false;
      for (const Node* node : differentiable_order(std::span(&from, 1)))
        if (const GradientRule* leaf = leaf_rule(*node))
          earlier |= leaf != leaf_rule(*to[i]) && leaf->tensor.lock().get() == &inputs[i].slot();
      throw ValueError(text("grad: there is no gradient for input ", i, ", ", describe(to[i]), ": the output ",
                            earlier ? "was computed from an earlier value of it: it was assigned to since"
                                    : why_no_gradient(std::span(&from, 1), to[i]),
                            " (allow_unused gives zeros)"));
    }
    gradients[i] = zeros_of(to[i]);
  }
  return to_tensors(gradients);
}

Tensor grad(const Tensor& output, const Tensor& input, const GradOptions& options) {
  return grad(output, TensorList{input}, options)[0];
}

Tensor detach(const Tensor& x) { return Tensor(make_detached(x.node())); }
Tensor Tensor::detach() const { return heddle::detach(*this); }

const Tensor& Tensor::requires_grad_(bool on) const {
  NodeRef value = node();
  if (on) check_differentiable("requires_grad_", "the tensor", value);
  set_tracked(slot_, on);
  return *this;
}
bool Tensor::requires_grad() const { return is_tracked(node()); }
bool Tensor::is_leaf() const { return slot_->tracked || !requires_grad(); }

void Tensor::backward(const std::optional<Tensor>& cotangent) const {
  NodeRef from = node(), g = cotangent_of("backward", from, cotangent);
  // The leaves in the graph, each once.
  TensorList tensors;
  std::vector<NodeRef> leaves;
  std::unordered_map<const GradientRule*, bool> seen;
  for (const Node* found : differentiable_order(std::span(&from, 1))) {
    if (current_capture && current_capture->has_history(*found))
      throw CaptureError(text("backward: the output was computed from a tensor ", describe(NodeRef::share(found)),
                              " that a captured function is given or closes over, and that was computed from tensors ",
                              "which require gradients: no gradient gets there from inside. Compute it inside, or use ",
                              "its detach()"));
    const GradientRule* leaf = leaf_rule(*found);
    std::shared_ptr<TensorSlot> slot = leaf ? leaf->tensor.lock() : nullptr;
    if (!slot || !slot->tracked || !seen.try_emplace(leaf, true).second) continue;
    Tensor tensor = Tensor::of_slot(slot);
    if (NodeRef now = tensor.node(); leaf_rule(*now) != leaf)
      throw ValueError(text("backward: the output was computed from an earlier value of a tensor ", describe(now),
                            ": it was assigned to since"));
    tensors.push_back(tensor);
    leaves.push_back(NodeRef::share(found));
  }
  if (leaves.empty())
    throw ValueError(
        text("backward: the output, ", describe(from),
             ", was computed from nothing that requires gradients: call requires_grad_() before computing"));
  std::vector<NodeRef> gradients = gradient(std::span(&from, 1), std::span(&g, 1), leaves);
  for (size_t i = 0; i < leaves.size(); ++i)
    if (gradients[i]) add_gradient(tensors[i], gradients[i]);
}

std::optional<Tensor> Tensor::grad() const { return gradient_of(*this); }
void Tensor::zero_grad() const { clear_gradient(*this); }

namespace detail {

Recorded record(const ListFunction& f, const TensorList& x) {
  Recorded recorded;
  OpenLeaves open;
  recorded.inputs = as_leaves("vjp", x, open);
  // Handles of their own: what becomes of the caller's does not change what was recorded.
  recorded.values = f(recorded.inputs);
  for (const Tensor& y : recorded.values) recorded.outputs.push_back(y.clone());
  return recorded;
}

TensorList pull_back(const Recorded& recorded, const TensorList& cotangents) {
  if (cotangents.size() != recorded.outputs.size())
    throw ValueError(text("vjp: ", cotangents.size(), " cotangents for ", recorded.outputs.size(), " outputs"));
  std::vector<NodeRef> from = to_nodes(recorded.outputs), to = to_nodes(recorded.inputs), g;
  for (size_t i = 0; i < from.size(); ++i) g.push_back(cotangent_of("vjp", from[i], cotangents[i]));
  return to_tensors(or_zeros(gradient(from, g, to), to));
}

ValueAndGradient differentiate(const char* op, const ListFunction& f, const TensorList& x) {
  OpenLeaves open;
  TensorList leaves = as_leaves(op, x, open), outputs = f(leaves);
  NodeRef from = outputs.at(0).node(), one = cotangent_of(op, from, {}, "see vjp() and jacobian()");
  std::vector<NodeRef> to = to_nodes(leaves);
  return {outputs[0], to_tensors(or_zeros(gradient(std::span(&from, 1), std::span(&one, 1), to), to))};
}

ValuesAndTangents push_forward(const ListFunction& f, const TensorList& x, const TensorList& tangents) {
  if (x.size() != tangents.size())
    throw ValueError(text("jvp: ", tangents.size(), " tangents for ", x.size(), " arguments"));
  OpenLeaves open;
  TensorList leaves = as_leaves("jvp", x, open), outputs = f(leaves);
  std::vector<NodeRef> from = to_nodes(outputs), to = to_nodes(leaves), direction;
  for (size_t i = 0; i < to.size(); ++i) {
    direction.push_back(tangents[i].node());
    if (direction[i]->dtype != to[i]->dtype || !(direction[i]->shape == to[i]->shape))
      throw ShapeError(text("jvp: a tangent of ", describe(direction[i]), " for an argument of ", describe(to[i])));
  }
  for (const NodeRef& y : from) check_differentiable("jvp", "the output", y);
  Recorder recorder("jvp");  // calls gradient functions of the user's
  return {outputs, to_tensors(or_zeros(heddle::tangents(from, to, direction), from))};
}

}  // namespace detail

std::function<Tensor(const TensorList&)> custom_vjp(
    std::function<Tensor(const TensorList&)> forward,
    std::function<TensorList(const TensorList&, const Tensor&, const Tensor&)> backward) {
  auto rule = std::make_shared<GradientRule>();
  rule->name = "custom_vjp";
  rule->pull = [backward = std::move(backward)](const Node& node, const NodeRef& g, GradientRule::Wanted) {
    // What it makes is its own, also where the gradient of a function of placeholders is asked for.
    Recorder recorder(current_recorder ? current_recorder->name : "custom_vjp");
    std::vector<NodeRef> inputs(node.inputs.begin() + 1, node.inputs.end());
    return to_nodes(backward(to_tensors(inputs), Tensor(NodeRef::share(&node)), Tensor(g)));
  };
  return [forward = std::move(forward), rule](const TensorList& inputs) {
    std::vector<NodeRef> nodes = to_nodes(inputs);
    return Tensor(make_pullback(forward(inputs).node(), nodes, rule));
  };
}

}  // namespace heddle
