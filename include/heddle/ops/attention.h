// Attention.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// @dtypes floats @shape queries x values

struct AttentionOptions {
  std::optional<Tensor> mask = {};   // bool: which keys are seen; float: added to the scores. [..., queries, keys]
  bool causal = false;               // query i sees keys 0 to i
  std::optional<double> scale = {};  // of the scores; 1 / sqrt(width) if not given
};

// softmax(q k^T * scale + mask) v for q [..., heads, queries, width], k [..., heads, keys, width] and v [..., heads,
// keys, columns]. The axes before the last two broadcast. k and v may have fewer heads than q, each for as many of q's
// in a row. A query that sees no key gives NaN. Small floats are computed in f32. The scores never go to memory; what
// a mask of positions leaves out is not computed.
//   scaled_dot_product_attention(ones({2, 1}), ones({2, 1}), tensor({{1.}, {3.}}))   // [[2.] [2.]]
//   scaled_dot_product_attention(ones({2, 1}), ones({2, 1}), tensor({{1.}, {3.}}), {.causal = true})   // [[1.] [2.]]
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace heddle
