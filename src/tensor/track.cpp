#include "tensor/track.h"

#include <heddle/ops.h>

#include <unordered_set>

#include "graph/gradient.h"

namespace heddle {
bool is_tracked(const NodeRef& value) {
  std::vector<const Node*> pending{value.get()};
  std::unordered_set<const Node*> seen;
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!is_float(node->dtype) || !seen.insert(node).second) continue;
    if (node->op == NodeOp::Input || leaf_rule(*node)) return true;
    if (node->op == NodeOp::Buffer && node->rule) return true;
    for (const NodeRef& input : differentiable_inputs(*node)) pending.push_back(input.get());
  }
  return false;
}

void set_tracked(const std::shared_ptr<TensorSlot>& slot, bool on) {
  if (slot->tracked == on) return;
  slot->tracked = on;
  Tensor tensor = Tensor::of_slot(slot);
  tensor.assign(on ? tensor : tensor.detach());
}

NodeRef value_for(const std::shared_ptr<TensorSlot>& slot, const NodeRef& value) {
  return slot->tracked ? make_leaf(value, slot) : value;
}

bool needs_history(const TensorSlot& slot, const NodeRef& value) {
  if (slot.tracked || live_leaves() == 0) return false;
  return value->op != NodeOp::Buffer && is_tracked(value);
}

NodeRef with_lineage(const NodeRef& value, const NodeRef& realised, bool history) {
  if (value == realised) return realised;
  std::shared_ptr<const GradientRule> rule;
  if (history) {
    auto made = std::make_shared<GradientRule>();
    made->name = "history";
    made->computed_from = value;
    rule = std::move(made);
  } else if (leaf_rule(*value)) {
    rule = value->rule;
  }
  if (rule == realised->rule) return realised;
  return make_buffer(realised->storage, realised->dtype, realised->shape, std::move(rule));
}

void add_gradient(TensorSlot& slot, const NodeRef& gradient) {
  if (!slot.gradient) slot.gradient = std::make_shared<TensorSlot>();
  if (!slot.gradient->node) slot.gradient->node = make_const(Scalar::of(gradient->dtype, 0), gradient->shape);
  Tensor total = Tensor::of_slot(slot.gradient);
  if (slot.has_gradient)
    total += Tensor(gradient);
  else
    total.assign(Tensor(gradient));
  slot.has_gradient = true;
}

void clear_gradient(TensorSlot& slot) { slot.has_gradient = false; }

}  // namespace heddle
