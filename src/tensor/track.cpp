#include "tensor/track.h"

#include <heddle/ops.h>

#include <unordered_set>

#include "graph/gradient.h"
#include "tensor/capture.h"

namespace heddle {
bool is_tracked(const NodeRef& value) {
  if (!value->tracked) return false;
  std::vector<const Node*> pending{value.get()};
  std::unordered_set<const Node*> seen;
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!is_float(node->dtype) || !seen.insert(node).second) continue;
    const GradientRule* leaf = leaf_rule(*node);
    if (node->op == NodeOp::Input || (leaf && !has_ended(*leaf))) return true;
    for (const NodeRef& input : differentiable_inputs(*node)) pending.push_back(input.get());
  }
  return false;
}

bool is_transformed(const NodeRef& value) {
  if (value->op == NodeOp::Buffer && !value->rule) return false;
  std::vector<const Node*> pending{value.get()};
  std::unordered_set<const Node*> seen;
  std::weak_ptr<TensorSlot> nobody;
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->op == NodeOp::Input) return true;
    if (const GradientRule* leaf = leaf_rule(*node)) {
      bool of_function = !leaf->tensor.owner_before(nobody) && !nobody.owner_before(leaf->tensor);
      if (of_function && !has_ended(*leaf)) return true;
    }
    for (const NodeRef& input : node->inputs) pending.push_back(input.get());
    if (node->rule && node->rule->computed_from) pending.push_back(node->rule->computed_from.get());
  }
  return false;
}

OpenLeaves::~OpenLeaves() {
  for (const NodeRef& leaf : leaves_) end_leaf(*leaf);
}
NodeRef OpenLeaves::add(const NodeRef& x) { return leaves_.emplace_back(make_leaf(x)); }

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

namespace {

void set_has_gradient(const Tensor& tensor, bool has) {
  if (current_capture)
    current_capture->set_has_gradient(tensor, has);
  else
    tensor.slot().has_gradient = has;
}

}  // namespace

bool has_gradient(const Tensor& tensor) {
  return current_capture ? current_capture->has_gradient(tensor) : tensor.slot().has_gradient;
}

const std::shared_ptr<TensorSlot>& gradient_slot(const Tensor& tensor) {
  TensorSlot& slot = tensor.slot();
  if (!slot.gradient) {
    NodeRef value = slot.get();
    auto made = std::make_shared<TensorSlot>();
    made->node = make_const(Scalar::of(value->dtype, 0), value->shape);
    made->born = slot.born;
    made->recorder = slot.recorder;
    slot.gradient = std::move(made);
  }
  return slot.gradient;
}

void add_gradient(const Tensor& tensor, const NodeRef& gradient) {
  Tensor total = Tensor::of_slot(gradient_slot(tensor));
  if (has_gradient(tensor))
    total += Tensor(gradient);
  else
    total.assign(Tensor(gradient));
  set_has_gradient(tensor, true);
}

void clear_gradient(const Tensor& tensor) { set_has_gradient(tensor, false); }

}  // namespace heddle
