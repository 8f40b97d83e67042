// Small things the runtime's tests share.
#pragma once

#include <cstring>
#include <vector>

#include "graph/graph.h"
#include "runtime/device.h"
#include "runtime/plan.h"

namespace heddle::testing {

inline NodeRef tensor(const std::vector<float>& values, const Shape& shape) {
  auto buffer = device().allocate(values.size() * sizeof(float));
  device().copy_from_host(*buffer, values.data(), values.size() * sizeof(float));
  return make_buffer(buffer, DType::f32, shape);
}
inline NodeRef tensor(const std::vector<float>& values) {
  return tensor(values, Shape{Expr(static_cast<int64_t>(values.size()))});
}
inline std::vector<float> counting(int64_t n, float start = 0) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(start + static_cast<float>(i));
  return values;
}

inline NodeRef binary(ScalarOp op, const NodeRef& a, const NodeRef& b) {
  NodeRef inputs[] = {a, b};
  return make_scalar(op, inputs);
}
inline NodeRef add(const NodeRef& a, const NodeRef& b) { return binary(ScalarOp::add, a, b); }
inline NodeRef mul(const NodeRef& a, const NodeRef& b) { return binary(ScalarOp::mul, a, b); }
inline NodeRef unary(ScalarOp op, const NodeRef& a) {
  NodeRef inputs[] = {a};
  return make_scalar(op, inputs);
}
inline NodeRef full_like(const NodeRef& x, double value) {
  return make_const(heddle::Scalar::of(x->dtype, value), x->shape);
}
inline NodeRef realize_one(NodeRef root) {
  NodeRef roots[] = {std::move(root)};
  return realize(roots)[0];
}

inline std::vector<float> values(const NodeRef& realised) {
  const auto& buffer = dynamic_cast<const DeviceBuffer&>(*realised->storage);
  std::vector<float> result(buffer.bytes() / sizeof(float));
  buffer.device().copy_to_host(result.data(), buffer, buffer.bytes());
  return result;
}
inline const void* address(const NodeRef& realised) {
  return dynamic_cast<const DeviceBuffer&>(*realised->storage).address();
}

// What the calling thread's plans and launches did since this object was made.
class StatsSince {
 public:
  StatsSince() { run_stats() = {}; }
  const RunStats* operator->() const { return &run_stats(); }
};

}  // namespace heddle::testing
