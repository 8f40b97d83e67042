// Private to src/graph.
#pragma once

#include "graph/node.h"

namespace heddle {

// A sum of products from which what does not depend on the summed axis is taken out, where that saves work.
NodeRef factor_out(const NodeRef& sum);

}  // namespace heddle
