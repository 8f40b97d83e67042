// What fuzzing programs share: seeds one after the other in several threads, progress, seeds that hang, and fatal
// signals, with the command that repeats what happened.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace heddle::fuzz {

struct DriverOptions {
  std::string program;
  uint64_t begin = 0, end = UINT64_MAX;
  double seconds = 0;
  int threads = 1;
  bool survey = false, verbose = false;
  bool keep_plans = false;  // programs are so alike that plans are wanted again
};

// Prints the device that programs run on, or that this machine lacks it: then there is nothing to do.
bool has_device();
constexpr int kSkipped = 77;  // the exit status for that

// The arguments of a program, one after the other.
class CommandLine {
 public:
  CommandLine(int count, char** arguments, std::string usage)
      : count_(count), arguments_(arguments), usage_(std::move(usage)) {}
  bool next();  // to the next option
  const std::string& option() const { return option_; }
  std::string value();
  uint64_t number();
  std::vector<std::string> list();  // with commas
  [[noreturn]] void fail(const std::string& problem) const;
  // --seeds, --seconds, --threads, --survey and --verbose. False: another option.
  bool common(DriverOptions& options);
  // When all have been read.
  void finish(DriverOptions& options) const;

 private:
  int count_, at_ = 0;
  char** arguments_;
  std::string usage_, option_;
  bool seeds_ = false;
};

class Driver {
 public:
  explicit Driver(const DriverOptions& options);
  // Calls `seed` with every seed. `finish` is called at the end, and may report too. Gives the program's exit status.
  int run(const std::function<void(uint64_t)>& seed, const std::function<void()>& finish = {});

  // The calling thread works on what `command` repeats, or on nothing (an empty one). For signals and seeds that hang.
  void now(const std::string& command);
  void print(const std::string& line);
  // Counts a failure, and prints what `describe` gives: of the first one only, except in a survey.
  void fail(const std::function<std::string()>& describe);
  bool failed() const { return failures_ > 0; }

 private:
  struct Worker {
    char command[1024] = "";
    std::atomic<bool> busy{false};
    std::atomic<std::chrono::steady_clock::rep> since{0};
  };
  static void on_signal(int signal);
  double elapsed() const;
  bool over() const;
  void work(const std::function<void(uint64_t)>& seed);
  void watch();

  static thread_local Worker* worker_;
  static Driver* current_;
  const DriverOptions options_;
  const std::chrono::steady_clock::time_point start_;
  std::atomic<uint64_t> next_, done_{0}, failures_{0};
  std::vector<Worker> workers_;
  std::atomic<int> running_{0};
  std::mutex output_;
  std::shared_mutex plans_;
};

}  // namespace heddle::fuzz
