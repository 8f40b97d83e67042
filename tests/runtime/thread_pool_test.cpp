#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <vector>

namespace heddle {
namespace {

// Calls f(part) through the pool's plain interface.
template <class F>
void run(ThreadPool::Turn& turn, int parts, F f) {
  turn.run(parts, [](void* context, int part) { (*static_cast<F*>(context))(part); }, &f);
}

TEST(ThreadPool, runs_every_part_exactly_once) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    ThreadPool::Turn turn(pool);
    for (int parts : {0, 1, 2, 3, 7, 8, 9, 100}) {
      std::vector<std::atomic<int>> count(static_cast<size_t>(parts));
      run(turn, parts, [&](int part) { ++count[static_cast<size_t>(part)]; });
      for (auto& c : count) EXPECT_EQ(c, 1);
    }
  }
}

TEST(ThreadPool, uses_several_threads) {
  ThreadPool pool(3);
  ThreadPool::Turn turn(pool);
  std::atomic<int> arrived{0};
  // Each part waits for the others: this ends only if they run at the same time.
  run(turn, 3, [&](int) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 3);
}

TEST(ThreadPool, a_part_runs_on_its_own_thread_or_on_the_caller) {
  ThreadPool pool(3);
  ThreadPool::Turn turn(pool);
  std::thread::id home[3] = {std::this_thread::get_id()};
  std::atomic<int> arrived{0};
  run(turn, 3, [&](int part) {  // waiting for each other keeps them apart
    home[part] = std::this_thread::get_id();
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT_EQ(home[0], std::this_thread::get_id());
  for (int round = 0; round < 500; ++round) {
    std::thread::id seen[6];
    run(turn, 6, [&](int part) { seen[part] = std::this_thread::get_id(); });
    for (int part = 0; part < 6; ++part) EXPECT_TRUE(seen[part] == home[part % 3] || seen[part] == home[0]);
  }
}

TEST(ThreadPool, the_caller_does_what_sleeping_workers_have_not_begun) {
  ThreadPool pool(2);
  ThreadPool::Turn turn(pool);
  int total = 0, by_caller = 0;
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::thread::id seen[2];
    run(turn, 2, [&](int part) { seen[part] = std::this_thread::get_id(); });
    for (auto id : seen) {
      EXPECT_NE(id, std::thread::id());
      by_caller += id == std::this_thread::get_id();
      ++total;
    }
  }
  EXPECT_EQ(total, 40);
  EXPECT_GE(by_caller, 20);
}

TEST(ThreadPool, writes_of_one_job_are_seen_by_the_next) {
  ThreadPool pool(4);
  ThreadPool::Turn turn(pool);
  std::vector<int> data(64, 0), copy(64, 0);
  for (int round = 1; round <= 2000; ++round) {
    run(turn, 4, [&](int part) {
      for (size_t i = static_cast<size_t>(part); i < 64; i += 4) data[i] += 1;
    });
    run(turn, 4, [&](int part) {  // every part reads what another one wrote
      for (size_t i = static_cast<size_t>(part); i < 64; i += 4) copy[i] = data[63 - i];
    });
    for (int v : copy) ASSERT_EQ(v, round);
  }
}

TEST(ThreadPool, sleeping_workers_wake_for_work_and_for_a_nudge) {
  ThreadPool pool(2);
  auto wait_until_asleep = [&] {
    for (int i = 0; i < 5000 && pool.awake(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return !pool.awake();
  };
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(wait_until_asleep());
    std::atomic<int> count{0};
    ThreadPool::Turn turn(pool);
    run(turn, 2, [&](int) { ++count; });
    EXPECT_EQ(count, 2);
  }
  ASSERT_TRUE(wait_until_asleep());
  pool.nudge();
  ASSERT_TRUE(wait_until_asleep());  // and fall asleep again
}

TEST(ThreadPool, the_caller_sleeps_through_long_parts_of_others) {
  ThreadPool pool(2);
  ThreadPool::Turn turn(pool);
  bool done = false;
  std::atomic<bool> begun{false};
  run(turn, 2, [&](int part) {
    if (part == 0) {
      while (!begun) std::this_thread::yield();
      return;
    }
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(ThreadPool, exceptions_of_any_part_reach_the_caller_after_all_parts_ended) {
  ThreadPool pool(3);
  for (int bad : {0, 1, 2}) {
    ThreadPool::Turn turn(pool);
    std::atomic<int> others{0};
    try {
      run(turn, 3, [&](int part) {
        if (part == bad) throw std::runtime_error("part " + std::to_string(part));
        ++others;
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), "part " + std::to_string(bad));
    }
    EXPECT_EQ(others, 2);
    run(turn, 3, [&](int) { ++others; });  // works as before
    EXPECT_EQ(others, 5);
  }
}

TEST(ThreadPool, many_user_threads_take_turns) {
  ThreadPool pool(3);
  std::atomic<int> running{0}, total{0};
  std::atomic<bool> overlap{false};
  std::vector<std::thread> users;
  for (int u = 0; u < 4; ++u)
    users.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        ThreadPool::Turn turn(pool);
        if (running++ != 0) overlap = true;
        run(turn, 3, [&](int) { ++total; });
        run(turn, 2, [&](int) { ++total; });
        --running;
      }
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(total, 4 * 300 * 5);
  EXPECT_FALSE(overlap);
}

TEST(ThreadPool, nested_turns_run_on_their_own_thread) {
  ThreadPool pool(2);
  std::atomic<int> count{0};
  ThreadPool::Turn turn(pool);
  run(turn, 2, [&](int) {
    ThreadPool::Turn inner(pool);
    auto me = std::this_thread::get_id();
    run(inner, 4, [&](int) {
      EXPECT_EQ(std::this_thread::get_id(), me);
      ++count;
    });
  });
  EXPECT_EQ(count, 8);
}

TEST(ThreadPool, goes_on_alone_after_stop) {
  ThreadPool pool(4);
  pool.stop();
  pool.stop();
  int count = 0;
  ThreadPool::Turn turn(pool);
  run(turn, 4, [&](int) { ++count; });
  EXPECT_EQ(count, 4);
}

TEST(ThreadPool, available_cores_is_at_least_one) { EXPECT_GE(available_cores(), 1); }

}  // namespace
}  // namespace heddle
