// What docs/guide.md promises to threads that use the same tensors and captured functions.
#include "crowd.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

using namespace testing;

constexpr int64_t kMany = 3000;

Tensor own(double value, const Dims& shape = {kMany}) { return full(shape, value).clone().realize(); }

// Every way to read one tensor, whose elements are all equal and grow.
std::vector<std::function<void()>> readers_of(const Tensor& h) {
  auto growing = [] { return std::make_shared<Growing>(); };
  return {
      [h, seen = growing()] { seen->see(only_value(h, "to_vector()")); },
      [h, seen = growing()] { seen->see(only_value(h.clone(), "clone()")); },
      [h, seen = growing()] { seen->see(only_value(h.with_dim(0, dim("n", 1, 100000)), "with_dim()")); },
      [h, seen = growing()] {
        if (h.shape() != Dims{kMany} || h.numel() != kMany || h.rank() != 1 || h.dtype() != kF32 || h.size(0) != kMany)
          throw std::runtime_error("another shape");
        seen->see(std::stod(to_string(h).substr(1)));
        (void)h.is_realized();
        (void)print_graph({h});
      },
      [h, seen = growing()] {
        Tensor low = h.min(), high = h.max();
        double first = low.item<double>(), second = high.item<double>();
        seen->see(first);
        if (second < first) throw std::runtime_error("max() came after min()");
      },
  };
}

TEST(Threads, read_while_another_updates_in_place) {
  Tensor h = own(0);
  int steps = 0;
  auto update = [&] {
    h += 1;
    h.realize();
  };
  EXPECT_EQ(crowd([&] { steps = again_and_again(update); }, readers_of(h)), "");
  EXPECT_EQ(only_value(h), steps);
}

TEST(Threads, read_while_another_assigns) {
  Tensor h = own(0);
  EXPECT_EQ(crowd(
                [&] {
                  int i = 0;
                  again_and_again([&] { h.assign(full({kMany}, ++i)); });
                },
                readers_of(h)),
            "");
}

TEST(Threads, read_while_a_captured_function_updates) {
  Tensor h = own(0);
  auto step = jit([&] { h += 1; });
  int steps = 0;
  EXPECT_EQ(crowd([&] { steps = again_and_again(step); }, readers_of(h)), "");
  EXPECT_EQ(only_value(h), steps);
}

TEST(Threads, item_while_a_captured_function_updates) {
  Tensor h = own(0, {});
  auto step = jit([&] { h += 1; });
  Growing seen;
  EXPECT_EQ(crowd([&] { again_and_again(step); }, {[&] { seen.see(h.item<double>()); }, [&] { (void)to_string(h); }}),
            "");
}

// Memory that a reader holds is not written over.
TEST(Threads, a_copy_keeps_its_value) {
  Tensor h = own(0);
  auto step = jit([&] { h += 1; });
  EXPECT_EQ(crowd([&] { again_and_again(step); }, {[&] {
                    Tensor copy = h.clone();
                    std::span<const float> data = copy.data<float>();
                    double first = data[0];
                    for (int round = 0; round < 20; ++round)
                      for (float each : data)
                        if (each != first) throw std::runtime_error("what somebody held was written over");
                  }}),
            "");
}

TEST(Threads, plus_equals_loses_nothing) {
  Tensor h = own(0, {64});
  std::atomic<int> others{0};
  int mine = 0;
  EXPECT_EQ(crowd(
                [&] {
                  mine = again_and_again([&] {
                    h += 1;
                    if (others % 5 == 0) h.realize();
                  });
                },
                {[&] {
                   h += 1;
                   ++others;
                 },
                 [&] { h.realize(); }}),
            "");
  EXPECT_EQ(only_value(h), mine + others);
}

TEST(Threads, captured_functions_and_plus_equals_lose_nothing) {
  Tensor h = own(0, {64});
  auto step = jit([&] { h += 1; });
  std::atomic<int> others{0};
  int steps = 0;
  EXPECT_EQ(crowd([&] { steps = again_and_again(step); }, {[&] {
                    h += 1;
                    ++others;
                    h.realize();
                  }}),
            "");
  EXPECT_EQ(only_value(h), steps + others);
}

// An assignment is not undone by a realisation or a call that began before it.
TEST(Threads, an_assignment_stays) {
  Tensor h = full({64}, 0, kF64).clone().realize();
  auto step = jit([&] { h += 1; });
  EXPECT_EQ(crowd(
                [&] {
                  double wanted = 0;
                  again_and_again([&] {
                    h.assign(full({64}, wanted += 1e6, kF64));
                    if (only_value(h) < wanted) throw std::runtime_error("an assignment was undone");
                  });
                },
                {[&] { step(); }, [&] { h.realize(); }, [&] { step(); }}),
            "");
}

// All that one call changes, another call sees together.
TEST(Threads, calls_of_captured_functions_are_whole) {
  std::vector<Tensor> group;
  for (int i = 0; i < 12; ++i) group.push_back(own(0, {32}));
  auto step = jit([&] {
    for (Tensor& each : group) each += 1;
  });
  auto look = jit([&] {
    std::vector<Tensor> parts;
    for (const Tensor& each : group) parts.push_back(each);
    return cat(parts, 0);
  });
  auto look_at = jit([](std::vector<Tensor> parts) { return cat(parts, 0); });
  Tensor differences = own(0, {32});
  auto compare = jit([&] { differences.assign(abs(group[0] - group[11]) + abs(group[3] - group[7])); });
  Growing seen, also;
  EXPECT_EQ(crowd([&] { again_and_again(step); },
                  {[&] { seen.see(only_value(look(), "what a captured function closes over")); },
                   [&] { also.see(only_value(look_at(group), "what a captured function is given")); },
                   [&] {
                     compare();
                     if (only_value(differences) != 0) throw std::runtime_error("a call saw half of another");
                   }}),
            "");
}

TEST(Threads, results_stay_while_the_next_call_runs) {
  Tensor h = own(0);
  auto step = jit([&] {
    h += 1;
    return h * 2;
  });
  std::mutex lock;
  std::vector<Tensor> results{step()};
  auto reader = [&] {
    Tensor mine;
    {
      std::lock_guard guard(lock);
      mine = results.back();
    }
    double before = only_value(mine, "a result");
    std::this_thread::yield();
    if (only_value(mine, "a result") != before) throw std::runtime_error("a result changed");
  };
  EXPECT_EQ(crowd(
                [&] {
                  for (int i = 0; i < 20000; ++i) {
                    Tensor result = step();
                    std::lock_guard guard(lock);
                    results.push_back(result);
                    if (results.size() > 3) results.erase(results.begin());
                  }
                },
                {reader, reader, reader}),
            "");
}

TEST(Threads, plans_and_clear_while_others_call) {
  Tensor h = own(0, {16});
  auto step = jit([&](Tensor x) {
    h += x;
    return h + 0;
  });
  Tensor one = own(1, {16});
  int done = 0;
  auto copy = step;
  std::atomic<int> others{0};
  EXPECT_EQ(crowd([&] { done = again_and_again([&] { only_value(step(one), "the result"); }); },
                  {[&] {
                     for (const JitPlan& plan : step.plans()) (void)to_string(plan);
                   },
                   [&] {
                     std::this_thread::sleep_for(std::chrono::milliseconds(2));
                     step.clear();
                   },
                   [&] {
                     auto mine = copy;
                     only_value(mine(one), "the result");
                     ++others;
                   }}),
            "");
  EXPECT_EQ(only_value(h), done + others);
}

TEST(Threads, handles_are_dropped_anywhere) {
  Tensor h = own(0, {32});
  auto step = jit([&] {
    h += 1;
    return h + 1;
  });
  std::mutex lock;
  std::vector<Tensor> kept;
  auto drop = [&] {
    std::vector<Tensor> mine;
    {
      std::lock_guard guard(lock);
      mine.swap(kept);
    }
    for (const Tensor& each : mine) only_value(each, "a result");
  };
  EXPECT_EQ(crowd(
                [&] {
                  for (int i = 0; i < 20000; ++i) {
                    Tensor result = step();
                    std::lock_guard guard(lock);
                    kept.push_back(result);
                    if (i % 3 == 0) kept.push_back(result.clone());
                  }
                },
                {drop, drop}),
            "");
}

TEST(Threads, a_generator_is_shared) {
  Generator generator(7);
  constexpr int kThreads = 4, kDraws = 200;
  std::vector<std::thread> threads;
  std::mutex lock;
  std::vector<std::vector<uint32_t>> keys;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kDraws; ++i) {
        std::vector<uint32_t> key = generator.next_key().to_vector<uint32_t>();
        std::lock_guard guard(lock);
        keys.push_back(key);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(generator.state(), (Generator::State{7, kThreads * kDraws}));
}

// The seed and the number of draws belong together.
TEST(Threads, a_generator_is_set_while_others_draw) {
  constexpr uint64_t kApart = uint64_t{1} << 40;  // more than can be drawn meanwhile
  Generator generator(0);
  auto check = [](const Generator::State& state) {
    if (state.draws / kApart != state.seed) throw std::runtime_error("a seed with another one's draws");
  };
  EXPECT_EQ(crowd(
                [&] {
                  for (uint64_t i = 0; i < 20000; ++i) generator.set_state({i % 100, i % 100 * kApart});
                },
                {[&] { check(generator.state()); }, [&] { check(generator.advance(1)); }}),
            "");
}

TEST(Threads, profiles_start_and_stop_while_others_compute) {
  Tensor h = own(0, {64});
  auto step = jit([&] { h += 1; });
  EXPECT_EQ(crowd(
                [&] {
                  for (int i = 0; i < 40; ++i) {
                    Profile p = profile();
                    only_value(own(1) * 2);
                    p.stop();
                    if (p.result().kernels.empty()) throw std::runtime_error("a profile without a kernel");
                  }
                },
                {[&] { step(); }, [&] { only_value(h * 2); },
                 [&] {
                   Profile p = profile();
                   (void)p.result();
                 }}),
            "");
}

TEST(Threads, gradients_of_several_threads_add_up) {
  Tensor w = own(2, {8}).requires_grad_();
  constexpr int kThreads = 4, kTimes = 100;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) {
        (w * 3).sum().backward();
        if (i % 10 == 0) only_value(*w.grad(), "a gradient");
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(only_value(*w.grad()), 3 * kThreads * kTimes);
}

TEST(Threads, gradients_of_captured_and_plain_code_add_up) {
  Tensor w = own(2, {8}).requires_grad_(), x = own(3, {8});
  auto captured = jit([&](const Tensor& y) { (w * y).sum().backward(); });
  constexpr int kThreads = 4, kRounds = 60, kTimes = 5;
  for (int round = 0; round < kRounds; ++round) {
    w.zero_grad();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kTimes; ++i) {
          if (t % 2 == 0)
            captured(x);
          else
            (w * x).sum().backward();
        }
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(only_value(*w.grad()), 3 * kThreads * kTimes) << "in round " << round;
  }
}

// Functions that change nothing: all threads at once, each in memory of its own.
TEST(Threads, calls_that_change_nothing_run_side_by_side) {
  Tensor w = own(2, {64, 64});
  auto f = jit([&](const Tensor& x) { return std::pair(softmax(matmul(x, w), -1) + x, x); });
  constexpr int kThreads = 6, kTimes = 200;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0}, begun{0};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      ++begun;
      while (begun < kThreads) std::this_thread::yield();
      std::vector<Tensor> kept;
      for (int i = 0; i < kTimes; ++i) {
        double value = t * 1000 + i;
        auto [y, x] = f(own(value, {i % 3 + 1, 64}));
        kept.push_back(y);
        if (only_value(x, "the argument") != value) ++wrong;
      }
      for (int i = 0; i < kTimes; ++i)
        if (std::abs(only_value(kept[static_cast<size_t>(i)], "a result") - (t * 1000 + i + 1. / 64)) > 1e-3) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  uint64_t calls = 0;
  for (const JitPlan& plan : f.plans()) calls += plan.calls;
  EXPECT_EQ(f.plans().size(), 3u);
  EXPECT_EQ(calls, uint64_t{kThreads * kTimes});
  // What is closed over changes for all of them.
  w.assign(full({64, 64}, 0.));
  EXPECT_EQ(only_value(f(own(1, {1, 64})).first), 1 + 1. / 64);
}

TEST(Threads, a_rebound_tensor_is_noticed_by_every_thread) {
  Tensor w = own(1, {8});
  Tensor held = w;
  auto f = jit([&](const Tensor& x) { return x + w; });
  Tensor x = own(1, {8});
  for (int round = 1; round < 20; ++round) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i)
          if (only_value(f(x), "a result") != 1 + round) ++wrong;
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(wrong, 0) << "in round " << round;
    w = own(round + 1, {8});
  }
}

TEST(Threads, requires_grad_while_another_assigns) {
  Tensor w = own(0, {8});
  int i = 0;
  EXPECT_EQ(crowd(
                [&] {
                  again_and_again([&] {
                    w.requires_grad_();
                    if (!w.requires_grad() || !w.is_leaf()) throw std::runtime_error("no leaf after requires_grad_()");
                    w.requires_grad_(false);
                    if (w.requires_grad()) throw std::runtime_error("a leaf after requires_grad_(false)");
                  });
                },
                {[&] { w.assign(full({8}, i++)); }, [&] { w.realize(); }, [&] { only_value(w); }}),
            "");
}

TEST(Threads, backward_and_zero_grad_at_once) {
  Tensor w = own(2, {8}).requires_grad_();
  EXPECT_EQ(crowd([&] { again_and_again([&] { (w * 3).sum().backward(); }); },
                  {[&] { w.zero_grad(); },
                   [&] {
                     if (std::optional<Tensor> gradient = w.grad())
                       if (std::fmod(only_value(*gradient, "a gradient"), 3) != 0)
                         throw std::runtime_error("no sum of gradients");
                   }}),
            "");
}

}  // namespace
}  // namespace heddle
