// May an input and an output of a kernel be the same memory?
#pragma once

#include "kernel/ir.h"

namespace heddle {

// True if every element of buffer `in` is last read before the element at the same position of `out` is written,
// shown by looking at the thread-level code: each load stands in one block with a later store to the same address, of a
// value computed from it. Relies on every element of an output being stored once.
bool may_share_memory(const kernel::Kernel& kernel, int in, int out);

}  // namespace heddle
