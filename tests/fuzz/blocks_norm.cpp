// Blocks: norms, softmax and statistics.
#include "fuzz/program.h"

namespace heddle::fuzz {
namespace {

// x in one of the normal forms that people know, over its last axis.
Term normalized(Builder& b, const Term& x, int64_t kind) {
  const Tensor& t = x.tensor;
  switch (kind) {
    case 0: return b.let("$ - max($, -1, true)", {x, x}, t - max(t, -1, true));
    case 1: return b.let("layer_norm($)", {x}, layer_norm(t));
    case 2: return b.let("rms_norm($)", {x}, rms_norm(t));
    case 3: return b.let("softmax($)", {x}, softmax(t));
    case 4: return b.let("log_softmax($)", {x}, log_softmax(t));
    case 5: return b.let("$ / max(abs($), -1, true)", {x, x}, t / max(abs(t), -1, true));
    case 6: return b.let("$ / norm($, 2, -1, true)", {x, x}, t / norm(t, 2, -1, true));
    case 7: return b.let("$ - mean($, -1, true)", {x, x}, t - mean(t, -1, true));
    case 8: return b.let("$ - sum($, -1, true)", {x, x}, t - sum(t, -1, true));
    case 9: return b.let("$ * rsqrt(1 + sum(square($), -1, true))", {x, x}, t * rsqrt(1 + sum(square(t), -1, true)));
    default: return b.let("$ - logsumexp($, -1, true)", {x, x}, t - logsumexp(t, -1, true));
  }
}

void norm_of_rows(Builder& b) {
  Term x = b.any();
  if (x.tensor.rank() == 0) return;
  normalized(b, x, b.exact() ? b.of<int64_t>({0, 8}) : b.between(0, 10));
}

void norm_with_weights(Builder& b) {
  Term x = b.any();
  if (x.tensor.rank() == 0) return;
  int64_t n = x.tensor.size(-1);
  Term w = b.positive({n});
  if (b.chance(0.4)) {
    b.let("rms_norm($, $)", {x, w}, rms_norm(x.tensor, w.tensor));
  } else {
    Term bias = b.leaf({n});
    b.let("layer_norm($, $, $)", {x, w, bias}, layer_norm(x.tensor, w.tensor, bias.tensor));
  }
}

// A statistic of one tensor that two views of it use: row and column, x and its transpose.
void norm_times_transpose(Builder& b) {
  Term x = b.matrix(std::max<int64_t>(16, b.most_work() / 64));
  if (x.tensor.size(0) * x.tensor.numel() > b.most_work()) return;
  Term a = normalized(b, x, b.exact() ? b.of<int64_t>({0, 8}) : b.between(0, 10));
  if (b.chance(0.3)) a = b.expression("($ * 2)", {a}, a.tensor * 2);
  if (b.chance(0.2)) a = b.let("$ + $", {a, x}, a.tensor + x.tensor);
  if (b.chance(0.25) && x.tensor.size(1) * x.tensor.numel() <= b.most_work())
    b.let("matmul(transpose($), $)", {a, a}, matmul(transpose(a.tensor), a.tensor));
  else
    b.let("matmul($, transpose($))", {a, a}, matmul(a.tensor, transpose(a.tensor)));
}

// A norm of a product of a tensor with itself.
void norm_of_gram(Builder& b) {
  Term x = b.matrix(std::max<int64_t>(16, b.most_work() / 64));
  int64_t n = x.tensor.size(0);
  if (n * x.tensor.numel() > b.most_work()) return;
  Term s = b.scaled(b.expression("matmul($, transpose($))", {x, x}, matmul(x.tensor, transpose(x.tensor))),
                    x.tensor.size(1));
  if (b.chance(0.2)) {
    b.let("var($, -1)", {s}, var(s.tensor, -1, false, 0));
    return;
  }
  normalized(b, s, b.exact() ? b.of<int64_t>({0, 8}) : b.between(0, 10));
}

// D^-1/2 A D^-1/2 x, the convolution of graphs.
void symmetric_normalisation(Builder& b) {
  int64_t n = b.size(96);
  Term a = b.positive({n, n}), x = b.leaf({n, b.size(std::max<int64_t>(1, b.most_work() / (n * n)))});
  if (b.chance(0.3)) a = b.let("$ + transpose($)", {a, a}, a.tensor + transpose(a.tensor));
  if (b.exact()) {
    Term s = b.let("sum($, -1)", {a}, sum(a.tensor, -1));
    Tensor both = a.tensor * unsqueeze(s.tensor, 1) * unsqueeze(s.tensor, 0);
    b.let("matmul($ * unsqueeze($, 1) * unsqueeze($, 0), $)", {a, s, s, x}, matmul(both, x.tensor));
    return;
  }
  Term s = b.let("rsqrt(sum($, -1))", {a}, rsqrt(sum(a.tensor, -1)));
  Term both = b.expression("($ * unsqueeze($, 1) * unsqueeze($, 0))", {a, s, s},
                           a.tensor * unsqueeze(s.tensor, 1) * unsqueeze(s.tensor, 0));
  if (b.chance(0.3)) both = b.let("$", {both}, both.tensor);
  b.let("matmul($, $)", {both, x}, matmul(both.tensor, x.tensor));
}

// A statistic over some axes, used with the tensor or by itself.
void statistic(Builder& b) {
  Term x = b.any();
  if (x.tensor.rank() == 0) return;
  Axes axes = b.axis(x);
  if (x.tensor.rank() > 1 && b.chance(0.3)) axes = Axes{0, x.tensor.rank() - 1};
  if (b.chance(0.1)) axes = {};
  const Tensor& t = x.tensor;
  std::string tail = text(axes, ", true)");
  Term s;
  switch (b.exact() ? b.of<int64_t>({0, 1, 2}) : b.between(0, 7)) {
    case 0: s = b.expression("sum($, " + tail, {x}, sum(t, axes, true)); break;
    case 1: s = b.expression("max($, " + tail, {x}, max(t, axes, true)); break;
    case 2: s = b.expression("min($, " + tail, {x}, min(t, axes, true)); break;
    case 3: s = b.expression("mean($, " + tail, {x}, mean(t, axes, true)); break;
    case 4: s = b.expression("var($, " + tail, {x}, var(t, axes, true, 0)); break;
    case 5: s = b.expression("logsumexp($, " + tail, {x}, logsumexp(t, axes, true)); break;
    case 6: s = b.expression("mean(square($), " + tail, {x}, mean(square(t), axes, true)); break;
    default: s = b.expression("sum(abs($), " + tail, {x}, sum(abs(t), axes, true)); break;
  }
  if (b.chance(0.3)) s = b.let("$", {s}, s.tensor);
  if (b.chance(0.3)) {
    b.let("$ * $", {x, s}, t * s.tensor);
  } else if (b.chance(0.4)) {
    b.let("$ - $", {x, s}, t - s.tensor);
  } else if (!b.exact() && b.chance(0.5)) {
    b.let("$ / (1 + abs($))", {x, s}, t / (1 + abs(s.tensor)));
  } else {
    b.let("$ + $", {s, s}, s.tensor + s.tensor);
  }
}

// Batch normalisation by the statistics of the batch itself.
void batch_statistics(Builder& b) {
  Term x = b.chance(0.5) ? b.images() : b.matrix();
  Axes axes = x.tensor.rank() == 4 ? Axes{0, 2, 3} : Axes{0};
  int64_t channels = x.tensor.size(1);
  Term m = b.let(text("mean($, ", axes, ")"), {x}, mean(x.tensor, axes));
  Term v = b.let(text("var($, ", axes, ", false, 0)"), {x}, var(x.tensor, axes, false, 0));
  if (b.chance(0.4)) {
    b.let("batch_norm($, $, $)", {x, m, v}, batch_norm(x.tensor, m.tensor, v.tensor));
    return;
  }
  Term w = b.positive({channels}), bias = b.leaf({channels});
  Term y = b.let("batch_norm($, $, $, $, $)", {x, m, v, w, bias},
                 batch_norm(x.tensor, m.tensor, v.tensor, w.tensor, bias.tensor));
  if (b.chance(0.5)) b.let("relu($)", {y}, relu(y.tensor));
}

void groups(Builder& b) {
  Term x = b.chance(0.5) ? b.images() : b.matrix();
  int64_t count = b.divisor(x.tensor.size(1));
  Term w = b.positive({x.tensor.size(1)}), bias = b.leaf({x.tensor.size(1)});
  b.let(text("group_norm($, ", count, ", $, $)"), {x, w, bias}, group_norm(x.tensor, count, w.tensor, bias.tensor));
}

void softmax_of_axis(Builder& b) {
  Term x = b.any();
  if (x.tensor.rank() == 0) return;
  int64_t axis = b.axis(x);
  switch (b.between(0, 3)) {
    case 0: b.let(text("softmax($, ", axis, ")"), {x}, softmax(x.tensor, axis)); break;
    case 1: b.let(text("log_softmax($, ", axis, ")"), {x}, log_softmax(x.tensor, axis)); break;
    case 2: b.let(text("logsumexp($, ", axis, ")"), {x}, logsumexp(x.tensor, axis)); break;
    default: {
      Term p = b.let(text("softmax($, ", axis, ")"), {x}, softmax(x.tensor, axis));
      Tensor entropy = -sum(p.tensor * log(p.tensor + 1e-3), axis);
      b.let(text("-sum($ * log($ + 1e-3), ", axis, ")"), {p, p}, entropy);
    }
  }
}

}  // namespace

std::vector<Block> norm_blocks() {
  return {{"norm", 5, true, norm_of_rows},
          {"norm_with_weights", 2, false, norm_with_weights},
          {"norm_times_transpose", 4, true, norm_times_transpose},
          {"norm_of_gram", 3, true, norm_of_gram},
          {"symmetric_normalisation", 3, true, symmetric_normalisation},
          {"statistic", 5, true, statistic},
          {"batch_statistics", 2, false, batch_statistics},
          {"group_norm", 1, false, groups},
          {"softmax", 3, false, softmax_of_axis}};
}

}  // namespace heddle::fuzz
