// Steps of a program: which wait for which, which are segments of one, in what order they run.
#pragma once

#include <limits>
#include <numeric>
#include <vector>

#include "compile/fuse/fuse.h"

namespace heddle {

struct StepGraph {
  // A tensor that one step writes for others to read, and that nobody else keeps.
  struct Passed {
    double bytes;           // at the upper bounds of symbols
    int last_height;        // the least height of a step that reads it
    std::vector<int> read;  // by these steps, each once
  };
  std::vector<Passed> passed;
  // For each step:
  std::vector<std::vector<int>> users;          // steps that wait for it, each once
  std::vector<int> needs;                       // how many steps it waits for
  std::vector<std::vector<int>> reads, writes;  // indices into `passed`
  std::vector<int> depth, height;               // steps on the longest way from the beginning, and to the end
};

// The steps of the program stand in an order in which they may run.
StepGraph step_graph(const Program& program);

// A number that differs from step to step, as a symbol.
struct Differing {
  int64_t lo = std::numeric_limits<int64_t>::max(), hi = std::numeric_limits<int64_t>::min(), multiple = 0;

  void take(int64_t number) {
    lo = std::min(lo, number);
    hi = std::max(hi, number);
    multiple = std::gcd(multiple, number);
  }
  Expr symbol(std::string name) const { return Expr::symbol(std::move(name), lo, hi, std::max<int64_t>(multiple, 1)); }
};

// Joins steps that do not need each other and whose Loops differ in nothing but numbers which follow from the extents
// of their axes: the update of a hundred parameters, the sum of squares of each of their gradients. The joined step has
// a symbol for every extent that differs. Steps stay apart where waiting for each other would keep much memory alive.
// In place; linear in the number of steps but for sorting. Leaves the steps in an order in which they may run.
void join_steps(Program& program);

// Puts the steps in an order that keeps few bytes alive between them: of the steps that may run, next comes the one
// that frees most, or else needs least. A step that writes to where a leaf is (Tensor::replaces) waits for the other
// readers of that leaf, unless all who may run wait so. Tensors in Step::after are computed before. The steps stand in
// an order in which they may run before, too. In place, n log n.
void order_steps(Program& program);

// Indices that an earlier step has checked are not checked again. What later steps write may then take the place of
// what it replaces: a run with a bad index has been found out before.
void drop_checks(Program& program);

}  // namespace heddle
