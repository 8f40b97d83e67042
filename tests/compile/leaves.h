// What graphs of the tests are made of.
#pragma once

#include <cmath>
#include <random>

#include "../graph/host_storage.h"
#include "graph/graph.h"

namespace heddle::testing {

// Data drawn from a normal distribution; small whole numbers where the dtype is no float.
inline NodeRef leaf(const Shape& shape, uint64_t seed, DType dtype = kF32) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(shape.static_numel()));
  for (double& v : values) v = is_float(dtype) ? normal(random) : std::floor(5 * normal(random));
  return buffer_of(dtype, shape, values);
}

inline NodeRef op(ScalarOp o, std::initializer_list<NodeRef> args) {
  return make_scalar(o, std::span(args.begin(), args.size()));
}

}  // namespace heddle::testing
