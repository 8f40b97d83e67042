// Phases that only copy one input into another order: what they wrote can be kept from call to call.
#pragma once

#include <vector>

#include "kernel/ir.h"

namespace heddle {

// The phase reads buffer `input` and nothing else, and alone writes the Temp buffer `temp`. What it writes follows from
// the contents of the input and from the sizes, so while these stay it need not run again.
struct PackingPhase {
  int phase, input, temp;
};

// Shown by looking at the thread-level code.
std::vector<PackingPhase> packing_phases(const kernel::Kernel& kernel);

}  // namespace heddle
