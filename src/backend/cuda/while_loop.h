// A loop of the driver's: its rounds are started by the GPU itself, without a look from the host between them.
#pragma once

#include "backend/cuda/recording.h"

namespace heddle::cuda {

// The kernel that tells a conditional node whether a byte in memory is zero. Null where the driver does not take it.
Function load_set_condition(const Driver& driver);

class WhileLoop {
 public:
  WhileLoop(const Driver& driver, Context context) : driver_(driver), context_(context) {}
  ~WhileLoop();
  WhileLoop(const WhileLoop&) = delete;
  WhileLoop& operator=(const WhileLoop&) = delete;

  // Runs `first`, then `rounds` for as long as the byte at `flag` is not zero. A graph is made for each memory that
  // they are run on, and kept for the next time. What the lists hold afterwards means nothing.
  // After a graph that could not be made, or too many, nothing is run any more: the host has to look.
  bool is_refused() const { return refused_; }
  Result run(Calls& first, Calls& rounds, Address flag, Function set_condition, Stream stream);

 private:
  struct Known {
    Graph graph = nullptr;
    GraphExec exec = nullptr;
    Calls first, rounds;
    Address flag = 0;
    uint64_t last_use = 0;
  };
  Result make(Known& made, Function set_condition) const;
  void destroy(Known& known) const;

  const Driver& driver_;
  Context context_;
  std::vector<Known> known_;
  uint64_t clock_ = 0, made_ = 0;
  bool refused_ = false;
};

}  // namespace heddle::cuda
