// A guess at how long a phase takes, made once when a kernel is compiled: is it worth waking other threads for?
#pragma once

#include "kernel/ir.h"

namespace heddle {

// Nanoseconds one cell takes on one core when its data is in the nearer caches. Right within a factor of a few.
double cell_nanoseconds(const kernel::Kernel& kernel, const kernel::Phase& phase);

}  // namespace heddle
