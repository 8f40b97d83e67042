// A graph becomes a plan: simplified, fused, compiled, memory laid out.
#pragma once

#include "runtime/graph_key.h"
#include "runtime/plan.h"

namespace heddle {

// `roots`: the distinct ones of `key`, in order of their numbers. Which of key.numbers, ascending, are read at run time
// instead of being part of the code: `scalars` as data, `offsets` as symbols behind those of the graph.
Plan build_plan(std::span<const NodeRef> roots, const GraphKey& key, std::span<const uint32_t> scalars,
                std::span<const uint32_t> offsets, Backend& device);

}  // namespace heddle
