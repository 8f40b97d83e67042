#include "tools/process.h"

#include <fcntl.h>
#include <heddle/error.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace heddle::tools {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

[[noreturn]] void fail(const char* what, int code) {
  throw Error(std::string("cannot run ") + kSelf + " again: " + what + ": " + std::strerror(code));
}

}  // namespace

int run_self(const std::vector<std::string>& arguments, const std::function<void(const std::string&)>& line) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe", errno);
  std::string name = "heddle";
  std::vector<std::string> texts = arguments;
  std::vector<char*> argv{name.data()};
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  int status = posix_spawn(&child, kSelf, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (status != 0) {
    close(ends[0]);
    fail("spawn", status);
  }

  std::FILE* output = fdopen(ends[0], "r");
  char* buffer = nullptr;
  size_t capacity = 0;
  for (ssize_t length; (length = getline(&buffer, &capacity, output)) > 0;) {
    if (buffer[length - 1] == '\n') --length;
    line(std::string(buffer, static_cast<size_t>(length)));
  }
  std::free(buffer);
  std::fclose(output);
  int code = 0;
  while (waitpid(child, &code, 0) < 0)
    if (errno != EINTR) fail("wait", errno);
  return WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}

}  // namespace heddle::tools
