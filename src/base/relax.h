// For loops that wait for another thread.
#pragma once

#include <atomic>

namespace heddle {

// Tells the core that nothing happens here: another thread of it, or the other threads' memory, may go first.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace heddle
