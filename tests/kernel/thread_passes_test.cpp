// Passes over what the threads of a block do.
#include <gtest/gtest.h>

#include <algorithm>

#include "after_pass.h"
#include "base/error.h"

namespace heddle::kernel {
namespace {

// A kernel of 32 threads for 8 elements around `body`; loads are of all threads.
std::string of_threads(const std::string& body) {
  return "kernel.thread @k(in %x: f32[64], out %y: f32[64]) threads 32 thread t {\n  phase grid(i < 8) {\n" + body +
         "  }\n}\n";
}

TEST(ShortenComparisons, of_indices_that_fit_into_32_bits) {
  const std::string rest =
      "    %3 = constant 1 : f32\n    %4 = constant 0 : f32\n    %5 = where %2, %3, %4\n    store %y[i * 8 + t], %5 if "
      "t < 8\n";
  auto compared = [&](const std::string& a, const std::string& b) {
    return after(shorten_comparisons, of_threads("    %0 = index " + a + " : i64\n    %1 = " + b + " : i64\n" +
                                                 "    %2 = le %0, %1\n" + rest));
  };
  const std::string both = compared("i * 8 + t", "index t");
  EXPECT_NE(both.find("index i * 8 + t : i32"), std::string::npos) << both;
  EXPECT_NE(both.find("index t : i32"), std::string::npos) << both;
  EXPECT_NE(compared("i * 8 + t", "constant 7").find("constant 7 : i32"), std::string::npos);
  EXPECT_EQ(compared("i * 1000000000", "index t").find("i32"), std::string::npos) << "too large";
  EXPECT_EQ(compared("i", "constant 3000000000").find("i32"), std::string::npos) << "too large";
}

TEST(ExpandMath, a_short_exp_where_the_result_is_rounded) {
  auto expanded = [](const std::string& use) {
    return after(expand_math_by_exp2, of_threads("    %0 = load %x[i * 8 + t % 8] : f32\n    %1 = exp %0\n" + use));
  };
  const std::string store = "    store %y[i * 8 + t], %3 if t < 8\n";
  auto count = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const std::string rounded = expanded("    %2 = cast %1 : bf16\n    %3 = cast %2 : f32\n" + store);
  const std::string whole = expanded("    %2 = cast %1 : bf16\n    %3 = mul %1, %1\n" + store);
  EXPECT_LT(count(rounded) + 4, count(whole)) << rounded;
}

// What a caller bounds below the normal numbers keeps its subnormal results.
TEST(ExpandMath, exp2_of_a_maximum) {
  auto expanded = [](const char* bound) {
    return after(expand_math_by_exp2,
                 of_threads(text("    %0 = load %x[i * 8 + t % 8] : f32\n    %1 = constant ", bound,
                                 " : f32\n    %2 = maximum %0, %1\n    %3 = exp2 %2\n"
                                 "    store %y[i * 8 + t], %3 if t < 8\n")));
  };
  EXPECT_EQ(expanded("-126").find("shl"), std::string::npos);
  EXPECT_NE(expanded("-126.5").find("shl"), std::string::npos);
}

TEST(Narrow, what_only_feeds_a_store_is_loaded_where_that_runs) {
  const std::string rest = "    %1 = mul %0, %0\n    store %y[i * 8 + t], %1 if t < 8\n";
  EXPECT_EQ(after(narrow, of_threads("    %0 = load %x[i * 8 + t % 8] : f32\n" + rest)),
            of_threads("    %0 = load %x[i * 8 + t % 8] if t < 8 : f32\n" + rest));
}

TEST(Narrow, other_uses_and_other_places_keep_a_load_whole) {
  const std::string load = "    %0 = load %x[i * 8 + t % 8] : f32\n";
  for (const std::string& rest :
       {std::string("    %1 = shuffle_xor %0, 1\n    store %y[i * 8 + t], %1 if t < 8\n"),
        std::string("    store %y[i * 8 + t], %0 if t < 4\n    store %y[i * 8 + t], %0 if 3 < t && t < 8\n"),
        std::string("    branch t < 8 {\n      store %y[i * 8 + t], %0 if t < 4\n    }\n")})
    EXPECT_NE(after(narrow, of_threads(load + rest)).find(load), std::string::npos) << rest;
}

}  // namespace
}  // namespace heddle::kernel
