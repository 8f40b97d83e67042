// Nested loops that can take their common axis chunk by chunk, so that what stages keep along it needs room for one
// chunk only, and parts of a long axis can go to several cores.
//
// Reductions along the axis then carry their state from chunk to chunk. That a sum depends on a maximum along the same
// axis is no hindrance where it can be rescaled: if every term is a multiple of exp(x - max), the sum so far times
// exp(old max - new max) is what it would be with the new maximum. Maximum, sums and products are one state, and two
// such states combine by the same rule.
#pragma once

#include <optional>

#include "compile/loops/loops.h"

namespace heddle {

struct Online {
  Expr along;  // the variable of the common axis
  enum class Role : uint8_t {
    Before,  // needs nothing of what is reduced along the axis: runs once, before the first chunk
    Chunk,   // has the axis: runs for each chunk
    After,   // runs once, with the final results
  };
  std::vector<Role> roles;     // of each stage
  std::vector<size_t> pivots;  // of each stage: the one whose maximum its sums are relative to, or SIZE_MAX
  bool is_pivot(size_t s) const;
};

// The axis that some stages of nested loops keep and others reduce; nothing if there is none, or more than one.
std::optional<Axis> common_axis(const Loops& loops);

// Nothing if a reduction along the common axis depends on another in a way that cannot be rescaled.
std::optional<Online> find_online(const Loops& loops);

// Whether stage t, over the same axes as s, sums up multiples of exp(x - m), where s finds the maximum of x, and m is
// that maximum, or 0 if it is infinite.
bool is_online_pair(const Loops& loops, size_t s, size_t t);

}  // namespace heddle
