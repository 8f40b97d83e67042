// Blocks: losses. Programs that have one are differentiated for it.
#include "fuzz/program.h"

namespace heddle::fuzz {
namespace {

void finish(Builder& b, const std::string& text, const std::vector<Term>& terms, const Tensor& loss) {
  b.add_loss(b.let(text, terms, loss));
}

Term logits_of(Builder& b) {
  Term x = b.matrix(b.most_work() / 32);
  if (b.chance(0.4)) return x;
  int64_t inputs = x.tensor.size(1), classes = b.size(std::max<int64_t>(2, b.most_work() / x.tensor.numel()));
  Term w = b.leaf({classes, inputs}, inputs);
  return b.expression("matmul($, transpose($))", {x, w}, matmul(x.tensor, transpose(w.tensor)));
}

void classes(Builder& b) {
  Term x = logits_of(b);
  Term t = b.index({x.tensor.size(0)}, x.tensor.size(1));
  CrossEntropyOptions options;
  if (b.chance(0.2)) options.label_smoothing = 0.1;
  finish(b, text("cross_entropy($, $", options.label_smoothing > 0 ? ", {.label_smoothing = 0.1})" : ")"), {x, t},
         cross_entropy(x.tensor, t.tensor, options));
}

// A perceptron with biases and a classifier above it, the first network of everybody.
void classifier(Builder& b) {
  int64_t batch = b.size(65), inputs = b.size(128);
  int64_t hidden = b.size(std::max<int64_t>(4, b.most_work() / (2 * batch * inputs)));
  int64_t count = b.size(std::max<int64_t>(4, b.most_work() / (2 * batch * hidden)));
  Term x = b.chance(0.5) ? b.matrix(b.most_work() / 64) : b.leaf({batch, inputs});
  batch = x.tensor.size(0);
  inputs = x.tensor.size(1);
  Term w = b.leaf({hidden, inputs}, inputs), c = b.leaf({hidden}), v = b.leaf({count, hidden}, hidden);
  if (batch * hidden * std::max(inputs, count) > b.most_work()) return;
  Term a = b.expression("matmul($, transpose($)) + $", {x, w, c}, matmul(x.tensor, transpose(w.tensor)) + c.tensor);
  bool smooth = b.chance(0.6);
  Term h = smooth ? b.let("tanh($)", {a}, tanh(a.tensor)) : b.let("relu($)", {a}, relu(a.tensor));
  Term y = b.expression("matmul($, transpose($))", {h, v}, matmul(h.tensor, transpose(v.tensor)));
  if (b.chance(0.5)) {
    Term d = b.leaf({count});
    y = b.expression("($ + $)", {y, d}, y.tensor + d.tensor);
  }
  Term t = b.index({batch}, count);
  finish(b, "cross_entropy($, $)", {y, t}, cross_entropy(y.tensor, t.tensor));
}

// A head over the words of a language, with the step of an optimiser behind its gradient.
void wide_head(Builder& b) {
  int64_t words = b.large() ? 50257 : b.of<int64_t>({1031, 2053, 4099});
  int64_t rows = b.between(1, 4), width = b.large() ? 2 : b.between(1, 6);
  Term x = b.leaf({rows, width}), w = b.leaf({words, width}, width), t = b.index({rows}, words);
  Term y = b.expression("matmul($, transpose($))", {x, w}, matmul(x.tensor, transpose(w.tensor)));
  b.want_updates();
  finish(b, "cross_entropy($, $)", {y, t}, cross_entropy(y.tensor, t.tensor));
}

void distance(Builder& b) {
  Term x = b.any();
  if (x.tensor.numel() == 0) return;
  Term t = b.leaf(x.tensor.shape());
  switch (b.between(0, 4)) {
    case 0: finish(b, "mse_loss($, $)", {x, t}, mse_loss(x.tensor, t.tensor)); break;
    case 1: finish(b, "huber_loss($, $)", {x, t}, huber_loss(x.tensor, t.tensor)); break;
    case 2: finish(b, "smooth_l1_loss($, $)", {x, t}, smooth_l1_loss(x.tensor, t.tensor)); break;
    case 3: finish(b, "l1_loss($, $)", {x, t}, l1_loss(x.tensor, t.tensor)); break;
    default: {
      Term m = b.mask(x.tensor.shape());
      Tensor target = m.tensor.cast(x.tensor.dtype());
      finish(b, "bce_with_logits($, $)", {x, m}, bce_with_logits(x.tensor, target));
    }
  }
}

// InfoNCE: each row shall be closest to its own partner.
void contrast(Builder& b) {
  Term x = b.matrix(std::max<int64_t>(16, b.most_work() / 64));
  int64_t n = x.tensor.size(0);
  if (n * x.tensor.numel() > b.most_work()) return;
  Term y = b.chance(0.4) ? x : b.leaf(x.tensor.shape());
  auto unit = [&](const Term& z) {
    Tensor length = sqrt(sum(square(z.tensor), -1, true) + 1e-3);
    return b.expression("normalise($)", {z}, z.tensor / length);
  };
  bool normal = b.chance(0.7);
  Term p = normal ? unit(x) : x, q = normal ? unit(y) : y;
  Tensor scores = matmul(p.tensor, transpose(q.tensor)) * 2;
  if (b.chance(0.5)) {
    finish(b, text("cross_entropy(2 * matmul($, transpose($)), arange(", n, "))"), {p, q},
           cross_entropy(scores, arange(n)));
    return;
  }
  Tensor loss = -mean(diagonal(log_softmax(scores, -1)));
  finish(b, "-mean(diagonal(log_softmax(2 * matmul($, transpose($)))))", {p, q}, loss);
}

void divergence(Builder& b) {
  Term x = b.matrix();
  Term y = b.leaf(x.tensor.shape());
  Tensor loss = kl_div(log_softmax(x.tensor), softmax(y.tensor), Reduction::BatchMean);
  finish(b, "kl_div(log_softmax($), softmax($))", {x, y}, loss);
}

}  // namespace

std::vector<Block> loss_blocks() {
  return {{"cross_entropy", 3, false, classes}, {"classifier", 3, false, classifier},
          {"wide_head", 1, false, wide_head},   {"distance", 3, false, distance},
          {"contrast", 2, false, contrast},     {"kl_div", 1, false, divergence}};
}

}  // namespace heddle::fuzz
