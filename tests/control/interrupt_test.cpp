// set_interrupt_check(): work that is asked to stop ends soon, and leaves tensors as they were.
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <atomic>
#include <chrono>
#include <limits>

#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Says to stop after so many questions, or so long.
std::atomic<int> questions_left{0};
std::atomic<bool> asked{false};
Clock::time_point deadline;

bool after_questions() {
  asked = true;
  return questions_left.fetch_sub(1) <= 0;
}
bool after_deadline() {
  asked = true;
  return Clock::now() > deadline;
}

struct Check {
  explicit Check(InterruptCheck check) {
    asked = false;
    before = set_interrupt_check(check);
  }
  ~Check() { set_interrupt_check(before); }
  InterruptCheck before;
};

constexpr double kSoon = 3;  // of a busy machine; what is stopped would take longer, or for ever

template <class F>
void expect_stopped(F&& f) {
  deadline = Clock::now() + std::chrono::milliseconds(50);
  const Clock::time_point start = Clock::now();
  Check check(after_deadline);
  EXPECT_THROW(f(), Interrupted);
  EXPECT_LT(seconds_since(start), kSoon);
}

TEST(Interrupt, the_check_before_is_given_back) {
  EXPECT_EQ(set_interrupt_check(after_deadline), nullptr);
  EXPECT_EQ(set_interrupt_check(nullptr), after_deadline);
}

TEST(Interrupt, a_check_that_says_no_changes_nothing) {
  questions_left = std::numeric_limits<int>::max();
  Check check(after_questions);
  EXPECT_EQ((arange(100) * 2).sum().item<int64_t>(), 9900);
  EXPECT_TRUE(asked);
}

TEST(Interrupt, one_long_kernel_stops) {
  if (default_device().name() != "cpu") GTEST_SKIP() << "other devices run a kernel to its end";
  const int64_t n = 1 << 19;
  Tensor a = uniform({n}), b = uniform({n});
  realize({a, b});
  auto pairs = [&](int64_t rows) { return exp(a.slice(0, 0, rows).reshape(-1, 1) * b).sum(1); };
  EXPECT_EQ(pairs(1).shape(), (std::vector<int64_t>{1}));
  Tensor sums = pairs(n);
  expect_stopped([&] { sums.realize(); });
  EXPECT_FALSE(sums.is_realized());
  expect_stopped([&] { sums.realize(); });  // and again
}

TEST(Interrupt, a_loop_without_end_stops) {
  Tensor start = tensor(1.);
  auto for_ever = [](const Tensor& x) { return x < std::numeric_limits<double>::infinity(); };
  expect_stopped([&] { while_loop(for_ever, [](const Tensor& x) { return sin(x) + 1; }, start).realize(); });
  EXPECT_EQ(start.item<float>(), 1);
  Tensor wide = ones({1 << 16});  // in more than one kernel a round
  auto grows = [](const Tensor& x) { return sum(x) > -1; };
  expect_stopped([&] { while_loop(grows, [](const Tensor& x) { return softmax(x, 0); }, wide).realize(); });
}

TEST(Interrupt, a_long_loop_stops) {
  expect_stopped([] {
    fori_loop(0, int64_t{1} << 40, [](const Tensor&, const Tensor& x) { return sin(x) + 1; }, tensor(1.)).realize();
  });
}

TEST(Interrupt, compiling_stops_between_kernels) {
  std::vector<Tensor> results;
  for (int64_t i = 0; i < 12; ++i) results.push_back(cumsum(uniform({7 + i, 5 + i}), 0).sum(1));
  for (int questions : {0, 1, 5, 20}) {
    questions_left = questions;
    Check check(after_questions);
    EXPECT_THROW(realize(results), Interrupted);
  }
  realize(results);
  EXPECT_EQ(results[3].numel(), 10);
}

// Says to stop once, after a kernel was compiled.
size_t kernels_before = 0;
bool once_compiling() { return kernel_cache_size() > kernels_before && questions_left.fetch_sub(1) == 1; }

TEST(Interrupt, what_is_said_once_while_compiling_is_heard) {
  std::vector<Tensor> results;
  for (int64_t i = 0; i < 12; ++i) results.push_back(cumsum(uniform({9 + i, 6 + i}), 0).sum(1));
  kernels_before = kernel_cache_size();
  questions_left = 1;
  Check check(once_compiling);
  EXPECT_THROW(realize(results), Interrupted);
}

TEST(Interrupt, another_thread_is_not_stopped_for_a_check_that_knows_threads) {
  static thread_local bool mine = false;
  mine = true;
  Check check([] { return mine; });
  EXPECT_THROW((arange(10) * 3).realize(), Interrupted);
  std::thread([] { EXPECT_EQ((arange(10) * 3).sum().item<int64_t>(), 135); }).join();
}

Tensor values(const std::vector<float>& numbers) {
  return from_memory(numbers.data(), {static_cast<int64_t>(numbers.size())}, kF32);
}

// State that is changed in place: whenever it is stopped, a step is done or it is not.
template <class Step>
void expect_whole_steps(Tensor& state, Step step, const std::vector<float>& first, const std::vector<float>& second) {
  bool stopped = false, went_on = false;
  for (int questions = 0; questions < 40; ++questions) {
    state.assign(values(first));
    state.realize();
    bool thrown = false;
    {
      questions_left = questions;
      Check check(after_questions);
      try {
        step();
      } catch (const Interrupted&) {
        thrown = true;
      }
    }
    (thrown ? stopped : went_on) = true;
    if (thrown) {
      EXPECT_EQ(state.to_vector<float>(), first) << questions;
      step();
    }
    EXPECT_EQ(state.to_vector<float>(), second) << questions;
  }
  EXPECT_TRUE(stopped && went_on);
}

// In several kernels: sums, then what they scale.
Tensor next(const Tensor& x) { return (x - cumsum(x, 0).sum()) * 0.5 + sort(x, 0).values; }

TEST(Interrupt, a_step_in_plain_code_is_whole) {
  std::vector<float> first(5000);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<float>(i % 17);
  Tensor expected = next(values(first));
  Tensor state = values(first);
  auto step = [&] {
    state.assign(next(state));
    state.realize();
  };
  std::vector<float> second = expected.to_vector<float>();
  // What was assigned stays: it is computed when somebody looks again.
  for (int questions = 0; questions < 20; ++questions) {
    state.assign(values(first));
    state.realize();
    {
      questions_left = questions;
      Check check(after_questions);
      try {
        step();
      } catch (const Interrupted&) {}
    }
    EXPECT_EQ(state.to_vector<float>(), second) << questions;
  }
}

TEST(Interrupt, a_captured_step_is_whole) {
  std::vector<float> first(5000);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<float>(i % 17);
  Tensor state = values(first);
  auto captured = jit([&](const Tensor& scale) {
    state += sort(state, 0).values * scale;
    state *= cumsum(state, 0).sum() * 1e-6;
    return state.sum();
  });
  const Tensor scale = tensor(0.5f);
  scale.realize();
  auto step = [&] { captured(scale).realize(); };
  for (int i = 0; i < 3; ++i) step();
  state.assign(values(first));
  step();
  const std::vector<float> second = state.to_vector<float>();
  expect_whole_steps(state, step, first, second);
}

}  // namespace
}  // namespace heddle
