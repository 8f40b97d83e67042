// A row of launches as one graph of the driver, which starts them all at once. A launch waits for those before it that
// write what it touches or touch what it writes; others run beside it.
#pragma once

#include "backend/cuda/executable.h"

namespace heddle::cuda {

// Nodes of a graph, for calls in their order.
class Row {
 public:
  // `early`: kernels wait themselves for those before them, and so may be started early (sm_90).
  Result add(const Driver& driver, Graph graph, Calls& calls, bool early);
  std::span<const GraphNode> nodes() const { return nodes_; }
  // Whether calls that were in order before are so still, with the memory that call `number` touches now.
  bool in_order(const Calls& calls, size_t number) const;
  void clear();

 private:
  // The calls that call `number` waits for directly; fills in before_.
  std::vector<size_t> wait_for(const Calls& calls, size_t number);

  std::vector<GraphNode> nodes_;
  std::vector<std::vector<bool>> before_;  // for each call, which earlier ones are done when it runs
};

class Recording {
 public:
  Recording(const Driver& driver, Context context, bool early) : driver_(driver), context_(context), early_(early) {}
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Runs the calls in this order. What `calls` holds afterwards means nothing.
  Result run(Calls& calls, Stream stream);

 private:
  // A graph, and what it runs. State that takes turns between two memories has one for each: the driver needs longer
  // for a launch of what was changed than for the change.
  struct Made {
    Graph graph = nullptr;
    GraphExec exec = nullptr;
    Row row;
    Calls calls;
    uint64_t last_use = 0;
  };
  static constexpr size_t kMemories = 2;

  Made& choose(const Calls& calls);
  Result make(Made& made, Calls& calls);
  Result update(Made& made, Calls& calls);
  void clear(Made& made);

  const Driver& driver_;
  Context context_;
  bool early_;
  std::vector<Made> made_;
  uint64_t clock_ = 0;
};

}  // namespace heddle::cuda
