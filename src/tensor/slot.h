// What a Tensor handle points to.
#pragma once

#include <heddle/tensor.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/intern.h"
#include "graph/node.h"

namespace heddle {

// Handles may be used from several threads; the lock covers exchanging the node only.
struct TensorSlot {
  mutable SpinLock lock;
  // Null for the short time in which realize() holds it alone, so that its memory can be given away.
  NodeRef node;
  // Memory of the value that assign() replaced: the new value may take it over. Compared, never followed.
  const Storage* previous = nullptr;
  // The recording of a captured function (capture.h) in which the slot was made; 0: in none.
  uint64_t born = 0;
  // The Recorder (capture.h) in which it was made; 0: in none.
  int64_t recorder = 0;
  // Handles that captured functions keep. When there are no others, the variable they came from has another slot now.
  std::atomic<long> bindings{0};
  // How often a variable that had this slot while captured functions kept it was given another one.
  std::atomic<uint64_t> reassigned{0};
  // Who has taken the node to update it in place. Only compared, by the one who has set it.
  std::atomic<const void*> holder{nullptr};

  // Gradients (tensor/track.h): this tensor is a leaf; what backward() has added up.
  bool tracked = false;
  bool has_gradient = false;
  std::shared_ptr<TensorSlot> gradient;

  NodeRef get() const {
    for (;; std::this_thread::yield()) {
      std::lock_guard guard(lock);
      if (node) return node;
    }
  }
};

}  // namespace heddle
