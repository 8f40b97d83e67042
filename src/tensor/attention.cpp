#include <heddle/ops.h>

#include <cmath>

#include "base/error.h"
#include "base/fork.h"
#include "tensor/build.h"

namespace heddle {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v) {
  auto fail = [&](const char* why) {
    throw ShapeError(text(kName, ": q of shape ", list_text(q.shape()), ", k of ", list_text(k.shape()), " and v of ",
                          list_text(v.shape()), ": ", why));
  };
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2) fail("each needs two axes, positions and width");
  if (q.size(-1) != k.size(-1)) fail("q and k must have the same width");
  if (k.size(-2) != v.size(-2)) fail("k and v must have the same number of positions");
}

// Each head as often as it serves one of q's.
Tensor for_each_head(const Tensor& x, int64_t heads) {
  if (x.rank() < 3 || x.size(-3) == heads || x.size(-3) == 1) return x;
  const int64_t groups = x.size(-3);
  if (groups == 0 || heads % groups != 0)
    throw ShapeError(text(kName, ": ", heads, " heads of q cannot be divided among ", groups, " of k and v"));
  Shape thin = x.node()->shape, flat = thin;
  const int at = thin.rank() - 3;
  thin.insert(static_cast<size_t>(at) + 1, 1);
  Shape wide = thin;
  wide[at + 1] = heads / groups;
  flat[at] = heads;
  return Tensor(make_reshape(make_expand(make_reshape(x.node(), thin), wide), flat));
}

// So few queries of all heads that share keys are rows of one product, so that keys and values are read once.
constexpr int64_t kFewRows = 64;

// Queries of `heads` heads for each of k's, as rows; 1 if k has as many.
int64_t heads_in_a_row(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.rank() < 3 || k.rank() < 3 || v.rank() < 3 || !q.node()->shape[q.rank() - 2].is_const()) return 1;
  const int64_t heads = q.size(-3), groups = k.size(-3);
  if (groups <= 1 || v.size(-3) != groups || heads % groups != 0) return 1;
  return heads / groups * q.size(-2) <= kFewRows ? heads / groups : 1;
}

// [.., heads, queries, x] as [.., groups, heads / groups * queries, x], or the other way.
Tensor regrouped(const Tensor& x, int64_t groups) {
  Shape shape = x.node()->shape;
  const int at = shape.rank() - 3;
  const Expr all = shape[at] * shape[at + 1];
  shape[at] = groups;
  shape[at + 1] = all.value() / groups;
  return Tensor(make_reshape(x.node(), shape));
}

// The shape of the scores of all heads.
Shape score_shape(const Tensor& q, const Tensor& k) {
  Shape shape = q.node()->shape;
  shape[shape.rank() - 1] = k.node()->shape[k.node()->shape.rank() - 2];
  return shape;
}

Shape with_rank(Shape shape, int rank) {
  while (shape.rank() < rank) shape.insert(0, 1);
  return shape;
}

// Whether a mask spreads over the scores, and not the other way round.
bool spreads_over(const Tensor& mask, const Shape& scores) {
  const Shape thin = with_rank(mask.node()->shape, scores.rank());
  bool fits = thin.rank() == scores.rank();
  for (int i = 0; fits && i < scores.rank(); ++i) fits = thin[i].is_const(1) || thin[i] == scores[i];
  return fits;
}

void check_mask(const Tensor& mask, const Shape& scores) {
  // Integers would be added as numbers, where most people mean 0 for "not seen".
  if (mask.dtype() != kBool && !is_float(mask.dtype()))
    throw DTypeError(text(kName, ": a mask of ", mask.dtype(),
                          "; use bool for which keys a query sees, or a float that is added to the scores"));
  const Shape& shape = mask.node()->shape;
  for (int i = 1; i <= std::min(shape.rank(), scores.rank()); ++i) {
    const Expr &a = shape[shape.rank() - i], &b = scores[scores.rank() - i];
    if (a.is_const() && b.is_const() && !a.is_const(1) && !b.is_const(1) && !(a == b))
      throw ShapeError(text(kName, ": a mask of shape ", shape, " does not go with scores of shape ", scores));
  }
}

// A mask with an element for every score of every head.
Tensor for_all_heads(const Tensor& mask, const Shape& scores) {
  return Tensor(make_expand(make_reshape(mask.node(), with_rank(mask.node()->shape, scores.rank())), scores));
}

// x with the precision of a narrower dtype; gradients pass as they are.
Tensor rounded(const Tensor& x, DType to) {
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto rule = std::make_shared<const GradientRule>(GradientRule{
      "rounded", [](const Node&, const NodeRef& g, GradientRule::Wanted) { return std::vector<NodeRef>{g}; }});
  NodeRef value = make_cast(make_cast(x.node(), to), x.dtype());
  const NodeRef from[] = {x.node()};
  return Tensor(make_pullback(value, from, rule));
}

std::shared_ptr<const GradientRule> narrow_rule(DType narrow) {
  return std::make_shared<const GradientRule>(
      GradientRule{text("gradient in ", narrow), [narrow](const Node&, const NodeRef& g, GradientRule::Wanted) {
                     return std::vector<NodeRef>{make_cast(make_cast(g, narrow), g->dtype)};
                   }});
}

// A product of narrow factors, whose gradient, a factor of the next products, is as narrow.
Tensor with_narrow_gradient(const Tensor& product, DType narrow) {
  if (narrow != DType::bf16 && narrow != DType::f16) return product;
  NoFork whole;
  static const auto bf16 = narrow_rule(DType::bf16), f16 = narrow_rule(DType::f16);
  const NodeRef from[] = {product.node()};
  return Tensor(make_pullback(product.node(), from, narrow == DType::bf16 ? bf16 : f16));
}

// Softmax of the scores, times the values. Weights for narrow values are as narrow, so that matrix units multiply them.
Tensor weighted(const Tensor& scores, const Tensor& wide_v, DType values) {
  const bool narrow = values == DType::bf16 || values == DType::f16;
  if (!narrow || scores.numel() == 0) return matmul(softmax(scores, -1), wide_v);
  Tensor weights = rounded(exp(scores - max(scores, -1, true).detach()), values);
  return with_narrow_gradient(matmul(weights, wide_v), values) * reciprocal(sum(weights, -1, true));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  check_shapes(q, k, v);
  for (const Tensor* x : {&k, &v}) check_same_device(kName, q.node()->device, x->node()->device);
  for (const Tensor* x : {&q, &k, &v})
    if (!is_float(x->dtype())) throw DTypeError(text(kName, ": works on floats, not ", x->dtype()));
  // Fewer heads of k and v than of q.
  const int64_t heads = q.rank() > 2 ? q.size(-3) : 1;
  Tensor wide_q = to_wide_float(q), wide_k = to_wide_float(k), wide_v = to_wide_float(v);
  int64_t each = heads_in_a_row(q, k, v);
  if (options.mask) check_mask(*options.mask, score_shape(q, k));
  if (options.mask && !spreads_over(*options.mask, score_shape(q, k))) each = 1;
  if (each > 1) {
    wide_q = regrouped(wide_q, heads / each);
  } else if (heads > 1) {
    wide_k = for_each_head(wide_k, heads);
    wide_v = for_each_head(wide_v, heads);
  }
  const std::optional<Tensor>& mask = options.mask;
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  Tensor scores = matmul(wide_q, transpose(wide_k, -2, -1));
  if (q.dtype() == k.dtype()) scores = with_narrow_gradient(scores, q.dtype());
  scores = scores * scale;
  if (mask) {
    Tensor plain = mask->dtype() == kBool ? *mask : to_wide_float(*mask);
    if (each > 1) plain = regrouped(for_all_heads(plain, score_shape(q, k)), heads / each);
    scores = mask->dtype() == kBool ? where(plain, scores, -INFINITY) : scores + plain;
  }
  if (options.causal) {
    // Positions, so that sizes may be symbolic.
    const Shape& shape = scores.node()->shape;
    Tensor query = Tensor(make_iota(DType::i64, shape, shape.rank() - 2));
    if (each > 1) query = query % q.size(-2);
    Tensor key = Tensor(make_iota(DType::i64, shape, shape.rank() - 1));
    scores = where(key <= query, scores, -INFINITY);
  }
  Tensor result = weighted(scores, wide_v, v.dtype());
  if (each > 1) result = regrouped(result, heads);
  return from_wide_float(result, q);
}

}  // namespace heddle
