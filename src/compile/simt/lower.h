// Tile level to thread level for machines with blocks of threads.
#pragma once

#include "compile/target/target.h"
#include "kernel/ir.h"

namespace heddle {

// Tiles are spread over `threads` registers, reductions use shuffles and shared memory.
kernel::Kernel lower_simt(const kernel::Kernel& tile_kernel, const Target& target);

}  // namespace heddle
