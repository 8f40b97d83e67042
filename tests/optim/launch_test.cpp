// How many kernels a step takes.
#include <heddle/optim.h>

#include "tensor/helpers.h"

namespace heddle::optim {
namespace {

using namespace heddle::testing;

// A hundred parameters of many sizes, with gradients in memory.
struct Model {
  std::vector<Tensor> parameters, gradients;
  Model() {
    for (int64_t i = 0; i < 50; ++i) {
      int64_t rows = 3 + 7 * (i % 9), columns = 5 + 11 * (i % 7);
      for (const Dims& shape : {Dims{rows, columns}, Dims{rows}}) {
        parameters.push_back(noise_tensor(shape, static_cast<uint64_t>(i)));
        gradients.push_back(noise_tensor(shape, static_cast<uint64_t>(i + 100)));
      }
    }
  }
};

uint64_t launches_of_a_step(const std::function<Optimizer(const std::vector<Tensor>&)>& make) {
  Model model;
  Optimizer opt = make(model.parameters);
  for (int i = 0; i < 2; ++i) opt.step(model.gradients);
  StatsSince stats;
  opt.step(model.gradients);
  EXPECT_EQ(stats->plan_misses, 0u);
  return stats->launches;
}

TEST(Launches, a_step_of_a_hundred_parameters_takes_at_most_four) {
  Schedule lr = warmup(10, cosine(1e-3, 100));
  EXPECT_LE(launches_of_a_step([&](auto& p) { return SGD(p, {.lr = lr}); }), 4u);
  EXPECT_LE(launches_of_a_step([&](auto& p) { return SGD(p, {.lr = lr, .momentum = 0.9, .nesterov = true}); }), 4u);
  EXPECT_LE(launches_of_a_step([&](auto& p) { return Adam(p, {.lr = lr}); }), 4u);
  EXPECT_LE(launches_of_a_step([&](auto& p) { return AdamW(p, {.lr = lr}); }), 4u);
  EXPECT_LE(launches_of_a_step([&](auto& p) { return RMSprop(p, {.lr = lr, .momentum = 0.9, .centered = true}); }), 4u);
  EXPECT_LE(launches_of_a_step([&](auto& p) { return Lion(p, {.lr = lr}); }), 4u);
  EXPECT_LE(launches_of_a_step([&](auto& p) { return Adagrad(p, {.lr = lr}); }), 4u);
}

}  // namespace
}  // namespace heddle::optim
