// Children of fork(), for tests: a hang or a signal is a failure like any other.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>

namespace heddle {

class Child {
 public:
  // Runs `body` in a child; it ends with whether that returned true.
  template <class F>
  explicit Child(F&& body) : process_(::fork()) {
    if (process_ != 0) return;
    ::alarm(kSeconds);
    bool right = false;
    try {
      right = body();
    } catch (const std::exception& error) {
      ::dprintf(2, "in the child: %s\n", error.what());
    }
    ::_exit(right ? 0 : 1);
  }
  // Empty if all was well.
  std::string wait() const {
    int status = 0;
    if (::waitpid(process_, &status, 0) != process_) return "there is no child";
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return "the child hangs";
    if (WIFSIGNALED(status)) return "the child died of signal " + std::to_string(WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? "" : "the child says no";
  }
  pid_t process() const { return process_; }

 private:
  static constexpr unsigned kSeconds = 30;
  pid_t process_;
};

template <class F>
std::string in_child(F&& body) {
  return Child(body).wait();
}

}  // namespace heddle
