// Kernels for NVIDIA GPUs, as PTX. For backend/cuda.
#pragma once

#include <cstdint>
#include <string>

#include "compile/target/target.h"
#include "kernel/ir.h"

namespace heddle {

// Throws ValueError for what is no name of such a machine.
Target nvidia_target(const std::string& arch = "sm_90a");

// PTX with one entry per phase, called entry_name(); a block of threads runs one block of the grid. Parameters: the
// buffers but Shared ones, the symbols, of a kernel with rounds the first block, and the descriptors of
// kernel::tensor_maps(). Launched with shared_bytes() of dynamic shared memory. With `many`, entries whose names end in
// "_many" run several segments (at most kMostSegments): parameters are a table and its number of rows. A row holds, for
// each phase, the number of blocks in the rows before; then what the plain entry takes.
std::string ptx(const kernel::Kernel& kernel, const Target& target, bool many = false);
// Whether entries made for the target wait themselves for the kernels before them, so that a launch may be started
// before these have ended.
bool starts_early(const Target& target);
std::string entry_name(const kernel::Kernel& kernel, int phase);
int64_t shared_bytes(const kernel::Kernel& kernel);  // shared memory of a block
inline constexpr size_t kMostSegments = 256;

}  // namespace heddle
