#include "kernel/passes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "after_pass.h"
#include "random_kernel.h"
#include "run_kernel.h"

namespace heddle::kernel {
namespace {

void then_dce(Kernel& kernel, void (*pass)(Kernel&)) {
  pass(kernel);
  dce(kernel);
}
void fold_clean(Kernel& kernel) { then_dce(kernel, fold); }
void cse_clean(Kernel& kernel) { then_dce(kernel, cse); }

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// A kernel over one tile of 8 with input %x and output %y around `body`; %0 is x's tile.
std::string around(const std::string& body) {
  return "kernel @k(in %x: f32[64], out %y: f32[64]) {\n  phase grid(i < 8) {\n    %0 = load %x[i * 8 + d0] : "
         "tile<8xf32>\n" +
         body + "  }\n}\n";
}
std::string stored(const std::string& value) { return "    store %y[i * 8 + d0], " + value + "\n"; }

TEST(Fold, computes_constants) {
  std::string text = after(fold_clean, around("    %1 = constant 2 : f32\n"
                                              "    %2 = mul %1, %1\n"
                                              "    %3 = sqrt %2\n"
                                              "    %4 = add %3, %2\n"
                                              "    %5 = mul %0, %4\n" +
                                              stored("%5")));
  EXPECT_EQ(text, around("    %1 = constant 6 : f32\n    %2 = mul %0, %1\n" + stored("%2")));
}

TEST(Fold, drops_what_changes_nothing_even_for_nan_and_zeros) {
  for (const char* identity :
       {"    %1 = constant 1 : f32\n    %2 = mul %0, %1\n", "    %1 = constant 1 : f32\n    %2 = mul %1, %0\n",
        "    %1 = constant 1 : f32\n    %2 = div %0, %1\n", "    %1 = constant -0 : f32\n    %2 = add %0, %1\n",
        "    %1 = constant 0 : f32\n    %2 = sub %0, %1\n", "    %1 = neg %0\n    %2 = neg %1\n",
        "    %1 = cast %0 : tile<8xf64>\n    %2 = cast %1 : tile<8xf32>\n",
        "    %1 = bitcast %0 : tile<8xi32>\n    %2 = bitcast %1 : tile<8xf32>\n",
        "    %1 = constant true : bool\n    %2 = where %1, %0, %0\n"}) {
    EXPECT_EQ(after(fold_clean, around(identity + stored("%2"))), around(stored("%0"))) << identity;
  }
}

TEST(Fold, keeps_what_would_change_nan_zero_or_rounding) {
  for (const char* needed :
       {"    %1 = constant 0 : f32\n    %2 = mul %0, %1\n", "    %1 = constant 0 : f32\n    %2 = add %0, %1\n",
        "    %1 = constant -0 : f32\n    %2 = sub %0, %1\n",
        "    %1 = cast %0 : tile<8xf16>\n    %2 = cast %1 : tile<8xf32>\n",
        "    %1 = cast %0 : tile<8xi32>\n    %2 = cast %1 : tile<8xf32>\n"}) {
    std::string text = around(needed + stored("%2"));
    EXPECT_EQ(after(fold_clean, text), text);
  }
}

TEST(Fold, a_float_need_not_equal_itself) {
  std::string text =
      around("    %1 = eq %0, %0\n    %2 = where %1, %0, %0\n    %3 = cast %1 : tile<8xf32>\n" + stored("%3"));
  EXPECT_CONTAINS(after(fold_clean, text), "eq %0, %0");
}

TEST(Fold, does_not_replace_a_tile_by_a_smaller_operand) {
  std::string text =
      "kernel @k(in %x: f32[8], out %y: f32[32]) {\n"
      "  phase grid() {\n"
      "    %0 = load %x[d0] : tile<8x1xf32>\n"
      "    %1 = constant 1 : tile<8x4xf32>\n"
      "    %2 = mul %0, %1\n"
      "    store %y[d0 * 4 + d1], %2\n"
      "  }\n"
      "}\n";
  EXPECT_EQ(after(fold_clean, text), text);
}

TEST(Fold, an_integer_does_not_lose_its_way_through_a_float) {
  // i8 -> f32 saturates into u8, i8 -> u8 wraps.
  std::string text =
      "kernel @k(in %x: i8[8], out %y: u8[8], out %z: i8[8]) {\n"
      "  phase grid() {\n"
      "    %0 = load %x[d0] : tile<8xi8>\n"
      "    %1 = cast %0 : tile<8xf32>\n"
      "    %2 = cast %1 : tile<8xu8>\n"
      "    %3 = cast %1 : tile<8xi8>\n"
      "    store %y[d0], %2\n"
      "    store %z[d0], %3\n"
      "  }\n"
      "}\n";
  std::string folded = after(fold_clean, text);
  EXPECT_CONTAINS(folded, "cast %1 : tile<8xu8>");
  EXPECT_CONTAINS(folded, "store %z[d0], %0");
}

TEST(Fold, guards_branches_and_empty_loops) {
  std::string text = after(fold_clean,
                           "kernel @k(in %x: f32[64], out %y: f32[64]) {\n"
                           "  phase grid(i < 8) {\n"
                           "    %0 = load %x[i * 8 + d0] if i * 8 + d0 < 64 : tile<8xf32>\n"
                           "    branch i < 8 {\n"
                           "      store %y[i * 8 + d0], %0\n"
                           "    }\n"
                           "    branch i < 0 {\n"
                           "      store %y[i * 8 + d0], %0\n"
                           "    }\n"
                           "  }\n"
                           "}\n");
  EXPECT_EQ(text, around(stored("%0")));
}

TEST(Cse, merges_equal_instructions_and_loads) {
  std::string text = after(cse_clean, around("    %1 = load %x[i * 8 + d0] : tile<8xf32>\n"
                                             "    %2 = add %0, %1\n"
                                             "    %3 = exp %0\n"
                                             "    %4 = exp %1\n"
                                             "    %5 = mul %3, %2\n"
                                             "    %6 = mul %2, %4\n"
                                             "    %7 = sub %5, %6\n" +
                                             stored("%7")));
  EXPECT_EQ(text,
            around("    %1 = add %0, %0\n    %2 = exp %0\n    %3 = mul %2, %1\n    %4 = sub %3, %3\n" + stored("%4")));
}

TEST(Cse, keeps_a_load_after_a_store_to_the_same_buffer) {
  std::string head = "kernel @k(in %x: f32[8], inout %y: f32[8], out %z: f32[16]) {\n  phase grid() {\n";
  std::string text = head +
                     "    %0 = load %y[d0] : tile<8xf32>\n"
                     "    %1 = load %x[d0] : tile<8xf32>\n"
                     "    store %y[d0], %1\n"
                     "    %2 = load %y[d0] : tile<8xf32>\n"
                     "    %3 = load %x[d0] : tile<8xf32>\n"
                     "    store %z[d0], %2\n"
                     "    %4 = add %0, %3\n"
                     "    store %z[d0 + 8], %4\n"
                     "  }\n}\n";
  std::string merged = after(cse_clean, text);
  EXPECT_EQ(count(merged, "load %y"), 2);
  EXPECT_EQ(count(merged, "load %x"), 1);
}

TEST(Cse, a_loop_that_writes_reloads_on_every_trip) {
  std::string text =
      "kernel @k(inout %y: f32[8]) {\n"
      "  phase grid() {\n"
      "    %0 = load %y[d0] : tile<8xf32>\n"
      "    loop k < 3 {\n"
      "      %1 = load %y[d0] : tile<8xf32>\n"
      "      %2 = add %1, %0\n"
      "      store %y[d0], %2\n"
      "    }\n"
      "  }\n"
      "}\n";
  EXPECT_EQ(after(cse, text), text);
}

TEST(Cse, keeps_a_load_after_a_barrier) {
  Kernel kernel;
  kernel.name = "neighbours";
  kernel.level = Level::Thread;
  kernel.threads = 2;
  kernel.thread = Expr::index("t", 2);
  kernel.buffers = {{"l", kF32, Space::Shared, 2}, {"x", kF32, Space::In, 2}, {"y", kF32, Space::Out, 4}};
  kernel.phases.emplace_back();
  Builder builder(kernel, kernel.phases[0]);
  auto at = [](const Expr& address) {
    Builder::Access access;
    access.address = address;
    return access;
  };
  Expr mine = kernel.thread, other = 1 - kernel.thread;
  auto load_both = [&] { return std::pair(builder.load(0, kF32, at(mine)), builder.load(1, kF32, at(mine))); };
  auto [l0, x0] = load_both();
  builder.barrier();
  auto [l1, x1] = load_both();
  for (auto [value, slot] :
       {std::pair(builder.op(ScalarOp::add, {l0, x0}), 0), {builder.op(ScalarOp::add, {l1, x1}), 2}})
    builder.store(2, value, at(other + slot));
  cse_clean(kernel);
  EXPECT_EQ(count(print(kernel), "load %l"), 2);
  EXPECT_EQ(count(print(kernel), "load %x"), 1);
}

TEST(Cse, uses_values_of_outer_blocks_but_not_of_siblings) {
  std::string text = after(cse,
                           "kernel @k(in %x: f32[8], out %y: f32[24]) {\n"
                           "  phase grid(i < 2) {\n"
                           "    %0 = load %x[d0] : tile<8xf32>\n"
                           "    %1 = exp %0\n"
                           "    branch i < 1 {\n"
                           "      %2 = exp %0\n"
                           "      %3 = neg %2\n"
                           "      store %y[d0], %3\n"
                           "    } else {\n"
                           "      %4 = neg %1\n"
                           "      store %y[d0 + 8], %4\n"
                           "    }\n"
                           "  }\n"
                           "}\n");
  EXPECT_EQ(count(text, "exp"), 1);
  EXPECT_EQ(count(text, "neg"), 2);
}

TEST(Dce, drops_unused_values_carried_values_and_dead_stores) {
  std::string text = after(dce,
                           "kernel @k(in %x: f32[8], out %y: f32[8]) {\n"
                           "  shared %l: f32[8]\n"
                           "  phase grid() {\n"
                           "    %0 = load %x[d0] : tile<8xf32>\n"
                           "    %1 = exp %0\n"
                           "    %2 = constant 0 : f32\n"
                           "    %3, %4 = loop k < 3 carry(%5 = %2, %6 = %0) {\n"
                           "      %7 = add %5, %2\n"
                           "      %8 = mul %6, %6\n"
                           "      store %l[d0], %8\n"
                           "      yield %7, %8\n"
                           "    }\n"
                           "    store %y[d0], %4\n"
                           "  }\n"
                           "}\n");
  EXPECT_EQ(text,
            "kernel @k(in %x: f32[8], out %y: f32[8]) {\n"
            "  shared %l: f32[8]\n"
            "  phase grid() {\n"
            "    %0 = load %x[d0] : tile<8xf32>\n"
            "    %1 = loop k < 3 carry(%2 = %0) {\n"
            "      %3 = mul %2, %2\n"
            "      yield %3\n"
            "    }\n"
            "    store %y[d0], %1\n"
            "  }\n"
            "}\n");
}

TEST(Dce, a_store_dies_with_the_last_load_of_its_buffer) {
  std::string text = after(dce,
                           "kernel @k(in %x: f32[8], out %y: f32[8]) {\n"
                           "  temp %t: f32[8]\n"
                           "  phase grid() {\n"
                           "    %0 = load %x[d0] : tile<8xf32>\n"
                           "    store %t[d0], %0\n"
                           "    store %y[d0], %0\n"
                           "  }\n"
                           "  phase grid() {\n"
                           "    %1 = load %t[d0] : tile<8xf32>\n"
                           "  }\n"
                           "}\n");
  EXPECT_EQ(count(text, "%t["), 0);
  EXPECT_EQ(count(text, "store %y"), 1);
}

TEST(Licm, hoists_what_does_not_change_and_loads_that_are_safe) {
  std::string text = after(licm,
                           "kernel @k(in %x: f32[8], in %w: f32[80], out %y: f32[8]) {\n"
                           "  phase grid() {\n"
                           "    %0 = constant 0 : f32\n"
                           "    %1 = loop k < 10 carry(%2 = %0) {\n"
                           "      %3 = load %x[0] : f32\n"
                           "      %4 = exp %3\n"
                           "      %5 = load %w[k * 8] : f32\n"
                           "      %6 = fma %4, %5, %2\n"
                           "      yield %6\n"
                           "    }\n"
                           "    store %y[0], %1\n"
                           "  }\n"
                           "}\n");
  EXPECT_LT(text.find("exp"), text.find("loop"));
  EXPECT_LT(text.find("load %x"), text.find("loop"));
  EXPECT_GT(text.find("load %w"), text.find("loop"));
}

std::string licm_case(const std::string& size, const std::string& extent, const std::string& more) {
  return "kernel @k(in %x: f32[" + size +
         "], inout %y: f32[8]) symbols(n in [0, 9] multiple 1) {\n"
         "  phase grid() {\n"
         "    loop k < " +
         extent +
         " {\n"
         "      %0 = load %x[n] : f32\n" +
         more +
         "      store %y[k], %0\n"
         "    }\n"
         "  }\n"
         "}\n";
}

TEST(Licm, a_load_leaves_a_loop_that_may_not_run_only_if_in_bounds) {
  auto hoisted = [](const std::string& text) {
    std::string result = after(licm, text);
    return result.find("load %x") < result.find("loop");
  };
  EXPECT_TRUE(hoisted(licm_case("10", "n", "")));  // 0 <= n < 10
  EXPECT_FALSE(hoisted(licm_case("n", "n", "")));  // x[n] is outside; with n = 0 nobody reads it
  EXPECT_TRUE(hoisted(licm_case("n + 1", "n", "")));
  EXPECT_TRUE(hoisted(licm_case("10", "n + 1", "")));
}

TEST(Licm, a_guard_that_changes_keeps_its_load) {
  std::string text =
      "kernel @k(in %x: f32[8], out %y: f32[8]) {\n"
      "  phase grid() {\n"
      "    loop k < 3 {\n"
      "      %0 = load %x[0] if k < 2 : f32\n"
      "      store %y[k], %0\n"
      "    }\n"
      "  }\n"
      "}\n";
  EXPECT_EQ(after(licm, text), text);
}

TEST(Licm, keeps_loads_of_what_the_loop_writes) {
  std::string text =
      "kernel @k(inout %y: f32[8]) {\n"
      "  phase grid() {\n"
      "    loop k < 3 {\n"
      "      %0 = load %y[0] : f32\n"
      "      %1 = add %0, %0\n"
      "      store %y[0], %1\n"
      "    }\n"
      "  }\n"
      "}\n";
  EXPECT_EQ(after(licm, text), text);
}

TEST(FuseMad, makes_fma_of_what_a_loop_adds_up) {
  auto loop = [](const std::string& body) {
    return "kernel @k(in %x: f32[24], out %y: f32[8]) {\n  phase grid() {\n"
           "    %0 = constant 0 : tile<8xf32>\n"
           "    %1 = loop k < 2 carry(%2 = %0) {\n"
           "      %3 = load %x[k * 8 + d0] : tile<8xf32>\n"
           "      %4 = load %x[k * 8 + d0 + 8] : tile<8xf32>\n" +
           body + "    }\n    store %y[d0], %1\n  }\n}\n";
  };
  auto fused = [&](const std::string& body) { return after(fuse_mad, loop(body)); };
  const std::string fma = "      %5 = fma %3, %4, %2\n      yield %5\n";
  EXPECT_EQ(fused("      %5 = mul %3, %4\n      %6 = add %2, %5\n      yield %6\n"), loop(fma));
  EXPECT_EQ(fused("      %5 = mul %3, %4\n      %6 = add %5, %2\n      yield %6\n"), loop(fma));
  EXPECT_EQ(fused("      %5 = mul %3, %4\n      %6 = mul %3, %3\n      %7 = add %2, %5\n      %8 = add %7, %6\n"
                  "      yield %8\n"),
            loop("      %5 = fma %3, %4, %2\n      %6 = fma %3, %3, %5\n      yield %6\n"));
  // The product has another use; it is no sum; it is a term that is computed before it is added.
  for (const char* body : {"      %5 = mul %3, %4\n      %6 = add %2, %5\n      %7 = maximum %6, %5\n      yield %7\n",
                           "      %5 = mul %2, %4\n      %6 = add %5, %3\n      yield %6\n",
                           "      %5 = mul %3, %4\n      %6 = add %5, %3\n      %7 = add %2, %6\n      yield %7\n"})
    EXPECT_EQ(fused(body), loop(body));
}

TEST(FuseMad, leaves_products_outside_of_sums_alone) {
  for (const char* op : {"add", "sub"}) {
    std::string text = std::string(
                           "kernel @k(in %x: f32[24], out %y: f32[8]) {\n  phase grid() {\n"
                           "    %0 = load %x[d0] : tile<8xf32>\n"
                           "    %1 = load %x[d0 + 8] : tile<8xf32>\n"
                           "    %2 = mul %0, %1\n    %3 = ") +
                       op + " %2, %0\n    store %y[d0], %3\n  }\n}\n";
    EXPECT_EQ(after(fuse_mad, text), text);
  }
}

TEST(FuseMad, leaves_integers_alone) {
  std::string text =
      "kernel @k(in %x: i32[8], out %y: i32[8]) {\n"
      "  phase grid() {\n"
      "    %0 = load %x[d0] : tile<8xi32>\n"
      "    %1 = mul %0, %0\n"
      "    %2 = add %1, %0\n"
      "    store %y[d0], %2\n"
      "  }\n"
      "}\n";
  EXPECT_EQ(after(fuse_mad, text), text);
}

TEST(Unroll, small_constant_loops_disappear) {
  std::string text = after(unroll,
                           "kernel @k(in %x: f32[3], out %y: f32[1]) {\n"
                           "  phase grid() {\n"
                           "    %0 = constant 0 : f32\n"
                           "    %1 = loop k < 3 carry(%2 = %0) {\n"
                           "      %3 = load %x[k] : f32\n"
                           "      %4 = add %2, %3\n"
                           "      yield %4\n"
                           "    }\n"
                           "    store %y[0], %1\n"
                           "  }\n"
                           "}\n");
  EXPECT_EQ(text,
            "kernel @k(in %x: f32[3], out %y: f32[1]) {\n"
            "  phase grid() {\n"
            "    %0 = constant 0 : f32\n"
            "    %1 = load %x[0] : f32\n"
            "    %2 = add %0, %1\n"
            "    %3 = load %x[1] : f32\n"
            "    %4 = add %2, %3\n"
            "    %5 = load %x[2] : f32\n"
            "    %6 = add %4, %5\n"
            "    store %y[0], %6\n"
            "  }\n"
            "}\n");
}

TEST(Unroll, by_a_factor_with_a_loop_for_the_rest) {
  std::string text =
      "kernel @k(in %x: f32[n], out %y: f32[1]) symbols(n in [0, 100] multiple 1) {\n"
      "  phase grid() {\n"
      "    %0 = constant 0 : f32\n"
      "    %1 = loop k < n carry(%2 = %0) unroll 4 {\n"
      "      %3 = load %x[k] : f32\n"
      "      %4 = add %2, %3\n"
      "      yield %4\n"
      "    }\n"
      "    store %y[0], %1\n"
      "  }\n"
      "}\n";
  Kernel kernel = parse(text);
  unroll(kernel);
  verify(kernel);
  EXPECT_EQ(count(print(kernel), "loop"), 2);
  EXPECT_EQ(count(print(kernel), "load"), 5);
  for (int64_t n : {0, 1, 4, 6, 8, 11}) {
    std::vector<float> x(static_cast<size_t>(n)), y(1);
    float sum = 0;
    for (size_t k = 0; k < x.size(); ++k) sum += x[k] = static_cast<float>(k + 1);
    run_kernel(kernel, {x, y}, {n});
    EXPECT_EQ(y[0], sum) << n;
  }
  std::string once = print(kernel);
  unroll(kernel);
  EXPECT_EQ(print(kernel), once);
}

struct Setting {
  const char* name;
  RandomKernelOptions options;
  int kernels;
};
const Setting kSettings[] = {{"tile", {Level::Tile, 1, false}, 250},
                             {"thread", {Level::Thread, 1, false}, 250},
                             {"threads", {Level::Thread, 4, false}, 100},
                             {"warp", {Level::Thread, 32, false}, 20}};

TEST(Passes, any_order_on_random_kernels_gives_the_same_bits) {
  std::vector<Pass> exact;
  for (const Pass& pass : all_passes())
    if (pass.run != fuse_mad) exact.push_back(pass);
  // HEDDLE_TEST_SAMPLES=100 multiplies the kernels tried.
  const char* more = std::getenv("HEDDLE_TEST_SAMPLES");
  for (const Setting& setting : kSettings) {
    for (int seed = 0; seed < setting.kernels * (more ? std::atoi(more) : 1); ++seed) {
      RandomKernel random(static_cast<uint64_t>(seed), setting.options);
      verify(random.kernel);
      std::vector<std::vector<uint64_t>> expected;
      for (int64_t n : {0, 3}) expected.push_back(random.results(random.kernel, n));
      std::mt19937 order(static_cast<uint32_t>(seed));
      for (int round = 0; round < 3; ++round) {
        Kernel kernel = random.kernel;
        std::string names;
        // The first rounds try each pass alone, the others chains.
        int length = round == 0 ? 1 : 2 + static_cast<int>(order() % 6);
        for (int k = 0; k < length; ++k) {
          const Pass& pass =
              round == 0 ? exact[static_cast<size_t>(seed) % exact.size()] : exact[order() % exact.size()];
          names += std::string(pass.name) + " ";
          pass.run(kernel);
          ASSERT_NO_THROW(verify(kernel)) << setting.name << " " << seed << ": " << names << "\n" << print(kernel);
        }
        for (int64_t n : {0, 3}) {
          ASSERT_EQ(random.results(kernel, n), expected[n == 0 ? 0 : 1])
              << setting.name << " " << seed << ", n = " << n << ": " << names << "\n"
              << print(random.kernel) << "\n"
              << print(kernel);
        }
      }
    }
  }
}

TEST(Passes, pipelines_reach_a_fixed_point_soon) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RandomKernel random(seed, {Level::Thread, 1, false});
    Kernel kernel = random.kernel;
    run(kernel, thread_pipeline());
    run(kernel, thread_pipeline());
    run(kernel, thread_pipeline());
    std::string third = print(kernel);
    run(kernel, thread_pipeline());
    EXPECT_EQ(print(kernel), third) << seed;
  }
}

TEST(Passes, math_inside_reducers_is_expanded_too) {
  Kernel kernel;
  kernel.name = "logsumexp";
  kernel.buffers = {{"x", kF32, Space::In, 8}, {"y", kF32, Space::Out, 1}};
  kernel.phases.emplace_back();
  auto reducer = std::make_shared<Reducer>();
  reducer->identity = {Scalar::of(kF32, -INFINITY)};
  reducer->values = {{kF32, {}}, {kF32, {}}};
  reducer->combine.params = {0, 1};
  {
    // log(exp(a) + exp(b))
    Builder builder(reducer->values, reducer->combine);
    Value sum = builder.op(ScalarOp::add, {builder.op(ScalarOp::exp, {0}), builder.op(ScalarOp::exp, {1})});
    reducer->combine.results = {builder.op(ScalarOp::log, {sum})};
  }
  Builder builder(kernel, kernel.phases[0]);
  Expr d = Expr::index("d", 8);
  Builder::Access in, out;
  in.address = d;
  in.coords = {d};
  out.coords = {Expr(0)};
  Value x = builder.load(0, kF32, in);
  builder.store(1, builder.reduce(std::vector<Value>{x}, 0, reducer)[0], out);
  verify(kernel);
  std::vector<float> data = {0.5f, 1, -1, 2, 0, 0.25f, 1.5f, -2}, before(1), after_expansion(1);
  run_kernel(kernel, {data, before});
  expand_math(kernel);
  verify(kernel);
  EXPECT_EQ(count(print(kernel), " exp "), 0);
  EXPECT_EQ(count(print(kernel), " log "), 0);
  run_kernel(kernel, {data, after_expansion});
  EXPECT_NEAR(before[0], after_expansion[0], 1e-5);
}

}  // namespace
}  // namespace heddle::kernel
