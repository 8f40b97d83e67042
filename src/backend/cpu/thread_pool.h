// Worker threads that run the parts of one job at a time. Handing out a job and waiting for it costs a fraction of a
// microsecond while the workers are still spinning from the last one; after a while without work they sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "base/lock.h"

namespace heddle {

class ThreadPool {
 public:
  // The calling thread is one of `threads`.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const { return threads_; }
  // False when waking the workers would cost a trip through the kernel.
  bool awake() const;
  // Wakes sleeping workers without giving them anything to do: work is expected soon.
  void nudge();
  // Ends the workers. Later jobs run on their calling threads alone. In a child of fork() there is nothing to end.
  void stop();

  using Task = void (*)(void* context, int part);

  // The right to use the workers. One turn exists at a time; a second one waits. Inside a running part a turn is
  // empty and its jobs run on the calling thread, so nesting cannot deadlock.
  class Turn {
   public:
    explicit Turn(ThreadPool& pool);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Calls task(context, part) for every part in [0, parts). Part p belongs to thread p % threads, 0 being the caller,
    // which also does what others have not begun when it is done with its own. Returns when all parts are done, and
    // throws the first exception that one of them threw.
    void run(int parts, Task task, void* context);

   private:
    ThreadPool& pool_;
    bool owns_;
  };

 private:
  struct Worker;

  void work(int number);
  void run_parts(int first);
  static bool take_back(Worker& worker);
  void join(Worker& worker);
  void start();
  void forget_parent();
  void start_in_child();

  const int threads_;
  const int64_t spin_nanoseconds_;
  Mutex turn_;
  int helpers_ = 0;               // workers in existence
  std::atomic<Worker*> workers_;  // owned
  uint32_t process_;              // fork_generation() when they were started: a child has none of its parent's threads
  // The job, written by the owner of the turn while the workers that will read it are idle.
  Task task_ = nullptr;
  void* context_ = nullptr;
  int parts_ = 0, stride_ = 1;
};

// Cores this process may run on.
int available_cores();

}  // namespace heddle
