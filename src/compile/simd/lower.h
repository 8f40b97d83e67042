// Tile level to thread level for machines with vectors.
#pragma once

#include "compile/target/target.h"
#include "kernel/ir.h"

namespace heddle {

// Tiles become loops over vectors: each store, reduction or dot is one nest, elementwise chains are computed inside the
// nests that use them, small tiles stay in registers, larger ones with several users go to Shared scratch.
kernel::Kernel lower_simd(const kernel::Kernel& tile_kernel, const Target& target);

}  // namespace heddle
