#include <heddle/ops.h>
#include <heddle/tensor.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/fork.h"
#include "graph/graph.h"
#include "runtime/plan.h"
#include "tensor/build.h"
#include "tensor/recording.h"
#include "tensor/slot.h"
#include "tensor/together.h"
#include "tensor/track.h"
#include "tune/tune.h"

namespace heddle {
namespace {
// Makes HEDDLE_TUNE work: runtime/ knows nothing of tune/.
[[maybe_unused]] const bool tuning = (enable_tuning(), true);
}  // namespace

Tensor::Tensor() : Tensor(make_const(Scalar::of(kF32, 0))) {}

Tensor::Tensor(const NodeRef& node) : slot_(std::make_shared<TensorSlot>()) {
  slot_->node = node;
  if (current_capture || current_recorder) [[unlikely]]
    note_birth(slot_);
}

Tensor& Tensor::operator=(const Tensor& other) & {
  if (slot_ == other.slot_) return *this;
  // Variables of a function that is being recorded are copies that end with it.
  if (current_capture)
    current_capture->note_rebinding(slot_, other.slot_);
  else if (slot_->bindings.load(std::memory_order_relaxed) > 0)
    slot_->reassigned.fetch_add(1, std::memory_order_relaxed);
  slot_ = other.slot_;
  return *this;
}

Tensor Tensor::of_slot(const std::shared_ptr<TensorSlot>& slot) {
  Tensor tensor(NodeRef{});
  tensor.slot_ = slot;
  return tensor;
}

NodeRef Tensor::node() const {
  if (current_recorder) [[unlikely]] {
    NodeRef value = current_capture ? current_capture->value(*this) : slot_->get();
    current_recorder->note_read(*slot_, value);
    return value;
  }
  if (current_capture) [[unlikely]]
    return current_capture->value(*this);
  return slot_->get();
}

Dims Tensor::shape() const {
  NodeRef n = node();
  Dims result;
  for (const Expr& e : n->shape) result.push_back(known_size(e));
  if (!n->shape.is_static()) result.recorded = std::make_shared<const Shape>(n->shape);
  return result;
}
int64_t Tensor::size(int64_t axis) const {
  NodeRef n = node();
  return known_size(n->shape[static_cast<size_t>(normalize_axis("size", axis, n->shape.rank()))]);
}
int Tensor::rank() const { return node()->shape.rank(); }
int64_t Tensor::numel() const { return node()->shape.known_numel(); }
DType Tensor::dtype() const { return node()->dtype; }
bool Tensor::is_realized() const { return node()->op == NodeOp::Buffer; }

const Tensor& Tensor::realize(const std::source_location& where) const {
  refuse_in_capture("realize()", *this, &where);
  if (!is_realized()) heddle::realize(std::span<const Tensor>(this, 1));
  return *this;
}

namespace {

// The nodes of some slots on their way through realize(). A slot whose old memory may be reused gives its node up
// until the end, because only then nobody else can be holding it.
class Taken {
 public:
  explicit Taken(std::span<const Tensor> tensors) : roots(tensors.size()) {
    std::vector<size_t> order(tensors.size());
    for (const Tensor& t : tensors) slots_.push_back({&t.slot()});
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    // By address: two threads that take some of the same slots do so in the same order, so neither waits in a circle.
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return slots_[a].slot != slots_[b].slot ? std::less<>()(slots_[a].slot, slots_[b].slot) : a < b;
    });
    donatable.reserve(tensors.size());  // nothing below can fail half-way
    bool twice = false;
    for (size_t i = 0; i < order.size(); ++i) {
      bool again = i > 0 && slots_[order[i]].slot == slots_[order[i - 1]].slot;
      if (again)
        roots[order[i]] = roots[order[i - 1]];
      else
        take(slots_[order[i]], roots[order[i]]);
      twice = twice || again;
    }
    if (twice) donatable.clear();  // somebody holds a node besides its slot
  }
  ~Taken() {
    for (size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].taken) slots_[i].slot->put_back(this, roots[i]);
  }
  // A slot that was assigned to meanwhile keeps what it has.
  void finish(const std::vector<NodeRef>& done) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (std::exchange(slots_[i].taken, false))
        slots_[i].slot->put(this, done[i]);
      else
        slots_[i].slot->set_computed(roots[i], done[i]);
    }
  }
  uint64_t version(size_t i) const { return slots_[i].version; }

  std::vector<NodeRef> roots;
  std::vector<const Storage*> donatable;

 private:
  struct Slot {
    TensorSlot* slot;
    uint64_t version = 0;
    bool taken = false;
  };
  void take(Slot& of, NodeRef& root) {
    TensorSlot& slot = *of.slot;
    for (;; std::this_thread::yield()) {
      std::lock_guard guard(slot.lock);
      if (!slot.node) continue;  // another thread has it
      of.version = slot.version.load(std::memory_order_relaxed);
      if (slot.previous) {
        donatable.push_back(slot.previous);
        slot.holder.store(this, std::memory_order_relaxed);
        root = std::move(slot.node);
        of.taken = true;
      } else {
        root = slot.node;
      }
      return;
    }
  }
  std::vector<Slot> slots_;
};

// Gives the values; `version` is the first slot's number for its value.
std::vector<NodeRef> realize_slots(std::span<const Tensor> tensors, uint64_t* version = nullptr) {
  NoFork whole;  // a slot that has given its node up has it again in every child
  Taken taken(tensors);
  // A graph that is kept for gradients needs the data that it starts from.
  std::vector<bool> history;
  for (size_t i = 0; i < tensors.size(); ++i) {
    history.push_back(needs_history(tensors[i].slot(), taken.roots[i]));
    if (history[i]) taken.donatable.clear();
  }
  std::vector<NodeRef> done = heddle::realize(taken.roots, taken.donatable);
  for (size_t i = 0; i < done.size(); ++i) done[i] = with_lineage(taken.roots[i], done[i], history[i]);
  taken.finish(done);
  if (version) *version = taken.version(0);
  return done;
}

}  // namespace

NodeRef realized(const Tensor& tensor, uint64_t& version) {
  NodeRef now = tensor.slot().get(version);
  if (now->op == NodeOp::Buffer) return now;
  now = NodeRef();  // its memory may be given away
  return std::move(realize_slots(std::span(&tensor, 1), &version)[0]);
}

std::vector<NodeRef> realized_together(std::span<const Tensor> tensors, const std::function<void()>& meanwhile) {
  for (const Tensor& tensor : tensors) refuse_in_capture("realize()", tensor);
  std::vector<NodeRef> roots = values_together(tensors, meanwhile), done = heddle::realize(roots, {});
  for (size_t i = 0; i < done.size(); ++i) {
    TensorSlot& slot = tensors[i].slot();
    done[i] = with_lineage(roots[i], done[i], needs_history(slot, roots[i]));
    slot.set_computed(roots[i], done[i]);
  }
  return done;
}

void realize(std::span<const Tensor> tensors, const std::source_location& where) {
  for (const Tensor& tensor : tensors) refuse_in_capture("realize()", tensor, &where);
  realize_slots(tensors);
}
void realize(std::initializer_list<Tensor> tensors, const std::source_location& where) {
  realize(std::span<const Tensor>(tensors.begin(), tensors.size()), where);
}

NodeRef fitting(const char* op, const NodeRef& value, const Node& before, bool may_move) {
  const Node& now = *value;
  bool fits = now.shape.size() == before.shape.size();
  for (size_t i = 0; fits && i < now.shape.size(); ++i) fits = same_size(now.shape[i], before.shape[i]);
  if (!fits)
    throw ShapeError(text(op, ": a value of shape ", now.shape, " does not fit a tensor of shape ", before.shape));
  if (now.dtype != before.dtype)
    throw DTypeError(text(op, ": a value of dtype ", now.dtype, " does not fit a tensor of dtype ", before.dtype,
                          "; cast it first"));
  if (!may_move && now.device != kAnywhere && before.device != kAnywhere && now.device != before.device)
    throw ValueError(text(op, ": a value on ", device_name(now.device), " does not fit a tensor on ",
                          device_name(before.device), "; bring it there with to()"));
  return placed_at(value, before.device);
}

void Tensor::assign(const Tensor& value) {
  NodeRef given = fitting("assign", value.node(), *node());
  refuse_leak(*this, given);
  if (current_capture) return current_capture->assign(*this, value_for(slot_, given));
  for (bool tracked = slot_->tracked; !slot_->set(tracked ? make_leaf(given, slot_) : given, tracked);)
    tracked = slot_->tracked;
}

void update(const char* op, const Tensor& tensor, const std::function<Tensor(const Tensor& now)>& f) {
  if (current_capture) {
    NodeRef now = fitting(op, f(tensor).node(), *tensor.node());
    refuse_leak(tensor, now);
    return current_capture->assign(tensor, value_for(tensor.shared_slot(), now));
  }
  TensorSlot& slot = tensor.slot();
  for (;;) {
    bool tracked = slot.tracked;
    NodeRef before = slot.get(), now = fitting(op, f(Tensor(before)).node(), *before);
    refuse_leak(tensor, now);
    if (tracked) now = make_leaf(now, tensor.shared_slot());
    if (slot.set_if(before, std::move(now), tracked, tracked)) return;
  }
}

#define HD_COMPOUND(symbol, function)                                                           \
  Tensor& Tensor::operator symbol(const Operand & other)& {                                     \
    update("operator" #symbol, *this, [&](const Tensor& now) { return function(now, other); }); \
    return *this;                                                                               \
  }
HD_COMPOUND(+=, add)
HD_COMPOUND(-=, sub)
HD_COMPOUND(*=, mul)
HD_COMPOUND(/=, div)
#undef HD_COMPOUND

namespace {
std::vector<NodeRef> nodes_of(std::initializer_list<Tensor> tensors) {
  std::vector<NodeRef> nodes;
  for (const Tensor& t : tensors) nodes.push_back(t.node());
  return nodes;
}
}  // namespace
std::string print_graph(std::initializer_list<Tensor> tensors) { return print_graph(nodes_of(tensors)); }
std::string print_dot(std::initializer_list<Tensor> tensors) { return print_dot(nodes_of(tensors)); }

}  // namespace heddle
