#include "backend/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace heddle {
namespace {

// What a worker is doing. Each worker has one word, which is both its mailbox and its answer: the owner of the turn
// changes it to Go, the worker to Running when it begins and back to Idle when done. A worker that has not begun when
// the owner is ready with its own parts (it sleeps, or its core is busy) loses the job again: the owner does it.
enum State : uint32_t {
  kIdle,    // spinning, waiting for Go
  kAsleep,  // waiting in the kernel
  kGo,
  kRunning,
  kAwaited,  // as Running, and the owner of the turn sleeps until it is done
  kStop,
};

constexpr int64_t kSpin = 50'000;            // longer than the usual gap between two launches of a busy program
constexpr int64_t kSpinOvercommitted = 500;  // with more threads than cores a spinning thread only keeps others away

// Spins until the word leaves `from` or the time is over; returns the last value seen.
uint32_t spin_while(const std::atomic<uint32_t>& word, uint32_t from, int64_t nanoseconds) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start;
  for (int round = 0;; ++round) {
    for (int i = 0; i < 16; ++i) {
      uint32_t now = word.load(std::memory_order_acquire);
      if (now != from) return now;
      relax();
    }
    if (round == 0)
      start = Clock::now();
    else if ((Clock::now() - start) / std::chrono::nanoseconds(1) > nanoseconds)
      return word.load(std::memory_order_acquire);
  }
}

// True in workers, and in a thread that owns a turn.
thread_local bool inside_pool = false;

}  // namespace

struct alignas(64) ThreadPool::Worker {
  std::atomic<uint32_t> state{kIdle};
  std::exception_ptr error;
  std::thread thread;
  Worker* before = nullptr;  // of a parent process
};

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int threads)
    : threads_(std::max(1, threads)),
      spin_nanoseconds_(threads <= available_cores() ? kSpin : kSpinOvercommitted),
      workers_(new Worker[static_cast<size_t>(threads_)]),
      process_(fork_generation()) {
  try {
    start();
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
  delete[] workers_.load(std::memory_order_relaxed);
}

void ThreadPool::start() {
  for (; helpers_ < threads_ - 1; ++helpers_)
    workers_.load(std::memory_order_acquire)[helpers_].thread =
        std::thread([this, number = helpers_] { work(number); });
}

// The parent's threads do not exist here, but their std::threads do not know it: they are kept as they are.
void ThreadPool::forget_parent() {
  static Worker* forgotten = nullptr;
  helpers_ = 0;
  std::unique_ptr<Worker[]> fresh(new Worker[static_cast<size_t>(threads_)]);
  Worker* old = workers_.load(std::memory_order_relaxed);
  fresh[0].before = std::exchange(forgotten, old);
  workers_.store(fresh.release(), std::memory_order_release);  // others may be looking who is awake
  process_ = fork_generation();
}

void ThreadPool::start_in_child() {
  try {
    forget_parent();
    start();
  } catch (const std::exception&) {}  // fewer threads, then
}

void ThreadPool::stop() {
  std::lock_guard guard(turn_);
  if (process_ != fork_generation()) forget_parent();
  for (int i = 0; i < helpers_; ++i) {
    workers_.load(std::memory_order_acquire)[i].state.exchange(kStop, std::memory_order_acq_rel);
    workers_.load(std::memory_order_acquire)[i].state.notify_one();
  }
  for (int i = 0; i < helpers_; ++i) workers_.load(std::memory_order_acquire)[i].thread.join();
  helpers_ = 0;
}

bool ThreadPool::awake() const {
  return threads_ == 1 || workers_.load(std::memory_order_acquire)[0].state.load(std::memory_order_relaxed) != kAsleep;
}

void ThreadPool::nudge() {
  for (int i = 0; i < threads_ - 1; ++i) {
    uint32_t expected = kAsleep;
    if (workers_.load(std::memory_order_acquire)[i].state.compare_exchange_strong(expected, kIdle,
                                                                                  std::memory_order_acq_rel))
      workers_.load(std::memory_order_acquire)[i].state.notify_one();
  }
}

void ThreadPool::run_parts(int first) {
  for (int part = first; part < parts_; part += stride_) task_(context_, part);
}

void ThreadPool::work(int number) {
  begin_helper_thread();
  inside_pool = true;
  Worker& me = workers_.load(std::memory_order_acquire)[number];
  for (;;) {
    uint32_t now = spin_while(me.state, kIdle, spin_nanoseconds_);
    if (now == kIdle && me.state.compare_exchange_strong(now, kAsleep, std::memory_order_acq_rel)) now = kAsleep;
    if (now == kAsleep) {
      me.state.wait(kAsleep, std::memory_order_acquire);
      continue;  // to Go, to Stop, or nudged back to Idle
    }
    if (now == kStop) return;
    if (!me.state.compare_exchange_strong(now, kRunning, std::memory_order_acq_rel)) continue;  // taken back
    try {
      run_parts(number + 1);
    } catch (...) {
      me.error = std::current_exception();
    }
    if (me.state.exchange(kIdle, std::memory_order_acq_rel) == kAwaited) me.state.notify_one();
  }
}

bool ThreadPool::take_back(Worker& worker) {
  uint32_t expected = kGo;
  return worker.state.compare_exchange_strong(expected, kIdle, std::memory_order_acq_rel);
}

void ThreadPool::join(Worker& worker) {
  uint32_t now = spin_while(worker.state, kRunning, spin_nanoseconds_);
  if (now == kRunning && worker.state.compare_exchange_strong(now, kAwaited, std::memory_order_acq_rel))
    worker.state.wait(kAwaited, std::memory_order_acquire);
}

ThreadPool::Turn::Turn(ThreadPool& pool) : pool_(pool), owns_(!inside_pool) {
  if (!owns_) return;
  pool_.turn_.lock();
  inside_pool = true;
  if (pool_.process_ != fork_generation()) pool_.start_in_child();
}

ThreadPool::Turn::~Turn() {
  if (!owns_) return;
  inside_pool = false;
  pool_.turn_.unlock();
}

void ThreadPool::Turn::run(int parts, Task task, void* context) {
  int helpers = owns_ ? std::min(parts - 1, pool_.helpers_) : 0;
  if (helpers <= 0) {
    for (int part = 0; part < parts; ++part) task(context, part);
    return;
  }
  pool_.task_ = task;
  pool_.context_ = context;
  pool_.parts_ = parts;
  pool_.stride_ = helpers + 1;
  for (int i = 0; i < helpers; ++i)
    if (pool_.workers_.load(std::memory_order_acquire)[i].state.exchange(kGo, std::memory_order_acq_rel) == kAsleep)
      pool_.workers_.load(std::memory_order_acquire)[i].state.notify_one();
  std::exception_ptr error;
  auto run_here = [&](int first) {
    try {
      pool_.run_parts(first);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  };
  run_here(0);
  for (int i = 0; i < helpers; ++i) {
    Worker& worker = pool_.workers_.load(std::memory_order_acquire)[i];
    if (pool_.take_back(worker)) {
      run_here(i + 1);
      continue;
    }
    pool_.join(worker);
    if (!error) error = worker.error;
    worker.error = nullptr;
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace heddle
