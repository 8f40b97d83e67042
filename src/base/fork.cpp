#include "base/fork.h"

#include <pthread.h>

#include <chrono>
#include <mutex>
#include <new>
#include <thread>

#include "base/error.h"

namespace heddle {
namespace fork_guard {

constinit thread_local Sections* mine = nullptr;
constinit std::atomic<uint32_t> pending{0};

namespace {

// Those of all threads, and of threads that have ended: never freed, but used again.
constinit std::atomic<Sections*> all{nullptr};
constinit std::atomic<uint32_t> generation{0};
std::mutex one_at_a_time;  // of two threads that fork

// Few, and known before main().
struct Actions {
  static constexpr int kMost = 16;
  void (*list[kMost])() = {};
  int count = 0;

  void add(void (*action)()) {
    HD_ASSERT(count < kMost, "too many actions at a fork");
    list[count++] = action;
  }
  void run() const {
    for (int i = 0; i < count; ++i) list[i]();
  }
};
constinit Actions before, in_child;

void end_thread(void* gone) {
  auto* sections = static_cast<Sections*>(gone);
  mine = nullptr;
  if (sections->listed)
    sections->used.store(false, std::memory_order_release);
  else
    delete sections;
}

void prepare() {
  one_at_a_time.lock();
  Sections& own = sections();
  own.depth.fetch_add(1, std::memory_order_relaxed);  // what follows is not to wait for itself
  pending.store(1, std::memory_order_seq_cst);
  for (const Sections* each = all.load(std::memory_order_acquire); each; each = each->next) {
    for (int round = 0; each != &own && each->depth.load(std::memory_order_seq_cst) != 0; ++round) {
      if (round < 100)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  before.run();
}

void open_again() {
  mine->depth.fetch_sub(1, std::memory_order_release);
  pending.store(0, std::memory_order_seq_cst);
  pending.notify_all();
  one_at_a_time.unlock();
}

// The other threads are gone, in whatever they were.
void begin_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (Sections* each = all.load(std::memory_order_relaxed); each; each = each->next) {
    if (each == mine) continue;
    each->depth.store(0, std::memory_order_relaxed);
    each->used.store(false, std::memory_order_relaxed);
  }
  open_again();
  in_child.run();
}

// Run after all other locals of a thread are destroyed, which may still enter sections.
pthread_key_t at_thread_end() {
  static const pthread_key_t key = [] {
    pthread_key_t made = 0;
    pthread_key_create(&made, end_thread);
    return made;
  }();
  return key;
}

// While the program starts, and has one thread.
[[maybe_unused]] const int registered = [] {
  at_thread_end();
  return pthread_atfork(prepare, open_again, begin_child);
}();

}  // namespace

Sections* join() {
  for (Sections* each = all.load(std::memory_order_acquire); each && !mine; each = each->next) {
    bool expected = false;
    if (each->used.compare_exchange_strong(expected, true, std::memory_order_acq_rel)) mine = each;
  }
  if (!mine) {
    auto* fresh = new Sections;
    fresh->next = all.load(std::memory_order_relaxed);
    while (!all.compare_exchange_weak(fresh->next, fresh, std::memory_order_acq_rel)) {}
    mine = fresh;
  }
  pthread_setspecific(at_thread_end(), mine);
  return mine;
}

void wait_for_fork(Sections& sections) {
  do {
    sections.depth.store(0, std::memory_order_release);
    pending.wait(1, std::memory_order_acquire);
    sections.depth.store(1, std::memory_order_seq_cst);
  } while (pending.load(std::memory_order_seq_cst) != 0);
}

}  // namespace fork_guard

void begin_helper_thread() {
  using namespace fork_guard;
  mine = new Sections;
  mine->listed = false;
  mine->depth = 1;
  pthread_setspecific(at_thread_end(), mine);
}

uint32_t fork_generation() { return fork_guard::generation.load(std::memory_order_relaxed); }

void before_fork(void (*action)()) { fork_guard::before.add(action); }
void after_fork_in_child(void (*action)()) { fork_guard::in_child.add(action); }

}  // namespace heddle
