#include "fuzz/differences.h"

#include <cmath>

#include "fuzz/check.h"
#include "graph/build.h"

namespace heddle::fuzz {

using testing::Random;

namespace {

// The same function of f64 alone, where nothing rounds: differences are of it. Bits of a float are those of its dtype.
NodeRef wide(const Node& node, std::span<const NodeRef> inputs) {
  if (node.op == NodeOp::Bitcast) {
    NodeRef bits = make_bitcast(make_cast(inputs[0], node.inputs[0]->dtype), node.dtype);
    return is_float(node.dtype) ? make_cast(bits, DType::f64) : bits;
  }
  if (node.op == NodeOp::Pullback) return inputs[0];
  if (!is_float(node.dtype)) return NodeRef();
  switch (node.op) {
    case NodeOp::Const: return make_const(Scalar::of(DType::f64, node.literal.f), node.shape);
    case NodeOp::Buffer:
    case NodeOp::Input: return make_cast(NodeRef::share(&node), DType::f64);
    case NodeOp::Iota: return make_iota(DType::f64, node.shape, static_cast<int>(node.attrs[0].value()));
    case NodeOp::Cast: return make_cast(inputs[0], DType::f64);
    case NodeOp::Pad: {
      SmallVector<Expr, 4> before, after;
      for (size_t i = 0; i < node.attrs.size(); i += 2) {
        before.push_back(node.attrs[i]);
        after.push_back(node.attrs[i + 1]);
      }
      return make_pad(inputs[0], before, after, Scalar::of(DType::f64, node.literal.f));
    }
    default: return NodeRef();
  }
}

}  // namespace

std::vector<NodeRef> without_null(const std::vector<NodeRef>& nodes) {
  std::vector<NodeRef> result;
  for (const NodeRef& node : nodes)
    if (node) result.push_back(node);
  return result;
}

Differences::Differences(const Problem& problem, const SymbolValues& symbols) : symbols_(symbols) {
  std::unordered_map<const Node*, NodeRef> with;
  for (const NodeRef& leaf : problem.leaves) {
    inputs_.push_back(make_placeholder(DType::f64, leaf->shape));
    with[leaf.get()] = inputs_.back();
  }
  auto of_inputs = [&](const Node& node, std::span<const NodeRef> inputs) {
    auto input = with.find(&node);
    return input == with.end() ? wide(node, inputs) : input->second;
  };
  outputs_ = rebuild_graph(problem.outputs, of_inputs);
  gradients_ = rebuild_graph(without_null(problem.gradients), of_inputs);
  cotangents_ = evaluate(rebuild_graph(problem.cotangents, wide), symbols_);
  for (const HostArray& cotangent : cotangents_)
    for (double c : cotangent.floats) weight_ += std::abs(c);
  for (const NodeRef& output : problem.outputs)
    if (output->dtype != DType::f64) folded_ = 0x1p-24 * weight_;
  leaves_ = evaluate(rebuild_graph(problem.leaves, wide), symbols_);
  for (size_t i = 0; i < problem.leaves.size(); ++i)
    if (problem.gradients[i]) differentiable_.push_back(i);
}

bool Differences::agree(Random& random, double rounding) {
  Point at, direction;
  for (const HostArray& leaf : leaves_) {
    at.push_back(leaf);
    direction.push_back(leaf);
    for (double& x : at.back().floats) x += 0.4 * random.uniform() - 0.2;  // off the kinks of small numbers
    for (double& x : direction.back().floats) x = 2 * random.uniform() - 1;
  }
  std::vector<HostArray> g = evaluate(gradients_, symbols_, bound(at));
  double ours = 0, size = 0;
  for (size_t i = 0; i < g.size(); ++i)
    for (size_t k = 0; k < g[i].floats.size(); ++k) {
      double term = g[i].floats[k] * direction[differentiable_[i]].floats[k];
      ours += term;
      size += std::abs(term);
    }
  double sum = 0, h = 1e-5;
  auto value = [&](double step) { return weighted(at, direction, step, sum); };
  double here = value(0), up = value(h), down = value(-h), up2 = value(2 * h), down2 = value(-2 * h);
  double near = (up - down) / (2 * h), far = (up2 - down2) / (4 * h);
  // What cancels to nothing leaves the rounding of what it was made of: numbers of about 1.
  constexpr double kRounding = 1e-16;
  double vague = (kRounding * weight_ + rounding) / h + 1e-9 * sum + 1e-7 * (size + std::abs(near));
  bool smooth = std::abs(near - far) <= 100 * vague && std::abs(up + down - 2 * here) / h <= 1e-2 * size + 100 * vague;
  if (!smooth || bad_indices_ > 0) return false;
  double difference = near + (near - far) / 3;
  if (!(std::abs(difference - ours) <= std::abs(near - far) + 10 * vague + folded_))
    throw Failure{text("the derivative along a direction is ", ours, ", differences say ", difference, " and ", far),
                  ""};
  return true;
}

std::unordered_map<const Node*, HostArray> Differences::bound(const Point& at) const {
  std::unordered_map<const Node*, HostArray> map;
  for (size_t i = 0; i < inputs_.size(); ++i) map[inputs_[i].get()] = at[i];
  return map;
}

// The outputs times their cotangents; `sum` of the terms' sizes.
double Differences::weighted(Point at, const Point& direction, double step, double& sum) {
  for (size_t i = 0; i < at.size(); ++i)
    for (size_t k = 0; k < at[i].floats.size(); ++k) at[i].floats[k] += step * direction[i].floats[k];
  std::vector<HostArray> values = evaluate(outputs_, symbols_, bound(at), &bad_indices_);
  double total = 0;
  sum = 0;
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t k = 0; k < values[i].floats.size(); ++k) {
      double term = values[i].floats[k] * cotangents_[i].floats[k];
      total += term;
      sum += std::abs(term);
    }
  return total;
}

}  // namespace heddle::fuzz
