// Private to src/graph.
#pragma once

#include "graph/node.h"

namespace heddle {

// A sum over rows of a * b + c * d + ... as one product of longer factors, cat(a, c, ...) and cat(b, d, ...): the
// gradient of a weight that is used many times. Else `sum` itself.
NodeRef join_products(const NodeRef& sum);

}  // namespace heddle
