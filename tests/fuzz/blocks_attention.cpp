// Blocks: attention in many forms.
#include "fuzz/program.h"

namespace heddle::fuzz {
namespace {

// Queries and keys as today's models have them: often normalised.
Term prepared(Builder& b, const Term& x) {
  const Tensor& t = x.tensor;
  switch (b.between(0, 11)) {
    case 0: return b.expression("layer_norm($)", {x}, layer_norm(t));
    case 1: return b.expression("rms_norm($)", {x}, rms_norm(t));
    case 2: return b.expression("($ - max($, -1, true))", {x, x}, t - max(t, -1, true));
    case 3: return b.expression("($ / norm($, 2, -1, true))", {x, x}, t / norm(t, 2, -1, true));
    case 4: {
      Term y = b.let("layer_norm($)", {x}, layer_norm(t));
      return y;
    }
    case 5: {
      Term c = b.leaf({t.size(-1)});
      return b.expression("($ + $)", {x, c}, t + c.tensor);
    }
    default: return x;
  }
}

// A mask that leaves every query at least one key; `window` keys to the left are seen.
Term mask_of(Builder& b, int64_t queries, int64_t keys, int64_t batch, int64_t heads) {
  Term row = b.expression(text("unsqueeze(arange(", queries, "), 1)"), {}, unsqueeze(arange(queries), 1));
  Term column = b.expression(text("arange(", keys, ")"), {}, arange(keys));
  switch (b.between(0, 4)) {
    case 0: {  // a window
      int64_t width = b.between(1, 9);
      Tensor near = logical_or(abs(row.tensor - column.tensor) < width, column.tensor == 0);
      return b.expression(text("(abs($ - $) < ", width, " || key == 0)"), {row, column}, near);
    }
    case 1: {  // any booleans; the first key is always seen
      Term m = b.mask(b.chance(0.5) ? Dims{queries, keys} : Dims{batch, 1, queries, keys});
      return b.expression("($ || key == 0)", {m}, logical_or(m.tensor, column.tensor == 0));
    }
    case 2: {  // numbers that are added
      Term m = b.leaf(b.chance(0.5) ? Dims{queries, keys} : Dims{heads, queries, keys});
      return m;
    }
    case 3: {  // keys of padding
      Term m = b.mask({batch, 1, 1, keys});
      return b.expression("($ || key == 0)", {m}, logical_or(m.tensor, column.tensor == 0));
    }
    default: return b.expression("($ >= $)", {row, column}, row.tensor >= column.tensor);
  }
}

Term attention(Builder& b, const Term& q, const Term& k, const Term& v) {
  AttentionOptions options;
  std::vector<Term> terms{q, k, v};
  std::string tail;
  double which = b.random().uniform();
  if (which < 0.3) {
    options.causal = true;
    tail = ", {.causal = true}";
  } else if (which < 0.65) {
    Dims shape = q.tensor.shape();
    int64_t batch = shape.size() > 3 ? shape[0] : 1, heads = shape.size() > 2 ? shape[shape.size() - 3] : 1;
    Term mask = mask_of(b, q.tensor.size(-2), k.tensor.size(-2), batch, heads);
    if (mask.tensor.rank() <= q.tensor.rank()) {
      options.mask = mask.tensor;
      terms.push_back(mask);
      tail = ", {.mask = $}";
    }
  }
  return b.let("scaled_dot_product_attention($, $, $" + tail + ")", terms,
               scaled_dot_product_attention(q.tensor, k.tensor, v.tensor, options));
}

void finish(Builder& b, const Term& q, const Term& t) {
  switch (b.between(0, 4)) {
    case 0:
      if (q.tensor.shape() == t.tensor.shape()) b.let("$ + $", {q, t}, q.tensor + t.tensor);
      break;
    case 1: b.let("relu($)", {t}, relu(t.tensor)); break;
    case 2: b.let("$ * 2", {t}, t.tensor * 2); break;
    default: break;
  }
}

// Leaves of [batch, heads, positions, width].
void heads(Builder& b) {
  int64_t batch = b.of<int64_t>({1, 1, 1, 2}), count = b.of<int64_t>({1, 1, 2, 3, 4}), width = b.size(64);
  int64_t most = std::max<int64_t>(4, b.most_work() / (batch * count * width));
  int64_t queries = b.size(most / 2), keys = b.chance(0.6) ? queries : b.size(std::max<int64_t>(1, most / queries));
  while (queries * keys > most) (queries > keys ? queries : keys) /= 2;
  int64_t groups = b.chance(0.3) ? b.divisor(count) : count;
  int64_t columns = b.chance(0.8) ? width : b.size(64);
  Term q = prepared(b, b.leaf({batch, count, queries, width}));
  Term k = prepared(b, b.leaf({batch, groups, keys, width}));
  Term v = b.leaf({batch, groups, keys, columns});
  finish(b, q, attention(b, q, k, v));
}

// Self-attention of a sequence: projections of one tensor, or the tensor itself.
void self_attention(Builder& b) {
  Term x = b.chance(0.6) ? b.matrix(b.most_work() / 32) : b.batch(b.most_work() / 32);
  int64_t n = x.tensor.size(-2), width = x.tensor.size(-1);
  if (n * n * width > b.most_work()) return;
  Term inside = prepared(b, x);
  std::vector<Term> projected;
  for (int i = 0; i < 3; ++i) {
    if (b.chance(0.3) || x.tensor.numel() * width > b.most_work()) {
      projected.push_back(inside);
      continue;
    }
    Term w = b.leaf({width, width}, width);
    Term y = b.expression("matmul($, $)", {inside, w}, matmul(inside.tensor, w.tensor));
    if (b.chance(0.3)) y = prepared(b, y);
    projected.push_back(y);
  }
  int64_t count = b.chance(0.4) && x.tensor.rank() == 3 ? b.divisor(width) : 1;
  if (count > 1) {
    for (Term& y : projected)
      y = b.expression(text("transpose(reshape($, {", x.tensor.size(0), ", ", n, ", ", count, ", -1}), 1, 2)"), {y},
                       transpose(reshape(y.tensor, {x.tensor.size(0), n, count, -1}), 1, 2));
    Term t = attention(b, projected[0], projected[1], projected[2]);
    Tensor joined = reshape(transpose(t.tensor, 1, 2), {x.tensor.size(0), n, width});
    t = b.let(text("reshape(transpose($, 1, 2), {", x.tensor.size(0), ", ", n, ", ", width, "})"), {t}, joined);
    b.let("$ + $", {x, t}, x.tensor + t.tensor);
    return;
  }
  finish(b, x, attention(b, projected[0], projected[1], projected[2]));
}

// By hand: softmax, or something like it, between two products.
void by_hand(Builder& b) {
  Term x = b.matrix(b.most_work() / 64);
  int64_t n = x.tensor.size(0), width = x.tensor.size(1);
  int64_t keys = b.chance(0.5) ? n : b.size(std::max<int64_t>(1, b.most_work() / (n * width)));
  keys = std::min(keys, std::max<int64_t>(1, b.most_work() / (n * width)));
  Term y = keys == n && b.chance(0.4) ? x : b.leaf({keys, width});
  Term z = b.chance(0.3) && y.name != x.name ? y : b.leaf({keys, b.chance(0.6) ? width : b.size(64)});
  Term q = b.exact() ? x : prepared(b, x);
  Term scores = b.scaled(b.expression("matmul($, transpose($))", {q, y}, matmul(q.tensor, transpose(y.tensor))), width);
  Term weights;
  switch (b.exact() ? 3 : b.between(0, 5)) {
    case 0: weights = b.expression("softmax($, 0)", {scores}, softmax(scores.tensor, 0)); break;
    case 1: weights = b.expression("sigmoid($)", {scores}, sigmoid(scores.tensor)); break;
    case 2: weights = b.let("softmax($)", {scores}, softmax(scores.tensor)); break;
    case 3: weights = b.expression("relu($)", {scores}, relu(scores.tensor)); break;
    default: weights = b.expression("softmax($)", {scores}, softmax(scores.tensor)); break;
  }
  Term t = b.let("matmul($, $)", {weights, z}, matmul(weights.tensor, z.tensor));
  if (!b.exact()) finish(b, x, t);
}

}  // namespace

std::vector<Block> attention_blocks() {
  return {{"attention", 4, false, heads},
          {"self_attention", 4, false, self_attention},
          {"attention_by_hand", 4, true, by_hand}};
}

}  // namespace heddle::fuzz
