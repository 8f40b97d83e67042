// The two lowerings, tile level to thread level.
#pragma once

#include "compile/target.h"
#include "kernel/ir.h"

namespace heddle {

// Tiles become loops over vectors: each store, reduction or dot is one nest, elementwise chains are computed inside the
// nests that use them, small tiles stay in registers, larger ones with several users go to Local scratch.
kernel::Kernel lower_simd(const kernel::Kernel& tile_kernel, const Target& target);

// Cells become blocks of threads: tiles are spread over `threads` registers, reductions use shuffles and local memory.
kernel::Kernel lower_simt(const kernel::Kernel& tile_kernel, const Target& target);

// The one of the target's machine, with the passes before and after.
kernel::Kernel lower(kernel::Kernel tile_kernel, const Target& target);

}  // namespace heddle
