// Losses against loops in double precision.
#include <heddle/nn/loss.h>

#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

constexpr Reduction kReductions[] = {Reduction::None, Reduction::Mean, Reduction::Sum, Reduction::BatchMean};

// `each` as a reduction would leave it; `share` says how many elements the mean is over.
std::vector<double> reduced(const std::vector<double>& each, Reduction reduction, double share, double batch) {
  if (reduction == Reduction::None) return each;
  double sum = 0;
  for (double v : each) sum += v;
  if (reduction == Reduction::Mean) sum /= share;
  if (reduction == Reduction::BatchMean) sum /= batch;
  return {sum};
}

void check_pairs(const std::function<Tensor(const Tensor&, const Tensor&, Reduction)>& loss,
                 const std::function<double(double, double)>& each, const Tensor& x, const Tensor& t) {
  std::vector<double> a = doubles(x), b = doubles(t), want;
  for (size_t i = 0; i < a.size(); ++i) want.push_back(each(a[i], b[i]));
  for (Reduction reduction : kReductions)
    expect_close(loss(x, t, reduction),
                 reduced(want, reduction, static_cast<double>(a.size()), static_cast<double>(x.size(0))), 2e-6);
}

TEST(Loss, distances) {
  Tensor x = noise_tensor({3, 4}), t = noise_tensor({3, 4}, 7);
  check_pairs([](auto& a, auto& b, Reduction r) { return mse_loss(a, b, r); },
              [](double a, double b) { return (a - b) * (a - b); }, x, t);
  check_pairs([](auto& a, auto& b, Reduction r) { return l1_loss(a, b, r); },
              [](double a, double b) { return std::fabs(a - b); }, x, t);
  for (double beta : {0.5, 1.0, 3.0}) {
    auto near = [&](double a, double b) { return 0.5 * (a - b) * (a - b); };
    check_pairs([&](auto& a, auto& b, Reduction r) { return smooth_l1_loss(a, b, beta, r); },
                [&](double a, double b) {
                  double d = std::fabs(a - b);
                  return d < beta ? near(a, b) / beta : d - beta / 2;
                },
                x, t);
    check_pairs([&](auto& a, auto& b, Reduction r) { return huber_loss(a, b, beta, r); },
                [&](double a, double b) {
                  double d = std::fabs(a - b);
                  return d <= beta ? near(a, b) : beta * (d - beta / 2);
                },
                x, t);
  }
  expect_close(smooth_l1_loss(x, t, 0), doubles(l1_loss(x, t)));
  expect_close(rss_loss(x, t), doubles(mse_loss(x, t, Reduction::Sum)));
}

TEST(Loss, binary_cross_entropy) {
  Tensor x = noise_tensor({3, 4}) * 3, t = sigmoid(noise_tensor({3, 4}, 9));
  auto entropy = [](double p, double y) { return -(y * std::log(p) + (1 - y) * std::log1p(-p)); };
  auto of_logit = [](double z) { return 1 / (1 + std::exp(-z)); };
  check_pairs([](auto& a, auto& b, Reduction r) { return bce_loss(a, b, {.reduction = r}); }, entropy, sigmoid(x), t);
  check_pairs([](auto& a, auto& b, Reduction r) { return bce_with_logits(a, b, {.reduction = r}); },
              [&](double z, double y) { return entropy(of_logit(z), y); }, x, t);
  check_pairs(
      [](auto& a, auto& b, Reduction r) {
        return bce_with_logits(a, b, {.weight = tensor({2}), .pos_weight = tensor({3}), .reduction = r});
      },
      [&](double z, double y) { return -2 * (3 * y * std::log(of_logit(z)) + (1 - y) * std::log1p(-of_logit(z))); }, x,
      t);
  expect_close(bce_with_logits(tensor({300, -300}), tensor({0, 1}), {.reduction = Reduction::None}), {300, 300});
  expect_close(bce_loss(tensor({0, 1}), tensor({1, 0}), {.reduction = Reduction::None}), {100, 100});
  expect_equal(bce_loss(tensor({0, 1}), tensor({0, 1})), {0});
}

TEST(Loss, kullback_leibler) {
  Tensor x = log_softmax(noise_tensor({3, 4})), p = softmax(noise_tensor({3, 4}, 5));
  auto each = [](double a, double b) { return b * (std::log(b) - a); };
  check_pairs([](auto& a, auto& b, Reduction r) { return kl_div(a, b, r); }, each, x, p);
  std::vector<double> want = doubles(kl_div(x, p, Reduction::BatchMean));
  expect_close(kl_div(x, log(p), Reduction::BatchMean, true), want, 1e-5);
  expect_close(kl_div(log(tensor({0.5, 0.5})), tensor({0, 1}), Reduction::None), {0, std::log(2.0)});
}

// Everything cross_entropy can do with classes, in double.
struct Reference {
  std::vector<double> each;
  double share = 0;
};
Reference by_class(const std::vector<double>& logits, const std::vector<int64_t>& targets, size_t classes,
                   const std::vector<double>& weight, int64_t ignored, double smoothing) {
  Reference result;
  for (size_t r = 0; r < targets.size(); ++r) {
    const double* row = &logits[r * classes];
    double total = 0;
    for (size_t c = 0; c < classes; ++c) total += std::exp(row[c]);
    if (targets[r] == ignored) {
      result.each.push_back(0);
      continue;
    }
    size_t y = static_cast<size_t>(targets[r]);
    double loss = (1 - smoothing) * weight[y] * (std::log(total) - row[y]);
    for (size_t c = 0; c < classes; ++c)
      loss += smoothing / static_cast<double>(classes) * weight[c] * (std::log(total) - row[c]);
    result.each.push_back(loss);
    result.share += weight[y];
  }
  return result;
}

TEST(CrossEntropy, classes_weights_smoothing_and_ignored_targets) {
  Tensor logits = noise_tensor({6, 4}), targets = tensor({3, 0, 2, -100, 1, 2}, kI64);
  std::vector<double> ones(4, 1), weights{0.5, 2, 1, 3};
  for (double smoothing : {0.0, 0.1, 1.0})
    for (bool weighted : {false, true})
      for (int64_t ignored : {int64_t{-100}, int64_t{2}})
        for (Reduction reduction : {Reduction::None, Reduction::Mean, Reduction::Sum}) {
          Tensor t = ignored == 2 ? maximum(targets, 0) : targets;
          Reference want = by_class(doubles(logits), integers(t), 4, weighted ? weights : ones, ignored, smoothing);
          CrossEntropyOptions options{.ignore_index = ignored, .label_smoothing = smoothing, .reduction = reduction};
          if (weighted) options.weight = tensor({0.5, 2, 1, 3});
          expect_close(cross_entropy(logits, t, options), reduced(want.each, reduction, want.share, 6), 1e-5);
          if (smoothing == 0)
            expect_close(nll_loss(log_softmax(logits), t, {options.weight, ignored, reduction}),
                         reduced(want.each, reduction, want.share, 6), 1e-5);
        }
}

TEST(CrossEntropy, probabilities) {
  Tensor logits = noise_tensor({3, 4}), p = softmax(noise_tensor({3, 4}, 5));
  std::vector<double> lp = doubles(log_softmax(logits)), q = doubles(p), w{0.5, 2, 1, 3};
  std::vector<double> each(3), smooth(3);
  for (size_t i = 0; i < 12; ++i) {
    each[i / 4] -= w[i % 4] * q[i] * lp[i];
    smooth[i / 4] -= (0.8 * q[i] + 0.05) * lp[i];
  }
  expect_close(cross_entropy(logits, p, {.weight = tensor({0.5, 2, 1, 3})}), reduced(each, Reduction::Mean, 3, 3),
               1e-5);
  expect_close(cross_entropy(logits, p, {.label_smoothing = 0.2, .reduction = Reduction::None}), smooth, 1e-5);
  expect_close(cross_entropy(logits, one_hot(tensor({1, 2, 3}, kI64), 4, kF32)),
               doubles(cross_entropy(logits, tensor({1, 2, 3}, kI64))), 1e-5);
}

TEST(CrossEntropy, other_ranks_and_dtypes) {
  Tensor logits = noise_tensor({2, 3, 4});  // [batch, classes, position]
  Tensor targets = tensor({{0, 1, 2, 0}, {2, 2, 1, 0}}, kU8);
  Tensor flat = permute(logits, {0, 2, 1}).reshape(8, 3);
  expect_close(cross_entropy(logits, targets), doubles(cross_entropy(flat, targets.reshape(Dims{8}))), 1e-5);
  EXPECT_EQ(cross_entropy(logits, targets, {.reduction = Reduction::None}).shape(), (Dims{2, 4}));
  expect_close(cross_entropy(flat[0], scalar(2, kI64)), doubles(cross_entropy(flat.slice(0, 0, 1), tensor({2}, kI32))),
               1e-6);
  EXPECT_EQ(cross_entropy(cast(logits, kBF16), targets).dtype(), kF32);
  EXPECT_EQ(cross_entropy(cast(logits, kF64), targets).dtype(), kF64);
  expect_equal(cross_entropy(tensor({{1000, 0}}), tensor({1}, kI64)), {1000});
}

TEST(CrossEntropy, a_target_that_is_no_class_is_an_error_and_of_all_ignored_there_is_no_mean) {
  Tensor logits = noise_tensor({2, 3});
  EXPECT_THROW(cross_entropy(logits, tensor({0, 3}, kI64)).item<float>(), IndexError);
  try {
    cross_entropy(logits, tensor({0, 3}, kI64)).item<float>();
  } catch (const IndexError& error) {
    EXPECT_STREQ(error.what(), "cross_entropy: index 3 is out of range for axis 1 of size 3");
  }
  EXPECT_THROW(cross_entropy(logits, tensor({0, -1}, kI64)).item<float>(), IndexError);
  EXPECT_THROW(nll_loss(logits, tensor({0, 3}, kI64)).item<float>(), IndexError);
  EXPECT_TRUE(std::isnan(cross_entropy(logits, tensor({-100, -100}, kI64)).item<float>()));
  EXPECT_EQ(cross_entropy(logits, tensor({-100, -100}, kI64), {.reduction = Reduction::Sum}).item<float>(), 0);
}

TEST(CrossEntropy, is_one_kernel_for_the_rows_and_little_more) {
  Tensor logits = noise_tensor({64, 10}), targets = (arange(64) % 10).realize();
  cross_entropy(logits, targets).realize();
  StatsSince stats;
  cross_entropy(logits, targets).realize();
  EXPECT_LE(stats->launches, 2u);
}

TEST(Loss, mistakes_are_named) {
  expect_error<ShapeError>([] { mse_loss(zeros({3, 1}), zeros(3)); }, {"mse_loss", "[3, 1]", "[3]"});
  expect_error<ShapeError>([] { cross_entropy(zeros({3, 4}), zeros(4, kI64)); },
                           {"cross_entropy", "[3, 4]", "[4]", "[3]"});
  expect_error<ShapeError>([] { cross_entropy(zeros({3, 4}), zeros(3)); }, {"cross_entropy", "[3]", "integers"});
  expect_error<ShapeError>([] { cross_entropy(zeros({3, 4}), zeros(3, kI64), {.weight = zeros(3)}); },
                           {"[3]", "4 classes"});
  expect_error<ShapeError>([] { cross_entropy(scalar(1), scalar(0, kI64)); }, {"scalar"});
  expect_error<DTypeError>([] { nll_loss(zeros({3, 4}), zeros(3)); }, {"nll_loss", "f32"});
  expect_error<DTypeError>([] { cross_entropy(zeros({3, 4}), zeros(3, kBool)); }, {"bool"});
  expect_error<ValueError>([] { cross_entropy(zeros({3, 4}), zeros(3, kI64), {.label_smoothing = 2}); },
                           {"label_smoothing"});
  expect_error<ValueError>([] { huber_loss(zeros(1), zeros(1), 0); }, {"delta"});
}

}  // namespace
}  // namespace heddle
