#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "base/config.h"
#include "base/error.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Log::kCount)> kNames = {"graph",  "fuse", "schedule", "tile",
                                                                                   "thread", "llvm", "asm",      "run"};

struct Topics {
  std::array<std::atomic<bool>, kNames.size()> on{};

  Topics() {
    std::string_view rest = config().log;
    while (!rest.empty()) {
      size_t comma = rest.find(',');
      enable(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    }
  }
  void enable(std::string_view name) {
    bool known = false;
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (name != kNames[i] && name != "all") continue;
      on[i] = true;
      known = true;
    }
    if (!known)
      throw ValueError(text("HEDDLE_LOG: no topic is called '", name,
                            "'; there are graph, fuse, schedule, tile, thread, llvm, asm, run and all"));
  }
};

Topics& topics() {
  static Topics instance;
  return instance;
}

std::mutex& output_lock() {
  static std::mutex lock;
  return lock;
}

}  // namespace

bool log_enabled(Log topic) { return topics().on[static_cast<size_t>(topic)].load(std::memory_order_relaxed); }

void log_enable(Log topic, bool on) { topics().on[static_cast<size_t>(topic)] = on; }

void log_write(Log topic, std::string_view message) {
  std::string_view name = kNames[static_cast<size_t>(topic)];
  bool newline = !message.empty() && message.back() == '\n';
  std::lock_guard guard(output_lock());
  std::fprintf(stderr, "[heddle %.*s] %.*s%s", static_cast<int>(name.size()), name.data(),
               static_cast<int>(message.size()), message.data(), newline ? "" : "\n");
}

void warn(std::string_view message) {
  std::lock_guard guard(output_lock());
  std::fprintf(stderr, "[heddle warning] %.*s\n", static_cast<int>(message.size()), message.data());
}

}  // namespace heddle
