#include <heddle/nn/loss.h>
#include <heddle/ops.h>

#include <cmath>

#include "base/error.h"
#include "tensor/index_common.h"
#include "tensor/symbolic.h"

namespace heddle {
namespace {

std::string shape_text(const Dims& shape) {
  std::string out = "[";
  for (int64_t size : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

// f64 stays; everything else is computed in f32.
Tensor wide(const Tensor& x) { return x.dtype() == kF64 ? x : cast(x, kF32); }

void check_same_shape(const char* loss, const Tensor& x, const Tensor& target) {
  Dims a = x.shape(), b = target.shape();
  if (static_cast<std::vector<int64_t>>(a) != b)
    throw ShapeError(text(loss, ": an input of shape ", shape_text(a), " and a target of shape ", shape_text(b),
                          "; they must be the same"));
}

Tensor reduce(const char* loss, const Tensor& each, Reduction reduction) {
  switch (reduction) {
    case Reduction::None: return each;
    case Reduction::Mean: return mean(each);
    case Reduction::Sum: return sum(each);
    case Reduction::BatchMean:
      if (each.rank() == 0) throw ShapeError(text(loss, ": a scalar has no batch to take the mean over"));
      return sum(each) / Tensor(size_node(each.node()->shape[0], each.dtype()));
  }
  throw ValueError(text(loss, ": unknown reduction"));
}

struct Difference {
  Tensor x, target;
};
Difference both(const char* loss, const Tensor& x, const Tensor& target) {
  check_same_shape(loss, x, target);
  return {wide(x), wide(target)};
}

// Logits or logarithms of probabilities, and classes to choose.
struct Classes {
  int64_t axis, count;
  Tensor chosen;   // bool, the shape of the input: whether this is the target's class
  Tensor counted;  // bool, the shape of the targets: not ignored
};

int64_t class_axis(const char* loss, const Tensor& x) {
  if (x.rank() == 0) throw ShapeError(text(loss, ": a scalar has no axis of classes"));
  return x.rank() == 1 ? 0 : 1;
}

// A list along the axis of classes of an input of so many axes.
Tensor along_classes(const Tensor& list, int64_t axis, int rank) {
  Dims shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = list.numel();
  return list.reshape(shape);
}

Tensor class_weight(const char* loss, const Tensor& weight, const Tensor& x, int64_t axis) {
  if (weight.rank() != 1 || weight.size(0) != x.size(axis))
    throw ShapeError(text(loss, ": weights of shape ", shape_text(weight.shape()), " for ", x.size(axis), " classes"));
  return along_classes(cast(weight, x.dtype()), axis, x.rank());
}

Classes classes(const char* loss, const Tensor& x, const Tensor& targets, int64_t axis, int64_t ignore_index) {
  Dims shape = x.shape(), want = shape;
  want.erase(want.begin() + axis);
  Dims got = targets.shape();
  if (static_cast<std::vector<int64_t>>(got) != want)
    throw ShapeError(text(loss, ": an input of shape ", shape_text(shape), " and targets of shape ", shape_text(got),
                          "; targets by class must have the shape ", shape_text(want)));
  int64_t count = shape[static_cast<size_t>(axis)];
  Tensor ids = cast(targets, kI64);
  Tensor counted = ne(ids, ignore_index);
  // A comparison instead of a gather: it melts into the row's kernel, and so does its gradient.
  Tensor known = checked_positions(loss, where(counted, ids, 0), count, axis);
  OnDeviceOf there(x);
  Tensor chosen = eq(unsqueeze(known, axis), along_classes(arange(count), axis, x.rank()));
  return {axis, count, chosen, counted};
}

// Losses of targets by class, from logarithms of probabilities.
Tensor class_loss(const char* loss, const Tensor& log_p, const Tensor& targets, const CrossEntropyOptions& options) {
  int64_t axis = class_axis(loss, log_p);
  Classes c = classes(loss, log_p, targets, axis, options.ignore_index);
  double smoothing = options.label_smoothing;
  std::optional<Tensor> weight;
  if (options.weight) weight = class_weight(loss, *options.weight, log_p, axis);

  Tensor each = -sum(where(c.chosen, weight ? log_p * *weight : log_p, 0), axis);
  if (smoothing > 0) {
    Tensor spread = -sum(weight ? log_p * *weight : log_p, axis);
    each = each * (1 - smoothing) + spread * (smoothing / static_cast<double>(c.count));
  }
  each = where(c.counted, each, 0);
  if (options.reduction != Reduction::Mean) return reduce(loss, each, options.reduction);
  Tensor share = cast(c.counted, log_p.dtype());
  if (weight) share = where(c.counted, sum(where(c.chosen, expand(*weight, log_p.shape()), 0), axis), 0);
  return sum(each) / sum(share);
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  auto [a, b] = both("mse_loss", x, target);
  return reduce("mse_loss", square(a - b), reduction);
}
Tensor rss_loss(const Tensor& x, const Tensor& target) {
  auto [a, b] = both("rss_loss", x, target);
  return sum(square(a - b));
}
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  auto [a, b] = both("l1_loss", x, target);
  return reduce("l1_loss", abs(a - b), reduction);
}
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, Reduction reduction) {
  if (!(beta >= 0)) throw ValueError(text("smooth_l1_loss: a beta of ", beta));
  auto [a, b] = both("smooth_l1_loss", x, target);
  Tensor distance = abs(a - b);
  if (beta == 0) return reduce("smooth_l1_loss", distance, reduction);
  Tensor near = square(a - b) * (0.5 / beta);
  return reduce("smooth_l1_loss", where(distance < beta, near, distance - beta / 2), reduction);
}
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, Reduction reduction) {
  if (!(delta > 0)) throw ValueError(text("huber_loss: a delta of ", delta));
  auto [a, b] = both("huber_loss", x, target);
  Tensor distance = abs(a - b);
  Tensor each = where(distance <= delta, square(a - b) * 0.5, (distance - delta / 2) * delta);
  return reduce("huber_loss", each, reduction);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const char* loss = "cross_entropy";
  double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1)) throw ValueError(text(loss, ": a label_smoothing of ", smoothing));
  int64_t axis = class_axis(loss, logits);
  Tensor log_p = log_softmax(wide(logits), axis);
  if (is_integer(targets.dtype())) return class_loss(loss, log_p, targets, options);
  if (!is_float(targets.dtype()))
    throw DTypeError(text(loss, ": targets are classes or probabilities, not ", targets.dtype()));
  if (static_cast<std::vector<int64_t>>(targets.shape()) != logits.shape())
    throw ShapeError(text(loss, ": logits of shape ", shape_text(logits.shape()), " and targets of shape ",
                          shape_text(targets.shape()),
                          ": probabilities have the shape of the logits; classes are integers"));
  Tensor p = wide(targets);
  if (smoothing > 0) p = p * (1 - smoothing) + smoothing / static_cast<double>(logits.size(axis));
  if (options.weight) p = p * class_weight(loss, *options.weight, log_p, axis);
  return reduce(loss, -sum(p * log_p, axis), options.reduction);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const NllOptions& options) {
  if (!is_integer(targets.dtype())) throw DTypeError(text("nll_loss: targets are classes, not ", targets.dtype()));
  return class_loss("nll_loss", wide(log_probabilities), targets,
                    {.weight = options.weight, .ignore_index = options.ignore_index, .reduction = options.reduction});
}

Tensor bce_loss(const Tensor& probabilities, const Tensor& target, const BceOptions& options) {
  auto [p, t] = both("bce_loss", probabilities, target);
  if (options.pos_weight) throw ValueError("bce_loss: pos_weight is for bce_with_logits");
  Tensor each = -(t * maximum(log(p), -100) + (1 - t) * maximum(log1p(-p), -100));
  if (options.weight) each = each * wide(*options.weight);
  return reduce("bce_loss", each, options.reduction);
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options) {
  auto [x, t] = both("bce_with_logits", logits, target);
  Tensor each = softplus(x) - x * t;
  if (options.pos_weight) each = (1 - t) * softplus(x) + t * wide(*options.pos_weight) * softplus(-x);
  if (options.weight) each = each * wide(*options.weight);
  return reduce("bce_with_logits", each, options.reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction, bool log_target) {
  auto [a, t] = both("kl_div", x, target);
  return reduce("kl_div", log_target ? exp(t) * (t - a) : xlogy(t, t) - t * a, reduction);
}

}  // namespace heddle
