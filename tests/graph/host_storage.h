// Realised data in host memory, for tests.
#pragma once

#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "core/scalar.h"
#include "graph/graph.h"

namespace heddle::testing {

class HostStorage : public Storage {
 public:
  explicit HostStorage(uint64_t bytes) : memory_(bytes) {}
  const void* host_data() const override { return memory_.data(); }
  uint64_t bytes() const override { return memory_.size(); }
  void* data() { return memory_.data(); }

 private:
  std::vector<std::byte> memory_;
};

// A buffer leaf with these values, converted to dtype. The shape is static.
inline NodeRef buffer_of(DType dtype, const Shape& shape, const std::vector<double>& values) {
  auto storage = std::make_shared<HostStorage>(values.size() * static_cast<uint64_t>(size_of(dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    store_scalar(storage->data(), static_cast<int64_t>(i), Scalar::of(dtype, values[i]));
  return make_buffer(storage, dtype, shape);
}

inline NodeRef buffer_of(const Shape& shape, const std::vector<double>& values) {
  return buffer_of(DType::f32, shape, values);
}

// Elements 0, 1, 2, ... of a static shape.
inline NodeRef counting(DType dtype, const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(shape.static_numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return buffer_of(dtype, shape, values);
}

// All elements as doubles (exact for the small numbers tests use).
inline std::vector<double> doubles(const HostArray& array) {
  if (is_float(array.dtype)) return array.floats;
  std::vector<double> result;
  for (uint64_t bits : array.integers)
    result.push_back(is_signed(array.dtype) ? static_cast<double>(static_cast<int64_t>(bits))
                                            : static_cast<double>(bits));
  return result;
}

inline HostArray evaluate_one(const NodeRef& x) { return evaluate(std::span(&x, 1))[0]; }
inline std::vector<double> values_of(const NodeRef& x) { return doubles(evaluate_one(x)); }
inline NodeRef simplify_one(const NodeRef& x) { return simplify(std::span(&x, 1))[0]; }

inline NodeRef scalar_node(ScalarOp op, std::initializer_list<NodeRef> inputs) {
  return make_scalar(op, std::span(inputs.begin(), inputs.size()));
}
inline NodeRef number(DType dtype, double value, const Shape& shape = {}) {
  return make_const(Scalar::of(dtype, value), shape);
}
inline NodeRef permuted(const NodeRef& x, std::initializer_list<int> axes) {
  return make_permute(x, std::span(axes.begin(), axes.size()));
}
inline NodeRef flipped(const NodeRef& x, std::initializer_list<int> axes) {
  return make_flip(x, std::span(axes.begin(), axes.size()));
}
inline NodeRef reduced(ReduceOp op, const NodeRef& x, std::initializer_list<int> axes) {
  return make_reduce(op, x, std::span(axes.begin(), axes.size()));
}
inline NodeRef padded(const NodeRef& x, std::initializer_list<Expr> before, std::initializer_list<Expr> after,
                      double value) {
  return make_pad(x, std::span(before.begin(), before.size()), std::span(after.begin(), after.size()),
                  Scalar::of(x->dtype, value));
}
inline NodeRef shrunk(const NodeRef& x, std::initializer_list<Expr> begin, std::initializer_list<Expr> size) {
  return make_shrink(x, std::span(begin.begin(), begin.size()), std::span(size.begin(), size.size()));
}
inline NodeRef joined(std::initializer_list<NodeRef> parts, int axis) {
  return make_cat(std::span(parts.begin(), parts.size()), axis);
}

}  // namespace heddle::testing
