// Graphs that are deep, wide, shared, or built by many threads.
#include <atomic>
#include <chrono>
#include <thread>

#include "base/sanitizers.h"
#include "codegen/codegen.h"
#include "expr/expr.h"
#include "graph/node.h"
#include "helpers.h"
#include "runtime/device.h"

namespace heddle {
namespace {

using namespace testing;

double seconds(const std::function<void()>& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Scale, a_chain_of_a_million_ops_builds_runs_and_dies) {
  const int ops = HD_ADDRESS_SANITIZER || HD_THREAD_SANITIZER ? 100'000 : 1'000'000;
  Tensor x = zeros({16}).realize() + counting({16});
  for (int i = 0; i < ops; ++i) x = x + 1;
  EXPECT_EQ(x[3].item<float>(), static_cast<float>(ops + 3));
  Tensor never = counting({16});
  for (int i = 0; i < ops; ++i) never = never * 3 + 1;
}

TEST(Scale, a_deep_chain_that_cannot_be_folded_runs) {
  Tensor x = counting({16}), y = counting({16}) / 16;
  for (int i = 0; i < 20'000; ++i) x = minimum(x, y) + 0.5;
  EXPECT_EQ(x[8].item<float>(), 1);
}

TEST(Scale, diamonds_take_linear_time) {
  double took = seconds([] {
    Tensor x = ones({16}).realize();
    for (int i = 0; i < 60; ++i) x = x + x;
    EXPECT_EQ(x[0].item<float>(), std::ldexp(1.0f, 60));
  });
  EXPECT_LT(took, 10);
}

TEST(Scale, diamonds_through_two_paths_take_linear_time) {
  double took = seconds([] {
    Tensor x = ones({16}).realize();
    for (int i = 0; i < 60; ++i) x = x + flip(x, {0});
    EXPECT_EQ(x[3].item<float>(), std::ldexp(1.0f, 60));
    Tensor y = ones({4, 4}).realize();
    for (int i = 0; i < 60; ++i) y = y + y.transpose();
    EXPECT_EQ(y[1][2].item<float>(), std::ldexp(1.0f, 60));
  });
  EXPECT_LT(took, 20);
}

TEST(Scale, a_wide_sum_of_many_leaves) {
  std::vector<Tensor> leaves;
  Tensor total = zeros({8});
  for (int i = 0; i < 300; ++i) {
    leaves.push_back(full({8}, i).realize());
    total = total + leaves.back();
  }
  EXPECT_EQ(total[0].item<float>(), 299 * 150);
}

// What eight threads do at once: shapes of their own and shared ones, small and large.
void one_users_work(int user, std::atomic<int>& wrong) {
  for (int round = 0; round < 6; ++round) {
    int64_t n = round % 2 ? 40 : 500 + user;
    Tensor x = full({n, n}, user + 1).realize();
    float sum = ((x * 2 + round).sum({1}) / static_cast<double>(n)).max().item<float>();
    if (sum != static_cast<float>(2 * (user + 1) + round)) ++wrong;
    Tensor p = softmax(x + counting({n}), -1).sum();
    if (std::fabs(p.item<float>() - static_cast<float>(n)) > 0.01 * static_cast<double>(n)) ++wrong;
    Tensor m = matmul(slice(x, 0, 0, 20), slice(x, 1, 0, 20));
    if (m[19][19].item<float>() != static_cast<float>((user + 1) * (user + 1)) * static_cast<float>(n)) ++wrong;
  }
}

TEST(Threads, eight_users_build_and_realise_at_once) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 8; ++user) users.emplace_back([&, user] { one_users_work(user, wrong); });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, users_share_a_tensor) {
  Tensor x = counting({1000}) * 2;  // not realised: everybody may be the first
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 8; ++user)
    users.emplace_back([&, user] {
      if ((x + user)[10].item<float>() != static_cast<float>(20 + user)) ++wrong;
      if (x.to_vector<float>()[999] != 1998) ++wrong;
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong, 0);
}

struct Living {
  size_t nodes, exprs, plans, kernels, code;
  uint64_t memory;
  static Living now() {
    clear_plan_cache();
    CodeMemory code = code_memory();
    return {live_nodes(), live_expr_nodes(), plan_cache_size(), code.kernels, code.bytes, device().memory().used};
  }
};

TEST(Leak, nothing_is_left_behind) {
  auto work = [](int variant) {
    manual_seed(1);
    Tensor x = randn({30 + variant, 40});
    Tensor y = softmax(matmul(x, x.transpose()), -1);
    for (int i = 0; i < 3; ++i) x += 0.5;
    EXPECT_TRUE(std::isfinite(y.sum().item<float>()));
    EXPECT_FALSE(to_string(x).empty());
    EXPECT_GT(argmax(cat({x, x}, 0)).item<int64_t>(), -1);
    EXPECT_FALSE(print_graph({y * 2}).empty());
    try {
      (void)(x + zeros({7}));
    } catch (const ShapeError&) {}
  };
  work(0);
  Living before = Living::now();
  for (int variant = 0; variant < 10; ++variant) work(variant);
  Living after = Living::now();
  EXPECT_EQ(after.nodes, before.nodes);
  EXPECT_EQ(after.exprs, before.exprs);
  EXPECT_EQ(after.plans, 0u);
  EXPECT_EQ(after.kernels, before.kernels);
  EXPECT_EQ(after.code, before.code);
  EXPECT_EQ(after.memory, before.memory);
}

TEST(Leak, nothing_is_left_behind_by_threads) {
  std::atomic<int> wrong{0};
  auto crowd = [&] {
    std::vector<std::thread> users;
    for (int user = 0; user < 4; ++user) users.emplace_back([&, user] { one_users_work(user, wrong); });
    for (std::thread& user : users) user.join();
  };
  crowd();
  Living before = Living::now();
  crowd();
  Living after = Living::now();
  EXPECT_EQ(after.nodes, before.nodes);
  EXPECT_EQ(after.exprs, before.exprs);
  EXPECT_EQ(after.kernels, before.kernels);
  EXPECT_EQ(after.memory, before.memory);
}

}  // namespace
}  // namespace heddle
