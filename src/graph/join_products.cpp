#include "graph/join_products.h"

#include <optional>
#include <vector>

#include "graph/build.h"
#include "graph/graph.h"

namespace heddle {
namespace {

// Fewer products are not worth the copies of their factors. Longer chains stay as they are.
constexpr size_t kFewestProducts = 4, kMostProducts = 4096;
// Small sums are done before another kernel has begun. So many kernels at most.
constexpr int64_t kLeastSeparate = 1 << 17;
constexpr size_t kMostSeparate = 16;

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

std::optional<int> summed_along(const NodeRef& sum, const Node& a, const Node& b) {
  for (const Expr& axis : sum->attrs)
    if (multiplies_along(a, b, static_cast<int>(axis.value()), sum->inputs[0]->shape))
      return static_cast<int>(axis.value());
  return {};
}

SmallVector<int, 4> summed_axes(const NodeRef& sum) {
  SmallVector<int, 4> axes;
  for (const Expr& axis : sum->attrs) axes.push_back(static_cast<int>(axis.value()));
  return axes;
}

// What all of them sum up to is not rounded in between.
NodeRef separate(const NodeRef& sum, std::span<const NodeRef> terms) {
  const Shape& shape = sum->inputs[0]->shape;
  if (!shape.numel().is_const() || shape.numel().value() < kLeastSeparate) return sum;
  for (const NodeRef& term : terms)
    if (!summed_along(sum, *unexpanded(term->inputs[0]), *unexpanded(term->inputs[1]))) return sum;
  const DType wide = compute_dtype(sum->dtype);
  NodeRef total;
  for (const NodeRef& term : terms) {
    NodeRef factors[] = {make_expand(make_cast(unexpanded(term->inputs[0]), wide), shape),
                         make_expand(make_cast(unexpanded(term->inputs[1]), wide), shape)};
    NodeRef product = make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), summed_axes(sum));
    if (!total) {
      total = product;
      continue;
    }
    const NodeRef both[] = {total, product};
    total = make_scalar(ScalarOp::add, both);
  }
  return make_cast(total, sum->dtype);
}

}  // namespace

NodeRef join_products(const NodeRef& sum) {
  if (sum->op != NodeOp::Reduce || sum->reduce_op != ReduceOp::Sum || !is(*sum->inputs[0], ScalarOp::add)) return sum;
  std::optional<std::vector<NodeRef>> terms = products(sum->inputs[0]);
  if (!terms) return sum;
  if (terms->size() < kFewestProducts) return separate(sum, *terms);
  const Shape& shape = sum->inputs[0]->shape;
  const NodeRef first = unexpanded((*terms)[0]->inputs[0]), second = unexpanded((*terms)[0]->inputs[1]);
  const std::optional<int> found = summed_along(sum, *first, *second);
  if (!found || first->shape == second->shape) return sum;
  const int along = *found;
  std::vector<NodeRef> left, right;
  for (const NodeRef& term : *terms) {
    NodeRef a = unexpanded(term->inputs[0]), b = unexpanded(term->inputs[1]);
    if (!(a->shape == first->shape)) std::swap(a, b);
    if (!(a->shape == first->shape) || !(b->shape == second->shape))
      return terms->size() <= kMostSeparate ? separate(sum, *terms) : sum;
    left.push_back(std::move(a));
    right.push_back(std::move(b));
  }
  Shape longer = shape;
  longer[along] = shape[along] * static_cast<int64_t>(terms->size());
  NodeRef factors[] = {make_expand(make_cat(left, along), longer), make_expand(make_cat(right, along), longer)};
  return make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), summed_axes(sum));
}

}  // namespace heddle
