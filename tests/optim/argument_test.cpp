// Modules and optimisers as arguments of captured functions: everything that decides what they do counts.
#include <heddle/heddle.h>

#include "../tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

Tensor some(const Dims& shape, uint64_t seed) {
  Generator generator(seed);
  return randn(shape, kF32, generator).realize();
}

// f(a, x) twice, then f(b, x), then both again: always what the plain function gives.
template <class M>
void expect_told_apart(const M& a, const M& b, const Tensor& x) {
  auto plain = [](const M& m, const Tensor& y) { return m(y); };
  auto f = jit(plain);
  for (const M* m : {&a, &a, &b, &b, &a, &b, &b, &a}) expect_close(f(*m, x), doubles(plain(*m, x)), 1e-5);
}

TEST(Arguments, modules_with_other_settings_are_told_apart) {
  Tensor x = some({4, 8}, 1);
  expect_told_apart(nn::LayerNorm(8, 1e-5), nn::LayerNorm(8, 1.0), x);
  expect_told_apart(nn::RMSNorm(8, 1e-6), nn::RMSNorm(8, 3.0), x);
  expect_told_apart(nn::GroupNorm(2, 8), nn::GroupNorm(4, 8), x);
  nn::MultiHeadAttention a(8, 2), b(8, 4), causal(8, 2, true);
  expect_told_apart(a, b, x);
  expect_told_apart(a, causal, x);
  expect_told_apart(nn::Flatten(0), nn::Flatten(1), x);
  Tensor image = some({2, 4, 6, 6}, 2);
  nn::Conv2d narrow(4, 4, 3), strided(4, 4, 3, {.stride = 2}), same(4, 4, 3, {.padding = "same"});
  expect_told_apart(narrow, strided, image);
  expect_told_apart(narrow, same, image);
  expect_told_apart(nn::MaxPool2d(2), nn::MaxPool2d(2, {.stride = 1}), image);
  expect_told_apart(nn::AvgPool2d(3, {.padding = 1}), nn::AvgPool2d(3, {.padding = 1, .count_include_pad = false}),
                    image);
  nn::BatchNorm2d first(4), second(4, {.epsilon = 1});
  first.eval(), second.eval();
  expect_told_apart(first, second, image);
}

TEST(Arguments, train_and_eval_are_told_apart) {
  nn::Dropout training(0.5), still(0.5);
  still.eval();
  auto f = jit([](const nn::Dropout& d, const Tensor& x) { return d(x); });
  Tensor x = ones({1000});
  auto zero_count = [&](const nn::Dropout& d) { return sum(eq(f(d, x), 0.)).item<int64_t>(); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(zero_count(training), 300);
    EXPECT_EQ(zero_count(still), 0);
  }
  training.eval();
  EXPECT_EQ(zero_count(training), 0);
  still.train();
  EXPECT_GT(zero_count(still), 300);
}

TEST(Arguments, layers_of_a_sequence_are_told_apart) {
  nn::Linear linear(8, 8);
  Tensor x = some({4, 8}, 3);
  expect_told_apart(nn::Sequential(linear, nn::ReLU()), nn::Sequential(linear, nn::Tanh()), x);
  auto scaled = [](double by) { return [by](const Tensor& y) { return y * by; }; };
  expect_told_apart(nn::Sequential(linear, scaled(2)), nn::Sequential(linear, scaled(3)), x);
  nn::Sequential inner(linear, scaled(5));
  expect_told_apart(nn::Sequential(inner, nn::LayerNorm(8)), nn::Sequential(inner, nn::LayerNorm(8, 1)), x);
  // A copy is the same function: no other plan.
  auto f = jit([](const nn::Sequential& net, const Tensor& y) { return net(y); });
  nn::Sequential net(linear, scaled(2)), copy = net.copy();
  for (int i = 0; i < 3; ++i) f(net, x), f(copy, x);
  EXPECT_EQ(f.plans().size(), 1u);
  EXPECT_EQ(f.plans()[0].recordings, 2u);
}

struct Hidden : nn::Module<Hidden> {
  Tensor weight = tensor({1., 2.}).realize();
  double scale = 1;
  Tensor operator()(const Tensor& x) const { return x * weight * scale; }
  template <class V>
  void visit(V& v) {
    v("weight", weight);
  }
};
struct Listed : Hidden {
  using ListsAll = Listed;
  bool doubled = false;
  Tensor operator()(const Tensor& x) const { return x * weight * (doubled ? 2 * scale : scale); }
  template <class V>
  void visit(V& v) {
    v("weight", weight);
    v.settings(scale, doubled);
  }
};
struct Whole : nn::Module<Whole> {
  Hidden hidden;
  Tensor operator()(const Tensor& x) const { return hidden(x); }
  template <class V>
  void visit(V& v) {
    v("hidden", hidden);
  }
};
struct Derived : nn::Linear {
  double scale;
  explicit Derived(double by) : nn::Linear(2, 2), scale(by) {}
  Tensor operator()(const Tensor& x) const { return nn::Linear::operator()(x) * scale; }
};

TEST(Arguments, a_module_that_does_not_list_everything_is_recorded_anew) {
  Tensor x = tensor({3., 4.});
  auto try_out = [&]<class M>(M& a, M& b, double& scale, bool anew) {
    scale = 3;
    auto f = jit([](const M& m, const Tensor& y) { return m(y); });
    for (int i = 0; i < 4; ++i) {
      expect_equal(f(a, x), {3, 8});
      expect_equal(f(b, x), {9, 24});
    }
    scale = 5;
    expect_equal(f(b, x), {15, 40});
    uint64_t recordings = 0;
    for (const JitPlan& plan : f.plans()) recordings += plan.recordings;
    if (anew)
      EXPECT_GE(recordings, 9u);
    else
      EXPECT_LE(recordings, 5u);
  };
  Hidden a, b;
  try_out(a, b, b.scale, true);
  Listed c, d;
  try_out(c, d, d.scale, false);
  d.scale = 1, d.doubled = true;
  auto f = jit([](const Listed& m, const Tensor& y) { return m(y); });
  for (int i = 0; i < 3; ++i) {
    expect_equal(f(c, x), {3, 8});
    expect_equal(f(d, x), {6, 16});
  }
  Whole e, g;
  try_out(e, g, g.hidden.scale, true);
  expect_told_apart(Derived(1), Derived(4), tensor({{1., 2.}}));
}

TEST(Arguments, optimisers_in_turn_step_their_own_weights) {
  auto quadratic = [](const Tensor& w) { return sum(square(w)); };
  auto step = [&](optim::Optimizer& o, const Tensor& w) { o.step({grad(quadratic(w), w)}); };
  Tensor first = tensor({1., 2.}).requires_grad_(), second = tensor({3., 4.}).requires_grad_();
  Tensor plain_first = tensor({1., 2.}).requires_grad_(), plain_second = tensor({3., 4.}).requires_grad_();
  optim::SGD a({first}, {.lr = 0.1}), b({second}, {.lr = 0.01, .momentum = 0.5});
  optim::SGD c({plain_first}, {.lr = 0.1}), d({plain_second}, {.lr = 0.01, .momentum = 0.5});
  auto g = jit([&](optim::SGD o, const Tensor& w) { step(o, w); });
  for (int i = 0; i < 4; ++i) {
    g(a, first);
    step(c, plain_first);
    expect_close(first, doubles(plain_first), 1e-6);
    g(b, second);
    step(d, plain_second);
    expect_close(second, doubles(plain_second), 1e-6);
  }
  EXPECT_EQ(a.steps_done(), 4);
  EXPECT_EQ(b.steps_done(), 4);
}

TEST(Arguments, a_module_its_optimiser_and_gradients_inside) {
  Tensor x = some({16, 4}, 5), t = some({16, 3}, 6);
  auto net_of = [](uint64_t seed) {
    Generator generator(seed);
    return nn::Sequential(nn::Linear(4, 8, true, kF32, generator), nn::Tanh(), nn::Linear(8, 3, true, kF32, generator));
  };
  auto loss_of = [&](const nn::Sequential& n) { return mean(square(n(x) - t)); };
  auto by_grad = [&](nn::Sequential n, optim::AdamW o) {
    Tensor loss = loss_of(n);
    o.step(grad(loss, n.parameters()));
    return loss;
  };
  auto by_backward = [&](nn::Sequential n, optim::AdamW o) {
    o.zero_grad();
    Tensor loss = loss_of(n);
    loss.backward();
    o.step();
    return loss;
  };
  auto check = [&](const auto& step) {
    nn::Sequential a = net_of(1), b = net_of(2), plain_a = net_of(1), plain_b = net_of(2);
    optim::AdamW oa(a, {.lr = 0.01}), ob(b, {.lr = 0.02}), pa(plain_a, {.lr = 0.01}), pb(plain_b, {.lr = 0.02});
    auto f = jit(step);
    for (int i = 0; i < 5; ++i) {
      expect_close(f(a, oa), doubles(step(plain_a, pa)), 1e-4);
      expect_close(f(b, ob), doubles(step(plain_b, pb)), 1e-4);
    }
    for (size_t k = 0; k < a.parameters().size(); ++k) {
      expect_close(a.parameters()[k], doubles(plain_a.parameters()[k]), 1e-4);
      expect_close(b.parameters()[k], doubles(plain_b.parameters()[k]), 1e-4);
    }
  };
  check(by_grad);
  check(by_backward);
}

TEST(Arguments, backward_of_an_argument_adds_up_in_its_own_gradient) {
  Tensor a = tensor({1., 2.}).requires_grad_(), b = tensor({5., 6.}).requires_grad_();
  auto f = jit([](const Tensor& w) {
    sum(square(w)).backward();
    return *w.grad() * 1;
  });
  expect_equal(f(a), {2, 4});
  expect_equal(*a.grad(), {2, 4});
  EXPECT_FALSE(b.grad().has_value());
  expect_equal(f(a), {4, 8});
  expect_equal(f(b), {10, 12});
  expect_equal(f(a), {6, 12});
  expect_equal(f(b), {20, 24});
  a.zero_grad();
  expect_equal(f(a), {2, 4});
  expect_equal(*b.grad(), {20, 24});
}

TEST(Arguments, frozen_parameters_are_told_apart) {
  nn::Linear a(2, 2), b = a.copy();
  b.freeze("bias");
  auto plain = [](const nn::Linear& n, const Tensor& x) { return grad(sum(square(n(x))), n.parameters()); };
  auto f = jit(plain);
  Tensor x = tensor({{1., 2.}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(f(a, x).size(), 2u);
    EXPECT_EQ(f(b, x).size(), 1u);
    expect_close(f(b, x)[0], doubles(plain(b, x)[0]), 1e-5);
  }
}

TEST(Arguments, a_rebound_weight_is_noticed_while_others_hold_the_old_one) {
  nn::Linear net(2, 2, true);
  optim::SGD o(net, {.lr = 0.1});
  std::vector<Tensor> held = net.parameters();
  auto f = jit([&](const Tensor& x) { return net(x); });
  Tensor x = tensor({{1., 1.}});
  for (int i = 0; i < 3; ++i) f(x);
  net.weight = full({2, 2}, 3.).realize();
  for (int i = 0; i < 3; ++i) expect_close(f(x), doubles(net(x)), 1e-5);
  Tensor old = net.weight;
  net.weight = full({2, 2}, 7.).realize();
  for (int i = 0; i < 3; ++i) expect_close(f(x), doubles(net(x)), 1e-5);
  net.bias.reset();
  for (int i = 0; i < 3; ++i) expect_equal(f(x), {14, 14});
  net.to(kF64);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(cast(x, kF64)).dtype(), kF64);
}

TEST(Arguments, what_is_closed_over_is_recorded_twice) {
  nn::Sequential net(nn::Linear(2, 3), nn::Tanh(), nn::Linear(3, 2));
  optim::AdamW o(net, {.lr = 0.01});
  Tensor x = tensor({{1., 2.}}), kept = tensor({1., 1.});
  auto step = jit([&](const Tensor& y) {
    Tensor h = kept;
    h = h * 2;
    Tensor loss = sum(square(net(x) - y)) + sum(h) + sum(net(y));
    o.step(grad(loss, net.parameters()));
    return std::pair(loss, kept);
  });
  for (int i = 0; i < 10; ++i) step(x);
  ASSERT_EQ(step.plans().size(), 1u);
  EXPECT_EQ(step.plans()[0].recordings, 2u);
  EXPECT_EQ(o.steps_done(), 10);
}

TEST(Arguments, a_function_layer_that_may_have_changed_is_recorded_anew) {
  struct Scale {
    double by;
    Tensor operator()(const Tensor& x) const { return x * by; }
  };
  nn::Sequential net(Scale{2}), copy = net.copy();
  auto f = jit([](const nn::Sequential& n, const Tensor& x) { return n(x); });
  Tensor x = tensor({1., 2.});
  for (int i = 0; i < 3; ++i) expect_equal(f(net, x), {2, 4});
  net.at<Scale>(0).by = 5;
  copy.at<Scale>(0).by = 3;
  for (int i = 0; i < 3; ++i) {
    expect_equal(f(net, x), {5, 10});
    expect_equal(f(copy, x), {3, 6});
  }
}

// A variable that began as a handle of a weight may have been that weight: recorded anew, but not compiled.
TEST(Arguments, copies_that_are_given_other_values_compile_nothing) {
  nn::Sequential net(nn::Linear(2, 2), nn::Tanh());
  Tensor w = tensor({{1., 2.}});
  auto f = jit([&](const Tensor& x) { return net(x * w); });
  Tensor x = tensor({{1., 1.}});
  for (int i = 0; i < 3; ++i) f(x);
  uint64_t recordings = f.plans()[0].recordings;
  for (int i = 0; i < 10; ++i) {
    net(w).realize();
    f(x);
  }
  EXPECT_EQ(f.plans()[0].recordings, recordings);
  uint64_t before = run_stats().plan_misses + run_stats().plan_hits;
  for (int i = 0; i < 10; ++i) {
    Tensor h = w;
    h = net(h) * 2;
    f(x);
  }
  EXPECT_EQ(run_stats().plan_misses + run_stats().plan_hits, before);
  ASSERT_EQ(f.plans().size(), 1u);
  EXPECT_EQ(f.plans()[0].calls, 23u);
}

TEST(Arguments, handles_that_come_and_go_do_not_record_for_ever) {
  nn::Linear net(2, 2);
  auto f = jit([&](const Tensor& x) { return net(x); });
  Tensor x = tensor({{1., 1.}});
  for (int i = 0; i < 50; ++i) {
    std::vector<Tensor> sometimes;
    if (i % 3 == 0) sometimes = net.parameters();
    f(x);
  }
  EXPECT_LE(f.plans()[0].recordings, 4u);
}

}  // namespace
}  // namespace heddle
