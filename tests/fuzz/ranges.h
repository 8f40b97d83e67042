// What a graph of floats may give: for each element the numbers between two bounds, NaN, or both.
//
// Every node rounds to its dtype, as the user wrote it. Bounds move apart only where docs/numbers.md gives the compiler
// a freedom: fused multiply-add, the order of sums and what overflows on the way, small floats kept in f32, the bound
// of an elementary function's error, and another formula for a node where `Alternatives` names one. Where none applies
// the bounds are one number: overflow, underflow and NaN must be those of the graph.
#pragma once

#include <atomic>
#include <unordered_map>
#include <vector>

#include "graph/node.h"

namespace heddle::fuzz {

struct Range {
  double lo = 0, hi = 0;  // lo > hi: no number at all
  bool nan = false;

  bool holds(double value) const { return value != value ? nan : value >= lo && value <= hi; }
};

// Nodes that may be computed by another formula.
using Alternatives = std::unordered_map<const Node*, NodeRef>;

// The elements of each root. Knows Const, Buffer, Cast, Reduce (but products), views, and scalar ops of one to three
// operands that only grow, or only fall, in each of them; floats up to f32, and bool.
std::vector<std::vector<Range>> ranges(const std::vector<NodeRef>& roots, const Alternatives& alternatives);

// What comparisons with ranges were worth.
struct NumberCounts {
  std::atomic<uint64_t> sharp{0};  // one result, or a few in the last places
  std::atomic<uint64_t> vague{0};
};
NumberCounts& number_counts();

}  // namespace heddle::fuzz
