// Python notes a signal and runs its handler when the interpreter goes on, which here is when a call returns. For
// Ctrl-C, where nobody has given Python another handler, that is too late: a handler of our own stands before Python's
// and says so to computations of the first thread, which then end. A handler that somebody has given to signal.signal()
// is left alone: it may want the call to come to its end.
#include "python/interrupt.h"

#include <heddle/interrupt.h>
#include <nanobind/nanobind.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "python/bind.h"

namespace nb = nanobind;

namespace heddle::python {
namespace {

constinit std::atomic<bool> pressed{false};
constinit std::atomic<void (*)(int)> pythons{nullptr};  // the handler that Python has installed
constinit int unlocked = 0;                             // of the first thread
PyObject *get_handler, *usual_handler;                  // signal.getsignal, signal.default_int_handler

// Handlers of Python run on the first thread, and nowhere else.
bool is_first_thread() {
  thread_local const bool first = syscall(SYS_gettid) == getpid();
  return first;
}

void note(int number) {
  pressed.store(true, std::memory_order_relaxed);
  if (auto handler = pythons.load(std::memory_order_relaxed)) handler(number);
}

bool asked_to_stop() { return pressed.load(std::memory_order_relaxed) && is_first_thread() && unlocked > 0; }

// Puts note() before Python's handler, if that is the usual one. Asked whenever a computation begins: somebody may have
// given Python another handler, and taken it back. Python is asked only while note() does not stand there.
void install() {
  struct sigaction now{};
  if (sigaction(SIGINT, nullptr, &now) != 0 || now.sa_handler == note) return;
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
  nb::object handler = nb::steal(PyObject_CallFunction(get_handler, "i", SIGINT));
  if (!handler.is_valid()) PyErr_Clear();
  if (handler.ptr() != usual_handler) return;
  pythons.store(now.sa_handler, std::memory_order_relaxed);
  now.sa_handler = note;
  sigaction(SIGINT, &now, nullptr);
}

}  // namespace

void begin_unlocked() {
  if (!is_first_thread()) return;
  if (pressed.load(std::memory_order_relaxed)) [[unlikely]] {
    pressed.store(false, std::memory_order_relaxed);
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
  }
  install();
  ++unlocked;
}

void end_unlocked() noexcept {
  if (is_first_thread()) --unlocked;
}

void set_interrupted() {
  pressed.store(false, std::memory_order_relaxed);
  if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
}

void bind_interrupt(nb::module_&) {
  nb::module_ signals = nb::module_::import_("_signal");
  get_handler = nb::object(signals.attr("getsignal")).release().ptr();
  usual_handler = nb::object(signals.attr("default_int_handler")).release().ptr();
  if (is_first_thread()) install();
  set_interrupt_check(asked_to_stop);
}

}  // namespace heddle::python
