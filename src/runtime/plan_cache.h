// Plans by the structure of their graphs, bounded, shared by all threads.
#pragma once

#include <memory>

#include "runtime/graph_key.h"
#include "runtime/plan.h"

namespace heddle {

// A plan and the float constants it was made for. Those in `arguments` may have any value.
struct CachedPlan {
  Plan plan;
  std::vector<uint64_t> floats;
  std::vector<uint32_t> arguments;  // ascending
};

// The plan for the graph, or nullptr.
std::shared_ptr<const CachedPlan> find_plan(const GraphKey& key);
// After a miss: the constants that should be arguments of a new plan, because plans for other values of them exist.
std::vector<uint32_t> changing_constants(const GraphKey& key);
// Returns the plan to use: another thread may have been faster.
std::shared_ptr<const CachedPlan> keep_plan(const GraphKey& key, CachedPlan plan);

}  // namespace heddle
