// Passes over kernel IR. Each edits in place, works at either level, and leaves a kernel that verifies and computes
// the same values; any order, and none, is right. One file per pass.
#pragma once

#include <span>
#include <string_view>

#include "kernel/ir.h"

namespace heddle::kernel {

void fold(Kernel& kernel);         // constants and identities (x * 1, where(true, a, b), cast of cast)
void cse(Kernel& kernel);          // equal instructions once (loads too, where no store can lie between)
void dce(Kernel& kernel);          // what nothing uses; stores to Shared and Temp buffers that nobody reads
void licm(Kernel& kernel);         // what does not change out of loops
void fuse_mad(Kernel& kernel);     // sum + a * b in loops -> fma, for floats (the only pass that changes rounding)
void expand_math(Kernel& kernel);  // Math ops -> Native ops, small floats computed in f32; see math.h
void expand_math_by_exp2(Kernel& kernel);  // the same for machines that have exp2 of f32, but not `scale`
void unroll(Kernel& kernel);               // loops of constant small extent, and those that ask for it
void split_loops(Kernel& kernel);          // of one thread, where the guards of what they store change their value
void shorten_comparisons(Kernel& kernel);  // of indices that fit into 32 bits
void narrow(Kernel& kernel);               // threads of a block load only what they store, where that is all it is for

struct Pass {
  std::string_view name;
  void (*run)(Kernel&);
};
std::span<const Pass> all_passes();
// What the compiler runs before lowering to threads, and after; `has_exp2`: with expand_math_by_exp2().
std::span<const Pass> tile_pipeline();
std::span<const Pass> thread_pipeline(bool has_exp2 = false);
// Runs passes in order; verifies after each when config().check_kernels.
void run(Kernel& kernel, std::span<const Pass> passes);

}  // namespace heddle::kernel
