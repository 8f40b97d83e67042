// Schedule: every choice about how a Loops runs. Plain data, printable and parseable; search explores it and the disk
// cache stores it.
#pragma once

#include <variant>

#include "compile/schedule/map.h"
#include "compile/schedule/matrix_contraction.h"
#include "compile/schedule/nested.h"
#include "compile/schedule/reduction.h"
#include "compile/schedule/register_contraction.h"
#include "compile/schedule/scan.h"
#include "compile/schedule/scatter.h"

namespace heddle {

using Strategy = std::variant<Map, RowReduction, SplitReduction, Scan, Scatter, AtomicScatter, PrivateScatter,
                              RegisterContraction, PackedContraction, MatrixContraction, NestedContraction>;

struct StageSchedule {
  Strategy strategy;
  // Loops around the stage's tile, outermost first. The tile covers, of each axis, the step of its innermost loop, or
  // where it has none the block's share (outer axis) or everything (inner axis).
  std::vector<Level> loops;
  // Continue inside the outer-axis loops of the stage before: its results stay in registers. Otherwise they pass
  // through Shared memory.
  bool joined = false;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(strategy);
  }
  int64_t parts() const;  // that it is divided into over the grid
};

struct Schedule {
  std::vector<int64_t> block;  // elements of each outer axis per block of the grid
  int threads = 1;             // SIMT: threads per block
  std::optional<Chunks> chunks;
  std::vector<StageSchedule> stages;
};

Schedule default_schedule(const Loops& loops, const Target& target);
// Legal ones for when that cannot be compiled, the better ones first: without special units, then row by row.
std::vector<Schedule> plainer_schedules(const Loops& loops, const Target& target);
// A random schedule that is legal for the loops; what fuzzing and search draw from. The same seed gives the same one.
Schedule random_schedule(const Loops& loops, const Target& target, uint64_t seed);
// Of a SIMT machine with a matrix unit: why sums of products that the schedule does otherwise are not on it, each.
std::vector<std::string> matrix_remarks(const Loops& loops, const Schedule& schedule, const Target& target);
// Empty if legal, else why not.
std::string check(const Schedule& schedule, const Loops& loops, const Target& target);

std::string print(const Schedule& schedule);
Schedule parse_schedule(std::string_view text);  // throws ParseError

// For those who choose schedules: blocks of one element, stages that join the one before, no loops, and the strategy
// that any stage of the kind can have.
Schedule plain_schedule(const Loops& loops);
// Strategies that stage s may have; what of them is legal depends on the rest of the schedule.
std::vector<Strategy> strategies_for(const Loops& loops, size_t s, const Target& target);
// The first stage of the nest that a stage is joined to.
size_t first_of_nest(const Schedule& schedule, size_t s);
// Elements of each axis that the tile of a stage covers.
std::vector<int64_t> tile_of(const Schedule& schedule, const Loops& loops, size_t s);

// Loops and a legal schedule to a tile-level kernel.
kernel::Kernel tile(const Loops& loops, const Schedule& schedule, const Target& target);

}  // namespace heddle
