// Runs a kernel of either level on host memory, slowly and exactly: every op is core/ops.h's apply().
//
// With threads > 1 a block's threads advance together, instruction by instruction. Reported as DeviceError, naming
// kernel and instruction: access outside a buffer, reading shared memory that nobody wrote, two threads touching the
// same element of shared memory without a barrier between (one of them writing), two blocks of a phase touching the
// same element of global memory (one of them writing; not checked in buffers above two million elements), a barrier or
// shuffle that not all threads (of the warp) reach. combine() by several is no conflict.
//
// Orders that other executions may change: reduce and dot go through their axis from the first element to the last,
// starting with the identity or the accumulator; blocks run in order of the grid.
#pragma once

#include "kernel/ir.h"

namespace heddle::kernel {

// `buffers`: for each argument and Temp in order of Kernel::buffers, its memory (nullptr for Shared).
// `sizes`: elements in each. `symbols`: values of Kernel::symbols. Throws ValueError when these do not fit the kernel,
// InternalError when the kernel does not verify.
void interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> sizes,
               std::span<const int64_t> symbols = {});

}  // namespace heddle::kernel
