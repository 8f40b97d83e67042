#include "base/interrupt.h"

namespace heddle {
namespace interrupt {

constinit std::atomic<InterruptCheck> check{nullptr};

namespace {
constinit thread_local int held_off = 0;  // Uninterrupted that live
}

bool ask() {
  const InterruptCheck now = check.load(std::memory_order_acquire);
  return held_off == 0 && now && now();
}

void stop() { throw Interrupted("interrupted"); }

}  // namespace interrupt

InterruptCheck set_interrupt_check(InterruptCheck check) { return interrupt::check.exchange(check); }

Uninterrupted::Uninterrupted() { ++interrupt::held_off; }
Uninterrupted::~Uninterrupted() { --interrupt::held_off; }

}  // namespace heddle
