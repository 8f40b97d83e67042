// Values of slots that do not change under whoever reads them, and several slots at one time. Private to src/.
#pragma once

#include <heddle/tensor.h>

#include <functional>

#include "base/fork.h"
#include "tensor/slot.h"

namespace heddle {

// The value that the tensor has now, as a Buffer. The slot keeps it too, unless it has another value by then.
NodeRef realized(const Tensor& tensor);
// The same, with the slot's number for the value.
NodeRef realized(const Tensor& tensor, uint64_t& version);

// Gives the tensor the value `f(its value)`. A value that others give it meanwhile is not lost: then f is called again,
// with that.
void update(const char* op, const Tensor& tensor, const std::function<Tensor(const Tensor& now)>& f);

// Takes the nodes of several slots out at one time, and puts them back at its end. Waits for slots that somebody else
// has; all who wait while they have others go by the slots' addresses, so that there is no circle.
class SlotsTaken {
 public:
  struct Item {
    TensorSlot* slot;
    NodeRef node;
  };
  // `changes`: other values may be put into the slots. `who`: as whose they count until then; null: this object's.
  SlotsTaken(std::vector<TensorSlot*> slots, bool changes, const void* who = nullptr);
  ~SlotsTaken();
  SlotsTaken(const SlotsTaken&) = delete;
  SlotsTaken& operator=(const SlotsTaken&) = delete;

  Item& operator[](const TensorSlot& slot);  // one of those that were given
  // Puts another value into the slot.
  void put(Item& item, NodeRef value);
  void put_back(Item& item);

 private:
  NoFork whole_;  // a child could not put back what it has
  const void* who_;
  std::vector<Item> items_;  // each slot once, by address
};

// The values of all tensors at one moment: never one from before and one from after a call of a captured function, or
// an assign_together(), that changes both. `meanwhile` is called at that moment; it must not touch the tensors.
std::vector<NodeRef> values_together(std::span<const Tensor> tensors, const std::function<void()>& meanwhile = {});
// The same, computed. The slots keep the computed values too, unless they have others by then.
std::vector<NodeRef> realized_together(std::span<const Tensor> tensors, const std::function<void()>& meanwhile = {});
// Takes all tensors to a device, at one moment, and computes them there. They stay the tensors that they are.
void move_together(std::span<const Tensor> tensors, const Device& device);
// Gives all tensors their new values at one moment. Where a tensor is named twice, the last value counts. With
// `may_move` a tensor goes to the device of its value.
void assign_together(const char* op, std::span<const Tensor> tensors, std::span<const Tensor> values,
                     const std::function<void()>& meanwhile = {}, bool may_move = false);

}  // namespace heddle
