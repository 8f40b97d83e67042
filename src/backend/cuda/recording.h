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
  // `keep` is memory that the calls refer to.
  Result run(std::vector<Call> calls, std::vector<std::shared_ptr<DeviceBuffer>> keep, Stream stream);

 private:
  Result make(std::vector<Call>& calls);
  Result update(std::vector<Call>& calls);
  void clear();

  const Driver& driver_;
  Context context_;
  Graph graph_ = nullptr;
  GraphExec exec_ = nullptr;
  std::vector<GraphNode> nodes_;
  std::vector<Call> calls_;
  std::vector<std::shared_ptr<DeviceBuffer>> keep_;
};

}  // namespace heddle::cuda
