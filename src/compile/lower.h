// Tile level to thread level.
#pragma once

#include "compile/target/target.h"
#include "kernel/ir.h"

namespace heddle {

// The lowering for the target's machine, with the passes before and after.
kernel::Kernel lower(kernel::Kernel tile_kernel, const Target& target);

}  // namespace heddle
