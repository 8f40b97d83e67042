#include "compile/lower.h"

#include "compile/simd/lower.h"
#include "compile/simt/lower.h"
#include "kernel/passes.h"

namespace heddle {

kernel::Kernel lower(kernel::Kernel tile_kernel, const Target& target) {
  kernel::run(tile_kernel, kernel::tile_pipeline());
  kernel::Kernel threads =
      target.machine == Machine::Simd ? lower_simd(tile_kernel, target) : lower_simt(tile_kernel, target);
  kernel::run(threads, kernel::thread_pipeline(has_exp2(target)));
  return threads;
}

}  // namespace heddle
