#include "kernel/passes.h"

#include <array>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"

namespace heddle::kernel {
namespace {

constexpr Pass kAll[] = {{"fold", fold},
                         {"cse", cse},
                         {"dce", dce},
                         {"licm", licm},
                         {"fuse_mad", fuse_mad},
                         {"expand_math", expand_math},
                         {"unroll", unroll},
                         {"split_loops", split_loops},
                         {"narrow", narrow},
                         {"shorten_comparisons", shorten_comparisons},
                         {"expand_math_by_exp2", expand_math_by_exp2}};
constexpr Pass kTile[] = {{"fold", fold}, {"split_loops", split_loops}, {"fold", fold}, {"cse", cse}, {"licm", licm},
                          {"dce", dce}};
// Math is expanded once loops are threads' own; what it leaves behind (equal constants, common range reductions)
// is cleaned up before and after unrolling.
constexpr auto kThread = [](Pass expand) {
  return std::to_array<Pass>({{"fold", fold},
                              {"split_loops", split_loops},
                              {"fold", fold},
                              {"shorten_comparisons", shorten_comparisons},
                              expand,
                              {"fold", fold},
                              {"cse", cse},
                              {"licm", licm},
                              {"fuse_mad", fuse_mad},
                              {"unroll", unroll},
                              {"fold", fold},
                              {"cse", cse},
                              {"dce", dce},
                              {"narrow", narrow}});
};
constexpr auto kThreadByScale = kThread({"expand_math", expand_math});
constexpr auto kThreadByExp2 = kThread({"expand_math_by_exp2", expand_math_by_exp2});

}  // namespace

std::span<const Pass> all_passes() { return kAll; }
std::span<const Pass> tile_pipeline() { return kTile; }
std::span<const Pass> thread_pipeline(bool has_exp2) { return has_exp2 ? kThreadByExp2 : kThreadByScale; }

void run(Kernel& kernel, std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    pass.run(kernel);
    if (!config().check_kernels) continue;
    try {
      verify(kernel);
    } catch (const InternalError& e) {
      throw InternalError(text("after pass ", pass.name, ": ", e.what()));
    }
  }
}

}  // namespace heddle::kernel
