// Differences in double precision, of graphs that round on the way.
#include "fuzz/differences.h"

#include <gtest/gtest.h>

#include "fuzz/check.h"
#include "graph/build.h"
#include "graph/gradient.h"

namespace heddle::fuzz {
namespace {

using testing::scalar_node;

// x * x * x, where the square is in another dtype.
Problem cube(DType dtype, DType inside) {
  NodeRef x = testing::buffer_of(dtype, {Expr(3)}, {1.25, -2.5, 3});
  NodeRef narrow = make_cast(x, inside);
  NodeRef y = scalar_node(ScalarOp::mul, {make_cast(scalar_node(ScalarOp::mul, {narrow, narrow}), dtype), x});
  Problem problem{{y}, {testing::number(dtype, 1, y->shape)}, {x}, {}};
  problem.gradients = gradient(problem.outputs, problem.cotangents, problem.leaves);
  return problem;
}

constexpr std::pair<DType, DType> kRounding[] = {
    {DType::f64, DType::f32}, {DType::f64, DType::f16}, {DType::f32, DType::f32}, {DType::f32, DType::bf16}};

TEST(Differences, rounding_on_the_way_makes_a_right_gradient_no_worse) {
  for (auto [dtype, inside] : kRounding) {
    Differences differences(cube(dtype, inside), {});
    testing::Random random(1);
    for (int draw = 0; draw < 20; ++draw) EXPECT_TRUE(differences.agree(random)) << dtype << " " << inside;
  }
}

TEST(Differences, a_gradient_that_is_off_by_a_ten_thousandth_is_wrong) {
  for (auto [dtype, inside] : kRounding) {
    Problem problem = cube(dtype, inside);
    NodeRef factor = testing::number(dtype, 1.0001, problem.leaves[0]->shape);
    problem.gradients[0] = scalar_node(ScalarOp::mul, {problem.gradients[0], factor});
    Differences differences(problem, {});
    testing::Random random(1);
    EXPECT_THROW(differences.agree(random), Failure) << dtype << " " << inside;
  }
}

TEST(Differences, what_cancels_to_nothing_leaves_its_rounding) {
  NodeRef x = testing::buffer_of(DType::f64, {Expr(3)}, {1.25, -2.5, 3});
  NodeRef third = testing::number(DType::f64, 1.0 / 3, x->shape), three = testing::number(DType::f64, 3, x->shape);
  NodeRef one =
      scalar_node(ScalarOp::div, {scalar_node(ScalarOp::mul, {scalar_node(ScalarOp::mul, {x, third}), three}), x});
  NodeRef y = scalar_node(ScalarOp::sub, {one, testing::number(DType::f64, 1, x->shape)});
  Problem problem{{y}, {testing::number(DType::f64, 1, y->shape)}, {x}, {}};
  problem.gradients = gradient(problem.outputs, problem.cotangents, problem.leaves);
  Differences differences(problem, {});
  testing::Random random(1);
  for (int draw = 0; draw < 20; ++draw) EXPECT_TRUE(differences.agree(random));
}

TEST(Differences, numbers_of_a_gradient_are_folded_in_the_dtype_of_the_graph) {
  NodeRef x = testing::buffer_of(DType::f32, {Expr(3)}, {1.25, -2.5, 3});
  NodeRef wide = make_expand(make_reshape(x, {Expr(3), Expr(1)}), {Expr(3), Expr(3)});
  const int last[] = {1};
  NodeRef mean = scalar_node(ScalarOp::mul,
                             {make_reduce(ReduceOp::Sum, wide, last), testing::number(DType::f32, 1.0 / 3, x->shape)});
  NodeRef y = scalar_node(ScalarOp::sub, {x, mean});  // in f32 nothing is left, in f64 the rounding of a third
  Problem problem{{y}, {testing::number(DType::f32, 1, y->shape)}, {x}, {}};
  problem.gradients = gradient(problem.outputs, problem.cotangents, problem.leaves);
  Differences differences(problem, {});
  testing::Random random(1);
  for (int draw = 0; draw < 20; ++draw) EXPECT_TRUE(differences.agree(random));
}

TEST(Differences, scatters_and_bits_are_of_the_graph) {
  NodeRef x = testing::buffer_of(DType::f32, {Expr(3)}, {1.25, -2.5, 3});
  NodeRef index = make_cast(testing::buffer_of(DType::f32, {Expr(3)}, {0, 1, 0}), DType::i64);
  NodeRef bits = make_bitcast(testing::number(DType::i32, 0x3fc00000, x->shape), DType::f32);  // 1.5
  NodeRef y = make_scatter(ScatterOp::Add, x, index, scalar_node(ScalarOp::mul, {x, bits}), 0);
  Problem problem{{y}, {testing::number(DType::f32, 1, y->shape)}, {x}, {}};
  problem.gradients = gradient(problem.outputs, problem.cotangents, problem.leaves);
  Differences differences(problem, {});
  testing::Random random(1);
  EXPECT_TRUE(differences.agree(random));
}

}  // namespace
}  // namespace heddle::fuzz
