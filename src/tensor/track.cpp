#include "tensor/track.h"

#include <heddle/ops.h>

#include <unordered_set>

#include "base/error.h"
#include "graph/gradient.h"
#include "tensor/build.h"
#include "tensor/recording.h"

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
    if ((leaf && !has_ended(*leaf)) || (current_capture && current_capture->has_history(*node))) return true;
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
  if (current_capture) {
    if (slot->tracked == on) return;
    Tensor tensor = Tensor::of_slot(slot);
    if (!current_capture->is_inside(tensor))
      throw CaptureError(text("requires_grad_(", on ? "" : "false", ") of a tensor ", slot->get()->dtype,
                              slot->get()->shape, " that was made outside of the function which jit() captures at ",
                              current_capture->where, ": do that outside, or use detach() or a copy inside"));
    slot->tracked = on;
    return tensor.assign(on ? tensor : tensor.detach());
  }
  while (slot->tracked != on) {
    NodeRef before = slot->get();
    if (slot->set_if(before, on ? make_leaf(before, slot) : make_detached(before), !on, on)) return;
  }
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
  if (current_capture) return current_capture->set_has_gradient(tensor, has);
  std::lock_guard guard(tensor.slot().lock);
  tensor.slot().has_gradient = has;
}

}  // namespace

bool has_gradient(const Tensor& tensor) {
  return current_capture ? current_capture->has_gradient(tensor) : tensor.slot().has_gradient.load();
}

std::optional<Tensor> gradient_of(const Tensor& tensor) {
  if (!has_gradient(tensor)) return {};
  std::shared_ptr<TensorSlot> total;
  {
    std::lock_guard guard(tensor.slot().lock);
    total = tensor.slot().gradient;
  }
  return Tensor::of_slot(total);
}

bool is_gradient_tracked(const TensorSlot& slot) {
  if (!slot.has_gradient) return false;
  std::lock_guard guard(slot.lock);
  return slot.gradient->tracked;
}

bool has_gradient_history(const TensorSlot& slot) {
  if (!slot.has_gradient) return false;
  std::shared_ptr<TensorSlot> total;
  {
    std::lock_guard guard(slot.lock);
    total = slot.gradient;
  }
  return has_history(*total, total->get());
}

std::shared_ptr<TensorSlot> gradient_slot(const Tensor& tensor) {
  TensorSlot& slot = tensor.slot();
  {
    std::lock_guard guard(slot.lock);
    if (slot.gradient) return slot.gradient;
  }
  NodeRef like = slot.get();
  auto fresh = std::make_shared<TensorSlot>();
  fresh->node = placed_at(make_const(Scalar::of(like->dtype, 0), like->shape), like->device);
  fresh->born = slot.born;
  fresh->recorder = slot.recorder;
  std::lock_guard guard(slot.lock);
  if (!slot.gradient) slot.gradient = fresh;
  return slot.gradient;
}

void add_gradient(const Tensor& tensor, const NodeRef& given) {
  TensorSlot& slot = tensor.slot();
  const NodeRef gradient = placed_at(given, tensor.node()->device);
  std::shared_ptr<TensorSlot> total = gradient_slot(tensor);
  if (current_recorder) current_recorder->refuse_assignment(*total, gradient);
  if (current_capture) {
    Tensor sum = Tensor::of_slot(total), more(gradient);
    sum.assign(has_gradient(tensor) ? sum + more : more);
    return set_has_gradient(tensor, true);
  }
  for (;;) {
    bool has = slot.has_gradient, tracked = total->tracked;
    NodeRef before = total->get();
    NodeRef now = has ? (Tensor(before) + Tensor(gradient)).node() : gradient;
    if (tracked) now = make_leaf(now, total);
    std::lock_guard guard(slot.lock);
    if (slot.has_gradient != has || !total->set_if(before, std::move(now), tracked, tracked)) continue;
    slot.has_gradient = true;
    return;
  }
}

void clear_gradient(const Tensor& tensor) { set_has_gradient(tensor, false); }

}  // namespace heddle
