// What a Tensor handle points to.
#pragma once

#include <heddle/tensor.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/intern.h"
#include "graph/node.h"

namespace heddle {

// Handles may be used from several threads; the lock covers exchanging the node only. A value never changes while
// somebody has its node: who wants to write over its memory takes the node out first, and then looks whether it has the
// only reference. Nobody can get another one from the slot until the node is back.
struct TensorSlot {
  mutable SpinLock lock;
  // Null for the short time in which somebody has taken it, so that its memory can be given away.
  NodeRef node;
  // Another number after every change of the value, from the moment on at which the old one was taken out. Written
  // under the lock. Where several slots have the numbers that they had when they were read, their values were there
  // together.
  std::atomic<uint64_t> version{0};
  // Memory of the value that assign() replaced: the new value may take it over. Compared, never followed.
  const Storage* previous = nullptr;
  // The recording of a captured function (recording.h) in which the slot was made; 0: in none.
  uint64_t born = 0;
  // The Recorder (recording.h) in which it was made; 0: in none.
  int64_t recorder = 0;
  // Handles that captured functions keep. When there are no others, the variable they came from has another slot now.
  std::atomic<long> bindings{0};
  // How often a variable that had this slot while captured functions kept it was given another one.
  std::atomic<uint64_t> reassigned{0};
  // Who has taken the node; null if it is there. Written under the lock.
  std::atomic<const void*> holder{nullptr};

  // Gradients (tensor/track.h): this tensor is a leaf; what backward() has added up. Written under the lock. The slot
  // of the gradient is made once and stays.
  std::atomic<bool> tracked = false;
  std::atomic<bool> has_gradient = false;
  std::shared_ptr<TensorSlot> gradient;

  NodeRef get() const {
    for (;; std::this_thread::yield()) {
      std::lock_guard guard(lock);
      if (node) return node;
    }
  }
  NodeRef get(uint64_t& at_version) const {
    for (;; std::this_thread::yield()) {
      std::lock_guard guard(lock);
      at_version = version.load(std::memory_order_relaxed);
      if (node) return node;
    }
  }

  // Gives the slot another value, whoever has taken the old one. False: it does not require gradients as `was_tracked`
  // says.
  bool set(NodeRef value, bool was_tracked) {
    std::lock_guard guard(lock);
    if (tracked.load(std::memory_order_relaxed) != was_tracked) return false;
    replace(value);
    return true;
  }
  // The same if its value is still `before`.
  bool set_if(const NodeRef& before, NodeRef value, bool was_tracked, bool now_tracked) {
    std::lock_guard guard(lock);
    if (!(node == before) || tracked.load(std::memory_order_relaxed) != was_tracked) return false;
    replace(value);
    tracked.store(now_tracked, std::memory_order_relaxed);
    return true;
  }
  // `done` is the value `root`, computed: takes its place if that is still there.
  void set_computed(const NodeRef& root, NodeRef done) {
    std::lock_guard guard(lock);
    if (!(node == root)) return;
    std::swap(node, done);
    previous = nullptr;
  }

  // Takes the node out. Null if somebody else has it. `changes`: another value may come back.
  NodeRef take(const void* who, bool changes) {
    std::lock_guard guard(lock);
    if (!node) return {};
    holder.store(who, std::memory_order_relaxed);
    if (changes) count_change();
    return std::move(node);
  }
  // Ends what take() began: the value is this one from now on, unless somebody has assigned another one meanwhile.
  // `replaced` is the memory of the value before, where that may be taken over.
  void put(const void* who, NodeRef value, const Storage* replaced = nullptr) {
    std::lock_guard guard(lock);
    if (holder.load(std::memory_order_relaxed) != who) return;
    previous = replaced;
    give(value);
  }
  // The same with the node that was taken.
  void put_back(const void* who, NodeRef value) {
    std::lock_guard guard(lock);
    if (holder.load(std::memory_order_relaxed) == who) give(value);
  }
  // The same with one that assign() would have set. `before` is what was taken.
  void put_assigned(const void* who, NodeRef value, const NodeRef& before) {
    std::lock_guard guard(lock);
    if (holder.load(std::memory_order_relaxed) != who) return;
    if (before->op == NodeOp::Buffer) previous = before->storage.get();
    give(value);
  }

 private:
  void count_change() { version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void give(NodeRef& value) {
    node = std::move(value);
    holder.store(nullptr, std::memory_order_relaxed);
  }
  // Leaves the old node in `value`: it is not destroyed while the lock is held.
  void replace(NodeRef& value) {
    if (node && node->op == NodeOp::Buffer) previous = node->storage.get();
    std::swap(node, value);
    holder.store(nullptr, std::memory_order_relaxed);
    count_change();
  }
};

}  // namespace heddle
