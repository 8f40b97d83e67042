#include <heddle/ops.h>

#include <cmath>

#include "base/error.h"
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

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  check_shapes(q, k, v);
  for (const Tensor* x : {&q, &k, &v})
    if (!is_float(x->dtype())) throw DTypeError(text(kName, ": works on floats, not ", x->dtype()));
  // Fewer heads of k and v than of q.
  const int64_t heads = q.rank() > 2 ? q.size(-3) : 1;
  Tensor wide_q = to_wide_float(q), wide_k = to_wide_float(k), wide_v = to_wide_float(v);
  if (heads > 1) {
    wide_k = for_each_head(wide_k, heads);
    wide_v = for_each_head(wide_v, heads);
  }
  const std::optional<Tensor>& mask = options.mask;
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  Tensor scores = matmul(wide_q, transpose(wide_k, -2, -1)) * scale;
  if (mask) {
    Tensor plain = mask->dtype() == kBool ? *mask : to_wide_float(*mask);
    scores = mask->dtype() == kBool ? where(plain, scores, -INFINITY) : scores + plain;
  }
  if (options.causal) {
    // Positions, so that sizes may be symbolic.
    const Shape& shape = scores.node()->shape;
    Tensor query = Tensor(make_iota(DType::i64, shape, shape.rank() - 2));
    Tensor key = Tensor(make_iota(DType::i64, shape, shape.rank() - 1));
    scores = where(key <= query, scores, -INFINITY);
  }
  Tensor result = matmul(softmax(scores, -1), wide_v);
  return from_wide_float(result, q);
}

}  // namespace heddle
