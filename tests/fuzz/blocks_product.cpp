// Blocks: products, perceptrons, residual blocks, and values that are used again.
#include "fuzz/program.h"

namespace heddle::fuzz {
namespace {

Term activated(Builder& b, const Term& x) {
  const Tensor& t = x.tensor;
  switch (b.exact() ? b.of<int64_t>({0, 8}) : b.between(0, 8)) {
    case 0: return b.expression("relu($)", {x}, relu(t));
    case 1: return b.expression("tanh($)", {x}, tanh(t));
    case 2: return b.expression("gelu($)", {x}, gelu(t));
    case 3: return b.expression("silu($)", {x}, silu(t));
    case 4: return b.expression("sigmoid($)", {x}, sigmoid(t));
    case 5: return b.expression("gelu($, \"tanh\")", {x}, gelu(t, "tanh"));
    case 6: return b.expression("elu($)", {x}, elu(t));
    case 7: return b.expression("leaky_relu($)", {x}, leaky_relu(t, 0.1));
    default: return x;
  }
}

// x w + b, w either way round.
Term linear(Builder& b, const Term& x, int64_t outputs, bool bias) {
  int64_t inputs = x.tensor.size(-1);
  Term y;
  if (b.chance(0.5)) {
    Term w = b.leaf({inputs, outputs}, inputs);
    y = b.expression("matmul($, $)", {x, w}, matmul(x.tensor, w.tensor));
  } else {
    Term w = b.leaf({outputs, inputs}, inputs);
    y = b.expression("matmul($, transpose($))", {x, w}, matmul(x.tensor, transpose(w.tensor)));
  }
  if (!bias) return y;
  Term c = b.leaf({outputs});
  return b.expression("($ + $)", {y, c}, y.tensor + c.tensor);
}

int64_t width_for(Builder& b, const Term& x) { return b.size(std::max<int64_t>(1, b.most_work() / x.tensor.numel())); }

void product(Builder& b) {
  Term x = b.chance(0.7) ? b.matrix() : b.batch();
  if (b.dtype() == kF32 && !b.exact() && b.chance(0.1)) {  // mixed precision
    DType narrow = b.chance(0.5) ? kBF16 : kF16;
    int64_t inputs = x.tensor.size(-1);
    Term w = b.leaf({inputs, width_for(b, x)}, inputs);
    Tensor y = matmul(x.tensor.cast(narrow), w.tensor.cast(narrow)).cast(kF32);
    b.let(text("cast(matmul(cast($, ", name(narrow), "), cast($, ", name(narrow), ")), f32)"), {x, w}, y);
    return;
  }
  Term y = linear(b, x, width_for(b, x), b.chance(0.4));
  if (b.chance(0.3)) y = activated(b, y);
  b.let("$", {y}, y.tensor);
}

// A matrix times its own transpose, or two views of one tensor.
void product_with_itself(Builder& b) {
  Term x = b.matrix(std::max<int64_t>(16, b.most_work() / 64));
  int64_t n = x.tensor.size(0), m = x.tensor.size(1);
  bool columns = b.chance(0.4);
  if ((columns ? m * m * n : n * n * m) > b.most_work()) return;
  Term y = columns ? b.expression("matmul(transpose($), $)", {x, x}, matmul(transpose(x.tensor), x.tensor))
                   : b.expression("matmul($, transpose($))", {x, x}, matmul(x.tensor, transpose(x.tensor)));
  y = b.scaled(y, columns ? n : m);
  if (b.chance(0.4)) y = activated(b, y);
  b.let("$", {y}, y.tensor);
}

// (a b) c, and what uses it.
void chain(Builder& b) {
  Term x = b.matrix(std::max<int64_t>(16, b.most_work() / 32));
  int64_t rows = x.tensor.size(0), middle = width_for(b, x);
  Term first = linear(b, x, middle, false);
  if (b.chance(0.3)) first = b.let("$", {first}, first.tensor);
  if (b.chance(0.5)) first = activated(b, first);
  int64_t last = b.chance(0.5) ? x.tensor.size(1) : b.size();
  last = std::min(last, std::max<int64_t>(1, b.most_work() / (rows * middle)));
  Term second = linear(b, first, last, b.chance(0.2));
  Term t = b.let("$", {second}, second.tensor);
  if (last == x.tensor.size(1) && b.chance(0.6)) b.let("$ + $", {x, t}, x.tensor + t.tensor);
}

// Layers with biases; the hidden width is often at a threshold.
void perceptron(Builder& b) {
  Term x = b.matrix(std::max<int64_t>(16, b.most_work() / 32));
  if (b.chance(0.3)) {
    Term c = b.leaf({x.tensor.size(1)});
    x = b.let("$ + $", {x, c}, x.tensor + c.tensor);
  }
  for (int64_t layers = b.between(1, 3); layers > 0; --layers) {
    Term y = activated(b, linear(b, x, width_for(b, x), b.chance(0.8)));
    x = b.chance(0.5) ? b.let("$", {y}, y.tensor) : y;
  }
  b.let("$", {x}, x.tensor);
}

// y + f(y w1) w2, with or without a norm in front.
void feed_forward(Builder& b) {
  Term x = b.chance(0.8) ? b.matrix(std::max<int64_t>(16, b.most_work() / 32)) : b.batch(b.most_work() / 32);
  int64_t width = x.tensor.size(-1);
  for (int64_t blocks = b.chance(0.2) ? 2 : 1; blocks > 0; --blocks) {
    Term y = x;
    if (b.chance(0.5)) {
      Term c = b.leaf({width});
      y = b.let("$ + $", {x, c}, x.tensor + c.tensor);
    }
    Term inside = y;
    if (!b.exact() && b.chance(0.3)) inside = b.let("layer_norm($)", {y}, layer_norm(y.tensor));
    if (!b.exact() && b.chance(0.2)) inside = b.let("rms_norm($)", {y}, rms_norm(y.tensor));
    bool biases = b.chance(0.5);
    Term hidden = activated(b, linear(b, inside, width_for(b, x), biases));
    if (b.chance(0.15)) {  // gated
      Term gate = linear(b, inside, hidden.tensor.size(-1), biases);
      hidden = b.expression("($ * $)", {hidden, gate}, hidden.tensor * gate.tensor);
    }
    if (hidden.tensor.numel() * width > b.most_work()) return;
    Term back = linear(b, hidden, width, biases);
    x = b.let("$ + $", {y, back}, y.tensor + back.tensor);
  }
}

// A value together with what uses it.
void used_again(Builder& b) {
  Term t = b.any(), other = b.any();
  switch (b.between(0, 8)) {
    case 0: b.let("$ * 2", {t}, t.tensor * 2); break;
    case 1: b.let("relu($)", {t}, relu(t.tensor)); break;
    case 2: b.let("$ > 0", {t}, t.tensor > 0); break;
    case 3: b.let("$ * $", {t, t}, t.tensor * t.tensor); break;
    case 4:
      if (t.tensor.rank() >= 2) b.let("sum($, 0)", {t}, sum(t.tensor, 0));
      break;
    case 5:
      if (t.tensor.rank() == 2) b.let("transpose($) * 3", {t}, transpose(t.tensor) * 3);
      break;
    case 6:
      if (t.tensor.rank() == 2 && t.tensor.size(0) == t.tensor.size(1))
        b.let("$ + transpose($)", {t, t}, t.tensor + transpose(t.tensor));
      break;
    default:
      if (t.tensor.shape() == other.tensor.shape())
        b.let("$ + $", {t, other}, t.tensor + other.tensor);
      else if (other.tensor.rank() == 2 && t.tensor.rank() == 2 && other.tensor.size(1) == t.tensor.size(1))
        b.let("$ - sum($, 0)", {t, other}, t.tensor - sum(other.tensor, 0));
      else
        b.let("$ + $", {t, t}, t.tensor + t.tensor);
  }
}

void elementwise(Builder& b) {
  Term x = b.any(), y = activated(b, x);
  if (b.chance(0.5) && x.tensor.rank() > 0) {
    Term c = b.leaf({x.tensor.size(-1)});
    y = b.chance(0.5) ? b.expression("($ + $)", {y, c}, y.tensor + c.tensor)
                      : b.expression("($ * $)", {y, c}, y.tensor * c.tensor);
  }
  b.let("$", {y}, y.tensor);
}

// Products of batches, and einsum over several axes.
void batched_product(Builder& b) {
  Term x = b.batch(std::max<int64_t>(16, b.most_work() / 32));
  int64_t n = x.tensor.size(1), m = x.tensor.size(2), count = x.tensor.size(0);
  switch (b.between(0, 3)) {
    case 0:
      if (count * n * n * m <= b.most_work()) {
        Term s = b.scaled(b.expression("matmul($, transpose($))", {x, x}, matmul(x.tensor, transpose(x.tensor))), m);
        b.let("$", {s}, s.tensor);
      }
      break;
    case 1: {
      Term w = b.leaf({count, m, b.size(std::max<int64_t>(1, b.most_work() / x.tensor.numel()))}, m);
      b.let("bmm($, $)", {x, w}, bmm(x.tensor, w.tensor));
      break;
    }
    case 2: {
      Term w = b.leaf({n, m, b.small(b.most_work() / x.tensor.numel())}, n * m);
      b.let("einsum(\"bnm,nmo->bo\", {$, $})", {x, w}, einsum("bnm,nmo->bo", {x.tensor, w.tensor}));
      break;
    }
    default: {
      Term w = b.leaf({m, b.small(b.most_work() / x.tensor.numel())}, m);
      b.let("einsum(\"bnm,mo->bon\", {$, $})", {x, w}, einsum("bnm,mo->bon", {x.tensor, w.tensor}));
    }
  }
}

}  // namespace

std::vector<Block> product_blocks() {
  return {{"product", 4, true, product},
          {"product_with_itself", 4, true, product_with_itself},
          {"chain", 4, true, chain},
          {"perceptron", 4, true, perceptron},
          {"feed_forward", 5, true, feed_forward},
          {"used_again", 6, true, used_again},
          {"elementwise", 4, true, elementwise},
          {"batched_product", 3, true, batched_product}};
}

}  // namespace heddle::fuzz
