// Configuration is read once per process, so each case runs in a process of its own.
#include "base/config.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"

namespace heddle {
namespace {

// Prints what `show` makes of the configuration and ends the process.
template <class Show>
[[noreturn]] void print_config(const char* name, const char* value, Show show) {
  for (const char* other :
       {"HEDDLE_THREADS", "HEDDLE_TARGET", "HEDDLE_LOG", "HEDDLE_DUMP", "HEDDLE_MEMORY_LIMIT", "HEDDLE_CHECK",
        "HEDDLE_FALLBACK", "HEDDLE_MATRIX_UNIT", "HEDDLE_FLOAT32_MATMUL", "HEDDLE_CACHE", "HEDDLE_CACHE_SIZE"})
    unsetenv(other);
  if (name) setenv(name, value, 1);
  for (int i = 0; i < 2; ++i) std::fprintf(stderr, "<%s>", show(config()).c_str());  // a warning comes once
  std::exit(0);
}

class ConfigDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

auto exited = testing::ExitedWithCode(0);
std::string threads(const Config& c) { return std::to_string(c.threads); }
std::string limit(const Config& c) { return std::to_string(c.memory_limit); }
std::string checks(const Config& c) { return std::to_string(c.check_kernels); }
std::string falls_back(const Config& c) { return std::to_string(c.fall_back); }

TEST_F(ConfigDeathTest, DefaultsWithoutVariables) {
  EXPECT_EXIT(print_config(nullptr, nullptr,
                           [](const Config& c) { return threads(c) + limit(c) + checks(c) + c.target + c.log; }),
              exited, "<000>");
}

TEST_F(ConfigDeathTest, ReadsNumbersSuffixesAndFlags) {
  EXPECT_EXIT(print_config("HEDDLE_THREADS", "3", threads), exited, "<3>");
  EXPECT_EXIT(print_config("HEDDLE_MEMORY_LIMIT", "2G", limit), exited, "<2147483648>");
  EXPECT_EXIT(print_config("HEDDLE_CHECK", "1", checks), exited, "<1>");
  EXPECT_EXIT(print_config("HEDDLE_CHECK", "0", checks), exited, "<0>");
  EXPECT_EXIT(print_config("HEDDLE_FALLBACK", "0", falls_back), exited, "<0>");
  EXPECT_EXIT(print_config("HEDDLE_CHECK", "1", falls_back), exited, "<1>");
  EXPECT_EXIT(print_config("HEDDLE_MATRIX_UNIT", "warps", [](const Config& c) { return c.matrix_unit; }), exited,
              "<warps>");
  EXPECT_EXIT(print_config("HEDDLE_FLOAT32_MATMUL", "tf32", [](const Config& c) { return c.float32_matmul; }), exited,
              "<tf32>");
  EXPECT_EXIT(print_config("HEDDLE_FLOAT32_MATMUL", "f32", [](const Config& c) { return c.float32_matmul; }), exited,
              "<f32>");
}

TEST_F(ConfigDeathTest, TheCacheIsTurnedOffInSeveralSpellings) {
  auto cache = [](const Config& c) { return c.cache; };
  for (const char* off : {"off", "OFF", "0"}) EXPECT_EXIT(print_config("HEDDLE_CACHE", off, cache), exited, "<off>");
  EXPECT_EXIT(print_config("HEDDLE_CACHE", "./0", cache), exited, "<./0>");
}

// A regular expression: the warning once, then the value that counts, twice.
std::string warned(const std::string& message, const std::string& value) {
  return "^.heddle warning. " + message + "[^\n]*; going on without\n<" + value + "><" + value + ">$";
}

TEST_F(ConfigDeathTest, MalformedValuesAreAWarningThatNamesTheVariable) {
  auto target = [](const Config& c) { return c.target; };
  auto unit = [](const Config& c) { return c.matrix_unit; };
  auto size = [](const Config& c) { return std::to_string(c.cache_size); };
  EXPECT_EXIT(print_config("HEDDLE_THREADS", "many", threads), exited, warned("HEDDLE_THREADS='many' is not", "0"));
  EXPECT_EXIT(print_config("HEDDLE_THREADS", "-1", threads), exited, warned("HEDDLE_THREADS='-1'", "0"));
  EXPECT_EXIT(print_config("HEDDLE_THREADS", "9999999", threads), exited, warned("HEDDLE_THREADS", "0"));
  EXPECT_EXIT(print_config("HEDDLE_MEMORY_LIMIT", "1T", limit), exited, warned("HEDDLE_MEMORY_LIMIT='1T'", "0"));
  EXPECT_EXIT(print_config("HEDDLE_MEMORY_LIMIT", "99999999999G", limit), exited, warned("HEDDLE_MEMORY_LIMIT", "0"));
  EXPECT_EXIT(print_config("HEDDLE_CHECK", "yes", checks), exited, warned("HEDDLE_CHECK='yes' should be 0 or 1", "0"));
  EXPECT_EXIT(print_config("HEDDLE_FALLBACK", "no", falls_back), exited, warned("HEDDLE_FALLBACK='no'", "1"));
  EXPECT_EXIT(print_config("HEDDLE_MATRIX_UNIT", "wgmma", unit), exited,
              warned("HEDDLE_MATRIX_UNIT='wgmma' should be warps or none", ""));
  EXPECT_EXIT(print_config("HEDDLE_TARGET", "foo", target), exited, warned("HEDDLE_TARGET='foo' should be avx512", ""));
  EXPECT_EXIT(print_config("HEDDLE_MEMORY_LIMIT", "2Q", limit), exited, warned(".*1 or more.*with K, M or G", "0"));
  EXPECT_EXIT(print_config("HEDDLE_MEMORY_LIMIT", "0", limit), exited, warned("HEDDLE_MEMORY_LIMIT='0'", "0"));
  EXPECT_EXIT(print_config("HEDDLE_CACHE_SIZE", "12", size), exited, warned("HEDDLE_CACHE_SIZE='12'.*1M or more", "0"));
}

TEST_F(ConfigDeathTest, UnknownTopicsAreAWarningThatListsAllOfThem) {
  auto logs = [](const Config&) { return text(log_enabled(Log::Fuse), log_enabled(Log::Run)); };
  EXPECT_EXIT(print_config("HEDDLE_LOG", "compile", logs), exited,
              warned("HEDDLE_LOG='compile' has no topic 'compile'; there are graph, fuse, .* run, and all", "00"));
  EXPECT_EXIT(print_config("HEDDLE_LOG", "fuse,compile,x", logs), exited,
              warned(".* has no topic 'compile', 'x'", "10"));
  EXPECT_EXIT(print_config("HEDDLE_LOG", "run", logs), exited, "^<01><01>$");
}

}  // namespace
}  // namespace heddle
