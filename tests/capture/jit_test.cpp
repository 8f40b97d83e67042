// Captured functions: what they take and give, replay, state, random numbers.
#include <atomic>
#include <map>
#include <sstream>
#include <thread>

#include "count_allocations.h"
#include "graph/node.h"
#include "runtime/device.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Jit, gives_what_the_function_gives) {
  auto f = [](const Tensor& x, const Tensor& y) { return softmax(x * 2 + y, -1); };
  auto captured = jit(f);
  for (int i = 0; i < 5; ++i) {
    Tensor x = noise_tensor({7, 9}, static_cast<uint64_t>(i)), y = noise_tensor({9}, static_cast<uint64_t>(i) + 50);
    expect_equal(captured(x, y), doubles(f(x, y)));
  }
  std::vector<JitPlan> plans = captured.plans();
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].calls, 5u);
  EXPECT_EQ(plans[0].recordings, 2u);
  EXPECT_EQ(plans[0].launches, 1u);
  EXPECT_EQ(plans[0].signature, "f32[7, 9], f32[9]");
}

TEST(Jit, is_recorded_twice_and_then_no_more) {
  int runs = 0;
  auto f = jit([&](const Tensor& x) {
    ++runs;
    return x + 1;
  });
  for (int i = 0; i < 10; ++i) expect_equal(f(tensor({1. * i})), {1. + i});
  EXPECT_EQ(runs, 2);
}

TEST(Jit, records_again_for_other_shapes_dtypes_structures_and_numbers) {
  int runs = 0;
  auto f = jit([&](const std::vector<Tensor>& list, double factor) {
    ++runs;
    Tensor sum = list[0];
    for (size_t i = 1; i < list.size(); ++i) sum = sum + list[i];
    return sum * factor;
  });
  Tensor a = tensor({1, 2}), b = tensor({3, 4}), wide = tensor({1, 2, 3}), whole = tensor({5, 6}, kI32);
  for (int i = 0; i < 3; ++i) {
    expect_equal(f(std::vector{a, b}, 2.0), {8, 12});
    expect_equal(f(std::vector{a, b}, 3.0), {12, 18});
    expect_equal(f(std::vector{a}, 2.0), {2, 4});
    expect_equal(f(std::vector{wide}, 2.0), {2, 4, 6});
    expect_equal(f(std::vector{whole}, 2.0), {10, 12});
  }
  EXPECT_EQ(f.plans().size(), 5u);
  EXPECT_EQ(runs, 10);
  f.clear();
  EXPECT_TRUE(f.plans().empty());
  expect_equal(f(std::vector{a}, 2.0), {2, 4});
}

enum class Mode { Add, Mul };

TEST(Jit, takes_and_gives_nested_structures) {
  using Nested = std::map<std::string, std::vector<std::pair<Tensor, int>>>;
  auto f = jit(
      [](const Nested& in, std::optional<Tensor> extra, Mode mode, const std::string& name, std::array<bool, 2> flags) {
        Nested out;
        for (const auto& [key, list] : in)
          for (const auto& [tensor, times] : list) {
            Tensor value = mode == Mode::Add ? tensor + times : tensor * times;
            if (extra) value = value + *extra;
            if (flags[1]) value = -value;
            out[key + name].emplace_back(value, times + 1);
          }
        return std::tuple(out, out.size(), std::optional<Tensor>(in.begin()->second[0].first));
      });
  Tensor a = tensor({1, 2}), b = tensor({3, 4});
  for (int i = 0; i < 3; ++i) {
    auto [out, count, first] =
        f(Nested{{"x", {{a, 10}, {b, 20}}}, {"y", {{a, 30}}}}, std::nullopt, Mode::Add, "!", std::array{false, false});
    EXPECT_EQ(count, 2u);
    expect_equal(out["x!"][0].first, {11, 12});
    expect_equal(out["x!"][1].first, {23, 24});
    EXPECT_EQ(out["x!"][1].second, 21);
    expect_equal(out["y!"][0].first, {31, 32});
    expect_equal(*first, {1, 2});
    auto other = f(Nested{{"x", {{a, 10}}}}, std::optional<Tensor>(b), Mode::Mul, "", std::array{false, true});
    expect_equal(std::get<0>(other)["x"][0].first, {-13, -24});
  }
}

struct Layer {
  Tensor weight, bias;
  bool positive = false;
  template <class V>
  void visit(V& v) {
    v("weight", weight);
    v("bias", bias);
    v("positive", positive);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = matmul(x, weight) + bias;
    return positive ? relu(y) : y;
  }
};
struct Net {
  std::vector<Layer> layers;
  template <class V>
  void visit(V& v) {
    for (size_t i = 0; i < layers.size(); ++i) v(std::to_string(i), layers[i]);
  }
};

TEST(Jit, takes_modules_and_changes_their_tensors) {
  Net net{{{noise_tensor({3, 4}), zeros({4}), true}, {noise_tensor({4, 2}, 5), zeros({2})}}};
  Net plain = net;
  for (Layer& layer : plain.layers) layer = {layer.weight.clone(), layer.bias.clone(), layer.positive};
  auto step = [](Net& n, const Tensor& x) {
    Tensor y = x;
    for (Layer& layer : n.layers) {
      y = layer(y);
      layer.bias += mean(y);
    }
    return y;
  };
  auto captured = jit(step);
  for (int i = 0; i < 4; ++i) {
    Tensor x = noise_tensor({5, 3}, static_cast<uint64_t>(i) + 9);
    expect_close(captured(net, x), doubles(step(plain, x)), 1e-6);
    for (size_t l = 0; l < 2; ++l) expect_close(net.layers[l].bias, doubles(plain.layers[l].bias), 1e-6);
  }
  net.layers[0].positive = plain.layers[0].positive = false;  // a flag that visit() shows is part of the signature
  Tensor x = noise_tensor({5, 3}, 77);
  expect_close(captured(net, x), doubles(step(plain, x)), 1e-6);
  EXPECT_EQ(captured.plans().size(), 2u);
}

TEST(Jit, replaying_allocates_nothing_and_builds_no_node) {
  if (device().name() == "simulated") GTEST_SKIP() << "the interpreter of the simulated device allocates";
  Tensor w = noise_tensor({32}), count = zeros({1}).realize();
  auto step = jit([&](const Tensor& x, float scale) {
    w -= x * 0.1 * scale * randn({32});
    count += 1;
    return sum(square(w));
  });
  Tensor x = noise_tensor({32}, 3);
  for (int i = 0; i < 4; ++i) step(x, 2.0f);
  size_t nodes = live_nodes();
  StatsSince stats;
  uint64_t used = device().memory().used;
  long before = allocations();
  for (int i = 0; i < 100; ++i) step(x, 2.0f);
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(live_nodes(), nodes);
  EXPECT_EQ(device().memory().used, used);
  EXPECT_EQ(stats->plan_hits + stats->plan_misses, 0u);
  EXPECT_EQ(stats->launches, 100 * step.plans()[0].launches);
  expect_equal(count, {104});
}

TEST(Jit, updates_state_in_place) {
  Tensor w = counting({1000}), m = zeros({1000}).realize();
  auto step = jit([&](const Tensor& g) {
    m.assign(m * 0.9 + g);
    w -= m * 0.5;
  });
  Tensor g = ones({1000}).realize();
  step(g);
  const void *at_w = address(w), *at_m = address(m);
  for (int i = 0; i < 5; ++i) step(g);
  EXPECT_EQ(address(w), at_w);
  EXPECT_EQ(address(m), at_m);
  EXPECT_EQ(step.plans()[0].donated, 2u);
  EXPECT_EQ(step.plans()[0].copied, 0u);
  Tensor plain_w = counting({1000}), plain_m = zeros({1000});
  for (int i = 0; i < 6; ++i) {
    plain_m.assign(plain_m * 0.9 + g);
    plain_w -= plain_m * 0.5;
    realize({plain_w, plain_m});
  }
  expect_close(w, doubles(plain_w), 1e-6);
}

TEST(Jit, says_which_state_it_cannot_update_in_place) {
  Tensor x = counting({100});
  auto step = jit([&] { x.assign(x + flip(x, {0})); });
  for (int i = 0; i < 4; ++i) step();
  expect_equal(x[0], {99 * 8});
  JitPlan plan = step.plans()[0];
  EXPECT_EQ(plan.copied, 1u);
  ASSERT_EQ(plan.copies.size(), 1u);
  EXPECT_NE(plan.copies[0].find("a tensor f32[100] that the function holds"), std::string::npos) << plan.copies[0];
  EXPECT_NE(plan.copies[0].find("order"), std::string::npos) << plan.copies[0];
  std::ostringstream text;
  text << plan;
  EXPECT_NE(text.str().find("1 copied"), std::string::npos) << text.str();
  if (device().name() == "simulated") return;  // the interpreter allocates
  long before = allocations();
  step();
  EXPECT_EQ(allocations(), before) << "two buffers in turn are enough";
}

TEST(Jit, draws_the_numbers_that_the_plain_function_would_draw) {
  Generator mine(11), other(5), mine_plain(11), other_plain(5);
  auto f = [](const Tensor& x, Generator& a, Generator& b) {
    Tensor unused = uniform({3}, 0, 1, kF32, a);
    return std::pair(x + uniform({8}, 0, 1, kF32, b) + uniform({8}, 0, 1, kF32, a), dropout(x, 0.5, true, a));
  };
  auto captured = jit([&](const Tensor& x) { return f(x, mine, other); });
  Tensor x = counting({8});
  std::vector<double> earlier;
  for (int i = 0; i < 5; ++i) {
    auto [sum, dropped] = captured(x);
    auto [want_sum, want_dropped] = f(x, mine_plain, other_plain);
    EXPECT_NE(doubles(sum), earlier);
    expect_equal(sum, doubles(want_sum));
    expect_equal(dropped, doubles(want_dropped));
    EXPECT_EQ(mine.state(), mine_plain.state());
    EXPECT_EQ(other.state(), other_plain.state());
    earlier = doubles(sum);
  }
  mine.manual_seed(11);  // starting anew outside is seen
  other.manual_seed(5);
  Generator again(11), second(5);
  expect_equal(captured(x).first, doubles(f(x, again, second).first));
}

TEST(Jit, a_random_key_may_be_a_result) {
  Generator mine(3);
  auto f = jit([&] { return mine.next_key(); });
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(f().to_vector<uint32_t>(), (std::vector<uint32_t>{3, i, 0, 0}));
}

TEST(Jit, one_inside_another_is_inlined) {
  auto inner = jit([](const Tensor& x) { return x * 2; });
  auto outer = jit([&](const Tensor& x) { return inner(x) + inner(x + 1); });
  for (int i = 0; i < 3; ++i) expect_equal(outer(tensor({1. * i})), {4. * i + 2});
  EXPECT_TRUE(inner.plans().empty());
  EXPECT_EQ(outer.plans()[0].launches, 1u);
}

TEST(Jit, symbolic_sizes_share_an_entry_and_a_plan) {
  Dim n = dim("n", 1, 64);
  auto f = jit([](const Tensor& x) { return x - x.mean({0}, true); });
  run_stats() = {};
  for (int64_t size : {5, 9, 64, 1}) {
    Tensor x = noise_tensor({size, 3}, static_cast<uint64_t>(size));
    expect_close(f(x.with_dim(0, n)), doubles(x - x.mean({0}, true)), 1e-6);
  }
  EXPECT_EQ(f.plans().size(), 1u);
}

TEST(Jit, threads_take_turns) {
  Tensor total = zeros({64}).realize();
  auto step = jit([&](const Tensor& x) {
    total += x;
    return x * 2;
  });
  std::atomic<int> wrong{0};
  auto work = [&](int number) {
    Tensor x = full({64}, number).realize();
    for (int i = 0; i < 200; ++i)
      if (step(x).to_vector<float>()[5] != 2.f * static_cast<float>(number)) ++wrong;
  };
  std::thread one(work, 1), two(work, 2);
  one.join();
  two.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(total[0].item<float>(), 600);
}

TEST(Jit, two_functions_may_change_the_same_tensors_from_two_threads) {
  Tensor a = zeros({16}).realize(), b = zeros({16}).realize();
  auto forwards = jit([&] {
    a += 1;
    b += 1;
  });
  auto backwards = jit([&] {
    b += 1;
    a += 1;
  });
  std::thread other([&] {
    for (int i = 0; i < 500; ++i) backwards();
  });
  for (int i = 0; i < 500; ++i) forwards();
  other.join();
  EXPECT_EQ(a[3].item<float>(), 1000);
  EXPECT_EQ(b[3].item<float>(), 1000);
}

}  // namespace
}  // namespace heddle
