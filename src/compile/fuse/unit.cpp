// What a unit of work is, apart from how units are grouped.
#include <algorithm>

#include "compile/fuse/partition.h"

namespace heddle {

double Unit::points() const {
  double total = 1;
  for (const Expr& axis : kept) total *= static_cast<double>(axis.extent().hi());
  for (const Expr& axis : reduced) total *= static_cast<double>(axis.extent().hi());
  if (scatters()) {
    double updates = 1;
    for (const Expr& size : node->inputs[1]->shape) updates *= static_cast<double>(size.hi());
    total = into ? updates : std::max(total, updates);
  }
  return total;
}

Index Unit::update_at() const {
  Index result = at;
  result[static_cast<size_t>(node->attrs[0].value())] = *update;
  return result;
}

Index gather_index(const Node& node, const Index& at) {
  if (!node.attrs[1].is_const(0)) return at;
  const Expr* from = at.begin() + node.attrs[0].value();
  return Index(from, from + node.inputs[1]->shape.size());
}

Index gather_source(const Node& node, const Index& at, const Expr& chosen) {
  size_t axis = static_cast<size_t>(node.attrs[0].value());
  size_t taken = node.attrs[1].is_const(0) ? node.inputs[1]->shape.size() : 1;
  Index source(at.begin(), at.begin() + axis);
  source.push_back(chosen);
  source.append(at.begin() + axis + taken, at.end());
  return source;
}

std::vector<Expr> Unit::free_axes() const {
  std::vector<Expr> axes = kept;
  if (scans()) std::erase(axes, scanned);
  return axes;
}

const Node* reduction_of(const Node* node) {
  if (node->op == NodeOp::Get) node = node->inputs[0].get();
  bool is_one = node->op == NodeOp::Reduce || node->op == NodeOp::ArgReduce || node->op == NodeOp::Unwindow;
  return is_one ? node : nullptr;
}

const Node* direct_of(const Node* node) {
  if (node->op != NodeOp::Get) return nullptr;
  const Node* from = node->inputs[0].get();
  return from->op == NodeOp::Sort || from->op == NodeOp::Custom || from->control ? from : nullptr;
}

const Node* memory_source(const Node* node) {
  while (node->op == NodeOp::Reshape) node = node->inputs[0].get();
  return node;
}

Index reduction_source(const Node& node, const Index& at, std::span<const Expr> reduced, Expr& guard) {
  Index source;
  if (node.op == NodeOp::Unwindow) {
    // Element n of the axis gathers window element w at position (n - w * dilation) / stride, where that is whole.
    size_t axis = static_cast<size_t>(node.attrs[0].value());
    const Expr &stride = node.attrs[2], &dilation = node.attrs[3];
    Expr offset = at[axis] - reduced[0] * dilation;
    Expr position = floordiv(offset, stride);
    guard = logical_and(guard, ge(offset, 0));
    guard = logical_and(guard, eq(mod(offset, stride), 0));
    guard = logical_and(guard, lt(position, node.inputs[0]->shape[axis]));
    source = at;
    source[axis] = position;
    source.push_back(reduced[0]);
    return source;
  }
  size_t kept = 0, gone = 0;
  for (size_t i = 0; i < node.inputs[0]->shape.size(); ++i) {
    bool is_reduced = std::any_of(node.attrs.begin(), node.attrs.end(),
                                  [&](const Expr& axis) { return axis.is_const(static_cast<int64_t>(i)); });
    source.push_back(is_reduced ? reduced[gone++] : at[kept++]);
  }
  return source;
}

}  // namespace heddle
