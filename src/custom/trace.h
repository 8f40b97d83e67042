// What has been written of a kernel so far, and what its tiles are. Private to this folder.
#pragma once

#include <heddle/kernel.h>

#include "graph/custom.h"
#include "kernel/builder.h"

namespace heddle {

// Values have this rank while a kernel is written: a dimension for each range. What is left over is taken away at the
// end.
inline constexpr size_t kMostRanges = 8;
// Beyond these a kernel could not be compiled in reasonable time, or formulas would not fit 64 bits.
inline constexpr int64_t kLargestTile = int64_t{1} << 24, kLargestPosition = int64_t{1} << 48;
inline constexpr int64_t kMostSharedBytes = int64_t{1} << 30;

// Of tiles; a Kernel of the IR is a program, that of heddle/kernel.h a function.
using TileDims = kernel::Dims;
using TileKernel = kernel::Kernel;

struct KernelTrace {
  std::string name;
  KernelOptions options;
  kernel::Kernel kernel;  // tile level, one phase
  std::optional<kernel::Builder> builder;
  std::vector<ResultType> inputs, results;
  std::vector<Dims> shapes;         // of each buffer
  std::vector<int> result_buffers;  // in the order of output()
  std::vector<Expr> ranges;         // a variable for each; a number where there is one element only
  std::vector<int> scopes{0};       // bodies that are being written, the innermost last
  int scopes_made = 1, names_made = 0;
  bool closed = false;

  bool is_open(int scope) const { return std::ranges::find(scopes, scope) != scopes.end(); }
};

struct TileValue {
  std::shared_ptr<KernelTrace> trace;
  int scope = 0;                // the innermost body that it depends on
  std::optional<Expr> formula;  // a position or condition; else `data`
  bool condition = false;
  kernel::Value data = kernel::kNoValue;
  int range = -1;  // what range() gave: its number
};

// Throws unless the tile can be used in the trace now. `what`: the instruction, in messages.
void check_usable(const char* what, const KernelTrace& trace, const Tile& x);
// The formula of a position or a condition, or of an integer; nothing else has one.
std::optional<Expr> formula_of(const Tile& x);
bool is_condition(const Tile& x);
Tile make_position(const std::shared_ptr<KernelTrace>& trace, const Expr& formula, bool condition, int scope);
Tile make_data(const std::shared_ptr<KernelTrace>& trace, kernel::Value value);
int scope_of(const Tile& x);

// A number as a value of this dtype, which has to hold it.
Scalar scalar_of(const Tile& number, DType dtype);
// The value of anything, with this dtype.
kernel::Value data_of(KernelTrace& trace, const Tile& x, DType dtype);
kernel::Value data_of(KernelTrace& trace, const Tile& x);
// With a dimension wherever `dims` has one.
kernel::Value spread(KernelTrace& trace, kernel::Value v, const TileDims& dims);
// Which ranges a formula depends on, as dimensions; and the coordinates of such dimensions.
TileDims dims_of(const KernelTrace& trace, const Expr& formula);
TileDims joined(const TileDims& a, const TileDims& b);
SmallVector<Expr, 4> coords_of(const KernelTrace& trace, const TileDims& dims);
// The number of the range that `range` is.
int range_number(const char* what, const KernelTrace& trace, const Tile& range);
std::string ranges_text(const TileDims& dims);  // " over ranges 0, 2"
void check_size(const char* what, const TileDims& dims);

// finish.cpp: the kernel, whole and checked.
std::shared_ptr<const CustomKernel> finish(KernelTrace& trace);
// evaluate.cpp: what it gives, computed in double.
std::vector<HostArray> evaluate_custom(const CustomKernel& custom, std::span<const HostArray* const> inputs);

}  // namespace heddle
