// The training step of a small perceptron, which the suites train and gpu measure.
#pragma once

#include <heddle/heddle.h>

#include <memory>

#include "tools/contest.h"

namespace heddle::tools {

inline constexpr int64_t kPerceptronBatch = 128, kPerceptronInputs = 784, kPerceptronHidden = 512,
                         kPerceptronClasses = 10;

struct Perceptron {
  nn::Sequential net{nn::Linear(kPerceptronInputs, kPerceptronHidden), nn::ReLU(),
                     nn::Linear(kPerceptronHidden, kPerceptronClasses)};
  optim::AdamW opt{net.parameters(), {.lr = 1e-3}};
  Tensor x = randn({kPerceptronBatch, kPerceptronInputs}).realize();
  Tensor t = randint(kPerceptronBatch, 0, kPerceptronClasses).realize();
};

// A contest in steps, captured, on the default device; bars and floor are the caller's.
inline Contest perceptron_contest(const std::string& unit, std::shared_ptr<Perceptron> of) {
  auto step = jit([of](const Tensor& x, const Tensor& t) {
    Tensor loss = cross_entropy(of->net(x), t);
    of->opt.step(grad(loss, of->net.parameters()));
    return loss;
  });
  Contest contest{.name = "MLP 784-512-10 step, batch 128, AdamW", .group = "training", .unit = unit};
  contest.row = {{"work", "mlp_step"},
                 {"dtype", "f32"},
                 {"batch", kPerceptronBatch},
                 {"sizes", {kPerceptronInputs, kPerceptronHidden, kPerceptronClasses}}};
  contest.ours = [of, step]() mutable { step(of->x, of->t); };
  return contest;
}

}  // namespace heddle::tools
