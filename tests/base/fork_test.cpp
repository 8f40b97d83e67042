#include "base/fork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/file_lock.h"
#include "base/lock.h"
#include "child_process.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;

TEST(Fork, waits_until_sections_of_others_end) {
  std::atomic<bool> inside{false}, whole{false};
  std::jthread other([&] {
    NoFork section;
    NoFork nested;
    inside = true;
    std::this_thread::sleep_for(100ms);
    whole = true;
  });
  while (!inside) std::this_thread::yield();
  EXPECT_EQ(in_child([&] { return whole.load(); }), "");
}

TEST(Fork, does_not_wait_for_itself) {
  NoFork section;
  EXPECT_EQ(in_child([] {
              NoFork nested;
              return in_child([] { return true; }) == "";
            }),
            "");
}

TEST(Fork, locks_are_free_in_the_child) {
  std::atomic<bool> stop{false};
  Mutex mutex;
  SpinLock spin;
  int a = 0, b = 0;  // equal while the lock is free
  std::vector<std::jthread> others;
  for (int t = 0; t < 2; ++t)
    others.emplace_back([&] {
      while (!stop) {
        {
          std::lock_guard guard(mutex);
          std::lock_guard inner(spin);
          ++a;
          ++b;
        }
        std::lock_guard guard(spin);
      }
    });
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(in_child([&] {
                std::lock_guard guard(mutex);
                std::lock_guard inner(spin);
                return a == b;
              }),
              "");
  stop = true;
}

TEST(Fork, a_helper_is_part_of_the_section_that_waits_for_it) {
  std::atomic<bool> inside{false};
  std::atomic<int> done{0};
  std::jthread other([&] {
    NoFork section;
    std::thread helper([&] {
      begin_helper_thread();
      inside = true;
      for (int i = 0; i < 100; ++i) {
        std::this_thread::sleep_for(1ms);
        NoFork own;  // does not wait for the fork, which waits for the other
        ++done;
      }
    });
    helper.join();
  });
  while (!inside) std::this_thread::yield();
  EXPECT_EQ(in_child([&] { return done == 100; }), "");
}

TEST(Fork, by_two_at_once_while_others_come_and_go) {
  std::atomic<bool> stop{false};
  std::jthread coming([&] {
    while (!stop) std::thread([] { NoFork section; }).join();
  });
  std::atomic<int> problems{0};
  auto forks = [&] {
    for (int i = 0; i < 30; ++i)
      if (in_child([] {
            bool right = false;
            std::thread([&] {
              NoFork section;
              right = true;
            }).join();
            return right;
          }) != "")
        ++problems;
  };
  std::thread other(forks);
  forks();
  other.join();
  stop = true;
  EXPECT_EQ(problems, 0);
}

TEST(Fork, a_child_knows_that_it_is_one) {
  const uint32_t here = fork_generation();
  EXPECT_EQ(in_child([&] {
              return fork_generation() == here + 1 && in_child([&] { return fork_generation() == here + 2; }) == "";
            }),
            "");
  EXPECT_EQ(fork_generation(), here);
}

TEST(Fork, a_child_does_not_keep_a_file_locked) {
  testing::TemporaryFolder folder;
  const std::string path = folder.file("lock");
  std::atomic<bool> held{false};
  std::jthread other([&] {
    FileLock lock(path);
    held = true;
    std::this_thread::sleep_for(50ms);
  });
  while (!held) std::this_thread::yield();
  Child child([] {
    std::this_thread::sleep_for(1s);
    return true;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(FileLock(path).held());
  EXPECT_LT(std::chrono::steady_clock::now() - start, 900ms);
  EXPECT_EQ(child.wait(), "");
}

}  // namespace
}  // namespace heddle
