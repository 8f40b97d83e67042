// Graphs that span devices: results, gradients, plans and captured functions.
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <thread>

#include "devices/helpers.h"
#include "graph/graph.h"
#include "runtime/plan.h"

namespace heddle {
namespace {

// Comparison with the evaluator, to which a To is nothing.
void expect_as_evaluated(const std::vector<Tensor>& results, double tolerance = 1e-5) {
  std::vector<NodeRef> roots;
  for (const Tensor& result : results) roots.push_back(result.node());
  std::vector<HostArray> wanted = evaluate(roots);
  realize(results);
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<double> got = results[i].to_vector<double>();
    for (size_t k = 0; k < got.size(); ++k) {
      const double exact = is_float(wanted[i].dtype) ? wanted[i].floats[k]
                                                     : static_cast<double>(static_cast<int64_t>(wanted[i].integers[k]));
      ASSERT_NEAR(got[k], exact, tolerance * (1 + std::abs(exact))) << "result " << i << ", element " << k;
    }
  }
}

TEST(Span, to_copies_and_comes_back) {
  Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}).realize();
  Tensor y = x.to(kOther);
  EXPECT_EQ(y.device(), kOther);
  EXPECT_EQ(x.to(x.device()).node(), x.node());
  EXPECT_EQ(y.to(x.device()).node(), x.node());
  y.realize();
  EXPECT_EQ(y.device(), kOther);
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
  // Its memory is its own.
  y += 1;
  EXPECT_EQ(x.to_vector<float>()[0], 1);
  EXPECT_EQ((y * 2).to("cpu").to_vector<float>()[5], 14);
  EXPECT_NE(print_graph({x.to(kOther) + 1}).find("to f32[2, 3] %0 device=simulated:1"), std::string::npos);
}

TEST(Span, one_graph_over_three_devices) {
  Tensor x = randn({4, 6}, {.device = "cpu"}).realize(), w = randn({6, 5}, {.device = kOther}).realize();
  Tensor v = randn({5, 3}, {.device = kThird}).realize();
  Tensor h = relu(matmul(x.to(kOther), w)), y = matmul(h.to(kThird), v), back = y.to("cpu") + sum(x) + x.size(0);
  EXPECT_EQ(back.device(), Device("cpu"));
  // Some of the values between are wanted, too.
  expect_as_evaluated({back, h, y, sum(y, 0), exp(h).to("cpu")});
  expect_as_evaluated({softmax(matmul(x.to(kOther), w), -1).to(kThird)});
}

TEST(Span, independent_graphs_are_realized_together) {
  Tensor a = randn({8}, {.device = "cpu"}).realize(), b = randn({8}, {.device = kOther}).realize();
  expect_as_evaluated(
      {exp(a), exp(b), a + 1, zeros(3), full(2, 3, {.device = kThird}), full(2, 3, {.device = kOther})});
}

TEST(Span, values_used_before_and_after_a_detour) {
  Tensor x = randn({4, 8}, {.device = "cpu"}).realize(), w = randn({8, 8}, {.device = "cpu"}).realize();
  Tensor h = matmul(x, w), s = softmax(h, -1);
  Tensor away = tanh(s.to(kOther) * 3).to("cpu");
  auto [values, indices] = sort(h, -1);
  Tensor late = away + h + s + values + take_along_axis(h, argmax(away, -1, true), -1);
  expect_as_evaluated({late, sum(late * away), cast(indices, kF32) + away, cumsum(late, 0)});
}

TEST(Span, an_outer_product_is_not_kept) {
  Tensor a = randn({64, 1}, {.device = "cpu"}).realize(), b = randn({1, 64}, {.device = "cpu"}).realize();
  Tensor product = a * b, first = sum(product, 1);
  Tensor second = sum(product * first.to(kOther).to("cpu"), 0);
  Tensor detour = sum(product * exp(first.to(kOther)).to("cpu"), 0);
  expect_as_evaluated({first, second, detour}, 1e-3);
}

TEST(Span, gradients_go_back_the_same_way) {
  DeviceScope scope("cpu");
  Tensor x = randn({4, 6}, {.device = "cpu"}).realize(), w = randn({6, 5}, {.device = kOther}).realize();
  x.requires_grad_();
  w.requires_grad_();
  Tensor loss = mean(square(gelu(matmul(x.to(kOther), w)).to("cpu") - 1)) + sum(x * 2);
  loss.backward();
  EXPECT_EQ(x.grad()->device(), x.device());
  EXPECT_EQ(w.grad()->device(), w.device());
  Tensor wc = w.to("cpu").detach().realize().requires_grad_(), xc = x.detach().clone().requires_grad_();
  Tensor same = mean(square(gelu(matmul(xc, wc)) - 1)) + sum(xc * 2);
  same.backward();
  expect_as_evaluated({*x.grad(), *w.grad()});
  EXPECT_LT(max_difference(*x.grad(), *xc.grad()), 1e-5);
  EXPECT_LT(max_difference(w.grad()->to("cpu"), *wc.grad()), 1e-5);
  // Twice.
  auto f = [&](const Tensor& t) { return sum(exp(t.to(kOther)).to("cpu") * t); };
  Tensor at = tensor({1, 2}).realize();
  Tensor second = grad([&](const Tensor& t) { return sum(grad(f)(t)); })(at);
  Tensor plain =
      grad([&](const Tensor& t) { return sum(grad([](const Tensor& u) { return sum(exp(u) * u); })(t)); })(at);
  EXPECT_LT(max_difference(second, plain), 1e-4);
}

TEST(Span, checkpoints_compute_again_where_they_did) {
  Tensor x = randn({4, 6}, {.device = "cpu"}).realize();
  auto f = [](const Tensor& t) { return exp(tanh(t.to(kOther)) * 2).to("cpu") * t; };
  auto plain = grad([&](const Tensor& t) { return sum(f(t)); })(x);
  auto again = grad([&](const Tensor& t) { return sum(checkpoint(f, t)); })(x);
  EXPECT_EQ(again.device(), x.device());
  EXPECT_LT(max_difference(plain, again), 1e-5);
}

TEST(Span, a_constant_may_go_to_several_devices) {
  Tensor x = ones(3).requires_grad_();
  Tensor y = sum(x.to(kOther) * 2).to("cpu") + sum(x.to(kThird) * 3).to("cpu") + sum(x);
  Tensor g = grad(y, x);
  EXPECT_EQ(g.to("cpu").to_vector<float>(), (std::vector<float>{6, 6, 6}));
}

TEST(Span, vmap_goes_along) {
  Tensor x = randn({5, 3}, {.device = "cpu"}).realize();
  Tensor y = vmap([](const Tensor& row) {
    EXPECT_EQ(row.device(), Device("cpu"));
    return sum(exp(row.to(kOther))).to("cpu");
  })(x);
  EXPECT_LT(max_difference(y, sum(exp(x), 1)), 1e-4);
}

TEST(Span, plans_are_found_again_and_numbers_may_change) {
  Tensor x = randn({16}, {.device = "cpu"}).realize();
  auto run = [&](float number) {
    Tensor y = (exp(x * number).to(kOther) + number).to("cpu") * 2;
    expect_as_evaluated({y}, 1e-4);
  };
  run(0.5F);
  run(0.25F);
  run(0.125F);
  const RunStats before = run_stats();
  run(0.75F);
  run(1.75F);
  EXPECT_EQ(run_stats().plan_misses, before.plan_misses);
}

TEST(Span, an_index_out_of_range_is_found_on_every_device) {
  Tensor x = arange(4, {.dtype = kF32, .device = kOther}).realize();
  Tensor index = tensor({1, 7}, {.dtype = kI64, .device = "cpu"}).realize();
  EXPECT_THROW((gather(x, index.to(kOther), 0).to("cpu") + 1).realize(), IndexError);
}

TEST(Span, symbolic_sizes) {
  Dim n = dim("n", 1, 64);
  Tensor all = randn({64, 4}, {.device = "cpu"}).realize();
  uint64_t misses = 0;
  for (int64_t size : {5, 9, 33}) {
    Tensor x = all.slice(0, 0, size).with_dim(0, n);
    Tensor y = (sum(exp(x).to(kOther), 1) * 2).to("cpu") + sum(x, 1);
    expect_as_evaluated({y}, 1e-3);
    if (size == 5) misses = run_stats().plan_misses;
  }
  EXPECT_EQ(run_stats().plan_misses, misses);
}

TEST(Span, memory_is_taken_over_on_each_device) {
  Tensor x = randn({1024}, {.device = "cpu"}).realize(), y = randn({1024}, {.device = kOther}).realize();
  auto step = [&] {
    Tensor moved = y.to("cpu");
    y.assign(y * 2 + 1);
    x.assign(x * 3 + 1);
    realize({x, y});
  };
  step();
  const uint64_t here = Device("cpu").memory().used, there = Device(kOther).memory().used;
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(Device("cpu").memory().used, here);
  EXPECT_EQ(Device(kOther).memory().used, there);
}

TEST(Span, captured_functions_span_devices) {
  Tensor w = randn({6, 5}, {.device = kOther}).realize();
  auto f = [&](const Tensor& x) { return relu(matmul(x.to(kOther), w)).to("cpu") + sum(x); };
  auto captured = jit(f);
  for (int i = 0; i < 4; ++i) {
    Tensor x = randn({4, 6}, {.device = "cpu"}).realize();
    EXPECT_LT(max_difference(captured(x), f(x)), 1e-5);
  }
  EXPECT_EQ(captured.plans().size(), 1u);
  EXPECT_GE(captured.plans()[0].launches, 2u);
}

TEST(Span, captured_state_on_several_devices_is_updated_in_place) {
  Tensor a = ones(64, {.device = "cpu"}).realize(), b = ones(64, {.device = kOther}).realize();
  auto step = jit([&](const Tensor& x) {
    a += x;
    b += (a * 2).to(kOther);
    return sum(a) + sum(x);
  });
  float wanted_a = 1, wanted_b = 1;
  for (int i = 0; i < 5; ++i) {
    Tensor total = step(full(64, 1, {.device = "cpu"}).realize());
    wanted_a += 1;
    wanted_b += 2 * wanted_a;
    EXPECT_EQ(total.item<float>(), 64 * (wanted_a + 1));
  }
  EXPECT_EQ(a.to_vector<float>()[63], wanted_a);
  EXPECT_EQ(b.to_vector<float>()[63], wanted_b);
  EXPECT_EQ(b.device(), kOther);
  EXPECT_EQ(step.plans()[0].donated, 2u) << to_string(step.plans()[0]);
}

TEST(Span, captured_random_numbers_differ_on_each_device) {
  manual_seed(5);
  auto f = [&](const Tensor& x) {
    return dropout(x, 0.5) + dropout(x.to(kOther), 0.5).to("cpu") + randn(8, {.device = kThird}).to("cpu");
  };
  auto captured = jit(f);
  Tensor x = ones(8, {.device = "cpu"}).realize();
  std::vector<std::vector<float>> drawn, plain;
  for (int i = 0; i < 3; ++i) drawn.push_back(captured(x).to_vector<float>());
  manual_seed(5);
  for (int i = 0; i < 3; ++i) plain.push_back(f(x).to_vector<float>());
  for (size_t i = 0; i < 3; ++i)
    for (size_t k = 0; k < 8; ++k) EXPECT_NEAR(drawn[i][k], plain[i][k], 1e-5);
  EXPECT_NE(drawn[0], drawn[1]);
}

TEST(Span, several_threads_at_once) {
  Tensor w = randn({6, 5}, {.device = kOther}).realize();
  auto f = [&](const Tensor& x) { return relu(matmul(x.to(kOther), w)).to("cpu") + sum(x); };
  auto captured = jit(f);
  Tensor first = ones({4, 6}, {.device = "cpu"}).realize();
  captured(first);
  captured(first);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      DeviceScope scope(t % 2 == 0 ? "cpu" : kThird);
      for (int i = 0; i < 8; ++i) {
        Tensor x = full({4, 6}, t + i, {.device = "cpu"}).realize();
        EXPECT_LT(max_difference(captured(x), f(x)), 1e-5);
        EXPECT_EQ(zeros(2).realize().device(), default_device());
      }
    });
  for (std::thread& thread : threads) thread.join();
}

struct Holder : nn::Module<Holder> {
  Tensor weight;
  template <class V>
  void visit(V& v) {
    v("weight", weight);
  }
};

TEST(Span, a_captured_function_notices_that_a_tensor_has_moved) {
  Tensor w = tensor({2}, {.device = "cpu"}).realize();
  auto f = jit([&](const Tensor& x) { return x * w.to(x.device()); });
  Tensor x = tensor({3}, {.device = "cpu"}).realize();
  EXPECT_EQ(f(x).item<float>(), 6);
  EXPECT_EQ(f(x).item<float>(), 6);
  Holder holder;
  holder.weight = w;
  holder.to(kOther);
  EXPECT_EQ(w.device(), kOther);
  EXPECT_EQ(f(x).item<float>(), 6);
  EXPECT_EQ(f(x.to(kOther).realize()).device(), kOther);
  EXPECT_EQ(f(x).item<float>(), 6);
}

TEST(Span, a_module_and_its_optimiser_move) {
  DeviceScope scope("cpu");
  manual_seed(1);
  nn::Sequential net(nn::Linear(4, 8), [](const Tensor& x) { return relu(x); }, nn::Linear(8, 1));
  nn::Sequential reference = net.copy();
  optim::AdamW adam(net.parameters(), {.lr = 0.01}), plain(reference.parameters(), {.lr = 0.01});
  Tensor x = randn({16, 4}, {.device = "cpu"}).realize();
  auto loss_of = [](nn::Sequential& of, const Tensor& input) { return mean(square(of(input) - 1)); };
  auto train = [&](nn::Sequential& of, optim::Optimizer& with, const Tensor& input) {
    with.zero_grad();
    Tensor loss = loss_of(of, input);
    loss.backward();
    with.step();
    return loss.item<float>();
  };
  train(net, adam, x);
  train(reference, plain, x);
  net.to(kOther);
  for (const Tensor& parameter : net.parameters()) EXPECT_EQ(parameter.device(), kOther);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(train(net, adam, x.to(kOther)), train(reference, plain, x), 1e-4);
  for (const auto& [name, tensor] : adam.state()) EXPECT_TRUE(tensor.rank() == 0 || tensor.device() == kOther) << name;
}

TEST(Span, layers_of_one_network_on_two_devices_are_trained_together) {
  DeviceScope scope("cpu");
  manual_seed(2);
  nn::Linear first(4, 8), second(8, 1);
  nn::Linear first_copy = first.copy(), second_copy = second.copy();
  second.to(kOther);
  std::vector<Tensor> all = first.parameters(), plain = first_copy.parameters();
  for (const Tensor& each : second.parameters()) all.push_back(each);
  for (const Tensor& each : second_copy.parameters()) plain.push_back(each);
  optim::SGD sgd(all, {.lr = 0.1, .momentum = 0.9}), other(plain, {.lr = 0.1, .momentum = 0.9});
  auto step = jit([&](const Tensor& x) {
    sgd.zero_grad();
    Tensor loss = mean(square(second(tanh(first(x)).to(kOther)) - 1));
    loss.backward();
    sgd.step();
    return loss;
  });
  Tensor x = randn({16, 4}, {.device = "cpu"}).realize();
  for (int i = 0; i < 4; ++i) {
    other.zero_grad();
    Tensor loss = mean(square(second_copy(tanh(first_copy(x))) - 1));
    loss.backward();
    other.step();
    Tensor here = step(x);
    EXPECT_EQ(here.device(), kOther);
    EXPECT_NEAR(here.item<float>(), loss.item<float>(), 1e-4) << i;
  }
}

}  // namespace
}  // namespace heddle
