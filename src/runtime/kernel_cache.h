// From a step of a program to something a device can launch. Kernels that are equal but for names are compiled once.
#pragma once

#include <functional>
#include <optional>

#include "compile/fuse/fuse.h"
#include "compile/schedule/schedule.h"
#include "runtime/device.h"

namespace heddle {

// With the tuned schedule of the disk cache, else the default one. The first buffers are those of the step. Code comes
// from the disk cache if it is there, and goes there if not. A kernel that cannot be lowered, that kernel::verify()
// refuses or that the device cannot compile gets a plainer schedule, with a warning. Throws CompileError, and
// InternalError where no schedule helps.
std::shared_ptr<Executable> compile_step(const Program::Step& step, Backend& device);
// Those of a whole program; different ones are compiled at the same time.
std::vector<std::shared_ptr<Executable>> compile_steps(std::span<const Program::Step> steps, Backend& device);

// Searches for a schedule of a step, with so many trials; nothing: the default one is to be used. Asked for kernels
// without a tuned schedule while HEDDLE_TUNE is set. tune/ provides it.
using Tuner = std::optional<Schedule> (*)(const Program::Step& step, Backend& device, int trials);
void set_tuner(Tuner search);

// Sees every step for which a program wants a kernel, cached or not. Called from several threads. Null: nobody looks.
using StepObserver = std::function<void(const Program::Step& step, Backend& device)>;
void observe_steps(StepObserver observer);

// Kernels of this process that needed a plainer schedule.
size_t replaced_schedules();

void clear_kernel_cache();
size_t kernel_cache_size();

}  // namespace heddle
