// Reductions by ordinary arithmetic: of a tile in registers and of tiles one after the other, or divided over the grid.
#pragma once

#include "compile/loops/contraction.h"
#include "compile/schedule/sizes.h"

namespace heddle {

struct RowReduction {
  static constexpr const char* kName = "reduction";
  static constexpr auto fields() { return std::make_tuple(); }
};

struct SplitReduction {
  int64_t parts = 1;  // more than one, over the grid, combined in a second phase

  static constexpr const char* kName = "split_reduction";
  static constexpr auto fields() { return std::make_tuple(std::pair{"parts", &SplitReduction::parts}); }
};

std::string check(const RowReduction& reduction, const Site& at);
std::string check(const SplitReduction& reduction, const Site& at);
void change(RowReduction& reduction, const Site& at, const RandomBelow& draw);
void change(SplitReduction& reduction, const Site& at, const RandomBelow& draw);
// Kernels of rows, or columns, with reductions inside.
void schedule_rows(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target);
// A product with few rows or columns on a SIMT machine; false if it has many.
bool schedule_thin(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Contraction& c,
                   const Target& target);

}  // namespace heddle
