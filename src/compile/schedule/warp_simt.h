// Contractions on a matrix unit that the warps of a SIMT machine use: which ones it takes, and their schedules.
#pragma once

#include <functional>

#include "compile/schedule/matrix_simt.h"

namespace heddle {

// How the warps of a block share its sums, each a rectangle of whole fragments: the first `down` of them lie below each
// other. None if they cannot.
struct WarpGrid {
  int64_t down, across;
};
std::optional<WarpGrid> warp_grid(int64_t rows, int64_t columns, int64_t warps);

// What of a contraction is multiplied: the numbers that both factors are cast from, where warps multiply such ones;
// else the factors, rounded to tf32 on their way, if they are f32.
std::optional<DType> warp_dtype(const Loops& loops, const Stage& stage, const Contraction& c);
kernel::Value warp_factor(const Loops& loops, const Stage& stage, const Contraction& c, kernel::Value factor);
// The load of a factor, if copies of 16 bytes can do it. Elements that are not of two bytes must lie along the sum.
std::optional<MatrixView> warp_view(const Loops& loops, const Stage& stage, const Contraction& c, int operand);

// Elements from one row of a tile in shared memory to the next, for rows of so many: no two of eight rows that are read
// together begin in the same banks.
int64_t warp_pitch(int64_t row, DType dtype);
// Bytes of shared memory that one stage of the pipeline, a tile of both factors, takes.
int64_t warp_stage_bytes(int64_t rows, int64_t columns, DType dtype, bool left_transposed, bool right_transposed);

std::string check_warp_simt(const Schedule& schedule, const Loops& loops, size_t s, const Contraction& c,
                            const Target& target);
// Fills in the schedule if warps should do this contraction; else leaves it alone and gives false.
bool schedule_warp_simt(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target,
                        std::string* why = nullptr);
// A number below the argument.
using Draw = std::function<int64_t(int64_t)>;
// Parts of the sums, or persistent blocks, of a random schedule for a matrix unit (random_schedule.cpp).
void draw_division(Schedule& schedule, const Target& target, const Draw& draw);
// Any tile, with factors packed or not; it may not be legal.
Schedule random_warp_schedule(const Loops& loops, const Contraction& c, const Target& target, const Draw& draw);

}  // namespace heddle
