#include "tune/tune.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../runtime/helpers.h"
#include "../temporary_folder.h"
#include "base/log.h"
#include "kernels.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_store.h"

namespace heddle {
namespace {

using testing::TemporaryFolder;

Workload row_sums() {
  return testing::workload_of_root(testing::reduced(ReduceOp::Sum, testing::counting(kF32, {60, 70}), {1}));
}

// This program again, one of its disabled tests, with variables set. Its exit code.
pid_t start(const std::string& test, const std::string& cache, const std::string& trials) {
  pid_t child = fork();
  if (child != 0) return child;
  setenv("HEDDLE_TEST_CACHE", cache.c_str(), 1);
  setenv("HEDDLE_TUNE", trials.c_str(), 1);
  setenv("HEDDLE_DEVICE", "cpu", 1);  // whose schedules these tests are about
  std::string filter = "--gtest_filter=" + test;
  execl("/proc/self/exe", "test_tune", "--gtest_also_run_disabled_tests", "--gtest_brief=1", filter.c_str(), nullptr);
  _exit(127);
}
int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(Tune, the_best_schedule_is_kept_also_when_it_is_the_default_one) {
  TemporaryFolder folder;
  DiskCache cache(folder.file("cache.sqlite"), 1 << 20);
  Workload workload = row_sums();
  SearchResult result = tune(workload, device("cpu"), &cache, {.trials = 5});
  auto known = load_schedule(cache, structure(workload.loops), device("cpu"));
  ASSERT_TRUE(known);
  EXPECT_EQ(known->schedule, print(result.best));
  EXPECT_EQ(known->tried, 5);
  EXPECT_LE(known->seconds, known->default_seconds);
  // No cache, no harm.
  EXPECT_EQ(tune(workload, device("cpu"), nullptr, {.trials = 1}).tried, 1);
}

// The tests named DISABLED are the other side of the tests around them: these run them, each in a process of its own,
// because HEDDLE_CACHE and HEDDLE_TUNE are read once.

// Realises a sum of rows, with HEDDLE_CACHE and maybe HEDDLE_TUNE.
TEST(InChild, DISABLED_realises_row_sums) {
  enable_tuning();
  NodeRef x = testing::tensor(testing::counting(4200), Shape{60, 70});
  std::vector<float> sums = testing::values(testing::realize_one(testing::reduced(ReduceOp::Sum, x, {1})));
  ASSERT_EQ(sums.size(), 60u);
  for (int r = 0; r < 60; ++r)
    EXPECT_EQ(sums[static_cast<size_t>(r)], 70.0f * (70.0f * static_cast<float>(r)) + 2415.0f);
}

TEST(Tune, kernels_are_tuned_once_when_HEDDLE_TUNE_is_set) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  const Structure kernel = structure(row_sums().loops);
  auto known = [&] {
    DiskCache cache(path, 1 << 20);
    return load_schedule(cache, kernel, device("cpu"));
  };
  EXPECT_EQ(wait_for(start("InChild.DISABLED_realises_row_sums", path, "0")), 0);
  EXPECT_FALSE(known());
  EXPECT_EQ(wait_for(start("InChild.DISABLED_realises_row_sums", path, "4")), 0);
  ASSERT_TRUE(known());
  EXPECT_EQ(known()->tried, 4);
  // It is tuned now: no other number of trials changes that.
  EXPECT_EQ(wait_for(start("InChild.DISABLED_realises_row_sums", path, "6")), 0);
  EXPECT_EQ(known()->tried, 4);
}

TEST(Tune, several_processes_tune_at_once) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) children.push_back(start("InChild.DISABLED_realises_row_sums", path, "5"));
  for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  DiskCache cache(path, 1 << 20);
  EXPECT_TRUE(load_schedule(cache, structure(row_sums().loops), device("cpu")));
  EXPECT_EQ(folder.count(".damaged-"), 0);
}

// Run by a_tuned_schedule_is_used_and_one_that_is_not_legal_is_not, like the next one.
TEST(InChild, DISABLED_shows_the_schedule_of_row_sums) {
  log_enable(Log::Schedule, true);
  ::testing::internal::CaptureStderr();
  NodeRef x = testing::tensor(testing::counting(4200), Shape{60, 70});
  std::vector<float> sums = testing::values(testing::realize_one(testing::reduced(ReduceOp::Sum, x, {1})));
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(sums[0], 2415.0f);
  EXPECT_NE(said.find("block 5; reduction loop 1 14"), std::string::npos) << said;
}

TEST(InChild, DISABLED_warns_of_a_schedule_that_is_not_legal) {
  ::testing::internal::CaptureStderr();
  NodeRef x = testing::tensor(testing::counting(4200), Shape{60, 70});
  std::vector<float> sums = testing::values(testing::realize_one(testing::reduced(ReduceOp::Sum, x, {1})));
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(sums[0], 2415.0f);
  EXPECT_NE(said.find("no legal schedule"), std::string::npos) << said;
}

TEST(Tune, a_tuned_schedule_is_used_and_one_that_is_not_legal_is_not) {
  Workload workload = row_sums();
  auto with = [&](const std::string& schedule, const std::string& child) {
    TemporaryFolder folder;
    std::string path = folder.file("cache.sqlite");
    {
      DiskCache cache(path, 1 << 20);
      store_schedule(cache, structure(workload.loops), device("cpu"), {schedule, 2e-6, 1e-6, 10});
    }
    return wait_for(start(child, path, "0"));
  };
  std::string good = "block 5; reduction loop 1 14; map joined";
  ASSERT_EQ(check(parse_schedule(good), workload.loops, device("cpu").target()), "") << print(workload.loops);
  EXPECT_EQ(with(good, "InChild.DISABLED_shows_the_schedule_of_row_sums"), 0);
  for (const char* bad : {"block 5 5 5", "block 0; reduction; map", "block 5; reduction threads 4; map", "nonsense"})
    EXPECT_EQ(with(bad, "InChild.DISABLED_warns_of_a_schedule_that_is_not_legal"), 0) << bad;
}

}  // namespace
}  // namespace heddle
