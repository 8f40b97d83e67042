// Loops that are cut where guards change their value.
#include <gtest/gtest.h>

#include <random>

#include "after_pass.h"
#include "base/error.h"
#include "run_kernel.h"

namespace heddle::kernel {
namespace {

size_t count(const std::string& text, const std::string& what) {
  size_t result = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++result;
  return result;
}

TEST(SplitLoops, a_roll_is_two_copies) {
  EXPECT_EQ(after(split_loops,
                  "kernel.thread @k(in %x: f32[10], out %y: f32[10]) {\n"
                  "  phase grid() {\n"
                  "    loop i < 10 {\n"
                  "      %0 = load %x[i + 7] if i < 3 : f32\n"
                  "      %1 = load %x[i - 3] if 2 < i : f32\n"
                  "      %2 = index 2 < i : bool\n"
                  "      %3 = where %2, %1, %0\n"
                  "      store %y[i], %3\n"
                  "    }\n"
                  "  }\n"
                  "}\n"),
            "kernel.thread @k(in %x: f32[10], out %y: f32[10]) {\n"
            "  phase grid() {\n"
            "    loop i < 3 {\n"
            "      %0 = load %x[i + 7] : f32\n"
            "      %1 = load %x[i - 3] if 0 : f32\n"
            "      %2 = index 0 : bool\n"
            "      %3 = where %2, %1, %0\n"
            "      store %y[i], %3\n"
            "    }\n"
            "    loop i < 7 {\n"
            "      %4 = load %x[i + 10] if 0 : f32\n"
            "      %5 = load %x[i] : f32\n"
            "      %6 = index 1 : bool\n"
            "      %7 = where %6, %5, %4\n"
            "      store %y[i + 3], %7\n"
            "    }\n"
            "  }\n"
            "}\n");
}

TEST(SplitLoops, vectors_at_an_edge_keep_their_masks) {
  std::string text =
      after(split_loops,
            "kernel.thread @k(in %x: f32[100], out %y: f32[160]) {\n"
            "  phase grid() {\n"
            "    loop i < 10 {\n"
            "      %0 = load %x[i * 16 + d0 - 21] if 20 < i * 16 + d0 && i * 16 + d0 < 121 : vec<16xf32>\n"
            "      store %y[i * 16 + d0], %0\n"
            "    }\n"
            "  }\n"
            "}\n");
  // Nothing, the first edge, everything, the second edge, nothing.
  EXPECT_EQ(count(text, "loop"), 5u) << text;
  EXPECT_EQ(count(text, "if 0"), 2u) << text;
  EXPECT_NE(text.find("loop i < 5 {"), std::string::npos) << text;
}

TEST(SplitLoops, sums_and_other_conditions_stay) {
  for (const std::string& body :
       {std::string("    %1 = loop i < 9 carry(%2 = %0) {\n      %3 = load %x[i] if i < 4 : f32\n"
                    "      %4 = add %2, %3\n      yield %4\n    }\n    store %y[0], %1\n"),
        std::string("    loop i < 9 {\n      %1 = load %x[i] if i % 2 == 0 : f32\n      store %y[i], %1\n    }\n"),
        std::string("    loop i < 9 {\n      %1 = load %x[i] if c * i < 7 : f32\n      store %y[i], %1\n    }\n")}) {
    std::string text = "kernel.thread @k(in %x: f32[10], out %y: f32[10]) {\n  phase grid(c < 3) {\n" +
                       std::string("    %0 = constant 0 : f32\n") + body + "  }\n}\n";
    EXPECT_EQ(after(split_loops, text), text);
  }
}

// Of tiles only reductions whose length changes are cut out: 3 x 16 of 50 elements are whole, and one has 2.
TEST(SplitLoops, tiles_that_are_reduced_are_whole_but_for_the_last) {
  const std::string source =
      "kernel @k(in %x: f32[400], out %y: f32[8]) {\n"
      "  shared %sum: f32[8]\n"
      "  phase grid() {\n"
      "    %0 = constant 0 : tile<8x1xf32>\n"
      "    store %sum[d0], %0\n"
      "    loop i < 4 {\n"
      "      %1 = load %sum[d0] : tile<8x1xf32>\n"
      "      %2 = load %x[i * 128 + d1 * 8 + d0] if i * 16 + d1 < 50 : tile<8x16xf32>\n"
      "      %3 = reduce add %2 axis 1 if i * 16 + d1 < 50\n"
      "      %4 = add %1, %3\n"
      "      store %sum[d0], %4\n"
      "    }\n"
      "    %5 = load %sum[d0] : tile<8x1xf32>\n"
      "    store %y[d0], %5\n"
      "  }\n"
      "}\n";
  const std::string cut = after(split_loops, source);
  EXPECT_NE(cut.find("loop i < 3 {"), std::string::npos) << cut;
  EXPECT_NE(cut.find("= reduce add %2 axis 1\n"), std::string::npos) << cut;
  EXPECT_EQ(count(cut, "if d1 < 2"), 2u) << cut;  // load and reduction of the last tile
  std::vector<float> x(400), a(8), b(8), sum(8);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k * k % 101);
  run_kernel(parse(source), {x, a, sum}, {});
  run_kernel(parse(cut), {x, b, sum}, {});
  EXPECT_EQ(a, b);
  // Guards of other axes stay for the thread level.
  const std::string other =
      "kernel @k(in %x: f32[400], out %y: f32[64]) {\n"
      "  phase grid() {\n"
      "    loop i < 4 {\n"
      "      %0 = load %x[i * 128 + d1 * 8 + d0] if i * 16 + d0 < 50 : tile<16x8xf32>\n"
      "      %1 = reduce add %0 axis 1\n"
      "      store %y[i * 16 + d0], %1\n"
      "    }\n"
      "  }\n"
      "}\n";
  EXPECT_EQ(after(split_loops, other), other);
}

// Random comparisons over a block, a size, two loops and lanes.
TEST(SplitLoops, computes_the_same) {
  std::mt19937 random(1);
  auto between = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  int changed = 0;
  for (int round = 0; round < 300; ++round) {
    auto comparison = [&] {
      std::string sum = text(between(-40, 40));
      if (between(0, 2) == 0) sum += text(" + c * ", between(-9, 9));
      if (between(0, 1)) sum += text(" + i * ", between(-3, 3));
      if (between(0, 1)) sum += text(" + j * ", between(-9, 9));
      if (between(0, 1)) sum += text(" + d0 * ", between(-2, 2));
      if (between(0, 4) == 0) sum += text(" + n * ", between(-1, 1));
      return sum + text(between(0, 1) ? " < 0" : " >= 0");
    };
    auto guard = [&] {
      std::string all = comparison();
      for (int more = between(0, 2); more > 0; --more) all += " && " + comparison();
      return all;
    };
    std::string body;
    for (int k = 0; k < 3; ++k)
      body += text("        %", 2 * k, " = load %x[c * 97 + i * 13 + j * 5 + d0 + ", k, "] if ", guard(),
                   " : vec<4xf32>\n        %", 2 * k + 1, " = index ", guard(), " : vec<4xbool>\n");
    body += "        %6 = where %1, %0, %2\n        %7 = where %3, %6, %4\n";
    body += text("        store %y[(c * 20 + i) * 28 + j * 4 + d0], %7 if ", guard(), "\n");
    const std::string source =
        "kernel.thread @k(in %x: f32[800], out %y: f32[2240]) symbols(n in [0, 20] multiple 1) {\n"
        "  phase grid(c < 4) {\n    loop i < " +
        std::string(round % 3 == 0 ? "n" : "17") + " {\n      loop j < 7 {\n" + body + "      }\n    }\n  }\n}\n";
    Kernel plain = parse(source), cut = parse(source);
    split_loops(cut);
    verify(cut);
    changed += print(cut) != print(plain);
    for (int64_t n : {0, 1, 5, 20}) {
      std::vector<float> x(800), a(2240, -1), b(2240, -1);
      for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k + 1);
      run_kernel(plain, {x, a}, {n});
      run_kernel(cut, {x, b}, {n});
      ASSERT_EQ(a, b) << n << "\n" << source << print(cut);
    }
  }
  EXPECT_GT(changed, 150);
}

}  // namespace
}  // namespace heddle::kernel
