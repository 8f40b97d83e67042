// One program of fuzz_states, run by a captured world, by a plain one, and by the model where it can.
#pragma once

#include <atomic>

#include "fuzz/check.h"
#include "fuzz/states.h"

namespace heddle::fuzz {

// Throws Failure. `folder` is for files.
void check_states(const StateProgram& program, const std::string& folder);
// A smaller program that fails too, and its failure.
Failure shrink_states(StateProgram& program, Failure failure, const std::string& folder);

struct StateCounts {
  std::atomic<uint64_t> calls{0}, replays{0}, thrown{0}, refused{0}, looks{0}, by_model{0}, given_up{0}, rounded{0};
};
StateCounts& state_counts();

}  // namespace heddle::fuzz
