// Gradients against differences, in double precision.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/random_graph.h"

namespace heddle::fuzz {

// A graph and what it is differentiated for.
struct Problem {
  std::vector<NodeRef> outputs, cotangents;
  std::vector<NodeRef> leaves;     // floats
  std::vector<NodeRef> gradients;  // of the leaves; null where there is none
};

std::vector<NodeRef> without_null(const std::vector<NodeRef>& nodes);

class Differences {
 public:
  Differences(const Problem& problem, const SymbolValues& symbols);

  // Compares at a point near the leaves' values, along a direction. Throws Failure; false at a kink: differences tell
  // nothing there. `rounding`: how far off the values of the outputs may be, where that is known.
  bool agree(testing::Random& random, double rounding = 0);

 private:
  using Point = std::vector<HostArray>;
  std::unordered_map<const Node*, HostArray> bound(const Point& at) const;
  double weighted(Point at, const Point& direction, double step, double& sum);

  const SymbolValues symbols_;
  std::vector<NodeRef> inputs_, outputs_, gradients_;
  std::vector<HostArray> cotangents_, leaves_;
  double weight_ = 0;  // of all cotangents together
  // Numbers in a gradient were folded in the dtype of the graph: of what cancels in f64, less or more may be left.
  double folded_ = 0;
  std::vector<size_t> differentiable_;
  int64_t bad_indices_ = 0;
};

}  // namespace heddle::fuzz
