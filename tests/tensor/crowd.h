// Threads that watch while another one works.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "helpers.h"

namespace heddle::testing {

// Does `work` on this thread, and meanwhile each of `others` again and again on a thread of its own, at least once.
// They throw what they find wrong. Gives the first such text, empty if there is none.
inline std::string crowd(const std::function<void()>& work, const std::vector<std::function<void()>>& others) {
  std::atomic<bool> stop{false};
  std::atomic<size_t> begun{0};
  std::mutex lock;
  std::string wrong;
  auto guarded = [&](const std::function<void()>& body) {
    try {
      body();
    } catch (const std::exception& error) {
      std::lock_guard guard(lock);
      if (wrong.empty()) wrong = error.what();
      stop = true;
    }
  };
  std::vector<std::thread> threads;
  for (const auto& body : others)
    threads.emplace_back([&] {
      bool first = true;
      do {
        guarded(body);
        if (first) ++begun;
        first = false;
      } while (!stop);
    });
  while (begun < others.size()) std::this_thread::yield();
  guarded(work);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

// Calls the body again and again, long enough for threads that take turns on few cores. Gives how often.
inline int again_and_again(const std::function<void()>& body, double seconds = 0.3) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int times = 0;
  for (; std::chrono::steady_clock::now() < end; ++times) body();
  return times;
}

// The number that all elements are. Throws if they are not one.
inline double only_value(const std::vector<double>& elements, const char* what = "a tensor") {
  for (double each : elements)
    if (each != elements.at(0))
      throw std::runtime_error(std::string(what) + " is torn: it holds " + std::to_string(elements[0]) + " and " +
                               std::to_string(each));
  return elements.at(0);
}
inline double only_value(const Tensor& x, const char* what = "a tensor") { return only_value(doubles(x), what); }

// Throws unless the values of a tensor that only grows do so.
class Growing {
 public:
  void see(double value) {
    if (value < last_) throw std::runtime_error("after " + std::to_string(last_) + " came " + std::to_string(value));
    last_ = value;
  }

 private:
  double last_ = 0;
};

}  // namespace heddle::testing
