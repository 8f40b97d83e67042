#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "helpers.h"

namespace heddle {
namespace {

using namespace heddle::testing;

TEST(Realize, buffers_are_returned_as_they_are) {
  NodeRef a = tensor({1, 2, 3});
  StatsSince stats;
  NodeRef roots[] = {a, a};
  std::vector<NodeRef> results = realize(roots);
  EXPECT_EQ(results[0], a);
  EXPECT_EQ(results[1], a);
  EXPECT_TRUE(realize({}).empty());
  EXPECT_EQ(stats->launches + stats->plan_hits + stats->plan_misses, 0u);
}

TEST(Realize, computes_and_finds_the_plan_again_for_other_data) {
  clear_plan_cache();
  StatsSince stats;
  NodeRef first = realize_one(add(tensor({1, 2, 3, 4, 5}), tensor({10, 20, 30, 40, 50})));
  EXPECT_EQ(values(first), (std::vector<float>{11, 22, 33, 44, 55}));
  EXPECT_EQ(first->op, NodeOp::Buffer);
  EXPECT_EQ(first->shape, Shape{Expr(5)});
  EXPECT_EQ(stats->plan_misses, 1u);
  EXPECT_EQ(stats->launches, 1u);
  NodeRef second = realize_one(add(tensor({0, 0, 0, 0, 1}), tensor({1, 1, 1, 1, 1})));
  EXPECT_EQ(values(second), (std::vector<float>{1, 1, 1, 1, 2}));
  EXPECT_EQ(stats->plan_misses, 1u);
  EXPECT_EQ(stats->plan_hits, 1u);
  EXPECT_EQ(stats->launches, 2u);
  EXPECT_EQ(stats->bytes_read, 2u * 40);
  EXPECT_EQ(stats->bytes_written, 2u * 20);
  EXPECT_EQ(plan_cache_size(), 1u);
}

TEST(Realize, graphs_that_share_leaves_differently_have_different_plans) {
  clear_plan_cache();
  NodeRef a = tensor({1, 2, 3}), b = tensor({5, 6, 7}), c = tensor({100, 200, 300});
  auto expression = [](const NodeRef& x, const NodeRef& y, const NodeRef& z) { return realize_one(add(mul(x, y), z)); };
  EXPECT_EQ(values(expression(a, b, c)), (std::vector<float>{105, 212, 321}));
  EXPECT_EQ(values(expression(a, a, c)), (std::vector<float>{101, 204, 309}));
  EXPECT_EQ(values(expression(a, b, a)), (std::vector<float>{6, 14, 24}));
  EXPECT_EQ(values(expression(a, b, b)), (std::vector<float>{10, 18, 28}));
  EXPECT_EQ(values(expression(c, b, b)), (std::vector<float>{505, 1206, 2107}));  // found again
  EXPECT_EQ(plan_cache_size(), 4u);
}

TEST(Realize, several_roots_duplicates_and_ready_ones_keep_their_order) {
  NodeRef a = tensor({1, 2}), b = tensor({3, 4});
  NodeRef sum = add(a, b), product = mul(a, b);
  StatsSince stats;
  NodeRef roots[] = {product, a, sum, product, b, sum};
  std::vector<NodeRef> results = realize(roots);
  ASSERT_EQ(results.size(), 6u);
  EXPECT_EQ(values(results[0]), (std::vector<float>{3, 8}));
  EXPECT_EQ(results[1], a);
  EXPECT_EQ(values(results[2]), (std::vector<float>{4, 6}));
  EXPECT_EQ(results[3], results[0]);
  EXPECT_EQ(results[4], b);
  EXPECT_EQ(results[5], results[2]);
}

TEST(Realize, a_root_may_be_used_by_another_root) {
  NodeRef a = tensor({1, 2, 3});
  NodeRef doubled = add(a, a);
  NodeRef roots[] = {add(doubled, a), doubled};
  std::vector<NodeRef> results = realize(roots);
  EXPECT_EQ(values(results[0]), (std::vector<float>{3, 6, 9}));
  EXPECT_EQ(values(results[1]), (std::vector<float>{2, 4, 6}));
}

TEST(Realize, constants_alone) {
  for (int64_t n : {1, 7}) {
    NodeRef result = realize_one(make_const(heddle::Scalar::of(DType::f32, 2.5), Shape{Expr(n)}));
    EXPECT_EQ(values(result), std::vector<float>(static_cast<size_t>(n), 2.5f));
  }
  for (double value : {1.0, 2.0, 3.0}) {  // with the value as an argument from the second one on
    NodeRef scalar = realize_one(make_const(heddle::Scalar::of(DType::f32, value)));
    EXPECT_EQ(values(scalar), std::vector<float>{static_cast<float>(value)});
    EXPECT_EQ(scalar->shape.rank(), 0);
  }
}

TEST(Realize, zero_sized_results_need_no_launch) {
  NodeRef a = tensor({}, Shape{Expr(0), Expr(3)});
  StatsSince stats;
  NodeRef roots[] = {add(a, a), tensor({1, 2})};
  std::vector<NodeRef> results = realize(roots);
  EXPECT_EQ(stats->launches, 0u);
  EXPECT_EQ(results[0]->shape, (Shape{Expr(0), Expr(3)}));
  EXPECT_EQ(results[0]->storage->bytes(), 0u);
}

TEST(Realize, an_empty_sum_is_zero) {
  NodeRef a = tensor({}, Shape{Expr(0), Expr(3)});
  int axes[] = {0};
  EXPECT_EQ(values(realize_one(make_reduce(ReduceOp::Sum, a, axes))), (std::vector<float>{0, 0, 0}));
}

TEST(Realize, views_of_buffers_become_copies) {
  NodeRef a = tensor({1, 2, 3, 4, 5, 6}, Shape{Expr(2), Expr(3)});
  int swapped[] = {1, 0};
  EXPECT_EQ(values(realize_one(make_permute(a, swapped))), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  int axes[] = {1};
  EXPECT_EQ(values(realize_one(make_flip(a, axes))), (std::vector<float>{3, 2, 1, 6, 5, 4}));
  NodeRef flat = realize_one(make_reshape(a, Shape{Expr(6)}));
  EXPECT_EQ(flat->op, NodeOp::Buffer);
  EXPECT_EQ(flat->shape, Shape{Expr(6)});
  EXPECT_EQ(values(flat), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Realize, bytes_count_what_slices_and_broadcasts_touch) {
  NodeRef a = tensor(counting(1000));
  Expr begin[] = {Expr(100)}, size[] = {Expr(10)};
  NodeRef slice = make_shrink(a, begin, size);
  StatsSince stats;
  NodeRef result = realize_one(add(slice, slice));
  EXPECT_EQ(values(result)[9], 218.0f);
  EXPECT_EQ(stats->bytes_read, 40u);
  EXPECT_EQ(stats->bytes_written, 40u);

  NodeRef row = tensor(counting(8), Shape{Expr(1), Expr(8)});
  NodeRef wide = make_expand(row, Shape{Expr(100), Expr(8)});
  StatsSince again;
  realize_one(unary(ScalarOp::neg, wide));
  EXPECT_EQ(again->bytes_read, 32u);
  EXPECT_EQ(again->bytes_written, 3200u);
}

TEST(Realize, changing_scalars_compile_at_most_twice) {
  clear_plan_cache();
  NodeRef a = tensor({1, 2, 3, 4});
  StatsSince stats;
  for (int i = 0; i < 100; ++i) {
    double rate = 0.5 + i;
    NodeRef result = realize_one(add(mul(a, full_like(a, rate)), full_like(a, 0.25)));
    std::vector<float> got = values(result);
    for (size_t k = 0; k < 4; ++k) EXPECT_EQ(got[k], static_cast<float>((k + 1.0) * rate + 0.25));
  }
  EXPECT_LE(stats->plan_misses, 2u);
  EXPECT_EQ(stats->plan_hits + stats->plan_misses, 100u);
}

TEST(Realize, scalars_that_stay_the_same_stay_in_the_code) {
  clear_plan_cache();
  NodeRef a = tensor({1, 2, 3, 4});
  auto expression = [&](double scale, double offset) {
    return values(realize_one(add(mul(a, full_like(a, scale)), full_like(a, offset))))[1];
  };
  StatsSince stats;
  EXPECT_EQ(expression(3, 10), 16.0f);
  EXPECT_EQ(expression(4, 10), 18.0f);  // a second plan: scale is an argument
  EXPECT_EQ(expression(5, 10), 20.0f);
  EXPECT_EQ(stats->plan_misses, 2u);
  EXPECT_EQ(expression(5, 11), 21.0f);  // a third: offset too
  EXPECT_EQ(expression(7, 13), 27.0f);
  EXPECT_EQ(expression(3, 10), 16.0f);  // the first again
  EXPECT_EQ(stats->plan_misses, 3u);
}

TEST(Realize, signs_of_zero_and_nan_are_told_apart_among_scalars) {
  NodeRef a = tensor({1, -1});
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(std::signbit(values(realize_one(mul(full_like(a, 5.0), full_like(a, 0.0))))[0]));
    auto times = [&](double v) { return values(realize_one(binary(ScalarOp::minimum, a, full_like(a, v)))); };
    EXPECT_TRUE(std::signbit(times(-0.0)[0]));
    EXPECT_FALSE(std::signbit(times(0.0)[0]));
    EXPECT_TRUE(std::isnan(times(NAN)[0]));
  }
}

TEST(Realize, constants_keep_all_bits_of_a_nan) {
  clear_plan_cache();
  NodeRef a = tensor({1, -1}), b = tensor({-1, 1});
  auto unless_positive = [](const NodeRef& x, uint32_t bits) {
    NodeRef inputs[] = {binary(ScalarOp::lt, full_like(x, 0), x), x,
                        make_const(Scalar::from_bits(DType::f32, bits), x->shape)};
    return make_scalar(ScalarOp::where, inputs);
  };
  auto bits_of = [](const NodeRef& realised, size_t i) { return std::bit_cast<uint32_t>(values(realised)[i]); };
  NodeRef roots[] = {unless_positive(a, 0x7fc00001), unless_positive(b, 0x7fc00002)};
  std::vector<NodeRef> together = realize(roots);
  EXPECT_EQ(bits_of(together[0], 1), 0x7fc00001u);
  EXPECT_EQ(bits_of(together[1], 0), 0x7fc00002u);
  for (uint32_t bits : {0x7fc00003u, 0x7fc00004u, 0x7fc00003u, 0xffc00000u})
    EXPECT_EQ(bits_of(realize_one(unless_positive(a, bits)), 1), bits);
}

TEST(Realize, integer_scalars_are_part_of_the_plan) {
  clear_plan_cache();
  StatsSince stats;
  for (int i = 0; i < 3; ++i) {
    NodeRef result = realize_one(make_const(heddle::Scalar::of(DType::i32, 5 + i), Shape{Expr(2)}));
    int32_t got[2];
    std::memcpy(got, result->storage->host_data(), sizeof got);
    EXPECT_EQ(got[1], 5 + i);
  }
  EXPECT_EQ(stats->plan_misses, 3u);
}

TEST(Realize, equal_kernels_of_different_plans_are_the_same_code) {
  clear_plan_cache();
  NodeRef a = tensor(counting(64)), b = tensor(counting(64));
  StatsSince stats;
  realize_one(add(a, b));
  NodeRef roots[] = {add(a, b), a};  // the same plan: a ready root does not count
  realize(roots);
  EXPECT_EQ(stats->plan_misses, 1u);
}

TEST(Realize, intermediate_results_share_an_arena) {
  // Two reductions in a row cannot be one kernel of one stage list when the first goes over all elements.
  NodeRef a = tensor(counting(64 * 64), Shape{Expr(64), Expr(64)});
  int both[] = {0, 1};
  NodeRef total = make_reduce(ReduceOp::Sum, a, both);
  NodeRef spread = make_expand(make_reshape(total, Shape{Expr(1), Expr(1)}), Shape{Expr(64), Expr(64)});
  std::vector<float> got = values(realize_one(add(a, spread)));
  float sum = 64 * 64 * (64 * 64 - 1) / 2;
  EXPECT_EQ(got[0], sum);
  EXPECT_EQ(got[5], 5 + sum);
}

TEST(Realize, a_long_chain_runs_without_deep_recursion) {
  NodeRef x = tensor(counting(4)), y = tensor({1, 1, 1, 1});
  NodeRef chain = x;
  for (int i = 0; i < 5'000; ++i) chain = i % 2 ? mul(chain, y) : add(chain, y);
  std::vector<float> got = values(realize_one(chain));
  EXPECT_EQ(got[0], 2500.0f);
  EXPECT_EQ(got[3], 2503.0f);
}

TEST(Realize, what_cannot_run_is_an_error_that_says_why) {
  NodeRef input = make_input(0, 1, DType::f32, Shape{Expr(3)});
  EXPECT_THROW(realize_one(add(input, input)), CaptureError);
  Expr n = Expr::symbol("batch", 1, 100);
  NodeRef symbolic = make_const(heddle::Scalar::of(DType::f32, 1), Shape{n});
  try {
    realize_one(symbolic);
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("batch"), std::string::npos) << e.what();
  }
  EXPECT_THROW(realize_one(NodeRef()), ValueError);

  class Foreign : public Storage {
   public:
    const void* host_data() const override { return nullptr; }
    uint64_t bytes() const override { return 12; }
  };
  NodeRef foreign = make_buffer(std::make_shared<Foreign>(), DType::f32, Shape{Expr(3)});
  EXPECT_THROW(realize_one(add(foreign, foreign)), ValueError);
}

TEST(Realize, too_large_a_result_throws_and_the_program_goes_on) {
  int64_t huge = int64_t{1} << 20;
  NodeRef a = make_const(heddle::Scalar::of(DType::f32, 1), Shape{Expr(huge), Expr(huge)});
  uint64_t used = device().memory().used;
  EXPECT_THROW(realize_one(a), OutOfMemory);
  EXPECT_EQ(device().memory().used, used);
  EXPECT_EQ(values(realize_one(add(tensor({1}), tensor({2})))), std::vector<float>{3});
}

}  // namespace
}  // namespace heddle
