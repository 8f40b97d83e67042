// One random program, computed in several ways and compared with the reference evaluator.
#pragma once

#include "fuzz/check.h"
#include "fuzz/program.h"

namespace heddle::fuzz {

// How a program's outputs, values and gradients alike, come to be computed.
enum class ProgramWay {
  Together,         // all in one call
  Some,             // a random half of them
  Forward,          // the values alone
  Gradients,        // the gradients alone
  Alone,            // each by itself
  Steps,            // every value as soon as it has a name, then the rest
  Captured,         // by a captured function, three times with other values, while a state is assigned
  Differences,      // not at all: the gradients are compared with differences, in double precision
  Devices,          // all in one call, the blocks spread over the CPU and simulated devices
  CapturedDevices,  // both
};
inline constexpr ProgramWay kProgramWays[] = {ProgramWay::Together,       ProgramWay::Some,        ProgramWay::Forward,
                                              ProgramWay::Gradients,      ProgramWay::Alone,       ProgramWay::Steps,
                                              ProgramWay::Captured,       ProgramWay::Differences, ProgramWay::Devices,
                                              ProgramWay::CapturedDevices};
const char* name(ProgramWay way);
// What a seed is put through when nobody asks for something else.
std::vector<ProgramWay> ways_of_seed(uint64_t seed);

// Throws Failure.
void check_program(const Recipe& recipe, ProgramWay way);
// A smaller program that fails too, perhaps in a simpler way, and its failure.
Failure shrink(Recipe& recipe, ProgramWay& way, Failure failure);

struct ProgramCounts {
  std::atomic<uint64_t> compared{0}, vague{0};     // tensors
  std::atomic<uint64_t> differences{0}, kinks{0};  // programs whose gradients agree with differences, or cannot tell
};
ProgramCounts& program_counts();

}  // namespace heddle::fuzz
