// From a step of a program to something a device can launch. Kernels that are equal but for names are compiled once.
#pragma once

#include "compile/fuse.h"
#include "runtime/device.h"
#include "runtime/traffic.h"

namespace heddle {

struct CompiledStep {
  std::shared_ptr<Executable> executable;  // its first buffers are those of the step
  Traffic traffic;                         // Temp buffers included
};

// Loops with the default schedule. Throws CompileError.
CompiledStep compile_step(const Program::Step& step, Device& device);

void clear_kernel_cache();
size_t kernel_cache_size();

}  // namespace heddle
