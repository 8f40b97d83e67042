// fork() while other threads work.
//
// A child of fork() has one thread: the one that called it. Whatever the others had begun is never finished there, and
// a lock that one of them held is never given back. So fork() waits until no other thread is inside a *section*. Every
// lock of the library is a section (base/lock.h), and so is every piece of work that must be whole in a child: a run of
// a plan, a compilation, a file being written. Sections never run code of users, so they end. While a fork waits, no
// thread begins a new section.
//
// Entering costs a few nanoseconds; inside of another section, one.
#pragma once

#include <atomic>
#include <cstdint>

namespace heddle {

namespace fork_guard {

// Of one thread. Read by a thread that forks.
struct alignas(64) Sections {
  std::atomic<uint32_t> depth{0};
  std::atomic<bool> used{true};
  bool listed = true;  // false: never waited for
  Sections* next = nullptr;
};

extern constinit thread_local Sections* mine __attribute__((tls_model("initial-exec")));
extern constinit std::atomic<uint32_t> pending;  // 1 while a thread waits for all others, and forks

Sections* join();
void wait_for_fork(Sections& sections);

inline Sections& sections() { return mine ? *mine : *join(); }

// For a lock that lets other threads see what was written before it is taken. Returns whether the caller has to ask for
// `pending` then, and to give the lock back if a fork waits.
inline bool begin() {
  Sections& own = sections();
  uint32_t depth = own.depth.load(std::memory_order_relaxed);
  own.depth.store(depth + 1, std::memory_order_relaxed);
  return depth == 0;
}

inline void enter() {
  Sections& own = sections();
  uint32_t depth = own.depth.load(std::memory_order_relaxed);
  if (depth > 0) return own.depth.store(depth + 1, std::memory_order_relaxed);
  own.depth.store(1, std::memory_order_seq_cst);
  if (pending.load(std::memory_order_seq_cst) != 0) wait_for_fork(own);
}

inline void leave() {
  Sections& own = *mine;
  own.depth.store(own.depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

}  // namespace fork_guard

// A section, from here to the end of the scope.
class NoFork {
 public:
  NoFork() { fork_guard::enter(); }
  ~NoFork() { fork_guard::leave(); }
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

// Said first by a thread for which another one waits inside of a section: fork() waits for that one only.
void begin_helper_thread();

// How many forks lie between the first process and this one.
uint32_t fork_generation();

// Called by the thread that forks, while no other is inside of a section. Registered once, when the program starts.
void before_fork(void (*action)());
void after_fork_in_child(void (*action)());

}  // namespace heddle
