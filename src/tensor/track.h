// Which tensors gradients are asked for, and what is kept of a graph for their sake when it is realised.
#pragma once

#include "graph/node.h"
#include "tensor/slot.h"

namespace heddle {

// Whether gradients can flow from a value to somebody who asked: a leaf, or the argument of a captured function. Walks
// the graph until it finds one.
bool is_tracked(const NodeRef& value);

// Makes the tensor's value a leaf, or an ordinary value again.
void set_tracked(const std::shared_ptr<TensorSlot>& slot, bool on);

// `value` as it has to be for a slot that is given it: a leaf if the slot requires gradients.
NodeRef value_for(const std::shared_ptr<TensorSlot>& slot, const NodeRef& value);

// Whether realising this value for the slot has to keep the graph. Its leaves then must not be overwritten.
bool needs_history(const TensorSlot& slot, const NodeRef& value);
// The Buffer of a value, marked with where it came from.
NodeRef with_lineage(const NodeRef& value, const NodeRef& realised, bool history);

// What backward() adds up.
void add_gradient(TensorSlot& slot, const NodeRef& gradient);
void clear_gradient(TensorSlot& slot);

}  // namespace heddle
