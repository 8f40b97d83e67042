#include "tensor/together.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/recording.h"
#include "tensor/track.h"

namespace heddle {

NodeRef realized(const Tensor& tensor) {
  uint64_t version;
  return realized(tensor, version);
}

SlotsTaken::SlotsTaken(std::vector<TensorSlot*> slots, bool changes, const void* who) : who_(who ? who : this) {
  std::sort(slots.begin(), slots.end(), std::less<>());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  items_.reserve(slots.size());
  for (TensorSlot* slot : slots)
    for (;; std::this_thread::yield())
      if (NodeRef node = slot->take(who_, changes)) {
        items_.push_back({slot, std::move(node)});
        break;
      }
}
SlotsTaken::~SlotsTaken() {
  for (Item& item : items_)
    if (item.node) put_back(item);
}

SlotsTaken::Item& SlotsTaken::operator[](const TensorSlot& slot) {
  auto found = std::lower_bound(items_.begin(), items_.end(), &slot,
                                [](const Item& item, const TensorSlot* at) { return std::less<>()(item.slot, at); });
  HD_ASSERT(found != items_.end() && found->slot == &slot, "the slot was taken");
  return *found;
}
void SlotsTaken::put(Item& item, NodeRef value) {
  item.slot->put_assigned(who_, std::move(value), item.node);
  item.node = NodeRef();
}
void SlotsTaken::put_back(Item& item) { item.slot->put_back(who_, std::move(item.node)); }

namespace {

std::vector<TensorSlot*> slots_of(std::span<const Tensor> tensors) {
  std::vector<TensorSlot*> slots;
  for (const Tensor& tensor : tensors) slots.push_back(&tensor.slot());
  return slots;
}

}  // namespace

std::vector<NodeRef> values_together(std::span<const Tensor> tensors, const std::function<void()>& meanwhile) {
  std::vector<NodeRef> values;
  values.reserve(tensors.size());
  if (current_capture) {
    for (const Tensor& tensor : tensors) values.push_back(tensor.node());
    if (meanwhile) meanwhile();
    return values;
  }
  SlotsTaken taken(slots_of(tensors), false);
  for (const Tensor& tensor : tensors) values.push_back(taken[tensor.slot()].node);
  if (meanwhile) meanwhile();
  return values;
}

void assign_together(const char* op, std::span<const Tensor> tensors, std::span<const Tensor> values,
                     const std::function<void()>& meanwhile, bool may_move) {
  HD_ASSERT(tensors.size() == values.size(), "a value for each tensor");
  std::vector<NodeRef> given;
  for (size_t i = 0; i < tensors.size(); ++i) {
    given.push_back(fitting(op, values[i].node(), *tensors[i].node(), may_move));
    refuse_leak(tensors[i], given[i]);
  }
  if (current_capture) {
    for (size_t i = 0; i < tensors.size(); ++i)
      current_capture->assign(tensors[i], value_for(tensors[i].shared_slot(), given[i]));
    if (meanwhile) meanwhile();
    return;
  }
  SlotsTaken taken(slots_of(tensors), true);
  std::vector<NodeRef> leaves;
  for (size_t i = 0; i < tensors.size(); ++i) leaves.push_back(value_for(tensors[i].shared_slot(), given[i]));
  if (meanwhile) meanwhile();
  for (size_t i = tensors.size(); i-- > 0;) {
    SlotsTaken::Item& item = taken[tensors[i].slot()];
    if (item.node) taken.put(item, std::move(leaves[i]));
  }
}

std::vector<Tensor> snapshot(std::initializer_list<Tensor> tensors) {
  return snapshot(std::span<const Tensor>(tensors.begin(), tensors.size()));
}
std::vector<Tensor> snapshot(std::span<const Tensor> tensors) {
  std::vector<Tensor> result;
  for (const NodeRef& value : values_together(tensors))
    result.push_back(Tensor(value->tracked ? make_detached(value) : value));
  return result;
}

}  // namespace heddle
