// Running a recorded function again: memory is found and checked, then the plan's launches follow.
#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/sanitizers.h"
#include "capture/jit_core.h"
#include "tensor/together.h"
#include "tensor/track.h"

namespace heddle {
namespace {

using Kind = CapturedGraph::Root::Kind;
using Use = JitOutput::Use;

// Whether `node`, of which the caller has the reference that was its slot's, is all there is to its memory. Others may
// be on their way from the memory to the node (as make_buffer() finds nodes again), so that is looked at twice.
bool is_only_holder(const Node& node) {
  return node.refs.load(std::memory_order_acquire) == 1 && node.storage.use_count() == 1 &&
         node.refs.load(std::memory_order_acquire) == 1 && !device_buffer(node).is_shared();
}

// What the last other holder of the tensor did with it is over. Said after its handles were counted.
void acquire([[maybe_unused]] const Tensor& tensor) {
#if HD_THREAD_SANITIZER  // which does not know fences; it knows what counting handles orders
  Tensor again = tensor;
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

NodeRef new_buffer(const JitEntry& entry, const JitOutput& output,
                   const std::shared_ptr<const GradientRule>& rule = nullptr) {
  const CapturedGraph::Root& wanted = entry.graph.roots[output.root];
  const Plan& plan = entry.graph.cached->plan;
  Backend& device = plan.device_of(plan.outputs[static_cast<size_t>(wanted.index)]);
  return make_buffer(device.allocate(output.bytes), wanted.dtype, wanted.shape, rule);
}

// After so many times in which others were quicker, a call takes all that it looks at.
constexpr int kMostTries = 4;

// One call, from the first look at a slot to the last result.
class Call {
 public:
  Call(JitEntry& entry, std::span<Tensor* const> arguments, ArgumentValues& given)
      : entry_(entry), plan_(entry.graph.cached->plan), arguments_(arguments), given_(given) {}
  ~Call() {
    give_back();
    for (JitUpdate& update : entry_.updates) update.old = update.fresh = NodeRef();
    for (NodeRef& node : entry_.held) node = NodeRef();
    for (JitOutput& output : entry_.outputs) output.fresh = NodeRef();
    for (size_t i : entry_.gradients) entry_.inputs[i].gradient.reset();
    if (!drawn_) return;
    for (size_t i = 0; i < drawn_; ++i)
      entry_.generators[i].generator->take_back(entry_.generators[i].before, entry_.generators[i].draws);
  }

  bool run(std::shared_ptr<DeviceBuffer>& arena) {
    entry_.passed.clear();
    find_updated();
    for (int tries = 0; !get_values(tries);) ++tries;
    if (!same_gradients(entry_, arguments_) || has_moved()) return false;
    begin_run(*entry_.graph.cached, entry_.graph.numbers, entry_.graph.symbols, entry_.memory);
    provide_outputs();
    draw_keys();
    choose_results();
    bind_leaves();
    execute(plan_, entry_.memory, arena);
    finish();
    return true;
  }

 private:
  // Whether a tensor is on another device than when the function was recorded, which is then out of date.
  bool has_moved() const {
    auto elsewhere = [&](size_t i) { return entry_.now[i]->device != entry_.inputs[i].device; };
    auto updates = [&](const JitUpdate& update) { return elsewhere(update.input); };
    const bool moved = std::any_of(entry_.reads.begin(), entry_.reads.end(), elsewhere) ||
                       std::any_of(entry_.updates.begin(), entry_.updates.end(), updates);
    if (moved) forget_recordings();
    return moved;
  }

  const Tensor& tensor_of(const Bound& bound) const {
    switch (bound.kind) {
      case Bound::Kind::Argument: return *arguments_[bound.index];
      case Bound::Kind::Gradient: return *bound.gradient;
      default: return **bound.tensor;
    }
  }
  const Tensor& tensor_of(size_t input) const { return tensor_of(entry_.inputs[input]); }

  void find_updated() {
    for (size_t i : entry_.gradients)
      entry_.inputs[i].gradient = Tensor::of_slot(gradient_slot(*arguments_[entry_.inputs[i].index]));
    for (JitUpdate& update : entry_.updates) {
      const Bound& bound = entry_.inputs[update.input];
      if (bound.kind == Bound::Kind::Argument) given_.nodes[bound.index] = NodeRef();
      update.slot = &tensor_of(bound).slot();
    }
  }

  // What is read, and what is changed, as all of it was at one moment. False: others have changed some of it meanwhile.
  bool get_values(int tries) {
    if (tries >= kMostTries) return take_all();
    read_inputs(tries == 0);
    take_updated();
    refuse_aliases();
    if (entry_.reads.size() + entry_.updates.size() < 2 || is_of_one_moment()) return true;
    give_back();
    return false;
  }

  void read_inputs(bool first) {
    for (size_t i : entry_.reads) {
      const Bound& bound = entry_.inputs[i];
      if (first && bound.kind == Bound::Kind::Argument) {
        entry_.held[i] = std::move(given_.nodes[bound.index]);
        entry_.versions[i] = given_.versions[bound.index];
      } else {
        hold(i, realized(tensor_of(bound), entry_.versions[i]));
      }
      entry_.now[i] = entry_.held[i].get();
    }
  }
  // The recording is for arguments of this kind.
  void hold(size_t input, NodeRef value) {
    NodeRef& held = entry_.held[input];
    if (held && !(held->shape == value->shape))
      throw ValueError(text("jit: another thread makes an argument ", value->shape, " that was ", held->shape));
    held = std::move(value);
  }

  bool is_of_one_moment() const {
    return std::all_of(entry_.reads.begin(), entry_.reads.end(), [&](size_t i) {
      return tensor_of(i).slot().version.load(std::memory_order_acquire) == entry_.versions[i];
    });
  }

  // Takes the nodes of all slots that will change, or of none: another call may want some of them in another order.
  void take_updated() {
    for (size_t i = 0; i < entry_.updates.size();) {
      JitUpdate& update = entry_.updates[i];
      if (NodeRef node = update.slot->take(this, true)) {
        update.old = std::move(node);
        entry_.now[update.input] = update.old.get();
        ++i;
        if (update.old->op == NodeOp::Buffer) continue;
        give_back();
      } else {
        if (update.slot->holder.load(std::memory_order_relaxed) == this) refuse(entry_.inputs[update.input]);
        give_back();
        std::this_thread::yield();
      }
      realized(tensor_of(update.input));
      i = 0;
    }
  }

  // The same for everybody who is in the way again and again: the slots are waited for, and kept.
  bool take_all() {
    std::vector<TensorSlot*> slots;
    for (size_t i : entry_.reads) slots.push_back(&tensor_of(i).slot());
    for (const JitUpdate& update : entry_.updates) slots.push_back(update.slot);
    SlotsTaken taken(slots, !entry_.updates.empty(), this);
    for (size_t i : entry_.reads) {
      hold(i, taken[tensor_of(i).slot()].node);
      entry_.now[i] = entry_.held[i].get();
    }
    for (size_t i : entry_.reads)
      if (SlotsTaken::Item& item = taken[tensor_of(i).slot()]; item.node) taken.put_back(item);
    for (JitUpdate& update : entry_.updates) {
      update.old = std::move(taken[*update.slot].node);
      if (!update.old) refuse(entry_.inputs[update.input]);
      entry_.now[update.input] = update.old.get();
    }
    // Values are computed when nobody has to wait for that.
    for (size_t i : entry_.reads) {
      if (entry_.held[i]->op == NodeOp::Buffer) continue;
      entry_.held[i] = realize(std::span<const NodeRef>(&entry_.held[i], 1), {})[0];
      entry_.now[i] = entry_.held[i].get();
    }
    for (const JitUpdate& update : entry_.updates) {
      if (update.old->op == NodeOp::Buffer) continue;
      give_back();
      realized(tensor_of(update.input));
      return false;
    }
    return true;
  }

  void give_back() {
    for (JitUpdate& update : entry_.updates) {
      if (!update.old) continue;
      update.slot->put_back(this, std::move(update.old));
    }
  }

  [[noreturn]] void refuse(const Bound& bound) const {
    throw CaptureError(text("a tensor is given to a captured function twice (as an argument, while the function ",
                            "uses it anyway), and the function changes it",
                            bound.kind == Bound::Kind::Argument ? text(": argument tensor ", bound.index) : "",
                            ". Give it a clone() instead"));
  }

  // An assignment through one name would have to be seen through the other.
  void refuse_aliases() {
    if (entry_.updates.empty()) return;
    for (size_t k = 0; k < arguments_.size(); ++k) {
      if (arguments_[k]->slot().holder != this) continue;
      bool itself = std::any_of(entry_.updates.begin(), entry_.updates.end(), [&](const JitUpdate& update) {
        return entry_.inputs[update.input].kind == Bound::Kind::Argument && update.slot == &arguments_[k]->slot();
      });
      if (!itself) refuse({Bound::Kind::Argument, k, {}, nullptr});
    }
    if (!entry_.updates_arguments) return;
    for (size_t i : entry_.reads)
      if (entry_.inputs[i].kind == Bound::Kind::Slot && tensor_of(i).slot().holder == this) refuse(entry_.inputs[i]);
  }

  void provide_outputs() {
    for (size_t o = 0; o < entry_.outputs.size(); ++o) {
      JitOutput& output = entry_.outputs[o];
      const Node* node = nullptr;
      switch (output.use) {
        case Use::Nothing: break;
        case Use::Result: node = provide_result(output); break;
        case Use::Update: node = provide_update(output); break;
        case Use::Shared:
          output.fresh = new_buffer(entry_, output);
          node = output.fresh.get();
          break;
      }
      entry_.memory.outputs[o] = node ? &device_buffer(*node) : nullptr;
    }
  }

  const Node* provide_update(JitOutput& output) {
    JitUpdate& update = entry_.updates[output.index];
    const bool matters = update.in_place || update.old->rule;
    const bool alone = matters && is_only_holder(*update.old) && is_only_leaf(update);
    // A leaf for gradients stays one, the same one if nobody has computed with it; how another value came about is
    // history.
    std::shared_ptr<const GradientRule> rule;
    if (update.slot->tracked && alone) rule = update.old->rule;
    if (update.in_place) {
      if (alone && update.old->rule == rule) return update.old.get();
      ++entry_.report.copied_because_held;
    }
    const bool has_spare = update.spare && is_only_holder(*update.spare);
    if (has_spare && update.spare->rule == rule)
      update.fresh = std::move(update.spare);
    else if (has_spare)
      update.fresh = make_buffer(update.spare->storage, update.spare->dtype, update.spare->shape, rule);
    else
      update.fresh = new_buffer(entry_, output, rule);
    if (!rule && update.slot->tracked) update.fresh = value_for(tensor_of(update.input).shared_slot(), update.fresh);
    update.spare = NodeRef();
    return update.fresh.get();
  }
  // Whether nothing but the update's own nodes leads to the leaf that the old value is: not even what was computed from
  // it before its own value was.
  static bool is_only_leaf(const JitUpdate& update) {
    const std::shared_ptr<const GradientRule>& rule = update.old->rule;
    return !rule || rule.use_count() == (update.spare && update.spare->rule == rule ? 2 : 1);
  }

  // A tensor that earlier callers have forgotten, or a new one.
  const Node* provide_result(JitOutput& output) {
    JitRing& ring = entry_.rings[output.index];
    const CapturedGraph::Root& wanted = entry_.graph.roots[output.root];
    Tensor* chosen = nullptr;
    for (Tensor& tensor : ring.tensors) {
      if (tensor.handles() != 1) continue;
      acquire(tensor);
      chosen = &tensor;
      const NodeRef& node = tensor.slot().node;
      if (tensor.slot().tracked || tensor.slot().gradient) continue;
      if (node->op == NodeOp::Buffer && !node->rule && node->dtype == wanted.dtype && node->shape == wanted.shape &&
          is_on_device_of(wanted, *node) && is_only_holder(*node)) {
        entry_.deliver[output.index] = chosen;
        return node.get();
      }
    }
    Tensor fresh(new_buffer(entry_, output));
    if (!chosen && ring.tensors.size() < JitRing::kMost) {
      ring.tensors.push_back(fresh);
      chosen = &ring.tensors.back();
    } else {
      if (!chosen) chosen = &ring.tensors[ring.next++ % JitRing::kMost];
      *chosen = fresh;
    }
    entry_.deliver[output.index] = chosen;
    return chosen->slot().node.get();
  }

  void draw_keys() {
    for (JitGenerator& use : entry_.generators) {
      use.before = use.generator->advance(use.draws);
      ++drawn_;
    }
    if (entry_.draws.empty()) return;
    for (size_t k = 0; k < entry_.draws.size(); ++k) {
      const Bound& bound = entry_.inputs[entry_.draws[k]];
      auto use = std::find_if(entry_.generators.begin(), entry_.generators.end(),
                              [&](const JitGenerator& each) { return each.generator == bound.generator; });
      auto words = Generator::key_words({use->before.seed, use->before.draws + bound.index});
      std::copy(words.begin(), words.end(), entry_.key_words[k].begin());
    }
    for (const JitKeys& keys : entry_.keys) {
      keys.memory->change_contents();
      keys.device->copy_from_host(*keys.memory, &entry_.key_words[keys.begin], keys.memory->bytes());
    }
  }

  // Results that no launch writes, or that several want, are tensors of their own.
  void choose_results() {
    size_t needed = 0;
    for (size_t r = 0; r < entry_.results; ++r) needed += !is_own_result(entry_.graph.roots[r]);
    if (needed == 0) return;
    entry_.passed.reserve(needed);
    for (size_t r = 0; r < entry_.results; ++r) {
      if (is_own_result(entry_.graph.roots[r])) continue;
      entry_.passed.push_back(Tensor(value_of(r)));
      entry_.deliver[r] = &entry_.passed.back();
    }
  }
  bool is_own_result(const CapturedGraph::Root& root) const {
    return root.kind == Kind::Output && entry_.outputs[static_cast<size_t>(root.index)].use == Use::Result;
  }

  // The value that a root has after this call, a constant for gradients. Not for outputs that are a result of their
  // own.
  NodeRef value_of(size_t root) {
    NodeRef value = any_value_of(root);
    return value->rule ? make_detached(value) : value;
  }
  NodeRef any_value_of(size_t root) {
    const CapturedGraph::Root& source = entry_.graph.roots[root];
    if (source.kind == Kind::Data) return source.data;
    auto index = static_cast<size_t>(source.index);
    if (source.kind == Kind::Output) {
      JitOutput& output = entry_.outputs[index];
      if (output.use == Use::Shared) return output.fresh;
      JitUpdate& update = entry_.updates[output.index];
      return update.fresh ? update.fresh : update.old;
    }
    if (entry_.inputs[index].kind != Bound::Kind::Draw) return NodeRef::share(entry_.now[index]);
    auto k = static_cast<size_t>(std::find(entry_.draws.begin(), entry_.draws.end(), index) - entry_.draws.begin());
    Backend& device = backend_of(entry_.inputs[index].device);
    std::shared_ptr<DeviceBuffer> copy = device.allocate(4 * sizeof(uint32_t));
    device.copy_from_host(*copy, entry_.key_words[k].data(), 4 * sizeof(uint32_t));
    return make_buffer(std::move(copy), source.dtype, source.shape);
  }

  void bind_leaves() {
    for (size_t l = 0; l < entry_.graph.leaves.size(); ++l) {
      const CapturedGraph::Leaf& leaf = entry_.graph.leaves[l];
      if (leaf.input < 0) continue;  // always the same
      auto input = static_cast<size_t>(leaf.input);
      if (entry_.inputs[input].kind == Bound::Kind::Draw) continue;
      bind_leaf(plan_, l, *entry_.now[input], entry_.memory);
    }
  }

  void finish() {
    for (JitUpdate& update : entry_.updates) {
      const CapturedGraph::Root& root = entry_.graph.roots[update.root];
      if (root.kind == Kind::Output && entry_.outputs[static_cast<size_t>(root.index)].use == Use::Update) continue;
      update.fresh = value_for(tensor_of(update.input).shared_slot(), value_of(update.root));
    }
    // Before the gradients themselves can be seen.
    for (const GradientFlag& flag : entry_.gradient_flags) {
      TensorSlot& slot = flag.slot(arguments_);
      std::lock_guard guard(slot.lock);
      slot.has_gradient = flag.after;
    }
    for (JitUpdate& update : entry_.updates) {
      bool moved = static_cast<bool>(update.fresh);
      update.slot->put(this, moved ? std::move(update.fresh) : std::move(update.old));
      if (moved && update.old && is_only_holder(*update.old) && keeps_spare(update))
        update.spare = std::move(update.old);
      update.old = NodeRef();
    }
    drawn_ = 0;
  }
  bool keeps_spare(const JitUpdate& update) const {
    const CapturedGraph::Root& root = entry_.graph.roots[update.root];
    return !update.in_place && !entry_.symbolic && root.kind == Kind::Output && update.old->dtype == root.dtype &&
           update.old->shape == root.shape && is_on_device_of(root, *update.old) &&
           entry_.outputs[static_cast<size_t>(root.index)].use == Use::Update;
  }

  bool is_on_device_of(const CapturedGraph::Root& root, const Node& node) const {
    return node.device == plan_.device_of(plan_.outputs[static_cast<size_t>(root.index)]).number();
  }

  JitEntry& entry_;
  const Plan& plan_;
  std::span<Tensor* const> arguments_;
  ArgumentValues& given_;
  size_t drawn_ = 0;  // generators that are ahead of what is done
};

}  // namespace

bool same_gradients(const JitEntry& entry, std::span<Tensor* const> arguments) {
  return std::all_of(entry.gradient_flags.begin(), entry.gradient_flags.end(), [&](const GradientFlag& flag) {
    if (!flag.before) return true;
    TensorSlot& slot = flag.slot(arguments);
    std::lock_guard guard(slot.lock);  // add_gradient() may be in between
    return *flag.before == slot.has_gradient;
  });
}

namespace {

// A value that has no history will have none; one that has may lose it, with leaves that end.
bool has_history_now(Bound& bound, const TensorSlot& slot) {
  if (bound.without_history && *bound.without_history == slot.version.load(std::memory_order_acquire)) return false;
  uint64_t version;
  NodeRef value = slot.get(version);
  if (has_history(slot, value)) return true;
  bound.without_history = version;
  return false;
}

}  // namespace

bool is_out_of_date(JitEntry& entry, std::span<Tensor* const> arguments) {
  // Those whose values the plan does not need may have decided what was recorded, too.
  return std::any_of(entry.inputs.begin(), entry.inputs.end(), [&](Bound& bound) {
    if (bound.kind == Bound::Kind::Gradient) {
      const TensorSlot& slot = arguments[bound.index]->slot();
      return is_gradient_tracked(slot) != bound.tracked || (bound.asked && has_gradient_history(slot) != bound.history);
    }
    if (bound.kind != Bound::Kind::Slot) return false;
    const TensorSlot& slot = (*bound.tensor)->slot();
    if (bound.tensor->lost_a_handle() || slot.tracked.load(std::memory_order_relaxed) != bound.tracked) return true;
    return bound.asked && has_history_now(bound, slot) != bound.history;
  });
}

bool replay(JitEntry& entry, std::span<Tensor* const> arguments, ArgumentValues& given,
            std::shared_ptr<DeviceBuffer>& arena) {
  return Call(entry, arguments, given).run(arena);
}

}  // namespace heddle
