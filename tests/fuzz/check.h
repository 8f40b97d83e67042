// One random graph, run in one of many ways and compared with the reference evaluator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::fuzz {

// What a graph goes through. Tile to Ptx use random schedules, Passes and Jit random sequences of passes as well.
enum class Way {
  Realize,    // the real pipeline: default schedules, JIT, thread pool, plan cache
  Simulated,  // the same on the simulated SIMT device
  Devices,    // the same spread over the CPU and simulated devices
  Loops,      // fused kernels as Loops, interpreted
  Tile,       // tile level, interpreted
  Simd,       // SIMD lowering, interpreted
  Simt,       // SIMT lowering, interpreted with simulated threads
  Passes,     // SIMD lowering with random passes before and after, interpreted
  Jit,        // the same, compiled, against the interpreter bit by bit
  Ptx,        // SIMT lowering to PTX text
  Gradient,   // differentiated: against differences, and its gradients through the real pipeline
  Vmap,       // batched, against one example after the other
  Numbers,    // numbers of all magnitudes, infinities and NaN through the real pipeline, against what they may give
};
inline constexpr Way kAllWays[] = {Way::Realize,  Way::Simulated, Way::Devices, Way::Loops, Way::Tile,
                                   Way::Simd,     Way::Simt,      Way::Passes,  Way::Jit,   Way::Ptx,
                                   Way::Gradient, Way::Vmap,      Way::Numbers};
const char* name(Way way);

struct Failure {
  std::string message;
  std::string detail;  // graph, and where it went wrong: Loops, schedule, kernel
};

struct Check {
  uint64_t seed = 0;
  int steps = -1;         // of the graph; negative: as the seed says
  bool symbolic = false;  // sizes are symbols, and several values of them share one plan
  bool together = false;  // several graphs that differ in sizes are one: their kernels can be joined
  std::string ptxas;      // assembler for Ptx; empty: only make the text
};
// How many operations the seed's graph has.
int default_steps(uint64_t seed);

// Throws Failure.
void check(const Check& check, Way way);

}  // namespace heddle::fuzz
