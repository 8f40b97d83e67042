// A graph becomes a plan: simplified, fused, compiled, memory laid out.
#pragma once

#include "runtime/graph_key.h"
#include "runtime/plan.h"

namespace heddle {

// `roots`: the distinct ones of `key`, in order of their numbers. `arguments`: which of key.floats, ascending, are read
// at run time instead of being part of the code.
Plan build_plan(std::span<const NodeRef> roots, const GraphKey& key, std::span<const uint32_t> arguments,
                Device& device);

}  // namespace heddle
