// Private to src/graph.
#pragma once

#include "graph/node.h"

namespace heddle {

// A sum of a * b + c * d + ..., where each product is one of matrices, as units that multiply these can take it. Many
// of the same shapes become one product of longer factors, cat(a, c, ...) and cat(b, d, ...): the gradient of a weight
// that is used many times. A few, or of different shapes, become sums of their own: the gradient of what two layers
// read. Else `sum` itself.
NodeRef join_products(const NodeRef& sum);

}  // namespace heddle
