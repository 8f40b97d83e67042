// Training steps inside captured functions.
#include <heddle/grad.h>
#include <heddle/jit.h>
#include <heddle/nn.h>
#include <heddle/optim.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tensor/helpers.h"

namespace heddle::optim {
namespace {

using namespace heddle::testing;

nn::Sequential small_net() {
  return nn::Sequential(nn::Linear(12, 16), nn::ReLU(), nn::Dropout(0.2), nn::Linear(16, 5));
}
Tensor inputs() { return noise_tensor({6, 12}); }
Tensor labels() { return tensor({0, 3, 1, 4, 2, 0}, kI64).realize(); }

std::vector<float> losses_of(const std::function<Tensor(const Tensor&, const Tensor&)>& step, int count) {
  std::vector<float> losses;
  Tensor x = inputs(), t = labels();
  for (int i = 0; i < count; ++i) losses.push_back(step(x, t).item<float>());
  return losses;
}

TEST(Captured, the_mode_of_a_module_is_not_frozen) {
  nn::Dropout drop(0.5);
  auto f = jit([&](Tensor x) { return sum(drop(x)); });
  Tensor x = ones({1000}).realize();
  for (int i = 0; i < 3; ++i) EXPECT_NE(f(x).item<float>(), 1000);
  drop.eval();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(x).item<float>(), 1000);
  drop.train();
  for (int i = 0; i < 3; ++i) EXPECT_NE(f(x).item<float>(), 1000);
}

TEST(Captured, a_class_that_is_none_changes_nothing) {
  nn::Sequential net = small_net();
  AdamW opt(net, {.lr = 0.1});
  auto step = jit([&](Tensor x, Tensor t) {
    Tensor loss = cross_entropy(net(x), t);
    opt.step(grad(loss, net.parameters()));
    return loss;
  });
  for (int i = 0; i < 3; ++i) step(inputs(), labels());
  std::vector<float> before = net.parameters()[0].to_vector<float>();
  try {
    step(inputs(), tensor({0, 3, 1, 5, 2, 0}, kI64).realize());
    FAIL();
  } catch (const IndexError& e) {
    EXPECT_NE(std::string(e.what()).find("cross_entropy: index 5"), std::string::npos) << e.what();
  }
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), before);
  step(inputs(), labels());
  EXPECT_NE(net.parameters()[0].to_vector<float>(), before);
}

TEST(Captured, a_step_does_what_the_plain_one_does) {
  auto options = [] { return AdamWOptions{.lr = warmup(4, cosine(0.02, 10)), .weight_decay = 0.1}; };
  manual_seed(1);
  nn::Sequential a = small_net(), b = a.copy();
  AdamW opt_a(a, options()), opt_b(b, options());
  manual_seed(7);
  std::vector<float> plain = losses_of(
      [&](const Tensor& x, const Tensor& t) {
        Tensor loss = cross_entropy(a(x), t);
        opt_a.step(grad(loss, a.parameters()), {loss});
        return loss;
      },
      20);
  manual_seed(7);
  auto step = jit([&](Tensor x, Tensor t) {
    Tensor loss = cross_entropy(b(x), t);
    opt_b.step(grad(loss, b.parameters()));
    return loss;
  });
  std::vector<float> captured = losses_of(step, 20);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(captured[i], plain[i], 1e-4 * plain[i]) << "step " << i;
  EXPECT_EQ(opt_b.steps_done(), 20);
  EXPECT_EQ(step.plans().size(), 1u);
}

TEST(Captured, the_rate_is_not_frozen) {
  Tensor p = tensor({0.0}).realize();
  SGD opt({p}, {.lr = exponential_decay(1, 0.5)});
  auto step = jit([&](Tensor g) {
    opt.step({g});
    return g;
  });
  double want = 0;
  for (int i = 0; i < 6; ++i) {
    if (i == 4) opt.set_lr(16);
    want -= (i >= 4 ? 16 : 1) * std::pow(0.5, i);
    step(tensor({1.0}).realize());
    expect_close(p, {want});
  }
}

TEST(Captured, a_checkpoint_goes_on_with_the_same_bits) {
  std::string path =
      (std::filesystem::temp_directory_path() / ("heddle_captured_" + std::to_string(::getpid()))).string();
  auto train = [](nn::Sequential& net, Optimizer& opt, int count) {
    auto step = jit([&](Tensor x, Tensor t) {
      Tensor loss = cross_entropy(net(x), t);
      opt.step(clip_grad_norm(grad(loss, net.parameters()), 1).gradients);
      return loss;
    });
    return losses_of(step, count);
  };
  manual_seed(3);
  nn::Sequential a = small_net();
  Adam opt_a(a, {.lr = warmup(4, 0.01)});
  train(a, opt_a, 6);
  save_checkpoint(path, a, opt_a);
  std::vector<float> want = train(a, opt_a, 6);
  manual_seed(99);
  nn::Sequential b = small_net();
  Adam opt_b(b, {.lr = warmup(4, 0.01)});
  load_checkpoint(path, b, opt_b);
  std::filesystem::remove(path);
  EXPECT_EQ(train(b, opt_b, 6), want);
}

// Trains for some steps from a checkpoint, if there is one, and leaves one behind; prints the losses. Run by the test
// below, in a process of its own.
TEST(CapturedRun, DISABLED_of_a_few_steps) {
  std::string path = std::getenv("HEDDLE_TEST_CHECKPOINT");
  manual_seed(3);
  nn::Sequential net = small_net();
  Adam opt(net, {.lr = warmup(4, 0.01)});
  if (std::filesystem::exists(path)) load_checkpoint(path, net, opt);
  auto step = jit([&](Tensor x, Tensor t) {
    Tensor loss = cross_entropy(net(x), t);
    opt.step(grad(loss, net.parameters()));
    return loss;
  });
  for (float loss : losses_of(step, std::atoi(std::getenv("HEDDLE_TEST_STEPS")))) std::printf("loss %a\n", loss);
  save_checkpoint(path, net, opt);
}

std::string losses_of_a_process(const std::string& checkpoint, int steps) {
  std::string command = "HEDDLE_TEST_CHECKPOINT=" + checkpoint + " HEDDLE_TEST_STEPS=" + std::to_string(steps) + " " +
                        std::filesystem::read_symlink("/proc/self/exe").string() +
                        " --gtest_also_run_disabled_tests --gtest_filter='CapturedRun.*'";
  FILE* child = ::popen(command.c_str(), "r");
  std::string losses;
  char line[256];
  while (child && std::fgets(line, sizeof line, child))
    if (std::string(line).starts_with("loss ")) losses += line;
  EXPECT_EQ(child ? ::pclose(child) : -1, 0);
  return losses;
}

TEST(Captured, the_same_seed_gives_the_same_bits_in_every_process_and_across_a_restart) {
  std::string path = (std::filesystem::temp_directory_path() / ("heddle_run_" + std::to_string(::getpid()))).string();
  std::string whole = losses_of_a_process(path, 12);
  std::filesystem::remove(path);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 12);
  std::string first = losses_of_a_process(path, 5), rest = losses_of_a_process(path, 7);
  std::filesystem::remove(path);
  EXPECT_EQ(first + rest, whole);
}

TEST(Captured, a_perceptron_with_adamw_takes_at_most_twelve_launches) {
  nn::Sequential net(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10));
  AdamW opt(net, {.lr = 1e-3});
  auto step = jit([&](Tensor x, Tensor t) {
    Tensor loss = cross_entropy(net(x), t);
    opt.step(grad(loss, net.parameters()));
    return loss;
  });
  Tensor x = noise_tensor({128, 784}), t = (arange(128) % 10).realize();
  for (int i = 0; i < 3; ++i) step(x, t);
  ASSERT_EQ(step.plans().size(), 1u);
  EXPECT_LE(step.plans()[0].launches, 12u);
  // All of them are written after everybody has read them.
  EXPECT_EQ(step.plans()[0].copied, 0u) << step.plans()[0];
}

}  // namespace
}  // namespace heddle::optim
