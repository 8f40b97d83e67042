// Sort nodes: shapes, rewriting, and the oracle's order.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace heddle::testing;
using Values = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

NodeRef values_sorted(const NodeRef& x, bool descending = false) {
  return make_get(make_sort(x, descending, x->shape.back()), 0);
}
NodeRef positions_sorted(const NodeRef& x, bool descending = false) {
  return make_get(make_sort(x, descending, x->shape.back()), 1);
}

TEST(GraphSort, is_stable_in_both_directions) {
  NodeRef x = buffer_of(DType::i32, {2, 5}, {3, 1, 3, 2, 1, 5, 4, 5, 4, 5});
  EXPECT_EQ(values_of(values_sorted(x)), (Values{1, 1, 2, 3, 3, 4, 4, 5, 5, 5}));
  EXPECT_EQ(values_of(positions_sorted(x)), (Values{1, 4, 3, 0, 2, 1, 3, 0, 2, 4}));
  EXPECT_EQ(values_of(positions_sorted(x, true)), (Values{0, 2, 3, 1, 4, 0, 2, 4, 1, 3}));
  EXPECT_EQ(positions_sorted(x)->dtype, DType::i64);
}

TEST(GraphSort, nan_is_the_largest_and_zeros_are_equal) {
  NodeRef x = buffer_of({7}, {kNaN, 0.0, -kInfinity, -0.0, kInfinity, kNaN, 1});
  EXPECT_EQ(values_of(positions_sorted(x)), (Values{2, 1, 3, 6, 4, 0, 5}));
  EXPECT_EQ(values_of(positions_sorted(x, true)), (Values{0, 5, 4, 6, 1, 3, 2}));
  Values sorted = values_of(values_sorted(x));
  EXPECT_FALSE(std::signbit(sorted[1]));
  EXPECT_TRUE(std::signbit(sorted[2]));
}

TEST(GraphSort, keeps_as_many_as_asked_for) {
  NodeRef x = buffer_of(DType::u8, {2, 3}, {7, 255, 0, 1, 2, 3});
  NodeRef best = make_sort(x, true, 2);
  EXPECT_EQ(make_get(best, 0)->shape, (Shape{2, 2}));
  EXPECT_EQ(values_of(make_get(best, 0)), (Values{255, 7, 3, 2}));
  EXPECT_EQ(values_of(make_get(best, 1)), (Values{1, 0, 2, 1}));
  EXPECT_EQ(make_get(make_sort(x, true, 0), 1)->op, NodeOp::Const);
}

TEST(GraphSort, folds_what_needs_no_sorting) {
  NodeRef equal = number(DType::f32, 2, {3, 4});
  EXPECT_EQ(values_sorted(equal), equal);
  EXPECT_EQ(positions_sorted(equal), make_iota(DType::i64, {3, 4}, 1));
  NodeRef thin = buffer_of({3, 1}, {3, 1, 2});
  EXPECT_EQ(values_sorted(thin), thin);
  EXPECT_EQ(positions_sorted(thin), number(DType::i64, 0, {3, 1}));
  EXPECT_EQ(values_sorted(number(DType::f32, 0, {2, 0}))->shape, (Shape{2, 0}));
}

TEST(GraphSort, equal_sorts_are_one_node_and_others_are_not) {
  NodeRef x = buffer_of({4}, {1, 2, 3, 4});
  EXPECT_EQ(values_sorted(x), values_sorted(x));
  EXPECT_NE(values_sorted(x), values_sorted(x, true));
  EXPECT_NE(make_sort(x, false, 3), make_sort(x, false, 4));
  NodeRef sum = scalar_node(ScalarOp::add, {values_sorted(x), make_cast(positions_sorted(x), DType::f32)});
  EXPECT_EQ(values_of(simplify_one(sum)), values_of(sum));
  EXPECT_NE(print_graph(std::span(&sum, 1)).find("sort f32[4] %0 descending=0"), std::string::npos);
}

TEST(GraphSort, refuses_what_it_cannot_sort) {
  EXPECT_THROW(make_sort(number(DType::f32, 1), false, 1), ShapeError);
  EXPECT_THROW(make_sort(buffer_of({2}, {1, 2}), false, 3), ShapeError);
  EXPECT_THROW(make_sort(make_sort(buffer_of({2}, {1, 2}), false, 2), false, 2), ValueError);
}

}  // namespace
}  // namespace heddle
