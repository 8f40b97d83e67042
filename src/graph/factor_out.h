// Private to src/graph.
#pragma once

#include "graph/node.h"

namespace heddle {

// A sum of values times the weights of a softmax, divided after the sum and not before; `relaxed`: any sum of products
// without what does not depend on the summed axis.
NodeRef factor_out(const NodeRef& sum, bool relaxed);

}  // namespace heddle
