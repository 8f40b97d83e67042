#include "compile/direct/direct.h"

#include "base/error.h"
#include "kernel/passes.h"

namespace heddle {

kernel::Kernel build_direct(const DirectKernel& direct, const Target& target) {
  kernel::Kernel built = direct.build(target);
  kernel::verify(built);
  kernel::run(built, kernel::thread_pipeline(has_exp2(target)));
  HD_ASSERT(built.level == kernel::Level::Thread && built.buffers.size() >= direct.buffers.size(), direct.name);
  return built;
}

}  // namespace heddle
