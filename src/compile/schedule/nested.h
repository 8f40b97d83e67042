// Schedules of nested loops: attention and its gradients. Stages have strategies as everywhere, but for products on a
// SIMT machine's matrix unit, which all work on one chunk in registers.
#pragma once

#include "compile/schedule/strategy.h"

namespace heddle {

// Of nested loops: all stages take the common axis chunk by chunk. See online.h.
struct Chunks {
  int64_t size = 0;   // elements of the common axis
  int64_t parts = 1;  // of that axis, which go to different blocks and are combined in a second phase
};

// SIMT: one of the products of a chunk. What it multiplies is copied as it is, or is in registers already.
struct NestedContraction {
  int64_t pipeline = 0;  // stages, each a tile of both factors on its way

  static constexpr const char* kName = "nested_contraction";
  static constexpr auto fields() { return std::make_tuple(std::pair{"pipeline", &NestedContraction::pipeline}); }
};

// So few rows of a block lie one after the other in shared memory, more lie side by side.
inline constexpr int64_t kFewNestedRows = 8;

// Room for the results of a stage along an axis that is kept: the tiles that are written may be longer than the axis.
// `common`: it is the common axis, and is taken chunk by chunk.
int64_t kept_room(const Schedule& schedule, const Loops& loops, size_t s, size_t i, bool common);

std::string check_chunks(const Schedule& schedule, const Loops& loops, const Target& target);
// Without chunks on a SIMT machine, what stages keep waits in shared memory, of which there is little.
std::string check_kept_simt(const Schedule& schedule, const Loops& loops, const Target& target);
std::string check(const NestedContraction& contraction, const Site& at);
void change(NestedContraction& contraction, const Site& at, const RandomBelow& draw);
void change_chunks(Schedule& schedule, const Target& target, const RandomBelow& draw);

Schedule nested_schedule(const Loops& loops, const Target& target);
// Fills in the schedule if a SIMT machine's matrix unit should do these loops; else leaves it alone and gives false.
bool schedule_nested_unit(Schedule& schedule, const Loops& loops, const Target& target, std::string* why = nullptr);

// Whether one kernel is faster than several through memory. Outside the matrix unit a SIMT machine takes one row of
// nested loops a block: large ones better go through memory.
bool nest_pays(const Schedule& schedule, const Loops& loops, const Target& target);

// Tiles of a left factor that all products of a block share: as many as it has, if they may stay in shared memory, else
// 0.
int64_t staying_steps(const Axis& summed);

}  // namespace heddle
