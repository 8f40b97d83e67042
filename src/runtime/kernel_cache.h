// From a step of a program to something a device can launch. Kernels that are equal but for names are compiled once.
#pragma once

#include "compile/fuse.h"
#include "runtime/device.h"

namespace heddle {

// Loops with the default schedule. The first buffers are those of the step. Throws CompileError.
std::shared_ptr<Executable> compile_step(const Program::Step& step, Device& device);
// Those of a whole program; different ones are compiled at the same time.
std::vector<std::shared_ptr<Executable>> compile_steps(std::span<const Program::Step> steps, Device& device);

void clear_kernel_cache();
size_t kernel_cache_size();

}  // namespace heddle
