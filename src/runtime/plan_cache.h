// Plans by the structure of their graphs, bounded, shared by all threads.
#pragma once

#include <memory>

#include "runtime/graph_key.h"
#include "runtime/plan.h"

namespace heddle {

// A plan and the numbers it was made for. Those in `arguments` may have any value.
struct CachedPlan {
  Plan plan;
  std::vector<uint64_t> numbers;
  std::vector<uint32_t> arguments;         // ascending: both of these
  std::vector<uint32_t> scalars, offsets;  // constants, which are data; offsets, which are symbols of the plan
};

// The plan for the graph, or nullptr.
std::shared_ptr<const CachedPlan> find_plan(const GraphKey& key);
// After a miss: the numbers that should be arguments of a new plan, because plans for other values of them exist: one
// for a float constant, two for anything else.
std::vector<uint32_t> changing_numbers(const GraphKey& key);
// Returns the plan to use: another thread may have been faster.
std::shared_ptr<const CachedPlan> keep_plan(const GraphKey& key, CachedPlan plan);

}  // namespace heddle
