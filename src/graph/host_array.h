// Elements of the arrays that evaluate() takes and gives.
#pragma once

#include "graph/graph.h"

namespace heddle {

HostArray filled(DType dtype, std::vector<int64_t> shape, const Scalar& value);
// A float need not be one of the array's dtype.
Scalar get(const HostArray& array, int64_t i);
void set(HostArray& array, int64_t i, const Scalar& value);

}  // namespace heddle
