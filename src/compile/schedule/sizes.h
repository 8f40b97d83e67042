// Loops as the choice of a default schedule sees them: sizes, and which axes memory is walked along.
#pragma once

#include "base/rounding.h"
#include "compile/schedule/strategy.h"

namespace heddle {

struct Sizes {
  std::vector<int64_t> outer;
  std::vector<std::vector<int64_t>> inner;  // per stage
  double rows = 1;
  double points = 1;  // of the largest stage
};
Sizes sizes_of(const Loops& loops);

// A row up to this long is one tile of a CPU; longer ones are walked in pieces.
inline constexpr int64_t kWholeRow = 16384, kRowPiece = 8192;

// For each axis of the stage, how many bytes of the buffers it walks element by element.
std::vector<double> unit_strides(const Loops& loops, const Stage& stage);
// The first stage reduces, and the others only finish its results.
bool reduces_once(const Loops& loops);
// Blocks of the grid.
double blocks_of(const Schedule& schedule, const Sizes& sizes);
// Blocks of so many elements of the last axes.
void fill_block(Schedule& schedule, const Sizes& sizes, int64_t elements);
// Loops over the inner axes so that a tile holds about `limit` elements of them; a longer axis is cut into pieces.
void loop_inner(StageSchedule& plan, const std::vector<int64_t>& inner, size_t outer, int64_t limit, int64_t piece);

}  // namespace heddle
