// Sums of products: what schedules say about them, and that tiles do it.
#include <gtest/gtest.h>

#include "compile/fuse/fuse.h"
#include "compile/loops/contraction.h"
#include "compile/lower.h"
#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

// sum over the axes after the first two of a * b, both of shape `all` after broadcasting.
Loops contraction(const Shape& a, const Shape& b, const Shape& all) {
  NodeRef x = make_expand(make_input(0, 0, DType::f32, a), all), y = make_expand(make_input(1, 0, DType::f32, b), all);
  NodeRef factors[] = {x, y};
  std::vector<int> axes;
  for (size_t i = 2; i < all.size(); ++i) axes.push_back(static_cast<int>(i));
  NodeRef root = make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), axes);
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  return program.steps[0].loops;
}

Target avx512(int cores) {
  Target target;
  target.name = "avx512";
  target.cores = cores;
  return target;
}

int shared_buffers(const kernel::Kernel& k) {
  int count = 0;
  for (const kernel::Buffer& b : k.buffers) count += b.space == kernel::Space::Shared;
  return count;
}

TEST(Contraction, panels_are_packed_inside_loops_that_the_epilogue_shares) {
  Loops loops = contraction({96, 1, 40}, {1, 64, 40}, {96, 64, 40});
  const char* text =
      "block 96 64; contraction right block 1 panel 32 loop 1 32 loop 0 8; map loop 1 32 loop 0 8 joined";
  Schedule schedule = parse_schedule(text);
  ASSERT_EQ(check(schedule, loops, avx512(1)), "");
  kernel::Kernel tiles = tile(loops, schedule, avx512(1));
  kernel::verify(tiles);
  EXPECT_EQ(shared_buffers(tiles), 1) << kernel::print(tiles);
}

TEST(Contraction, a_dot_runs_along_one_of_several_reduced_axes) {
  // b is not contiguous along both reduced axes, so they stay two.
  Loops loops = contraction({32, 1, 8, 5}, {1, 32, 1, 5}, {32, 32, 8, 5});
  ASSERT_EQ(loops.stages[0].inner.size(), 2u);
  Schedule schedule = default_schedule(loops, avx512(1));
  EXPECT_TRUE(schedule.stages[0].is<RegisterContraction>());
  EXPECT_EQ(check(schedule, loops, avx512(1)), "");
  kernel::verify(tile(loops, schedule, avx512(1)));
  schedule.stages[0].loops.pop_back();
  EXPECT_NE(check(schedule, loops, avx512(1)).find("along one reduced axis"), std::string::npos);
}

TEST(Contraction, a_long_sum_with_few_results_is_divided_among_cores) {
  Loops loops = contraction({32, 1, 65536}, {1, 32, 65536}, {32, 32, 65536});
  EXPECT_GT(default_schedule(loops, avx512(8)).stages[0].parts(), 8);
  EXPECT_EQ(default_schedule(loops, avx512(1)).stages[0].parts(), 1);
}

TEST(Contraction, few_rows_pack_what_they_would_sum_in_short_vectors) {
  // 5 MB and more of weights, with the sum as their fast axis.
  auto packs = [](int64_t rows, int64_t terms) {
    Loops loops = contraction({rows, 1, terms}, {1, 20000, terms}, {rows, 20000, terms});
    Schedule schedule = default_schedule(loops, avx512(1));
    EXPECT_EQ(check(schedule, loops, avx512(1)), "");
    const auto& chosen = std::get<RegisterContraction>(schedule.stages[0].strategy);
    return chosen.left || chosen.right;
  };
  EXPECT_TRUE(packs(32, 64));
  EXPECT_FALSE(packs(32, 512));
  EXPECT_FALSE(packs(4, 64));
}

TEST(Contraction, axes_without_elements_are_no_reason_to_divide) {
  for (size_t empty : {0, 1, 2, 3}) {
    Shape all{4, 3, 5, 6};
    all[empty] = 0;
    NodeRef a = make_input(0, 0, DType::f32, {all[0], 1, 1, all[3]});
    NodeRef b = make_input(1, 0, DType::f32, {1, all[1], all[2], all[3]});
    NodeRef factors[] = {make_expand(a, all), make_expand(b, all)};
    NodeRef root = make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), std::vector<int>{3});
    Program program = fuse(std::span(&root, 1));
    for (const Program::Step& step : program.steps)
      kernel::verify(lower(tile(step.loops, default_schedule(step.loops, avx512(2)), avx512(2)), avx512(2)));
  }
}

TEST(Contraction, every_core_has_blocks) {
  for (int64_t n : {64, 100, 128, 500, 1024}) {
    Loops loops = contraction({n, 1, n}, {1, n, n}, {n, n, n});
    Schedule schedule = default_schedule(loops, avx512(16));
    int64_t blocks =
        ((n + schedule.block[0] - 1) / schedule.block[0]) * ((n + schedule.block[1] - 1) / schedule.block[1]);
    EXPECT_GE(blocks, 16) << n << ": " << print(schedule);
  }
}

}  // namespace
}  // namespace heddle
