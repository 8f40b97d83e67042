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

const Node* Unit::source() const {
  if (change && change->value) return change->value;
  if (scatters()) return node->inputs[0].get();
  return part >= 0 ? node->inputs[part].get() : node;
}

Index Unit::update_at() const {
  Index result = at;
  result[node->attrs[0].value()] = *update;
  return result;
}

Index gather_index(const Node& node, const Index& at) {
  if (!node.attrs[1].is_const(0)) return at;
  const Expr* from = at.begin() + node.attrs[0].value();
  return Index(from, from + node.inputs[1]->shape.size());
}

Index gather_source(const Node& node, const Index& at, const Expr& chosen) {
  int64_t axis = node.attrs[0].value();
  size_t taken = node.attrs[1].is_const(0) ? node.inputs[1]->shape.size() : 1;
  Index source(at.begin(), at.begin() + axis);
  source.push_back(chosen);
  source.append(at.begin() + axis + taken, at.end());
  return source;
}

std::vector<Expr> Unit::outer_axes() const {
  std::vector<Expr> axes = kept;
  if (scans()) std::erase(axes, scanned);
  if (scatters()) std::erase(axes, at[node->attrs[0].value()]);
  return axes;
}

const Node* reduction_of(const Node* node) {
  if (node->op == NodeOp::Get) node = node->inputs[0].get();
  bool is_one = node->op == NodeOp::Reduce || node->op == NodeOp::ArgReduce || node->op == NodeOp::Unwindow;
  return is_one ? node : nullptr;
}

bool is_direct(const Node& node) { return node.op == NodeOp::Sort || node.op == NodeOp::Custom || node.control; }

const Node* direct_of(const Node* node) {
  return node->op == NodeOp::Get && is_direct(*node->inputs[0]) ? node->inputs[0].get() : nullptr;
}

const Node* memory_source(const Node* node) {
  while (node->op == NodeOp::Reshape) node = node->inputs[0].get();
  return node;
}

Index reduction_source(const Node& node, const Index& at, std::span<const Expr> reduced, Expr* guard) {
  Index source;
  if (node.op == NodeOp::Unwindow) {
    // Element n of the axis gathers window element w at position (n - w * dilation) / stride, where that is whole.
    int64_t axis = node.attrs[0].value();
    const Expr &stride = node.attrs[2], &dilation = node.attrs[3];
    Expr offset = at[axis] - reduced[0] * dilation;
    Expr position = floordiv(offset, stride);
    for (const Expr& inside : {ge(offset, 0), eq(mod(offset, stride), 0), lt(position, node.inputs[0]->shape[axis])})
      if (guard) *guard = logical_and(*guard, inside);
    source = at;
    source[axis] = position;
    source.push_back(reduced[0]);
    return source;
  }
  size_t kept = 0, gone = 0;
  for (size_t i = 0; i < node.inputs[0]->shape.size(); ++i) {
    bool is_reduced =
        std::ranges::any_of(node.attrs, [&](const Expr& axis) { return axis.is_const(static_cast<int64_t>(i)); });
    source.push_back(is_reduced ? reduced[gone++] : at[kept++]);
  }
  return source;
}

}  // namespace heddle
