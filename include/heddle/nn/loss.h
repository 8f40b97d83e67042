// Losses. Floats below 32 bits are computed in f32, and so is the result. Shapes must agree; nothing broadcasts
// unless it is said.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// What becomes of the losses of all elements. BatchMean: their sum divided by the size of the first axis.
enum class Reduction { None, Mean, Sum, BatchMean };

struct CrossEntropyOptions {
  std::optional<Tensor> weight;  // one number for each class
  int64_t ignore_index = -100;   // targets that do not count
  double label_smoothing = 0;    // the part of each target that is spread over all classes
  Reduction reduction = Reduction::Mean;
};
struct NllOptions {
  std::optional<Tensor> weight;
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::Mean;
};
struct BceOptions {
  std::optional<Tensor> weight;      // of elements; broadcasts
  std::optional<Tensor> pos_weight;  // of positive targets, with logits only; broadcasts
  Reduction reduction = Reduction::Mean;
};

// @dtypes floats; integers and bool become f32 @shape scalar, or same without reduction

// (x - target)^2.
//   mse_loss(tensor({1, 2}), tensor({0, 4}))   // 2.5
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean);
// The residual sum of squares: mse_loss with Reduction::Sum.
//   rss_loss(tensor({1, 2}), tensor({0, 4}))   // 5.0
Tensor rss_loss(const Tensor& x, const Tensor& target);
// |x - target|.
//   l1_loss(tensor({1, 2}), tensor({0, 4}))   // 1.5
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean);
// A parabola up to a distance of `beta`, then straight on: |x - target| - beta / 2.
//   smooth_l1_loss(tensor({1, 2}), tensor({0.5, 4}))   // 0.8125
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1, Reduction reduction = Reduction::Mean);
// The same times delta.
//   huber_loss(tensor({1, 2}), tensor({0.5, 4}), 2)   // 1.0625
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1, Reduction reduction = Reduction::Mean);

// @dtypes floats; targets integers, or floats @shape scalar, or that of the targets without reduction

// -log(softmax(logits)) at the targets. Logits are [classes], [batch, classes] or [batch, classes, ...]; targets are
// classes (integers, without that axis) or probabilities (floats of the shape of the logits). The mean is over the
// targets that are not ignored, each counted with its weight. A target that is no class raises
// IndexError when the loss is computed.
//   cross_entropy(tensor({{0, 0}, {0, 200}}), tensor({0, 1}, kI64))   // 0.3465736
//   cross_entropy(tensor({{0, 0}}), tensor({{0.25, 0.75}}))           // 0.6931472
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});
// -x at the targets, for logarithms of probabilities.
//   nll_loss(log(tensor({{0.5, 0.5}, {0.25, 0.75}})), tensor({0, 0}, kI64))   // 1.0397208
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const NllOptions& options = {});

// @dtypes floats; integers and bool become f32 @shape scalar, or same without reduction

// -(t log(p) + (1 - t) log(1 - p)); logarithms end at -100.
//   bce_loss(tensor({0.5, 1}), tensor({1, 1}))   // 0.3465736
Tensor bce_loss(const Tensor& probabilities, const Tensor& target, const BceOptions& options = {});
// The same of sigmoid(logits), exact for large logits.
//   bce_with_logits(tensor({0, -200}), tensor({1, 1}))   // 100.34657
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options = {});
// target * (log(target) - x), where x, and the target with `log_target`, are logarithms of probabilities.
//   kl_div(log(tensor({0.5, 0.5})), tensor({0, 1}), Reduction::Sum)   // 0.6931472
Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean, bool log_target = false);

}  // namespace heddle
