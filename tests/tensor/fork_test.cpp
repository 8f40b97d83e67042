// A child of fork() computes as its parent does, whatever the other threads of the parent were doing.
#include <gtest/gtest.h>
#include <heddle/heddle.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "child_process.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

Tensor numbers(int n, float first = 1) {
  std::vector<float> data(static_cast<size_t>(n));
  for (size_t i = 0; i < data.size(); ++i) data[i] = first + static_cast<float>(i % 16);
  return from_data(data.data(), {n});
}

// f(first), f(first + 1), ... as the tensor of numbers() has them.
bool holds(const Tensor& t, int n, const std::function<float(float)>& f, float first = 1) {
  std::vector<float> found = values(t);
  if (found.size() != static_cast<size_t>(n)) return false;
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != f(first + static_cast<float>(i % 16))) return false;
  return true;
}

class Fork : public ::testing::Test {
  void SetUp() override {
    const char* name = std::getenv("HEDDLE_DEVICE");  // read by nobody yet: a test changes the configuration
    if (name && std::string(name).starts_with("cuda")) GTEST_SKIP() << "CUDA does not survive fork()";
  }
};
using ForkDeathTest = Fork;

TEST_F(Fork, what_a_child_compiles_is_not_seen_by_the_parent) {
  Tensor x = numbers(4);
  ASSERT_TRUE(holds(x * x + 3, 4, [](float v) { return v * v + 3; }));
  EXPECT_EQ(
      in_child([&] {
        // As long as the parent's, and other code.
        for (int i = 0; i < 8; ++i)
          if (!holds(x * static_cast<float>(i) - x * x, 4, [&](float v) { return v * static_cast<float>(i) - v * v; }))
            return false;
        return holds(x * x + 3, 4, [](float v) { return v * v + 3; });
      }),
      "");
  EXPECT_TRUE(holds(x * x + 5, 4, [](float v) { return v * v + 5; }));
  EXPECT_TRUE(holds(x * x * x - 1, 4, [](float v) { return v * v * v - 1; }));
}

TEST_F(Fork, parent_and_child_compile_at_the_same_time) {
  Tensor x = numbers(40);
  ASSERT_TRUE(holds(x + 1, 40, [](float v) { return v + 1; }));
  auto work = [&](float sign) {
    for (int i = 2; i < 40; ++i) {
      Tensor y = x.slice(0, 0, i);
      if (!holds(y * y * sign + 2, i, [&](float v) { return v * v * sign + 2; })) return false;
      if (!holds(x + 1, 40, [](float v) { return v + 1; })) return false;
    }
    return true;
  };
  Child child([&] { return work(-1); });
  EXPECT_TRUE(work(1));
  EXPECT_EQ(child.wait(), "");
}

// Enough work for all threads of the pool.
bool large_sum(int n = 1 << 20) {
  Tensor x = ones({n});
  return values((x * 2).sum())[0] == 2 * static_cast<float>(n);
}

TEST_F(Fork, child_has_workers_of_its_own) {
  ASSERT_TRUE(large_sum());
  EXPECT_EQ(in_child([] { return large_sum() && large_sum(1 << 19); }), "");
  EXPECT_TRUE(large_sum());
}

TEST_F(Fork, child_of_a_child) {
  Tensor x = numbers(8);
  ASSERT_TRUE(large_sum());
  EXPECT_EQ(in_child([&] {
              if (!holds(x * 3, 8, [](float v) { return v * 3; }) || !large_sum()) return false;
              return in_child([&] { return holds(x * 5 - x, 8, [](float v) { return v * 5 - v; }) && large_sum(); }) ==
                     "";
            }),
            "");
  EXPECT_TRUE(holds(x * 7, 8, [](float v) { return v * 7; }));
}

TEST_F(Fork, child_may_end_as_programs_do) {
  ASSERT_TRUE(large_sum());
  Tensor x = numbers(8);
  Child child([&] {
    if (!large_sum() || !holds(x * 9, 8, [](float v) { return v * 9; })) return false;
    std::exit(0);
  });
  EXPECT_EQ(child.wait(), "");
}

// In a process of its own, because the configuration is read once.
[[noreturn]] void profile_children() {
  testing::TemporaryFolder folder;
  setenv("HEDDLE_PROFILE", folder.file("trace.json").c_str(), 1);
  if (!large_sum()) _exit(1);
  Child busy([] {
    if (!large_sum(1 << 18)) return false;
    std::exit(0);
  });
  Child idle([]() -> bool { std::exit(0); });
  if (busy.wait() != "" || idle.wait() != "") _exit(2);
  const std::string own = "trace." + std::to_string(busy.process()) + ".json";
  if (folder.count("trace") != 1 || folder.count(own) != 1) _exit(3);
  _exit(testing::content_of(folder.file(own)).find("realize") == std::string::npos ? 4 : 0);
}

TEST_F(ForkDeathTest, child_has_a_profile_of_its_own) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(profile_children(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Fork, children_of_a_busy_process) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  Tensor x = numbers(64);
  std::vector<std::jthread> others;
  for (int t = 0; t < 3; ++t)
    others.emplace_back([&, t] {
      Tensor state = zeros({1 << 16});
      state.realize();
      Jit step = jit([&](const Tensor& by) { state += by; });
      float sum = 0;
      for (int i = 0; !stop; ++i) {
        float factor = static_cast<float>(t * 1000 + i % 50);
        Tensor part = x.slice(0, 0, 1 + i % 60);
        if (!holds(part * part - factor, 1 + i % 60, [&](float v) { return v * v - factor; })) ++wrong;
        step(ones({1}));
        sum += 1;
        if (i % 7 == 0 && values(state.max())[0] != sum) ++wrong;
        if (i % 11 == 0 && !large_sum()) ++wrong;
      }
    });
  std::vector<std::string> problems;
  for (int i = 0; i < 20; ++i) {
    std::string problem = in_child([&] {
      Tensor part = x.slice(0, 0, 3 + i);
      return holds(part * 2 + part * part, 3 + i, [](float v) { return v * 2 + v * v; }) && large_sum() &&
             holds(x * x, 64, [](float v) { return v * v; });
    });
    if (!problem.empty()) problems.push_back(problem);
  }
  stop = true;
  others.clear();
  EXPECT_EQ(problems, std::vector<std::string>());
  EXPECT_EQ(wrong, 0);
}

TEST_F(Fork, captured_function_that_is_being_called_works_in_the_child) {
  std::atomic<bool> stop{false};
  Tensor state = zeros({1 << 15});
  state.realize();
  Jit step = jit([&] {
    state += 1;
    return state.max();
  });
  step();
  step();
  std::jthread caller([&] {
    while (!stop) step();
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([&] {
                // All elements are from the same call.
                std::vector<float> before = values(state);
                for (float v : before)
                  if (v != before[0]) return false;
                float after = values(step())[0];
                return after == before[0] + 1 && values(state)[77] == after;
              }),
              "");
  }
  stop = true;
}

TEST_F(Fork, captured_function_that_is_being_recorded_is_recorded_anew) {
  std::atomic<bool> inside{false}, go_on{false};
  Tensor x = numbers(8);
  Jit twice = jit([&](const Tensor& t) {
    inside = true;
    while (!go_on) std::this_thread::yield();
    return t * 2;
  });
  std::jthread recorder([&] { twice(x); });
  while (!inside) std::this_thread::yield();
  EXPECT_EQ(in_child([&] {
              go_on = true;
              for (int i = 0; i < 4; ++i)
                if (!holds(twice(x), 8, [](float v) { return v * 2; })) return false;
              return true;
            }),
            "");
  go_on = true;
}

TEST_F(Fork, inside_of_a_captured_function) {
  Tensor x = numbers(8);
  std::string problem = "not forked";
  bool forked = false;
  Jit triple = jit([&](const Tensor& t) {
    if (!std::exchange(forked, true))
      problem = in_child([] {
        bool right = false;
        std::thread([&] { right = large_sum(); }).join();  // here tensors have no values
        return right;
      });
    return t * 3;
  });
  EXPECT_TRUE(holds(triple(x), 8, [](float v) { return v * 3; }));
  EXPECT_EQ(problem, "");
}

TEST_F(Fork, random_numbers_go_on_from_the_same_state) {
  manual_seed(7);
  std::vector<float> first = values(uniform({4}));
  Generator::State at = default_generator().state();
  EXPECT_EQ(in_child([&] {
              std::vector<float> drawn = values(uniform({4}));
              default_generator().set_state(at);
              return drawn != first && drawn == values(uniform({4}));
            }),
            "");
}

}  // namespace
}  // namespace heddle
