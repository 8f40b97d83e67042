// How far rounding may lead, where a small float is too small for its number.
#include "fuzz/rounding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/build.h"
#include "graph/random_values.h"

namespace heddle::fuzz {
namespace {

using testing::scalar_node;

NodeRef halves(const std::vector<double>& values) {
  return testing::buffer_of(DType::f16, {Expr(static_cast<int64_t>(values.size()))}, values);
}

// Whether a result may be anything at all.
bool is_open(const NodeRef& root) {
  Bounded bounded = evaluate_bounded({root})[0];
  return !bounded.error.empty() && std::isinf(bounded.error[0]);
}

// A kernel may keep 80000 in f32 or store the infinity that f16 makes of it: 30000 or infinite, both are right.
TEST(Rounding, what_follows_an_overflow_of_a_small_float_is_open) {
  NodeRef x = halves({40000});
  NodeRef twice = scalar_node(ScalarOp::add, {x, x});
  EXPECT_TRUE(is_open(scalar_node(ScalarOp::sub, {twice, halves({50000})})));
  NodeRef wide = make_cast(twice, DType::f32);
  EXPECT_TRUE(is_open(scalar_node(ScalarOp::sub, {wide, make_cast(halves({50000}), DType::f32)})));
  EXPECT_TRUE(is_open(scalar_node(ScalarOp::sub, {wide, wide})));
  NodeRef thrice = scalar_node(ScalarOp::add, {twice, x});
  EXPECT_EQ(evaluate_bounded({scalar_node(ScalarOp::lt, {twice, thrice})})[0].error[0], 1);  // undecided
}

TEST(Rounding, an_overflow_inside_sums_scans_and_scatters_is_open_too) {
  NodeRef x = halves({40000, 40000});
  const int axis = 0;
  NodeRef sum = make_reduce(ReduceOp::Sum, x, std::span(&axis, 1));
  EXPECT_TRUE(is_open(make_cast(sum, DType::f32)));
  NodeRef product = make_reduce(ReduceOp::Prod, x, std::span(&axis, 1));
  EXPECT_TRUE(is_open(make_cast(product, DType::f32)));
  NodeRef scan = make_flip(make_scan(ReduceOp::Sum, x, 0), std::span(&axis, 1));
  EXPECT_TRUE(is_open(make_cast(scan, DType::f32)));
}

TEST(Rounding, the_overflow_itself_is_infinite) {
  NodeRef x = halves({40000});
  Bounded twice = evaluate_bounded({scalar_node(ScalarOp::add, {x, x})})[0];
  EXPECT_EQ(twice.value.floats[0], INFINITY);
  HostArray got = twice.value;
  EXPECT_EQ(compare(twice, got).wrong, "");
  got.floats[0] = NAN;
  EXPECT_NE(compare(twice, got).wrong, "");
  got.floats[0] = 65504;
  EXPECT_NE(compare(twice, got).wrong, "");
}

TEST(Rounding, infinities_of_the_program_and_of_its_casts_are_certain) {
  NodeRef masked = halves({-INFINITY});
  EXPECT_FALSE(is_open(make_cast(scalar_node(ScalarOp::add, {masked, halves({1})}), DType::f32)));
  NodeRef wide = testing::buffer_of(DType::f32, {Expr(1)}, {80000});
  EXPECT_FALSE(is_open(make_cast(make_cast(wide, DType::f16), DType::f32)));
}

}  // namespace
}  // namespace heddle::fuzz
