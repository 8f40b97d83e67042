// Ctrl-C while something is compiled or run.
#pragma once

namespace heddle::python {

// From Unlocked, with the interpreter's lock: what happens until end_unlocked() may be interrupted. Throws what
// Python's handler raises for a Ctrl-C that Python has not looked at yet.
void begin_unlocked();
void end_unlocked() noexcept;

// Sets KeyboardInterrupt, or what the handler raises.
void set_interrupted();

}  // namespace heddle::python
