// Optimisers against loops in double precision that follow the papers and PyTorch's documentation.
#include <heddle/nn.h>
#include <heddle/optim.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/device.h"
#include "tensor/helpers.h"

namespace heddle::optim {
namespace {

using namespace heddle::testing;

// What one number goes through: a parameter, its gradient, three numbers of state.
struct One {
  double p, a = 0, b = 0, c = 0;
};
using Reference = std::function<void(One& x, double g, double lr, int64_t t)>;

constexpr int kSteps = 20;

// Gradients that depend on the parameter, so that errors would grow.
double gradient_of(double p, int64_t t) { return 0.7 * p + std::sin(static_cast<double>(t) + 3 * p); }
Tensor gradient_of(const Tensor& p, int64_t t) { return p * 0.7 + sin(static_cast<double>(t) + p * 3); }

void check(const std::function<Optimizer(const Parameters&)>& make, const Reference& reference,
           const Schedule& lr = 0.05, DType dtype = kF64, double tolerance = 1e-10) {
  std::vector<Tensor> p{cast(noise_tensor({3, 5}), dtype).realize(), cast(noise_tensor({7}, 4), dtype).realize()};
  std::vector<std::vector<One>> want;
  for (const Tensor& tensor : p) {
    want.emplace_back();
    for (double v : doubles(tensor)) want.back().push_back({v});
  }
  Optimizer opt = make(p);
  for (int64_t t = 0; t < kSteps; ++t) {
    EXPECT_NEAR(opt.lr(), lr(t), 1e-12);
    opt.step({gradient_of(p[0], t), gradient_of(p[1], t)});
    EXPECT_TRUE(p[0].is_realized());
    for (auto& tensor : want)
      for (One& x : tensor) reference(x, gradient_of(x.p, t), lr(t), t + 1);
    for (size_t i = 0; i < p.size(); ++i) {
      std::vector<double> numbers;
      for (const One& x : want[i]) numbers.push_back(x.p);
      expect_close(p[i], numbers, tolerance);
    }
    if (::testing::Test::HasFailure()) FAIL() << "at step " << t;
  }
  EXPECT_EQ(opt.steps_done(), kSteps);
}

template <class O, class Options>
std::function<Optimizer(const Parameters&)> with(const Options& options) {
  return [=](const Parameters& p) -> Optimizer { return O(p, options); };
}

TEST(SGD, plain_decay_momentum_dampening_nesterov) {
  check(with<SGD>(SGDOptions{.lr = 0.05}), [](One& x, double g, double lr, int64_t) { x.p -= lr * g; });
  for (bool nesterov : {false, true})
    for (double dampening : {0.0, 0.3}) {
      if (nesterov && dampening > 0) continue;
      SGDOptions o{.lr = 0.05, .momentum = 0.9, .dampening = dampening, .nesterov = nesterov, .weight_decay = 0.1};
      check(with<SGD>(o), [=](One& x, double g, double lr, int64_t t) {
        g += 0.1 * x.p;
        x.a = t == 1 ? g : 0.9 * x.a + (1 - dampening) * g;
        x.p -= lr * (nesterov ? g + 0.9 * x.a : x.a);
      });
    }
}

Reference adam_reference(double decay, bool decoupled, bool amsgrad) {
  return [=](One& x, double g, double lr, int64_t t) {
    if (decoupled)
      x.p *= 1 - lr * decay;
    else
      g += decay * x.p;
    x.a = 0.9 * x.a + 0.1 * g;
    x.b = 0.999 * x.b + 0.001 * g * g;
    x.c = std::max(x.c, x.b);
    double n = static_cast<double>(t), first = 1 - std::pow(0.9, n), second = 1 - std::pow(0.999, n);
    x.p -= lr / first * x.a / (std::sqrt(amsgrad ? x.c : x.b) / std::sqrt(second) + 1e-8);
  };
}

TEST(Adam, both_kinds_of_decay_and_amsgrad) {
  for (bool amsgrad : {false, true}) {
    check(with<Adam>(AdamOptions{.lr = 0.05, .weight_decay = 0.1, .amsgrad = amsgrad}),
          adam_reference(0.1, false, amsgrad));
    check(with<AdamW>(AdamWOptions{.lr = 0.05, .weight_decay = 0.1, .amsgrad = amsgrad}),
          adam_reference(0.1, true, amsgrad));
  }
}

TEST(Adam, in_f32_too_from_the_first_step_on) {
  check(with<AdamW>(AdamWOptions{.lr = 0.05, .weight_decay = 0.1}), adam_reference(0.1, true, false), 0.05, kF32, 1e-5);
}

TEST(RMSprop, plain_centered_momentum) {
  for (bool centered : {false, true})
    for (double momentum : {0.0, 0.9}) {
      RMSpropOptions o{.lr = 0.05, .alpha = 0.9, .momentum = momentum, .centered = centered, .weight_decay = 0.01};
      check(
          with<RMSprop>(o),
          [=](One& x, double g, double lr, int64_t) {
            g += 0.01 * x.p;
            x.a = 0.9 * x.a + 0.1 * g * g;
            x.b = 0.9 * x.b + 0.1 * g;
            double direction = g / (std::sqrt(centered ? x.a - x.b * x.b : x.a) + 1e-8);
            x.c = momentum * x.c + direction;
            x.p -= lr * (momentum > 0 ? x.c : direction);
          },
          0.05, kF64, 1e-6);  // centred, the first step takes the root of a difference close to zero
    }
}

TEST(Lion, steps_of_one_size) {
  check(with<Lion>(LionOptions{.lr = 0.05, .weight_decay = 0.1}), [](One& x, double g, double lr, int64_t) {
    double direction = 0.9 * x.a + 0.1 * g;
    x.p = x.p * (1 - lr * 0.1) - lr * static_cast<double>((direction > 0) - (direction < 0));
    x.a = 0.99 * x.a + 0.01 * g;
  });
}

TEST(Adagrad, sums_squares) {
  check(with<Adagrad>(AdagradOptions{.lr = 0.05}), [](One& x, double g, double lr, int64_t) {
    x.a += g * g;
    x.p -= lr * g / (std::sqrt(x.a) + 1e-10);
  });
}

TEST(Optimizer, follows_its_schedule) {
  Schedule lr = warmup(5, cosine(0.1, 10, 0.01));
  check(with<SGD>(SGDOptions{.lr = lr}), [](One& x, double g, double rate, int64_t) { x.p -= rate * g; }, lr);
}

TEST(Optimizer, set_lr_replaces_the_base_of_the_schedule) {
  Tensor p = tensor({0.0});
  SGD opt({p}, {.lr = exponential_decay(1, 0.5)});
  opt.step({tensor({1})});
  opt.step({tensor({1})});
  expect_equal(p, {-1.5});
  opt.set_lr(8);
  EXPECT_EQ(opt.lr(), 2);
  opt.step({tensor({1})});
  expect_equal(p, {-3.5});
  expect_error<ValueError>([&] { opt.set_lr(NAN); }, {"SGD", "nan"});
}

TEST(Optimizer, groups_have_their_own_decay_and_rate) {
  nn::Linear layer(2, 2);
  layer.weight.assign(ones({2, 2}));
  layer.bias->assign(ones(2));
  std::vector<Group> groups = decay_matrices(layer.named_parameters(), 0.5);
  groups[1].lr_factor = 10;
  SGD opt(groups, {.lr = 0.1});
  opt.step({zeros({2, 2}), ones(2)});
  expect_close(layer.weight, {0.95, 0.95, 0.95, 0.95});
  expect_close(*layer.bias, {0, 0});
}

TEST(Optimizer, groups_of_matrices_keep_the_order) {
  nn::Sequential net(nn::Linear(3, 4), nn::LayerNorm(4), nn::Linear(4, 2));
  AdamW opt(decay_matrices(net.named_parameters(), 0.05), {.lr = 1e-3});
  const std::vector<Tensor> trained = opt.parameters(), given = net.parameters();
  ASSERT_EQ(trained.size(), given.size());
  for (size_t i = 0; i < given.size(); ++i) EXPECT_EQ(trained[i].shape(), given[i].shape());
  Tensor loss = sum(square(net(ones({2, 3}))));
  opt.step(grad(loss, net.parameters()));
  opt.step(grad(sum(square(net(ones({2, 3})))), opt.parameters()));
}

TEST(Optimizer, a_module_that_was_converted_needs_another_optimiser) {
  nn::Linear layer(2, 2);
  SGD opt(layer, {.lr = 0.1});
  layer.to(kBF16);
  sum(layer(ones({1, 2}, kBF16))).backward();
  try {
    opt.step();
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("build the optimiser after that"), std::string::npos) << error.what();
  }
}

TEST(Optimizer, small_floats_keep_a_master_copy) {
  for (DType dtype : {kBF16, kF16}) {
    Tensor p = full(4, 1, dtype).realize();
    SGD opt({p}, {.lr = 1});
    // Each step is far below half a unit in the last place of 1.
    for (int i = 0; i < 100; ++i) opt.step({full(4, 1e-4, dtype)});
    expect_close(p, std::vector<double>(4, 0.99), 2e-3);
    EXPECT_EQ(p.dtype(), dtype);
    EXPECT_EQ(opt.state().at("0.master").dtype(), kF32);
    p.assign(full(4, 5, dtype));  // the master copy follows
    opt.step({full(4, 1, dtype)});
    expect_close(p, std::vector<double>(4, 4), 1e-2);
  }
}

TEST(Optimizer, mistakes_are_named) {
  nn::Linear layer(2, 3);
  AdamW opt(layer, {.lr = 1e-3});
  expect_error<ValueError>([&] { opt.step({zeros({3, 2})}); }, {"AdamW", "1 gradients for 2"});
  expect_error<ShapeError>([&] { opt.step({zeros({2, 3}), zeros(3)}); }, {"weight", "[2, 3]", "[3, 2]"});
  expect_error<DTypeError>([&] { opt.step({zeros({3, 2}, kI32), zeros(3)}); }, {"weight", "i32", "f32"});
  expect_error<ValueError>([] { SGD(std::vector<Tensor>{}, {.lr = 1}); }, {"no parameters"});
  expect_error<DTypeError>([] { SGD(std::vector<Tensor>{zeros(1, kI64)}, {}); }, {"i64"});
  expect_error<ValueError>([&] { SGD(std::vector<Tensor>{layer.weight, layer.weight}, {}); }, {"another name"});
  expect_error<ValueError>([&] { AdamW(layer, {.beta1 = 1}); }, {"beta1"});
  expect_error<ValueError>([&] { SGD(layer, {.nesterov = true}); }, {"Nesterov"});
  expect_error<ValueError>([&] { SGD(layer, {.lr = -1}); }, {"SGD", "learning rate of -1", "not negative"});
  expect_error<ValueError>([&] { AdamW(layer, {.lr = NAN}); }, {"AdamW", "learning rate of nan", "finite"});
  expect_error<ValueError>([&] { opt.set_lr(-2); }, {"AdamW", "-2", "not negative"});
}

TEST(Optimizer, a_rule_of_ones_own) {
  Rule signs{"Signs", {"previous"}, [](const Tensor& p, const Tensor& g, std::span<Tensor> state, const Settings& now) {
               Tensor next = p - sign(g + state[0]) * now.lr;
               state[0] = g;
               return next;
             }};
  Tensor p = tensor({1.0, -1.0});
  Optimizer opt(std::vector<Tensor>{p}, 0.5, 0, signs);
  opt.step({tensor({3, -3})});
  expect_equal(p, {0.5, -0.5});
  expect_equal(opt.state().at("0.previous"), {3, -3});
}

TEST(Optimizer, memory_stays_flat_and_updates_work_in_place) {
  Tensor p = zeros({1000}).realize(), g = ones({1000}).realize();
  AdamW opt({p}, {});
  for (int i = 0; i < 3; ++i) opt.step({g});
  uint64_t used = device().memory().used;
  const void* before = address(p);
  for (int i = 0; i < 50; ++i) opt.step({g});
  EXPECT_EQ(device().memory().used, used);
  EXPECT_EQ(address(p), before);
}

class CheckpointFile : public ::testing::Test {
 protected:
  ~CheckpointFile() override { std::filesystem::remove(path); }
  std::string path =
      (std::filesystem::temp_directory_path() / ("heddle_optim_" + std::to_string(::getpid()) + ".safetensors"))
          .string();
};

TEST_F(CheckpointFile, going_on_gives_the_same_bits) {
  auto make_net = [] { return nn::Sequential(nn::Linear(4, 3), nn::Dropout(0.5), nn::Linear(3, 2)); };
  auto make_opt = [](const nn::Sequential& net) {
    return AdamW(net, {.lr = warmup(3, cosine(0.1, 20)), .weight_decay = 0.1});
  };
  auto train = [](nn::Sequential& net, Optimizer& opt, int steps) {
    std::vector<float> losses;
    for (int i = 0; i < steps; ++i) {
      std::vector<Tensor> gradients;
      for (const Tensor& p : net.parameters()) gradients.push_back(p * 0.3 + randn(p.shape()));
      Tensor loss = net(ones({2, 4})).sum();
      opt.step(gradients, {loss});
      losses.push_back(loss.item<float>());
    }
    return losses;
  };
  manual_seed(5);
  nn::Sequential a = make_net();
  AdamW opt_a = make_opt(a);
  train(a, opt_a, 5);
  opt_a.set_lr(0.2);
  save_checkpoint(path, a, opt_a, {{"epoch", "1"}});
  std::vector<float> want = train(a, opt_a, 5);

  manual_seed(99);
  nn::Sequential b = make_net();
  AdamW opt_b = make_opt(b);
  EXPECT_EQ(load_checkpoint(path, b, opt_b), (TextMap{{"epoch", "1"}}));
  EXPECT_EQ(opt_b.steps_done(), 5);
  EXPECT_EQ(train(b, opt_b, 5), want);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(equal(a.parameters()[i], b.parameters()[i]));
}

TEST_F(CheckpointFile, one_that_does_not_fit_changes_nothing) {
  nn::Linear a(2, 2), b(2, 2);
  SGD sgd(a, {.momentum = 0.9});
  save_checkpoint(path, a, sgd);
  AdamW adam(b, {});
  Tensor before = b.weight.clone();
  expect_error<ValueError>([&] { load_checkpoint(path, b, adam); },
                           {path, "optimizer.weight.exp_avg is missing", "optimizer.bias.momentum_buffer is none"});
  EXPECT_TRUE(equal(before, b.weight));
}

TEST_F(CheckpointFile, files_of_modules_and_checkpoints_are_told_apart) {
  nn::Linear net(2, 2);
  SGD sgd(net, {});
  net.save(path);
  expect_error<ValueError>([&] { load_checkpoint(path, net, sgd); }, {path, "without an optimiser", "load()"});
  save_checkpoint(path, net, sgd);
  expect_error<ValueError>([&] { net.load(path); }, {path, "load_checkpoint()"});
}

TEST(Clip, by_the_norm_of_all_elements) {
  std::vector<Tensor> g{tensor({3, 0}), tensor({{4}}), zeros({0})};
  Clipped same = clip_grad_norm(g, 10), less = clip_grad_norm(g, 1);
  expect_close(same.norm, {5});
  expect_equal(same.gradients[0], {3, 0});
  expect_close(less.gradients[0], {0.6, 0});
  expect_close(less.gradients[1], {0.8});
  EXPECT_EQ(less.gradients[1].shape(), (Dims{1, 1}));
  expect_close(clip_grad_norm(g, 2, INFINITY).gradients[1], {2});
  expect_close(clip_grad_norm(g, 1, 1).norm, {7});
  expect_close(clip_grad_norm({tensor({300, 400}, kF16)}, 1).norm, {500});
  EXPECT_EQ(clip_grad_norm({tensor({3}, kBF16)}, 1).gradients[0].dtype(), kBF16);
  expect_error<ValueError>([&] { clip_grad_norm(g, -1); }, {"-1"});
}

TEST(Clip, by_value) {
  expect_equal(clip_grad_value({tensor({-3, 0.5, 9})}, 2)[0], {-2, 0.5, 2});
  expect_error<ValueError>([] { clip_grad_value({}, NAN); }, {"nan"});
}

}  // namespace
}  // namespace heddle::optim
