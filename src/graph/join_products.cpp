#include "graph/join_products.h"

#include <optional>
#include <vector>

#include "graph/build.h"
#include "graph/graph.h"

namespace heddle {
namespace {

// Fewer products are not worth the copies of their factors. Longer chains stay as they are.
constexpr size_t kFewestProducts = 4, kMostProducts = 4096;

bool is(const Node& node, ScalarOp op) { return node.op == NodeOp::Scalar && node.scalar_op == op; }

const NodeRef& unexpanded(const NodeRef& x) { return x->op == NodeOp::Expand ? x->inputs[0] : x; }

// The terms of a chain of additions, or nothing if it is no chain of products.
std::optional<std::vector<NodeRef>> products(const NodeRef& chain) {
  std::vector<NodeRef> terms;
  NodeRef at = chain;
  while (is(*at, ScalarOp::add)) {
    const bool right = is(*at->inputs[1], ScalarOp::mul);
    const NodeRef& term = at->inputs[right ? 1 : 0];
    if (!is(*term, ScalarOp::mul)) return std::nullopt;
    terms.push_back(term);
    if (terms.size() == kMostProducts) return std::nullopt;
    NodeRef next = at->inputs[right ? 0 : 1];
    at = next;
  }
  if (!is(*at, ScalarOp::mul)) return std::nullopt;
  terms.push_back(at);
  return terms;
}

// Each factor lacks an axis that the other one has, and both run along `axis`.
bool multiplies_along(const Node& a, const Node& b, int axis, const Shape& shape) {
  if (!shape[axis].is_const() || shape[axis].is_const(1)) return false;
  if (!(a.shape[axis] == shape[axis]) || !(b.shape[axis] == shape[axis])) return false;
  bool a_lacks = false, b_lacks = false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i].is_const(1)) continue;
    a_lacks |= a.shape[i].is_const(1);
    b_lacks |= b.shape[i].is_const(1);
  }
  return a_lacks && b_lacks;
}

}  // namespace

NodeRef join_products(const NodeRef& sum) {
  if (sum->op != NodeOp::Reduce || sum->reduce_op != ReduceOp::Sum || !is(*sum->inputs[0], ScalarOp::add)) return sum;
  std::optional<std::vector<NodeRef>> terms = products(sum->inputs[0]);
  if (!terms || terms->size() < kFewestProducts) return sum;
  const Shape& shape = sum->inputs[0]->shape;
  int along = -1;
  const NodeRef first = unexpanded((*terms)[0]->inputs[0]), second = unexpanded((*terms)[0]->inputs[1]);
  for (const Expr& axis : sum->attrs)
    if (along < 0 && multiplies_along(*first, *second, static_cast<int>(axis.value()), shape))
      along = static_cast<int>(axis.value());
  if (along < 0 || first->shape == second->shape) return sum;
  std::vector<NodeRef> left, right;
  for (const NodeRef& term : *terms) {
    NodeRef a = unexpanded(term->inputs[0]), b = unexpanded(term->inputs[1]);
    if (!(a->shape == first->shape)) std::swap(a, b);
    if (!(a->shape == first->shape) || !(b->shape == second->shape)) return sum;
    left.push_back(std::move(a));
    right.push_back(std::move(b));
  }
  Shape longer = shape;
  longer[along] = shape[along] * static_cast<int64_t>(terms->size());
  NodeRef factors[] = {make_expand(make_cat(left, along), longer), make_expand(make_cat(right, along), longer)};
  SmallVector<int, 4> axes;
  for (const Expr& axis : sum->attrs) axes.push_back(static_cast<int>(axis.value()));
  return make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), axes);
}

}  // namespace heddle
