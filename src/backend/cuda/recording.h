// A row of launches as one graph of the driver, which starts them all at once.
#pragma once

#include "backend/cuda/executable.h"

namespace heddle::cuda {

class Recording {
 public:
  Recording(const Driver& driver, Context context) : driver_(driver), context_(context) {}
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Runs the calls in this order. The graph is made at the first time; later only parameters that changed are replaced.
  // What `calls` holds afterwards means nothing.
  Result run(Calls& calls, Stream stream);

 private:
  Result make(Calls& calls);
  Result update(Calls& calls);
  void clear();

  const Driver& driver_;
  Context context_;
  Graph graph_ = nullptr;
  GraphExec exec_ = nullptr;
  std::vector<GraphNode> nodes_;
  Calls calls_;
};

}  // namespace heddle::cuda
