// The reference values of a graph, each with how far rounding may lead away from it.
//
// Every operation adds its own rounding to what the errors of its operands can make of its result: operands are moved
// by their errors, and what comes out differs by so much. So a small difference of large numbers gets a large error, a
// comparison of numbers that are too close counts as undecided, and whole numbers that stay small get none at all.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace heddle::fuzz {

struct Bounded {
  HostArray value;
  std::vector<double> error;  // of each element, absolute; empty: none
};

std::vector<Bounded> evaluate_bounded(const std::vector<NodeRef>& roots);

// The elements that evaluating the graph computes: a measure of the time it takes.
double evaluation_work(const std::vector<NodeRef>& roots);

struct Comparison {
  std::string wrong;   // empty: nothing is
  bool vague = false;  // errors are so large that hardly anything could be
};
Comparison compare(const Bounded& want, const HostArray& got);

}  // namespace heddle::fuzz
