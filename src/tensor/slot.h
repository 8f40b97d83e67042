// What a Tensor handle points to.
#pragma once

#include <heddle/tensor.h>

#include <mutex>

#include "base/intern.h"
#include "graph/node.h"

namespace heddle {

// Handles may be used from several threads; the lock covers exchanging the node only.
struct TensorSlot {
  mutable SpinLock lock;
  NodeRef node;
  // Memory of the value that assign() replaced: the new value may take it over. Compared, never followed.
  const Storage* previous = nullptr;

  NodeRef get() const {
    std::lock_guard guard(lock);
    return node;
  }
};

}  // namespace heddle
