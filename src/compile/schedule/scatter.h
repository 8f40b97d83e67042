// Scatters: updates in their order, or in any order by atomic operations.
#pragma once

#include "compile/schedule/sizes.h"

namespace heddle {

struct Scatter {
  int64_t parts = 1;  // of the axis that is written to; each looks at all updates and does its own

  static constexpr const char* kName = "scatter";
  static constexpr auto fields() { return std::make_tuple(std::pair{"parts", &Scatter::parts}); }
};

// SIMT, of updates that combine: in a phase of its own. The first loop runs over the updates; each of its rounds is a
// block.
struct AtomicScatter {
  int64_t parts = 1;  // of the axis that is written to: blocks of the phase before, which stores the base

  static constexpr const char* kName = "atomic_scatter";
  static constexpr auto fields() { return std::make_tuple(std::pair{"parts", &AtomicScatter::parts}); }
};

// SIMD, of updates that combine, where the result is small against them: each part of the updates goes, in its order,
// to a copy of its own that begins with what changes nothing. A second phase combines the base with the copies, in
// order.
struct PrivateScatter {
  int64_t parts = 2;  // of the updates, and of the axis that is written to in the second phase

  static constexpr const char* kName = "private_scatter";
  static constexpr auto fields() { return std::make_tuple(std::pair{"parts", &PrivateScatter::parts}); }
};

std::string check(const Scatter& scatter, const Site& at);
std::string check(const AtomicScatter& scatter, const Site& at);
std::string check(const PrivateScatter& scatter, const Site& at);
void change(PrivateScatter& scatter, const Site& at, const RandomBelow& draw);
// Loops that the strategy cannot do without.
void draw_loops(const Scatter& scatter, StageSchedule& plan, const Site& at, const RandomBelow& draw);
void draw_loops(const AtomicScatter& scatter, StageSchedule& plan, const Site& at, const RandomBelow& draw);
void draw_loops(const PrivateScatter& scatter, StageSchedule& plan, const Site& at, const RandomBelow& draw);
void schedule_scatter(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target);

}  // namespace heddle
