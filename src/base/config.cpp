#include "base/config.h"

#include <heddle/deterministic.h>
#include <heddle/precision.h>
#include <heddle/relaxed.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"

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

int64_t number(const char* name, int64_t low, int64_t high) {
  std::string value = variable(name);
  if (value.empty()) return 0;
  std::optional<int64_t> result = parse_number(value);
  if (!result || *result < low || *result > high)
    throw ValueError(text(name, "='", value, "' is not a whole number from ", low, " to ", high));
  return *result;
}

int64_t bytes(const char* name, int64_t least, const char* least_text) {
  std::string value = variable(name);
  if (value.empty()) return 0;
  std::optional<int64_t> result = parse_number(value);
  if (!result || *result < least)
    throw ValueError(text(name, "='", value, "' should be a whole number of bytes, ", least_text,
                          " or more and below 2^63, with K, M or G behind it if you like"));
  return *result;
}

bool flag(const char* name) {
  std::string value = variable(name);
  if (value.empty() || value == "0") return false;
  if (value == "1") return true;
  throw ValueError(text(name, "='", value, "' should be 0 or 1"));
}

// One of these words, or nothing.
std::string choice(const char* name, std::initializer_list<const char*> words) {
  std::string value = variable(name), all;
  if (value.empty()) return value;
  for (const char* word : words) {
    if (value == word) return value;
    all += (all.empty() ? "" : " or ") + std::string(word);
  }
  throw ValueError(text(name, "='", value, "' should be ", all));
}

// The name of a file, or "off" in any of its spellings.
std::string file_or_off(const char* name) {
  std::string value = variable(name);
  return value == "OFF" || value == "0" ? "off" : value;
}

Config read_environment() {
  Config c;
  c.threads = static_cast<int>(number("HEDDLE_THREADS", 1, 4096));
  c.device = variable("HEDDLE_DEVICE");
  c.target = choice("HEDDLE_TARGET", {"avx512", "avx2", "sse"});
  c.matrix_unit = choice("HEDDLE_MATRIX_UNIT", {"warps", "none"});
  c.float32_matmul = choice("HEDDLE_FLOAT32_MATMUL", {"tf32", "f32"});
  c.log = variable("HEDDLE_LOG");
  c.dump_directory = variable("HEDDLE_DUMP");
  c.memory_limit = bytes("HEDDLE_MEMORY_LIMIT", 1, "1");
  c.profile = variable("HEDDLE_PROFILE");
  c.cache = file_or_off("HEDDLE_CACHE");
  c.cache_size = bytes("HEDDLE_CACHE_SIZE", 1 << 20, "1M");
  c.tune = static_cast<int>(number("HEDDLE_TUNE", 0, 1 << 20));
  c.check_jit = flag("HEDDLE_JIT_CHECK");
  c.check_kernels = flag("HEDDLE_CHECK");
  c.fall_back = variable("HEDDLE_FALLBACK").empty() || flag("HEDDLE_FALLBACK");
  c.deterministic = flag("HEDDLE_DETERMINISTIC");
  c.relaxed = flag("HEDDLE_RELAXED");
  return c;
}

}  // namespace

const Config& config() {
  static const Config instance = read_environment();
  return instance;
}

namespace {
std::atomic<bool>& tf32() {
  static std::atomic<bool> allowed = config().float32_matmul == "tf32";
  return allowed;
}
}  // namespace

void allow_tf32(bool allowed) { tf32() = allowed; }
bool tf32_allowed() { return tf32(); }

namespace {
std::atomic<bool>& deterministic() {
  static std::atomic<bool> mode{config().deterministic};
  return mode;
}
}  // namespace

void set_deterministic(bool wanted) { deterministic() = wanted; }
bool is_deterministic() { return deterministic().load(std::memory_order_relaxed); }

namespace {
std::atomic<bool>& relaxed() {
  static std::atomic<bool> mode{config().relaxed};
  return mode;
}
}  // namespace

void set_relaxed(bool wanted) { relaxed() = wanted; }
bool is_relaxed() { return relaxed().load(std::memory_order_relaxed); }

}  // namespace heddle
