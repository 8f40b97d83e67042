// Kernels that are not made of Loops: those built directly at thread level, because the work depends on data, and those
// that somebody wrote.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/structure.h"
#include "compile/target/target.h"
#include "kernel/ir.h"

namespace heddle {

// No Loops begins with this word.
inline constexpr uint64_t kDirect = ~uint64_t{0};

struct DirectKernel {
  std::string name;
  std::string description;                             // for people
  Structure structure;                                 // kDirect, then what decides the code, but for the target
  std::vector<kernel::Buffer> buffers;                 // In, Out; the kernel may have Temp and Shared ones after these
  std::function<kernel::Kernel(const Target&)> build;  // thread level, not yet through the passes
  std::function<kernel::Kernel(const Target&)> tiles;  // or this, at tile level
};

// Built, through the passes for threads, and checked. Throws CompileError.
kernel::Kernel build_direct(const DirectKernel& direct, const Target& target);

}  // namespace heddle
