// Contractions on a SIMT machine's matrix unit: which ones it takes, and how their factors and results lie in memory.
#pragma once

#include <cmath>

#include "base/error.h"
#include "compile/loops/contraction.h"
#include "compile/schedule/schedule.h"

namespace heddle {

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

// The same for any index and guard, as long as 16 bytes along one of both axes are always neighbours.
std::optional<MatrixView> gathered_view(const Loops& loops, const Stage& stage, const kernel::Inst& access, size_t own,
                                        size_t along);

// The narrow numbers that a factor is cast from, where a matrix unit multiplies such: f16 or bf16 for sums of f32.
std::optional<kernel::Value> matrix_factor(const Loops& loops, const Stage& stage, kernel::Value factor);
// The load of those, if it is one that copies can do.
std::optional<MatrixView> factor_view(const Loops& loops, const Stage& stage, const Contraction& c, int operand);
// Tiles of so many numbers of a left factor that all products of a block share: as many as it has, if they may stay in
// shared memory, else 0.
int64_t staying_steps(const Axis& summed, int64_t depth);
// Of a factor that is packed first: whether its own axis is the fast one, as most of what it is made of has it.
bool packed_transposed(const Loops& loops, const Stage& stage, const Contraction& c, int operand);

// A product of m x k and k x n, `others` times, and so many of these together in a launch; a and b: the axes of rows
// and columns.
struct ProductSizes {
  size_t a, b;
  int64_t m, n, k;
  double others, together;
  double blocks(int64_t rows, int64_t columns) const;
};
ProductSizes product_sizes(const Loops& loops, const Contraction& c);
// For functions that can say why not: makes words of the parts only if somebody listens.
template <class... Parts>
bool refused(std::string* why, const Parts&... parts) {
  if (why) *why = text(parts...);
  return false;
}
// Whether a matrix unit is worth it. Of few rows most of a tile is empty; but what counts then is how fast the other
// factor is read.
bool worth_a_unit(const ProductSizes& sizes, int64_t least_rows, std::string* why = nullptr);
// The fastest of several schedules of a product.
struct FastestProduct {
  Schedule schedule;
  double time = INFINITY;  // in products of one multiprocessor
  bool found() const { return std::isfinite(time); }
  // A legal schedule whose tiles reach a `rate` of the fastest one and take steps of `depth`. Its sums are divided if
  // that is faster and legal: few blocks with long sums would leave much of the machine idle. `bytes`: so many products
  // are done while a byte of partial sums is read or written.
  void consider(Schedule candidate, const ProductSizes& sizes, int64_t depth, double rate, double bytes,
                const Loops& loops, const Target& target);
};

// What all matrix units of SIMT machines ask of a schedule's stage s: one product of two matrices a block, later stages
// that finish it element by element, and factors that are packed whole, if at all. Empty, or why not.
std::string check_unit_simt(const Schedule& schedule, const Loops& loops, size_t s, const Contraction& c);
bool is_packed(const StageSchedule& plan, int operand);
// Empty if the schedule's stage s, which asks for a matrix unit, is legal, else why not.
std::string check_matrix_simt(const Schedule& schedule, const Loops& loops, size_t s, const Contraction& c,
                              const Target& target);
// The same for nested loops that it takes in chunks of their common axis: everything but memory for factors and results
// is registers.
std::string check_online_simt(const Schedule& schedule, const Loops& loops, const Target& target);
// Fills in the schedule if the matrix unit should do this contraction; else leaves it alone and gives false.
bool schedule_matrix_simt(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target,
                          std::string* why = nullptr);
// The same for nested loops.
bool schedule_online_simt(Schedule& schedule, const Loops& loops, const Target& target, std::string* why = nullptr);
// A contraction by ordinary arithmetic: threads hold tiles of sums, factors wait in shared memory.
void schedule_product_simt(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target);

}  // namespace heddle
