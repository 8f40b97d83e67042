#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "base/config.h"
#include "base/error.h"
#include "base/lock.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Log::kCount)> kNames = {
    "graph", "fuse", "remarks", "schedule", "tile", "thread", "llvm", "asm", "run"};

// Whether each topic is on. The list of the environment is read at first use.
constinit std::array<std::atomic<bool>, kNames.size()> enabled{};
constinit std::atomic<bool> list_read{false};

// Calls f for the topics of a list, with kNames.size() for what is none.
template <class F>
void each_topic(std::string_view list, F f) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    bool known = false;
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (name != kNames[i] && name != "all") continue;
      f(i, name);
      known = true;
    }
    if (!known) f(kNames.size(), name);
    list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
  }
}

std::atomic<bool>& topic_switch(Log topic) {
  if (!list_read.load(std::memory_order_acquire)) {
    static Mutex reading;
    std::lock_guard guard(reading);
    if (!list_read.load(std::memory_order_relaxed))
      each_topic(config().log, [](size_t i, std::string_view) {
        if (i < kNames.size()) enabled[i] = true;
      });
    list_read.store(true, std::memory_order_release);
  }
  return enabled[static_cast<size_t>(topic)];
}

Mutex& output_lock() {
  static Mutex lock;
  return lock;
}

}  // namespace

std::string unknown_topics(std::string_view list) {
  std::string unknown;
  each_topic(list, [&](size_t i, std::string_view name) {
    if (i == kNames.size()) unknown += text(unknown.empty() ? "'" : ", '", name, "'");
  });
  if (unknown.empty()) return "";
  std::string known;
  for (std::string_view name : kNames) known += text(name, ", ");
  return text("has no topic ", unknown, "; there are ", known, "and all");
}

bool log_enabled(Log topic) { return topic_switch(topic).load(std::memory_order_relaxed); }

void log_enable(Log topic, bool on) { topic_switch(topic) = on; }

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
