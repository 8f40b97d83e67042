// From Loops to something a device can launch. Kernels that are equal but for names are compiled once.
#pragma once

#include "compile/loops.h"
#include "runtime/device.h"
#include "runtime/traffic.h"

namespace heddle {

struct CompiledLoops {
  std::shared_ptr<Executable> executable;  // its first buffers are those of the Loops
  Traffic traffic;                         // Temp buffers included
};

// With the default schedule. Throws CompileError.
CompiledLoops compile_loops(const Loops& loops, Device& device);

void clear_kernel_cache();
size_t kernel_cache_size();

}  // namespace heddle
