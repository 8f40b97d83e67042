// Schedule: every choice about how a Loops runs. Plain data, printable and parseable; search explores it and the disk
// cache stores it.
#pragma once

#include <string>
#include <vector>

#include "compile/loops/loops.h"
#include "compile/target/target.h"

namespace heddle {

// A loop inside a block. Axes are numbered outer axes first, then the stage's inner ones.
struct Level {
  int axis = 0;
  int64_t step = 1;  // elements of the axis that one iteration covers
};

// Copies what a load of a contraction reads into a denser place before it is used.
struct Staged {
  int operand = 0;  // 0: the factor without the second outer axis (A of a matmul), 1: the other (B)
  enum class Scope {
    Phase,
    Block
  } scope = Scope::Phase;  // Phase: the whole operand into Temp by a phase of its own;
                           // Block: one part at a time into Shared, at `depth`
  int depth = 0;           // Block: inside how many of the stage's loops
  int64_t panel = 0;       // width of a panel: elements that are consecutive in memory across the tile's row (0: none)
};

struct StageSchedule {
  // Loops around the stage's tile, outermost first. The tile covers, of each axis, the step of its innermost loop, or
  // where it has none the block's share (outer axis) or everything (inner axis).
  std::vector<Level> loops;
  // Continue inside the outer-axis loops of the stage before: its results stay in registers. Otherwise they pass
  // through Shared memory.
  bool joined = true;
  // Parts a reduction is divided into over the grid, combined in a second phase. Of an ordered stage: parts of the axis
  // that is written to; each looks at all updates and does those that fall into it.
  int64_t split = 1;
  // SIMT, of an ordered stage whose updates combine: they do so by atomic operations, in a phase of its own. The first
  // loop runs over the updates, and each of its rounds is a block. `split` parts of the axis written to are blocks of
  // the phase before, which stores the base.
  bool atomic = false;
  bool dot = false;  // compute as a contraction
  // What multiplies. Packed and Matrix take factors of bf16 or i8, several packed to a 32-bit word along the reduced
  // axis. Warps: a matrix unit that warps of a SIMT machine use, fed by copies.
  enum class Unit { Numbers, Packed, Matrix, Warps } unit = Unit::Numbers;
  std::vector<Staged> staged;
  // SIMT, a matrix unit: stages of the pipeline, each a tile of both factors on its way. The last 128 threads copy,
  // each 128 of the others multiply 64 rows of the block. Warps: stages that have room in shared memory; all threads
  // copy and multiply.
  int pipeline = 0;
  bool stream = false;  // stores bypass the caches
};

// Nested loops: so few rows of a block lie one after the other in shared memory, more lie side by side.
inline constexpr int64_t kFewNestedRows = 8;

struct Schedule {
  std::vector<int64_t> block;  // elements of each outer axis per block of the grid
  std::vector<StageSchedule> stages;
  int threads = 1;  // SIMT: threads per block
  // SIMT, a matrix unit: so many persistent blocks take all blocks of the grid in turn; 0: none, each runs one. They go
  // down `group` rows of blocks before the next column, so that what they read stays in the caches.
  int64_t persistent = 0, group = 1;
  // Nested loops: elements of the common axis that all stages take at a time (0: everything), and parts of that axis
  // which go to different blocks and are combined in a second phase. See online.h.
  int64_t chunk = 0, parts = 1;
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

// Loops and a legal schedule to a tile-level kernel.
kernel::Kernel tile(const Loops& loops, const Schedule& schedule, const Target& target);

}  // namespace heddle
