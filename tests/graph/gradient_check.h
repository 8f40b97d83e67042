// Gradients against differences: both by the evaluator, in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "graph/gradient.h"
#include "graph/graph.h"

namespace heddle::testing {

// The same inputs for a graph and for its evaluation.
struct Point {
  std::vector<NodeRef> nodes;
  std::vector<HostArray> values;

  std::unordered_map<const Node*, HostArray> bound() const {
    std::unordered_map<const Node*, HostArray> map;
    for (size_t i = 0; i < nodes.size(); ++i) map[nodes[i].get()] = values[i];
    return map;
  }
};

// Inputs of these shapes with elements in [low, high).
inline Point random_point(const std::vector<std::vector<int64_t>>& shapes, double low, double high, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> element(low, high);
  Point point;
  for (size_t i = 0; i < shapes.size(); ++i) {
    Shape shape;
    for (int64_t size : shapes[i]) shape.push_back(size);
    point.nodes.push_back(make_input(static_cast<int64_t>(i), 7, DType::f64, shape));
    HostArray value{DType::f64, shapes[i], {}, {}};
    for (int64_t k = 0; k < value.numel(); ++k) value.floats.push_back(element(random));
    point.values.push_back(value);
  }
  return point;
}

inline NodeRef random_like(const NodeRef& x, uint64_t seed) {
  // Some numbers without data behind them: sin of a ramp.
  Shape shape = x->shape;
  NodeRef ramp = make_const(Scalar::of(DType::f64, 0.7 + 0.1 * static_cast<double>(seed)), shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    NodeRef position = make_cast(make_iota(DType::i64, shape, axis), DType::f64);
    NodeRef step = make_const(Scalar::of(DType::f64, 1.3 + axis), shape);
    NodeRef parts[] = {position, step};
    NodeRef terms[] = {ramp, make_scalar(ScalarOp::mul, parts)};
    ramp = make_scalar(ScalarOp::add, terms);
  }
  return make_scalar(ScalarOp::sin, std::span(&ramp, 1));
}

inline NodeRef weighted_sum(const NodeRef& x, uint64_t seed) {
  NodeRef factors[] = {x, random_like(x, seed)};
  std::vector<int> axes;
  for (int i = 0; i < x->shape.rank(); ++i) axes.push_back(i);
  return make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), axes);
}

// Compares gradients of `value` (one element) with central differences, for every element of every input.
inline void expect_gradients_match(const NodeRef& value, const std::vector<NodeRef>& gradients, const Point& point,
                                   double tolerance, const std::string& what) {
  std::vector<NodeRef> wanted;
  for (const NodeRef& g : gradients)
    if (g) wanted.push_back(g);
  std::vector<HostArray> computed = evaluate(wanted, {}, point.bound());
  size_t next = 0;
  for (size_t i = 0; i < point.nodes.size(); ++i) {
    const HostArray* given = gradients[i] ? &computed[next++] : nullptr;
    if (given) {
      ASSERT_EQ(given->shape, point.values[i].shape) << what;
    }
    for (size_t k = 0; k < point.values[i].floats.size(); ++k) {
      auto at = [&](double step) {
        Point moved = point;
        moved.values[i].floats[k] += step;
        return evaluate(std::span(&value, 1), {}, moved.bound())[0].floats[0];
      };
      double h = 1e-5;
      double difference = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      double ours = given ? given->floats[k] : 0;
      EXPECT_NEAR(ours, difference, tolerance * std::max(1.0, std::abs(difference)))
          << what << ": input " << i << ", element " << k;
    }
  }
}

// f's first and second derivatives at a point.
inline void check_gradients(const std::string& what, const Point& point,
                            const std::function<NodeRef(const std::vector<NodeRef>&)>& f, bool second = true) {
  NodeRef value = weighted_sum(f(point.nodes), 1);
  NodeRef one = make_const(Scalar::of(DType::f64, 1));
  std::vector<NodeRef> first = gradient(std::span(&value, 1), std::span(&one, 1), point.nodes);
  expect_gradients_match(value, first, point, 1e-6, what);
  if (!second || ::testing::Test::HasFailure()) return;
  NodeRef total;
  for (size_t i = 0; i < first.size(); ++i) {
    if (!first[i]) continue;
    NodeRef term = weighted_sum(first[i], 3 + i);
    NodeRef terms[] = {total, term};
    total = total ? make_scalar(ScalarOp::add, terms) : term;
  }
  if (!total) return;
  std::vector<NodeRef> again = gradient(std::span(&total, 1), std::span(&one, 1), point.nodes);
  expect_gradients_match(total, again, point, 1e-5, what + ", second order");
}

}  // namespace heddle::testing
