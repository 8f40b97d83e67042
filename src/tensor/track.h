// Which tensors gradients are asked for, and what is kept of a graph for their sake when it is realised.
#pragma once

#include "graph/node.h"
#include "tensor/slot.h"

namespace heddle {

// Whether gradients can flow from a value to somebody who asked. Walks the graph until it finds one.
bool is_tracked(const NodeRef& value);

// Whether a value stands for something else at the moment: it depends on the argument of a function that is being
// differentiated, or on one example of vmap().
bool is_transformed(const NodeRef& value);

// Leaves in place of the arguments of a function that is differentiated. They end with this object: what remains of
// them in results keeps no history.
class OpenLeaves {
 public:
  OpenLeaves() = default;
  OpenLeaves(const OpenLeaves&) = delete;
  OpenLeaves& operator=(const OpenLeaves&) = delete;
  ~OpenLeaves();
  NodeRef add(const NodeRef& x);

 private:
  std::vector<NodeRef> leaves_;
};

// Makes the tensor's value a leaf, or an ordinary value again.
void set_tracked(const std::shared_ptr<TensorSlot>& slot, bool on);

// `value` as it has to be for a slot that is given it: a leaf if the slot requires gradients.
NodeRef value_for(const std::shared_ptr<TensorSlot>& slot, const NodeRef& value);

// `now` as the next value of a slot whose value is `before`: a constant goes where the tensor is. Throws ShapeError or
// DTypeError where it does not fit, ValueError where it is on another device and must not move.
NodeRef fitting(const char* op, const NodeRef& now, const Node& before, bool may_move = false);

// Whether a slot's value was computed from leaves, and is none itself.
inline bool has_history(const TensorSlot& slot, const NodeRef& value) {
  return !slot.tracked && (value->op != NodeOp::Buffer || value->rule) && is_tracked(value);
}

// Whether realising this value for the slot has to keep the graph. Its leaves then must not be overwritten.
bool needs_history(const TensorSlot& slot, const NodeRef& value);
// The Buffer of a value, marked with where it came from.
NodeRef with_lineage(const NodeRef& value, const NodeRef& realised, bool history);

// What backward() adds up. The slot for it, with zeros if it is new.
std::shared_ptr<TensorSlot> gradient_slot(const Tensor& tensor);
void add_gradient(const Tensor& tensor, const NodeRef& gradient);
void clear_gradient(const Tensor& tensor);
bool has_gradient(const Tensor& tensor);
std::optional<Tensor> gradient_of(const Tensor& tensor);  // a handle to it
// Whether there is a gradient that requires gradients itself, or one that was computed from leaves.
bool is_gradient_tracked(const TensorSlot& slot);
bool has_gradient_history(const TensorSlot& slot);

}  // namespace heddle
