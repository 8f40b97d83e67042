// Contractions on a SIMT machine's matrix unit: which ones it takes, how their factors and results lie in memory, and
// their schedules.
#pragma once

#include "compile/loops/contraction.h"
#include "compile/schedule/sizes.h"

namespace heddle {

// One product of two matrices a block, whose later stages finish it element by element.
struct MatrixContraction {
  // Who multiplies. Groups of 128 threads: the last one copies, each of the others multiplies 64 rows of the block.
  // Warps: all threads copy and multiply.
  bool warps = false;
  int64_t pipeline = 0;  // stages, each a tile of both factors on its way; warps: that have room in shared memory
  bool pack_left = false, pack_right = false;  // factors that a phase of its own packs first
  int64_t parts = 1;                           // of the sum over the grid, combined in a second phase
  // So many persistent blocks take all blocks of the grid in turn; 0: none, each runs one. They go down `group` rows of
  // blocks before the next column, so that what they read stays in the caches.
  int64_t persistent = 0, group = 1;

  static constexpr const char* kName = "matrix_contraction";
  static constexpr auto fields() {
    using Self = MatrixContraction;
    return std::make_tuple(std::pair{"warps", &Self::warps}, std::pair{"pipeline", &Self::pipeline},
                           std::pair{"pack_left", &Self::pack_left}, std::pair{"pack_right", &Self::pack_right},
                           std::pair{"parts", &Self::parts}, std::pair{"persistent", &Self::persistent},
                           std::pair{"group", &Self::group});
  }
};

std::string check(const MatrixContraction& contraction, const Site& at);
void change(MatrixContraction& contraction, const Site& at, const RandomBelow& draw);
// Any tile, with factors packed or not, for the contraction that the first stage is; it may not be legal.
void draw_matrix(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target, bool warps,
                 const RandomBelow& draw);
// Fills in the schedule if groups of warps, or single ones, should do this contraction; else leaves it alone and gives
// false.
bool schedule_groups(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target,
                     std::string* why = nullptr);
bool schedule_warps(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target,
                    std::string* why = nullptr);

// An access that walks a matrix: dimension 0 of it is the fastest. Without positions, which the place of a tile gives.
// A gathered one (kernel::Region) has no strides: offset and guard are expressions in the variables of all axes.
struct MatrixView {
  int buffer = -1;
  Expr offset = 0, guard = 1;
  SmallVector<size_t, 4> axes;  // of the stage, that dimensions follow
  SmallVector<int64_t, 4> strides;
  bool transposed = false;  // `own` runs along dimension 0
  // One more dimension for what other axes say in another way, as heads that share keys do (h // 4): its position is an
  // expression in their variables. 0: there is none.
  Expr position = 0;
  int64_t apart = 0;  // elements from one position to the next
  bool is_gathered() const { return strides.empty(); }
};
// A load or store as a matrix over axes `own` and `along` (and others around it), if nothing is guarded; `copied`: if
// copies of whole tiles can do it, for which strides are multiples of 16 bytes.
std::optional<MatrixView> matrix_view(const Loops& loops, const Stage& stage, const kernel::Inst& access, size_t own,
                                      size_t along, bool copied = true);

// What is multiplied of a factor. Groups of warps: the f16 or bf16 that it is cast from. Warps: numbers that both
// factors are cast from, where warps multiply such ones; else the factor, rounded to tf32 on its way, if both are f32.
std::optional<kernel::Value> unit_factor(const Loops& loops, const Stage& stage, const Contraction& c, int operand,
                                         bool warps);
// So many of them along the sum make a step.
int64_t unit_depth(DType factor, bool warps);
// The load of a factor, if copies can do it: of whole tiles, or by warps of 16 bytes that always are neighbours,
// whatever the index and the guard. Warps want elements that are not of two bytes along the sum.
std::optional<MatrixView> factor_view(const Loops& loops, const Stage& stage, const Contraction& c, int operand,
                                      bool warps);
// Of a factor that is packed first: whether its own axis is the fast one, as most of what it is made of has it. Only
// elements of two bytes can be transposed on their way to a matrix unit.
bool packed_transposed(const Loops& loops, const Stage& stage, const Contraction& c, int operand, DType dtype);

// How the warps of a block share its sums, each a rectangle of whole fragments: the first `down` of them lie below each
// other. None if they cannot.
struct WarpGrid {
  int64_t down, across;
};
std::optional<WarpGrid> warp_grid(int64_t rows, int64_t columns, int64_t warps);
// Elements from one row of a tile in shared memory to the next, for rows of so many: no two of eight rows that are read
// together begin in the same banks.
int64_t warp_pitch(int64_t row, DType dtype);
// The instruction of single warps for such factors, of the shape that kernels know.
const MatrixInstruction* warp_instruction(const Target& target, DType factor);

// A product of m x k and k x n, `others` times, and so many of these together in a launch; a and b: the axes of rows
// and columns.
struct ProductSizes {
  size_t a, b;
  int64_t m, n, k;
  double others, together;
  double blocks(int64_t rows, int64_t columns) const;
};
ProductSizes product_sizes(const Loops& loops, const Contraction& c);

// Whether the results of a stage leave a unit of groups as tiles, which are then in registers as a whole. Beside the
// sums there is room for one, or for two of narrow numbers: more results leave element by element.
bool leaves_as_tiles(const Loops& loops, const Stage& stage);

}  // namespace heddle
