#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "temporary_folder.h"

namespace heddle {
namespace {

TEST(FileLock, one_object_has_it_at_a_time) {
  testing::TemporaryFolder folder;
  const std::string path = folder.file("lock");
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        FileLock lock(path);
        if (!lock.held()) continue;  // a machine so busy that two seconds were not enough
        int now = ++inside, before = most;
        while (now > before && !most.compare_exchange_weak(before, now)) {}
        --inside;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

// A process that holds it and does not go on: others wait, say so once, and go on.
TEST(FileLock, a_process_that_was_stopped_does_not_stop_others) {
  testing::TemporaryFolder folder;
  const std::string path = folder.file("lock");
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready) | pipe(done), 0);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FileLock lock(path);
    char c = lock.held() ? 'y' : 'n';
    (void)!write(ready[1], &c, 1);
    (void)!read(done[0], &c, 1);
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  ::testing::internal::CaptureStderr();
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(FileLock(path).held());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  std::string said = ::testing::internal::GetCapturedStderr();
  size_t at = said.find(path);
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(path, at + 1), std::string::npos) << said;
  EXPECT_NE(said.find("two seconds"), std::string::npos) << said;
  ASSERT_EQ(write(done[1], "x", 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(FileLock(path).held());
  for (int fd : {ready[0], ready[1], done[0], done[1]}) close(fd);
}

TEST(FileLock, a_file_that_cannot_be_made_is_no_error) {
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(FileLock("/nowhere/at/all/lock").held());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace heddle
