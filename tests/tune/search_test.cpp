#include "tune/search.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "../graph/host_storage.h"
#include "base/error.h"
#include "compile/fuse/fuse.h"
#include "compile/lower.h"

namespace heddle {
namespace {

Loops loops_of(const NodeRef& root) {
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  return program.steps[0].loops;
}

Loops row_sums() { return loops_of(testing::reduced(ReduceOp::Sum, testing::counting(kF32, {60, 70}), {1})); }

TEST(Search, never_returns_something_slower_than_the_default) {
  SearchResult result = search(workload_of(row_sums()), device("cpu"), {.trials = 12});
  EXPECT_EQ(result.tried, 12);
  EXPECT_EQ(result.wrong, 0);
  EXPECT_LE(result.best_seconds, result.default_seconds);
  EXPECT_GT(result.best_seconds, 0);
  EXPECT_EQ(check(result.best, row_sums(), device("cpu").target()), "");
}

TEST(Search, no_trials_give_the_default_schedule) {
  Loops loops = row_sums();
  SearchResult result = search(workload_of(loops), device("cpu"), {.trials = 0});
  EXPECT_EQ(print(result.best), print(default_schedule(loops, device("cpu").target())));
}

TEST(Search, candidates_of_a_matrix_product_are_right) {
  NodeRef a = testing::counting(kF32, {20, 1, 30}), b = testing::counting(kF32, {1, 40, 30});
  NodeRef product =
      testing::scalar_node(ScalarOp::mul, {make_expand(a, Shape{20, 40, 30}), make_expand(b, Shape{20, 40, 30})});
  Workload workload = workload_of(loops_of(testing::reduced(ReduceOp::Sum, product, {2})));
  SearchResult result = search(workload, device("cpu"), {.trials = 20, .seed = 7, .duel = 1e-3});
  EXPECT_EQ(result.wrong, 0);
  EXPECT_EQ(result.failed, 0);
}

// Other schedules become kernels that do nothing: nothing is faster, and the right output of a run before still lies in
// memory.
TEST(Search, a_fast_wrong_candidate_never_wins) {
  Loops loops = row_sums();
  const std::string plain = print(default_schedule(loops, device("cpu").target()));
  int emptied = 0;
  SearchOptions options{.trials = 8};
  options.build = [&](const Loops& of, const Schedule& schedule, const Target& target) {
    kernel::Kernel kernel = lower(tile(of, schedule, target), target);
    if (print(schedule) == plain) return kernel;
    ++emptied;
    for (kernel::Phase& phase : kernel.phases) phase.body = {};
    return kernel;
  };
  ::testing::internal::CaptureStderr();
  SearchResult result = search(workload_of(loops), device("cpu"), options);
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_GE(emptied, 5);
  EXPECT_EQ(result.wrong, emptied);
  EXPECT_EQ(print(result.best), plain);
  EXPECT_NE(said.find("computes something else"), std::string::npos);
  EXPECT_NE(said.find(loops.name), std::string::npos);
}

// Kernels of the default schedule do nothing, others are what they should be.
TEST(Search, the_interpreter_tells_when_the_default_schedule_is_wrong) {
  Loops loops = row_sums();
  const std::string plain = print(default_schedule(loops, device("cpu").target()));
  SearchOptions options{.trials = 8};
  options.build = [&](const Loops& of, const Schedule& schedule, const Target& target) {
    kernel::Kernel kernel = lower(tile(of, schedule, target), target);
    if (print(schedule) == plain)
      for (kernel::Phase& phase : kernel.phases) phase.body = {};
    return kernel;
  };
  ::testing::internal::CaptureStderr();
  SearchResult result = search(workload_of(loops), device("cpu"), options);
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(result.default_is_wrong);
  EXPECT_EQ(result.wrong, 0);
  EXPECT_NE(said.find("than the interpreter"), std::string::npos) << said;
  options.build = nullptr;
  EXPECT_FALSE(search(workload_of(loops), device("cpu"), options).default_is_wrong);
}

TEST(Search, one_wrong_element_is_noticed_and_rounding_is_not) {
  Workload workload = workload_of(row_sums());
  Bench bench(workload, device("cpu"), 1);
  const Target& target = device("cpu").target();
  Candidate candidate = bench.prepare(
      device("cpu").compile(lower(tile(workload.loops, default_schedule(workload.loops, target), target), target)));
  Bench::Outputs expected = bench.outputs(candidate), found = expected;
  std::string problem;
  EXPECT_TRUE(bench.agree(expected, found, problem));
  auto* values = reinterpret_cast<float*>(found[0].data());
  values[17] = std::nextafter(values[17], 1e9f);
  EXPECT_TRUE(bench.agree(expected, found, problem));
  values[17] += 0.25f;  // one of 70 numbers left out
  EXPECT_FALSE(bench.agree(expected, found, problem));
  EXPECT_NE(problem.find("element 17"), std::string::npos) << problem;
  values[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(bench.agree(expected, found, problem));
}

TEST(Search, candidates_that_do_not_compile_are_counted) {
  Loops loops = row_sums();
  const std::string plain = print(default_schedule(loops, device("cpu").target()));
  SearchOptions options{.trials = 6};
  options.build = [&](const Loops& of, const Schedule& schedule, const Target& target) {
    if (print(schedule) != plain) throw CompileError("not today");
    return lower(tile(of, schedule, target), target);
  };
  SearchResult result = search(workload_of(loops), device("cpu"), options);
  EXPECT_EQ(result.tried, 6);
  EXPECT_EQ(result.failed, 6);
  EXPECT_EQ(print(result.best), plain);
}

TEST(Search, ends_when_its_time_is_over) {
  auto start = std::chrono::steady_clock::now();
  SearchResult result = search(workload_of(row_sums()), device("cpu"), {.trials = 1'000'000, .seconds = 0.3});
  EXPECT_LT(result.tried, 1000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace heddle
