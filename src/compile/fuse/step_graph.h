// Which steps of a program wait for which, and what passes between them.
#pragma once

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

}  // namespace heddle
