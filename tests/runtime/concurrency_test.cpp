#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "codegen/codegen.h"
#include "helpers.h"

namespace heddle {
namespace {

using namespace heddle::testing;

void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Concurrency, threads_that_miss_the_same_plan_all_get_right_results) {
  clear_plan_cache();
  std::atomic<int> wrong{0};
  in_threads(4, [&](int t) {
    auto start = static_cast<float>(t);
    NodeRef a = tensor(counting(100, start)), b = tensor(counting(100));
    if (values(realize_one(mul(add(a, b), b)))[7] != (start + 14) * 7) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(plan_cache_size(), 1u);
}

TEST(Concurrency, large_and_small_launches_mix) {
  std::atomic<int> wrong{0};
  in_threads(4, [&](int t) {
    int64_t n = t % 2 ? 200'000 : 50;
    NodeRef x = tensor(counting(n));
    for (int i = 0; i < (t % 2 ? 20 : 500); ++i) {
      NodeRef y = realize_one(add(x, full_like(x, static_cast<double>(i + t))));
      auto at = static_cast<size_t>(n - 1);
      if (values(y)[at] != static_cast<float>(n - 1) + static_cast<float>(i + t)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Concurrency, the_cache_may_be_cleared_while_others_run) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread cleaner([&] {
    while (!stop) {
      clear_plan_cache();
      device().free_cached();
      std::this_thread::yield();
    }
  });
  in_threads(2, [&](int t) {
    NodeRef x = tensor(counting(1000, static_cast<float>(t)));
    for (int i = 0; i < 10; ++i)
      if (values(realize_one(add(x, x)))[10] != 2 * (10.0f + static_cast<float>(t))) ++wrong;
  });
  stop = true;
  cleaner.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Concurrency, statistics_belong_to_the_thread) {
  StatsSince mine;
  std::thread other([] {
    NodeRef x = tensor(counting(10));
    realize_one(add(x, x));
    EXPECT_EQ(run_stats().launches, 1u);
  });
  other.join();
  EXPECT_EQ(mine->launches, 0u);
}

TEST(Leaks, everything_is_given_back) {
  clear_plan_cache();
  size_t nodes = live_nodes();
  uint64_t used = device().memory().used;
  CodeMemory code = code_memory();
  {
    NodeRef x = tensor(counting(1000));
    NodeRef y = x;
    for (int i = 0; i < 5; ++i) y = realize_one(add(mul(y, full_like(y, 0.5 + i)), x));
    int axes[] = {0};
    NodeRef sum = realize_one(make_reduce(ReduceOp::Sum, y, axes));
    NodeRef result = realize_one(mul(y, make_expand(make_reshape(sum, Shape{Expr(1)}), Shape{Expr(1000)})));
    EXPECT_GT(live_nodes(), nodes);
    EXPECT_GT(device().memory().used, used);
    if (device().name() == "cpu") {  // others keep code in memory of their own
      EXPECT_GT(code_memory().kernels, code.kernels);
    }
  }
  EXPECT_EQ(live_nodes(), nodes);  // plans keep no graph alive
  EXPECT_EQ(device().memory().used, used);
  clear_plan_cache();
  EXPECT_EQ(plan_cache_size(), 0u);
  EXPECT_EQ(code_memory().kernels, code.kernels);
  EXPECT_EQ(code_memory().bytes, code.bytes);
}

}  // namespace
}  // namespace heddle
