// Addresses that walk memory in order, and jump where a row ends.
#pragma once

#include <optional>
#include <vector>

#include "expr/expr.h"

namespace heddle {

// What an address is along `lane`: run j begins at lane `first[j]` (a number free of the lane; the first is 0), and
// there the address is `address[j] + stride * lane`. A run that begins beyond the last lane that is wanted is not
// reached; its address is that of a run which is.
struct Runs {
  int64_t stride;
  std::vector<Expr> first, address;
};

// Nothing if the address is of another form, or has more than `most` runs. Divisions must be by constants. Lanes from
// `end` on, a number free of the lane, are not wanted; there may be none that is.
//   (i + lane) // 49 * 100 + (i + lane) % 49, 16 lanes: two runs, the second begins at lane 49 - i % 49
std::optional<Runs> runs_of(const Expr& address, const Expr& lane, const Expr& end, size_t most);

// Whether the address of each `piece` elements along an index, from multiples of that on, goes up one by one from a
// multiple of `piece`, and the guard is the same for all of them.
bool in_pieces(const Expr& address, const Expr& guard, const Expr& index, int64_t piece);

}  // namespace heddle
