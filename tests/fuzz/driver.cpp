#include "fuzz/driver.h"

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <thread>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/plan.h"

namespace heddle::fuzz {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLongestSeed = 120;  // seconds before we believe that it hangs

}  // namespace

// ---- arguments ----

void CommandLine::fail(const std::string& problem) const {
  std::cerr << problem << "\nusage: " << usage_ << "\n";
  std::exit(2);
}

bool has_device() {
  try {
    std::cout << "device " << device().name() << ", target " << device().target().name << std::endl;
    return true;
  } catch (const Error& error) {
    std::cout << "skipped: " << error.what() << std::endl;
    return false;
  }
}

bool CommandLine::next() {
  if (++at_ >= count_) return false;
  option_ = arguments_[at_];
  return true;
}

std::string CommandLine::value() {
  if (++at_ >= count_) fail(option_ + " needs a value");
  return arguments_[at_];
}

static bool read_number(const std::string& text, uint64_t& number) {
  size_t used = 0;
  try {
    number = std::stoull(text, &used);
  } catch (const std::exception&) {}
  return !text.empty() && used == text.size();
}

uint64_t CommandLine::number() {
  std::string text = value();
  uint64_t result = 0;
  if (!read_number(text, result)) fail(option_ + " needs a number, not '" + text + "'");
  return result;
}

std::vector<std::string> CommandLine::list() {
  std::string all = value();
  std::vector<std::string> result;
  for (size_t begin = 0; begin <= all.size();) {
    size_t end = std::min(all.find(',', begin), all.size());
    result.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

bool CommandLine::common(DriverOptions& options) {
  if (option_ == "--seconds") {
    options.seconds = static_cast<double>(number());
  } else if (option_ == "--seeds") {
    std::string range = value();
    size_t colon = range.find(':');
    bool good = read_number(range.substr(0, colon), options.begin);
    options.end = options.begin + 1;
    if (colon != std::string::npos) good &= read_number(range.substr(colon + 1), options.end);
    if (!good) fail("--seeds needs BEGIN:END, not '" + range + "'");
    seeds_ = true;
  } else if (option_ == "--threads") {
    options.threads = std::max(1, static_cast<int>(number()));
  } else if (option_ == "--survey") {
    options.survey = true;
  } else if (option_ == "--verbose") {
    options.verbose = true;
  } else {
    return false;
  }
  return true;
}

void CommandLine::finish(DriverOptions& options) const {
  options.program = arguments_[0];
  if (!seeds_ && options.seconds == 0) fail("give --seeds or --seconds");
  // Other seeds every time, far from the fixed ones.
  if (!seeds_) options.begin = 1'000'000'000 + static_cast<uint64_t>(std::time(nullptr)) * 10'000;
}

// ---- the run ----

thread_local Driver::Worker* Driver::worker_ = nullptr;
Driver* Driver::current_ = nullptr;

Driver::Driver(const DriverOptions& options)
    : options_(options), start_(Clock::now()), next_(options.begin), workers_(static_cast<size_t>(options.threads)) {
  current_ = this;
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, on_signal);
}

void Driver::on_signal(int signal) {
  // A thread that runs kernels may work for any of ours.
  for (const Worker& worker : current_->workers_) {
    if (!worker.busy || (worker_ && worker_ != &worker)) continue;
    char line[1200];
    int length = std::snprintf(line, sizeof line, "\nsignal %d; repeat with\n  %s\n", signal, worker.command);
    if (length > 0 && write(2, line, std::min<size_t>(static_cast<size_t>(length), sizeof line))) {}
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Driver::now(const std::string& command) {
  if (!worker_) return;
  worker_->busy = false;
  if (command.empty()) return;
  std::strncpy(worker_->command, command.c_str(), sizeof worker_->command - 1);
  worker_->since = Clock::now().time_since_epoch().count();
  worker_->busy = true;
  if (options_.verbose) print(command);
}

void Driver::print(const std::string& line) {
  std::lock_guard guard(output_);
  std::cout << line << std::endl;
}

void Driver::fail(const std::function<std::string()>& describe) {
  // Describing it means to run many smaller ones.
  if (worker_) worker_->since = (Clock::now() + std::chrono::hours(1)).time_since_epoch().count();
  if (failures_++ == 0 || options_.survey) print(describe());
}

double Driver::elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

bool Driver::over() const {
  return (failed() && !options_.survey) || (options_.seconds > 0 && elapsed() > options_.seconds);
}

int Driver::run(const std::function<void(uint64_t)>& seed, const std::function<void()>& finish) {
  std::vector<std::thread> threads;
  running_ = static_cast<int>(workers_.size());
  for (Worker& worker : workers_)
    threads.emplace_back([&] {
      worker_ = &worker;
      work(seed);
    });
  watch();
  for (std::thread& thread : threads) thread.join();
  if (finish) finish();
  std::cout << done_ << " seeds in " << elapsed() << " s, ";
  if (failed())
    std::cout << failures_ << " failures" << std::endl;
  else
    std::cout << "no failure" << std::endl;
  return failed() ? 1 : 0;
}

void Driver::work(const std::function<void(uint64_t)>& seed) {
  while (!over()) {
    uint64_t number = next_++;
    if (number >= options_.end) break;
    {
      std::shared_lock guard(plans_);  // what belongs to one seed may share a plan
      seed(number);
      now("");
    }
    // Kernels of random programs are never wanted again.
    if (++done_ % 128 == 0 && !options_.keep_plans) {
      std::lock_guard guard(plans_);
      clear_plan_cache();
    }
  }
  --running_;
}

// Shows progress, and ends the program when a seed hangs.
void Driver::watch() {
  double shown = 0;
  while (running_ > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const Worker& worker : workers_) {
      Clock::duration since(Clock::now().time_since_epoch().count() - worker.since.load());
      if (!worker.busy || since < std::chrono::seconds(kLongestSeed)) continue;
      std::cout << "FAILED: this does not end:\n  " << worker.command << std::endl;
      std::_Exit(1);
    }
    if (elapsed() - shown < 10) continue;
    shown = elapsed();
    std::lock_guard guard(output_);
    std::cout << done_ << " seeds (now " << next_ << ") in " << shown << " s" << std::endl;
  }
}

}  // namespace heddle::fuzz
