// A training step by the evaluator.
#pragma once

#include <heddle/heddle.h>

#include <functional>

#include "graph/graph.h"

namespace heddle::testing {

// Calls `f` as a captured function is recorded, evaluates what it returns and what it assigns in double precision, and
// gives the tensors their new values. No kernel runs. `f` draws no random numbers.
std::vector<HostArray> evaluated(const std::function<TensorList()>& f);

}  // namespace heddle::testing
