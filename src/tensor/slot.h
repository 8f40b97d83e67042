// What a Tensor handle points to.
#pragma once

#include <heddle/tensor.h>

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
