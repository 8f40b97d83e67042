#include "base/config.h"

#include <heddle/deterministic.h>
#include <heddle/precision.h>
#include <heddle/relaxed.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/modes.h"

namespace heddle {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// A whole number, with an optional K, M or G (powers of 1024) behind it; nothing if it is no such number, or too large.
std::optional<int64_t> parse_number(const std::string& value) {
  int64_t result = 0;
  auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), result);
  std::string suffix = value.substr(static_cast<size_t>(end - value.data()));
  int shift = suffix.empty() ? 0 : suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : -1;
  bool fits = shift >= 0 && result <= (std::numeric_limits<int64_t>::max() >> shift);
  return status == std::errc() && fits ? std::optional(result << shift) : std::nullopt;
}

// Reads the environment. A value that makes no sense is noted, and counts as not set: a program is not to end, nor to
// fail at every call, because of a slip in one of its settings.
class Reader {
 public:
  explicit Reader(Config& config) : config_(config) {}

  int64_t number(const char* name, int64_t low, int64_t high, int64_t otherwise = 0) {
    std::string value = variable(name);
    if (value.empty()) return otherwise;
    std::optional<int64_t> result = parse_number(value);
    if (result && *result >= low && *result <= high) return *result;
    refuse(name, value, text("is not a whole number from ", low, " to ", high));
    return otherwise;
  }

  int64_t bytes(const char* name, int64_t least, const char* least_text) {
    std::string value = variable(name);
    if (value.empty()) return 0;
    std::optional<int64_t> result = parse_number(value);
    if (result && *result >= least) return *result;
    return refuse(name, value,
                  text("should be a whole number of bytes, ", least_text,
                       " or more and below 2^63, with K, M or G behind it if you like"));
  }

  bool flag(const char* name, bool otherwise = false) {
    std::string value = variable(name);
    if (value.empty()) return otherwise;
    if (value == "0" || value == "1") return value == "1";
    refuse(name, value, "should be 0 or 1");
    return otherwise;
  }

  // One of these words, or nothing.
  std::string choice(const char* name, std::initializer_list<const char*> words) {
    std::string value = variable(name), all;
    if (value.empty()) return value;
    for (const char* word : words) {
      if (value == word) return value;
      all += (all.empty() ? "" : " or ") + std::string(word);
    }
    refuse(name, value, "should be " + all);
    return "";
  }

  std::string topics(const char* name) {
    std::string value = variable(name);
    if (std::string problem = unknown_topics(value); !problem.empty()) refuse(name, value, problem);
    return value;
  }

 private:
  int64_t refuse(const char* name, const std::string& value, const std::string& why) {
    config_.problems[name] = text(name, "='", value, "' ", why);
    return 0;
  }

  Config& config_;
};

// The name of a file, or "off" in any of its spellings.
std::string file_or_off(const char* name) {
  std::string value = variable(name);
  return value == "OFF" || value == "0" ? "off" : value;
}

Config read_environment() {
  Config c;
  Reader read(c);
  c.threads = static_cast<int>(read.number("HEDDLE_THREADS", 1, 4096));
  c.device = variable("HEDDLE_DEVICE");
  c.target = read.choice("HEDDLE_TARGET", {"avx512", "avx2", "sse"});
  c.matrix_unit = read.choice("HEDDLE_MATRIX_UNIT", {"warps", "none"});
  c.float32_matmul = read.choice("HEDDLE_FLOAT32_MATMUL", {"tf32", "f32"});
  c.log = read.topics("HEDDLE_LOG");
  c.dump_directory = variable("HEDDLE_DUMP");
  c.memory_limit = read.bytes("HEDDLE_MEMORY_LIMIT", 1, "1");
  c.profile = variable("HEDDLE_PROFILE");
  c.cache = file_or_off("HEDDLE_CACHE");
  c.cache_size = read.bytes("HEDDLE_CACHE_SIZE", 1 << 20, "1M");
  c.tune = static_cast<int>(read.number("HEDDLE_TUNE", 0, 1 << 20));
  c.check_jit = read.flag("HEDDLE_JIT_CHECK");
  c.pack_all = read.flag("HEDDLE_PACK");
  c.check_kernels = read.flag("HEDDLE_CHECK");
  c.fall_back = read.flag("HEDDLE_FALLBACK", true);
  c.all_arguments = read.flag("HEDDLE_ARGUMENTS");
  c.compile_warning = static_cast<int>(read.number("HEDDLE_COMPILE_WARNING", 0, 1 << 30, c.compile_warning));
  c.deterministic = read.flag("HEDDLE_DETERMINISTIC");
  c.relaxed = read.flag("HEDDLE_RELAXED");
  for (const auto& [name, problem] : c.problems) warn(problem + "; going on without");
  return c;
}

// Made of the configuration at first use, without a moment in which a fork() would leave it half made to a child.
template <class T>
class FromConfig {
 public:
  template <class Make>
  T& get(Make make) {
    if (T* known = ready_.load(std::memory_order_acquire)) return *known;
    std::lock_guard guard(lock_);
    if (!ready_.load(std::memory_order_relaxed)) ready_.store(new T(make()), std::memory_order_release);
    return *ready_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<T*> ready_{nullptr};
  Mutex lock_;
};

constinit FromConfig<const Config> the_config;
constinit FromConfig<std::atomic<bool>> tf32_mode, deterministic_mode, relaxed_mode;

std::atomic<bool>& tf32() {
  return tf32_mode.get([] { return config().float32_matmul == "tf32"; });
}
std::atomic<bool>& deterministic() {
  return deterministic_mode.get([] { return config().deterministic; });
}
std::atomic<bool>& relaxed() {
  return relaxed_mode.get([] { return config().relaxed; });
}

}  // namespace

const Config& config() { return the_config.get(read_environment); }

void allow_tf32(bool allowed) { tf32() = allowed; }
bool tf32_allowed() { return tf32().load(std::memory_order_relaxed); }

void set_deterministic(bool wanted) { deterministic() = wanted; }
bool is_deterministic() { return deterministic().load(std::memory_order_relaxed); }

Modes modes_now() { return {is_deterministic(), is_relaxed(), tf32_allowed()}; }

void set_relaxed(bool wanted) { relaxed() = wanted; }
bool is_relaxed() { return relaxed().load(std::memory_order_relaxed); }

}  // namespace heddle
