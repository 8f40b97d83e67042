// Blocks: small algorithms and parts of networks in which one tensor is used again and again.
#include "fuzz/program.h"

namespace heddle::fuzz {
namespace {

// A network with a state: the same weights at every step.
void recurrent(Builder& b) {
  int64_t rows = b.small(), inputs = b.small(), hidden = b.size(64), steps = b.between(2, 4);
  if (rows * hidden * hidden * steps > b.most_work()) return;
  Term x = b.leaf({rows, steps, inputs}), w = b.leaf({inputs, hidden}, inputs), u = b.leaf({hidden, hidden}, hidden);
  Term c = b.leaf({hidden}), h = b.leaf({rows, hidden});
  bool gated = b.chance(0.4);
  for (int64_t step = 0; step < steps; ++step) {
    Term now = b.expression(text("select($, 1, ", step, ")"), {x}, select(x.tensor, 1, step));
    Tensor in = matmul(now.tensor, w.tensor) + matmul(h.tensor, u.tensor) + c.tensor;
    if (gated) {
      Tensor gate = sigmoid(in);
      h = b.let("g = sigmoid(matmul($, $) + matmul($, $) + $); g * $ + (1 - g) * tanh(..)", {now, w, h, u, c, h},
                gate * h.tensor + (1 - gate) * tanh(in));
    } else {
      h = b.let("tanh(matmul($, $) + matmul($, $) + $)", {now, w, h, u, c}, tanh(in));
    }
  }
}

// Experts, weighted by a softmax of the input.
void mixture(Builder& b) {
  Term x = b.matrix(b.most_work() / 64);
  int64_t width = x.tensor.size(1), experts = b.between(2, 4), outputs = b.size(64);
  if (x.tensor.numel() * outputs * experts > b.most_work()) return;
  Term g = b.leaf({width, experts}, width), w = b.leaf({experts, width, outputs}, width);
  Term weights = b.let("softmax(matmul($, $))", {x, g}, softmax(matmul(x.tensor, g.tensor)));
  if (b.chance(0.5)) {
    b.let("einsum(\"be,bi,eio->bo\", {$, $, $})", {weights, x, w},
          einsum("be,bi,eio->bo", {weights.tensor, x.tensor, w.tensor}));
    return;
  }
  Tensor each = relu(matmul(x.tensor, w.tensor));  // [experts, rows, outputs]
  b.let("sum(relu(matmul($, $)) * unsqueeze(transpose($), -1), 0)", {x, w, weights},
        sum(each * unsqueeze(transpose(weights.tensor), -1), 0));
}

// Attention without a softmax: q (k' v), each query divided by the sum of its weights.
void linear_attention(Builder& b) {
  int64_t width = b.small(), columns = b.size(64);
  int64_t n = b.size(std::max<int64_t>(1, b.most_work() / (width * columns)));
  Term x = b.leaf({n, width}), y = b.chance(0.5) ? x : b.leaf({n, width}), v = b.leaf({n, columns});
  Term q = b.expression("(elu($) + 1.1)", {x}, elu(x.tensor) + 1.1);
  Term k = b.expression("(elu($) + 1.1)", {y}, elu(y.tensor) + 1.1);
  Term s = b.let("matmul(transpose($), $)", {k, v}, matmul(transpose(k.tensor), v.tensor));
  Term z = b.let("sum($, 0)", {k}, sum(k.tensor, 0));
  b.let("matmul($, $) / unsqueeze(matmul($, $), 1)", {q, s, q, z},
        matmul(q.tensor, s.tensor) / unsqueeze(matmul(q.tensor, z.tensor), 1));
}

// Rows or columns less their mean, times themselves.
void covariance(Builder& b) {
  Term x = b.matrix(std::max<int64_t>(16, b.most_work() / 64));
  int64_t n = x.tensor.size(0), m = x.tensor.size(1);
  if (m * x.tensor.numel() > b.most_work()) return;
  Term a = b.exact() ? b.expression("($ - max($, 0, true))", {x, x}, x.tensor - max(x.tensor, 0, true))
                     : b.expression("($ - mean($, 0, true))", {x, x}, x.tensor - mean(x.tensor, 0, true));
  if (b.chance(0.4)) a = b.let("$", {a}, a.tensor);
  Term c = b.scaled(b.expression("matmul(transpose($), $)", {a, a}, matmul(transpose(a.tensor), a.tensor)), n);
  c = b.let("$", {c}, c.tensor);
  if (b.exact() || b.chance(0.5)) return;
  Tensor deviation = rsqrt(diagonal(c.tensor) + 0.1);
  b.let("d = rsqrt(diagonal($) + 0.1); $ * unsqueeze(d, 0) * unsqueeze(d, 1)", {c, c},
        c.tensor * unsqueeze(deviation, 0) * unsqueeze(deviation, 1));
}

// v becomes A v, divided by its length, a few times.
void power_iteration(Builder& b) {
  int64_t n = b.size(96);
  Term a = b.positive({n, n}), v = b.positive({n});
  for (int64_t step = b.between(1, 3); step > 0; --step) {
    Term w = b.expression("matmul($, $)", {a, v}, matmul(a.tensor, v.tensor));
    v = b.let("$ / norm($)", {w, w}, w.tensor / norm(w.tensor));
  }
  b.let("matmul($, matmul($, $))", {v, a, v}, matmul(v.tensor, matmul(a.tensor, v.tensor)));
}

// Rows, then columns, divided by their sums, a few times.
void sinkhorn(Builder& b) {
  Term x = b.matrix(b.most_elements() / 8);
  Term p = b.let("exp(tanh($))", {x}, exp(tanh(x.tensor)));
  for (int64_t step = b.between(1, 3); step > 0; --step) {
    p = b.expression("($ / sum($, 1, true))", {p, p}, p.tensor / sum(p.tensor, 1, true));
    p = b.let("$ / sum($, 0, true)", {p, p}, p.tensor / sum(p.tensor, 0, true));
  }
}

// A statistic of all elements, and the tensor against itself in two shapes.
void outer_with_itself(Builder& b) {
  Term x = b.any(b.chance(0.5) ? 17 : 128);
  int64_t n = x.tensor.numel();
  if (n * n > b.most_work()) return;
  Term a = b.chance(0.5) ? b.expression("($ - max($))", {x, x}, x.tensor - max(x.tensor))
                         : b.expression("($ * sum($))", {x, x}, x.tensor * sum(x.tensor));
  if (b.chance(0.3)) a = b.let("$", {a}, a.tensor);
  Tensor square_of = reshape(a.tensor, {1, -1}) * reshape(a.tensor, {-1, 1});
  Term y = b.expression("reshape($, {1, -1}) * reshape($, {-1, 1})", {a, a}, square_of);
  if (b.chance(0.6)) {
    int64_t axis = b.between(0, 1);
    b.let(text("sum($, ", axis, ")"), {y}, sum(y.tensor, axis));
  } else {
    b.let("$", {y}, y.tensor);
  }
}

// Down and up again, beside the way straight on.
void skip(Builder& b) {
  Term x = b.images(b.most_elements() / 8);
  int64_t height = x.tensor.size(2), width = x.tensor.size(3);
  if (height % 2 != 0 || width % 2 != 0) return;
  Term down = b.expression("max_pool2d($, 2)", {x}, max_pool2d(x.tensor, 2));
  int64_t channels = x.tensor.size(1);
  if (down.tensor.numel() * channels * 9 <= b.most_work()) {
    Term w = b.leaf({channels, channels, 3, 3}, 9 * channels);
    down = b.let("relu(conv2d($, $, {}, {.padding = 1}))", {down, w},
                 relu(conv2d(down.tensor, w.tensor, {}, {.padding = 1})));
  }
  Tensor up = repeat_interleave(repeat_interleave(down.tensor, 2, 2), 2, 3);
  b.let("cat({$, repeat_interleave(repeat_interleave($, 2, 2), 2, 3)}, 1)", {x, down}, cat({x.tensor, up}, 1));
}

// Products along an axis, and running ones.
void products_of_elements(Builder& b) {
  Term x = b.any();
  if (x.tensor.rank() == 0) return;
  int64_t axis = b.axis(x);
  if (b.chance(0.5))
    b.let(text("prod($, ", axis, ")"), {x}, prod(x.tensor, axis));
  else
    b.let(text("cumprod($, ", axis, ")"), {x}, cumprod(x.tensor, axis));
}

}  // namespace

std::vector<Block> model_blocks() {
  return {{"recurrent", 2, false, recurrent},
          {"mixture", 2, false, mixture},
          {"linear_attention", 2, false, linear_attention},
          {"covariance", 3, true, covariance},
          {"power_iteration", 1, false, power_iteration},
          {"sinkhorn", 2, false, sinkhorn},
          {"outer_with_itself", 2, true, outer_with_itself},
          {"skip", 2, true, skip},
          {"elements_product", 1, false, products_of_elements}};
}

}  // namespace heddle::fuzz
