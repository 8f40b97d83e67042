// Launches and bytes of whole training steps: forward, loss, backward and update in one go.
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

std::vector<Tensor> adamw(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v, const Tensor& rate) {
  Tensor next_m = m * 0.9 + g * 0.1, next_v = v * 0.999 + square(g) * 0.001;
  return {p * (1 - rate * 0.01) - rate * next_m / (sqrt(next_v) + 1e-8), next_m, next_v};
}

TEST(TrainingStep, of_a_two_layer_mlp_with_adamw_is_few_launches) {
  Tensor x = noise_tensor({128, 784}), labels = (arange(128) * 7 % 10).realize();
  std::vector<Tensor> parameters{(noise_tensor({784, 512}, 1) * 0.03).realize(), noise_tensor({512}, 2),
                                 (noise_tensor({512, 10}, 3) * 0.05).realize(), noise_tensor({10}, 4)};
  for (Tensor& p : parameters) p.requires_grad_();
  Tensor rate = full({}, 0.001).realize();
  Tensor hidden = relu(matmul(x, parameters[0]) + parameters[1]);
  Tensor logits = matmul(hidden, parameters[2]) + parameters[3];
  Tensor loss = neg(mean(take_along_axis(log_softmax(logits, -1), unsqueeze(labels, 1), 1)));
  std::vector<Tensor> gradients = grad(loss, parameters), results{loss};
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor m = zeros_like(parameters[i]).realize(), v = zeros_like(parameters[i]).realize();
    for (Tensor& t : adamw(parameters[i], gradients[i], m, v, rate)) results.push_back(std::move(t));
  }
  StatsSince stats;
  realize(results);
  EXPECT_LE(stats->launches, 12u);
}

// The mask is computed from the key wherever it is needed: nothing of its size is written.
TEST(TrainingStep, keeps_no_mask_of_dropout) {
  constexpr int64_t kRows = 256, kColumns = 512;
  Tensor x = noise_tensor({kRows, kColumns}), w = noise_tensor({kColumns, 64}, 2),
         target = noise_tensor({kRows, 64}, 3);
  x.requires_grad_();
  w.requires_grad_();
  Generator generator(5);
  Tensor mask = uniform({kRows, kColumns}, 0, 1, kF32, generator) < 0.5;
  Tensor dropped = where(mask, x * 2, 0);
  Tensor y = matmul(dropped, w);
  std::vector<Tensor> gradients = grad(sum(square(y - target)), std::vector<Tensor>{x, w});
  StatsSince stats;
  realize(gradients);
  EXPECT_EQ(stats->launches, 4u);
  // What is dropped from, as the product reads it, and the product; each product also copies its factors.
  constexpr uint64_t kPassed = (kRows * kColumns + kRows * 64) * 4;
  constexpr uint64_t kCopies = (kRows * kColumns + kColumns * 64) * 4;
  EXPECT_LE(stats->arena_bytes, kPassed + kCopies + (8 << 10));
}

}  // namespace
}  // namespace heddle
