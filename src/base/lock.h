// The locks of the library. Whoever holds one is inside of a section (base/fork.h), so fork() finds them all free.
#pragma once

#include <atomic>
#include <mutex>

#include "base/fork.h"
#include "base/relax.h"

namespace heddle {

class Mutex {
 public:
  void lock() {
    fork_guard::enter();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    fork_guard::leave();
  }

 private:
  std::mutex mutex_;
};

// For a few instructions.
class SpinLock {
 public:
  void lock() {
    for (;;) {
      const bool outermost = fork_guard::begin();
      // Sequentially consistent: a thread that forks sees the section, or this one sees the fork.
      while (flag_.exchange(true, std::memory_order_seq_cst))
        while (flag_.load(std::memory_order_relaxed)) relax();
      if (!outermost || fork_guard::pending.load(std::memory_order_seq_cst) == 0) return;
      unlock();
      fork_guard::pending.wait(1, std::memory_order_acquire);
    }
  }
  void unlock() {
    flag_.store(false, std::memory_order_release);
    fork_guard::leave();
  }

 private:
  std::atomic<bool> flag_{false};
};

}  // namespace heddle
