// Where work can be stopped: include/heddle/interrupt.h says who asks for that.
#pragma once

#include <heddle/interrupt.h>

#include <atomic>

namespace heddle {

namespace interrupt {
extern constinit std::atomic<InterruptCheck> check;
bool ask();
[[noreturn]] void stop();
}  // namespace interrupt

// Whether somebody may be asked: the rest costs one load where nobody is.
inline bool may_be_interrupted() { return interrupt::check.load(std::memory_order_relaxed) != nullptr; }
inline bool is_interrupted() { return may_be_interrupted() && interrupt::ask(); }

// Throws Interrupted. No short lock may be held, and nothing may be half done that somebody could see.
inline void interruption_point() {
  if (is_interrupted()) [[unlikely]]
    interrupt::stop();
}

// While one lives, the thread that made it is not stopped.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
};

}  // namespace heddle
