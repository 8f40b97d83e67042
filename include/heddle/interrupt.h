// Stopping what takes long.
#pragma once

#include <heddle/error.h>

namespace heddle {

// What a computation or a compilation ends with that was asked to stop. Tensors have the values that they had before:
// a run that has begun to write results over what it reads comes to its end first.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// Says whether the thread that calls it is to stop. It is asked very often, so it should do little more than look at a
// flag, and is to say so until Interrupted was caught:
//
//   std::atomic<bool> stop = false;
//   hd::set_interrupt_check([] { return stop.load(std::memory_order_relaxed); });
//   std::signal(SIGINT, [](int) { stop = true; });
//
// Each thread that computes asks before a kernel is compiled or launched, between rounds of a loop, and between blocks
// of a kernel that takes long on the CPU. Null: nobody is asked. Returns the check before.
using InterruptCheck = bool (*)();
InterruptCheck set_interrupt_check(InterruptCheck check);

}  // namespace heddle
