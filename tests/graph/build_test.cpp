// What the builders simplify on the spot.
#include <gtest/gtest.h>
#include <heddle/error.h>

#include <limits>

#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace heddle::testing;

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(BuildScalar, constants_fold) {
  EXPECT_EQ(scalar_node(ScalarOp::add, {number(DType::f32, 1, {2}), number(DType::f32, 2, {2})}),
            number(DType::f32, 3, {2}));
  EXPECT_EQ(scalar_node(ScalarOp::lt, {number(DType::i32, 1), number(DType::i32, 2)}), number(DType::boolean, 1));
  EXPECT_EQ(scalar_node(ScalarOp::mul, {number(DType::u8, 16), number(DType::u8, 17)}), number(DType::u8, 16));
  EXPECT_EQ(make_cast(number(DType::f32, 2.75, {3}), DType::i32), number(DType::i32, 2, {3}));
  EXPECT_EQ(make_bitcast(number(DType::f32, 1), DType::i32), number(DType::i32, 0x3f800000));
}

TEST(BuildScalar, exact_identities_of_floats) {
  NodeRef x = counting(DType::f32, {2});
  auto c = [](double value) { return number(DType::f32, value, {2}); };
  EXPECT_EQ(scalar_node(ScalarOp::mul, {x, c(1)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::mul, {c(1), x}), x);
  EXPECT_EQ(scalar_node(ScalarOp::add, {x, c(-0.0)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::add, {c(-0.0), x}), x);
  EXPECT_NE(scalar_node(ScalarOp::add, {x, c(0.0)}), x) << "-0.0 + 0.0 is 0.0";
  EXPECT_EQ(scalar_node(ScalarOp::sub, {x, c(0.0)}), x);
  EXPECT_NE(scalar_node(ScalarOp::sub, {x, c(-0.0)}), x) << "-0.0 - -0.0 is 0.0";
  EXPECT_EQ(scalar_node(ScalarOp::sub, {x, x})->op, NodeOp::Scalar) << "inf - inf is NaN";
  EXPECT_EQ(scalar_node(ScalarOp::mul, {x, c(0)})->op, NodeOp::Scalar) << "inf * 0 is NaN";
  EXPECT_EQ(scalar_node(ScalarOp::eq, {x, x})->op, NodeOp::Scalar) << "NaN != NaN";
  EXPECT_EQ(scalar_node(ScalarOp::div, {x, c(1)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::div, {x, c(4)}), scalar_node(ScalarOp::mul, {x, c(0.25)}));
  EXPECT_EQ(scalar_node(ScalarOp::div, {x, c(3)})->scalar_op, ScalarOp::div);
  EXPECT_EQ(scalar_node(ScalarOp::div, {x, c(0)})->scalar_op, ScalarOp::div);
  EXPECT_EQ(scalar_node(ScalarOp::pow, {x, c(1)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::pow, {x, c(0)}), c(1));
  EXPECT_EQ(scalar_node(ScalarOp::pow, {x, c(2)}), scalar_node(ScalarOp::mul, {x, x}));
  EXPECT_EQ(scalar_node(ScalarOp::maximum, {x, x}), x);
}

TEST(BuildScalar, exact_identities_of_integers) {
  NodeRef x = counting(DType::i32, {2});
  auto c = [](int value) { return number(DType::i32, value, {2}); };
  EXPECT_EQ(scalar_node(ScalarOp::add, {x, c(0)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::add, {c(0), x}), x);
  EXPECT_EQ(scalar_node(ScalarOp::sub, {x, c(0)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::sub, {x, x}), c(0));
  EXPECT_EQ(scalar_node(ScalarOp::mul, {x, c(1)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::mul, {x, c(0)}), c(0));
  EXPECT_EQ(scalar_node(ScalarOp::mul, {x, c(-1)}), scalar_node(ScalarOp::neg, {x}));
  EXPECT_EQ(scalar_node(ScalarOp::floordiv, {x, c(1)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::mod, {x, c(1)}), c(0));
  EXPECT_EQ(scalar_node(ScalarOp::add, {scalar_node(ScalarOp::add, {x, c(2)}), c(3)}),
            scalar_node(ScalarOp::add, {x, c(5)}));
  EXPECT_EQ(scalar_node(ScalarOp::add, {scalar_node(ScalarOp::add, {x, c(2)}), c(-2)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::bit_and, {x, c(-1)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::bit_and, {x, c(0)}), c(0));
  EXPECT_EQ(scalar_node(ScalarOp::bit_or, {x, c(0)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::bit_or, {x, c(-1)}), c(-1));
  EXPECT_EQ(scalar_node(ScalarOp::bit_xor, {x, x}), c(0));
  EXPECT_EQ(scalar_node(ScalarOp::bit_xor, {x, c(-1)}), scalar_node(ScalarOp::bit_not, {x}));
  EXPECT_EQ(scalar_node(ScalarOp::shl, {x, c(0)}), x);
  EXPECT_EQ(scalar_node(ScalarOp::eq, {x, x}), number(DType::boolean, 1, {2}));
  EXPECT_EQ(scalar_node(ScalarOp::lt, {x, x}), number(DType::boolean, 0, {2}));
  NodeRef u = counting(DType::u32, {2});
  EXPECT_EQ(scalar_node(ScalarOp::abs, {u}), u);
  EXPECT_EQ(scalar_node(ScalarOp::mul, {u, number(DType::u32, 1, {2})}), u);
}

TEST(BuildScalar, repeated_ops_cancel) {
  NodeRef x = counting(DType::f32, {2}), flag = counting(DType::boolean, {2});
  auto unary = [](ScalarOp op, const NodeRef& a) { return scalar_node(op, {a}); };
  EXPECT_EQ(unary(ScalarOp::neg, unary(ScalarOp::neg, x)), x);
  EXPECT_EQ(unary(ScalarOp::bit_not, unary(ScalarOp::bit_not, flag)), flag);
  EXPECT_EQ(unary(ScalarOp::abs, unary(ScalarOp::neg, x)), unary(ScalarOp::abs, x));
  EXPECT_EQ(unary(ScalarOp::abs, unary(ScalarOp::abs, x)), unary(ScalarOp::abs, x));
  EXPECT_EQ(unary(ScalarOp::round, unary(ScalarOp::floor, x)), unary(ScalarOp::floor, x));
}

TEST(BuildScalar, where_with_a_known_condition_is_one_side) {
  NodeRef a = counting(DType::f32, {2}), b = buffer_of({2}, {5, 6}), flag = counting(DType::boolean, {2});
  EXPECT_EQ(scalar_node(ScalarOp::where, {number(DType::boolean, 1, {2}), a, b}), a);
  EXPECT_EQ(scalar_node(ScalarOp::where, {number(DType::boolean, 0, {2}), a, b}), b);
  EXPECT_EQ(scalar_node(ScalarOp::where, {flag, a, a}), a);
  EXPECT_EQ(scalar_node(ScalarOp::where, {scalar_node(ScalarOp::bit_not, {flag}), a, b}),
            scalar_node(ScalarOp::where, {flag, b, a}));
}

TEST(BuildScalar, constants_go_to_the_right_of_commuting_ops) {
  NodeRef x = counting(DType::f32, {2}), c = number(DType::f32, 3, {2});
  EXPECT_EQ(scalar_node(ScalarOp::mul, {c, x}), scalar_node(ScalarOp::mul, {x, c}));
  EXPECT_NE(scalar_node(ScalarOp::sub, {c, x}), scalar_node(ScalarOp::sub, {x, c}));
}

TEST(BuildCast, only_lossless_middles_vanish) {
  NodeRef f = counting(DType::f32, {2}), i = counting(DType::i32, {2}), b = counting(DType::boolean, {2});
  auto via = [](const NodeRef& x, DType middle, DType to) { return make_cast(make_cast(x, middle), to); };
  EXPECT_EQ(make_cast(f, DType::f32), f);
  EXPECT_EQ(via(f, DType::f64, DType::f32), f);
  EXPECT_EQ(via(f, DType::f64, DType::f16), make_cast(f, DType::f16));
  EXPECT_EQ(via(i, DType::i64, DType::i32), i);
  EXPECT_EQ(via(i, DType::f64, DType::i64), make_cast(i, DType::i64));
  EXPECT_EQ(via(b, DType::f16, DType::i32), make_cast(b, DType::i32));
  EXPECT_EQ(via(i, DType::i16, DType::i8), make_cast(i, DType::i8));
  EXPECT_NE(via(i, DType::f64, DType::i8), make_cast(i, DType::i8)) << "saturates instead of wrapping";
  EXPECT_NE(via(f, DType::f16, DType::f32), f);
  EXPECT_NE(via(i, DType::f32, DType::i32), i);
  EXPECT_NE(via(i, DType::u32, DType::i64), make_cast(i, DType::i64));
  EXPECT_NE(via(i, DType::boolean, DType::i32), i);
  EXPECT_EQ(make_bitcast(make_bitcast(f, DType::i32), DType::f32), f);
}

TEST(BuildMove, idle_views_are_dropped) {
  NodeRef x = counting(DType::f32, {2, 3});
  EXPECT_EQ(make_reshape(x, {2, 3}), x);
  EXPECT_EQ(permuted(x, {0, 1}), x);
  EXPECT_EQ(permuted(x, {0, -1}), x);
  EXPECT_EQ(make_expand(x, {2, 3}), x);
  EXPECT_EQ(padded(x, {0, 0}, {0, 0}, 1), x);
  EXPECT_EQ(shrunk(x, {0, 0}, {2, 3}), x);
  EXPECT_EQ(flipped(x, {}), x);
  NodeRef thin = counting(DType::f32, {1, 3});
  EXPECT_EQ(flipped(thin, {0}), thin);
  EXPECT_EQ(joined({x}, 0), x);
  EXPECT_EQ(joined({x, counting(DType::f32, {0, 3})}, 0), x);
}

TEST(BuildMove, views_of_views_merge) {
  NodeRef x = counting(DType::f32, {2, 3, 4});
  EXPECT_EQ(make_reshape(make_reshape(x, {6, 4}), {4, 6}), make_reshape(x, {4, 6}));
  EXPECT_EQ(make_reshape(make_reshape(x, {24}), {2, 3, 4}), x);
  EXPECT_EQ(permuted(permuted(x, {2, 0, 1}), {1, 2, 0}), x);
  EXPECT_EQ(permuted(permuted(x, {1, 0, 2}), {0, 2, 1}), permuted(x, {1, 2, 0}));
  NodeRef row = counting(DType::f32, {1, 3, 1});
  EXPECT_EQ(make_expand(make_expand(row, {5, 3, 1}), {5, 3, 7}), make_expand(row, {5, 3, 7}));
  EXPECT_EQ(flipped(flipped(x, {0, 1}), {1, 2}), flipped(x, {0, 2}));
  EXPECT_EQ(flipped(flipped(x, {0, 1}), {1, 0}), x);
  EXPECT_EQ(shrunk(shrunk(x, {1, 0, 1}, {1, 3, 3}), {0, 1, 1}, {1, 2, 2}), shrunk(x, {1, 1, 2}, {1, 2, 2}));
  EXPECT_EQ(padded(padded(x, {1, 0, 0}, {0, 0, 2}, 0), {1, 0, 0}, {3, 0, 0}, 0), padded(x, {2, 0, 0}, {3, 0, 2}, 0));
  EXPECT_EQ(padded(padded(x, {1, 0, 0}, {0, 0, 0}, 0), {1, 0, 0}, {0, 0, 0}, 1)->inputs[0]->op, NodeOp::Pad);
}

TEST(BuildMove, views_travel_below_expand) {
  NodeRef row = counting(DType::f32, {1, 3});
  NodeRef wide = make_expand(row, {5, 3});
  EXPECT_EQ(permuted(wide, {1, 0}), make_expand(make_reshape(row, {3, 1}), {3, 5}));
  EXPECT_EQ(flipped(wide, {0}), wide);
  EXPECT_EQ(flipped(wide, {0, 1}), make_expand(flipped(row, {1}), {5, 3}));
  EXPECT_EQ(shrunk(wide, {2, 0}, {2, 3}), make_expand(row, {2, 3}));
  EXPECT_EQ(shrunk(wide, {4, 1}, {1, 2}), shrunk(row, {0, 1}, {1, 2}));
}

TEST(BuildMove, shrink_of_pad_keeps_what_is_left) {
  NodeRef x = counting(DType::f32, {4, 3});
  NodeRef wide = padded(x, {2, 0}, {3, 1}, 7);
  EXPECT_EQ(shrunk(wide, {2, 0}, {4, 3}), x);
  EXPECT_EQ(shrunk(wide, {1, 0}, {8, 4}), padded(x, {1, 0}, {3, 1}, 7));
  EXPECT_EQ(shrunk(wide, {3, 1}, {5, 3}), padded(shrunk(x, {1, 1}, {3, 2}), {0, 0}, {2, 1}, 7));
  EXPECT_EQ(shrunk(wide, {0, 0}, {2, 3}), number(DType::f32, 7, {2, 3}));
  EXPECT_EQ(shrunk(wide, {6, 0}, {3, 4}), number(DType::f32, 7, {3, 4}));
}

TEST(BuildMove, shrink_of_cat_within_one_part_is_a_shrink_of_that) {
  NodeRef a = counting(DType::f32, {2, 3}), b = counting(DType::f32, {4, 3});
  NodeRef both = joined({a, b}, 0);
  EXPECT_EQ(shrunk(both, {0, 0}, {2, 3}), a);
  EXPECT_EQ(shrunk(both, {3, 1}, {2, 1}), shrunk(b, {1, 1}, {2, 1}));
  EXPECT_EQ(shrunk(both, {1, 0}, {2, 3})->inputs[0], both);
}

TEST(BuildMove, shrinks_into_deep_alternations_stay_cheap) {
  NodeRef x = counting(DType::f32, {2}), part = buffer_of({1}, {5});
  for (int i = 0; i < 100'000; ++i) x = joined({padded(shrunk(x, {0}, {2}), {1}, {0}, i % 2), part}, 0);
  EXPECT_EQ(values_of(shrunk(x, {1}, {1})).size(), 1u);
}

TEST(BuildMove, moving_axes_of_size_one_is_a_reshape) {
  NodeRef x = counting(DType::f32, {2, 1, 3});
  EXPECT_EQ(permuted(x, {1, 0, 2}), make_reshape(x, {1, 2, 3}));
  EXPECT_EQ(permuted(x, {2, 1, 0})->op, NodeOp::Permute);
}

TEST(BuildMove, views_of_constants_are_constants) {
  NodeRef c = number(DType::f32, 2, {1, 3});
  EXPECT_EQ(make_reshape(c, {3}), number(DType::f32, 2, {3}));
  EXPECT_EQ(permuted(c, {1, 0}), number(DType::f32, 2, {3, 1}));
  EXPECT_EQ(make_expand(c, {4, 3}), number(DType::f32, 2, {4, 3}));
  EXPECT_EQ(flipped(c, {1}), c);
  EXPECT_EQ(shrunk(c, {0, 1}, {1, 1}), number(DType::f32, 2, {1, 1}));
  EXPECT_EQ(padded(c, {1, 1}, {0, 0}, 2), number(DType::f32, 2, {2, 4}));
  EXPECT_EQ(padded(c, {1, 1}, {0, 0}, 3)->op, NodeOp::Pad);
  EXPECT_EQ(make_window(c, 1, 2, 1, 1), number(DType::f32, 2, {1, 2, 2}));
  EXPECT_EQ(make_unwindow(number(DType::f32, 0, {2, 2}), 0, 2, 1, 1, 3), number(DType::f32, 0, {3}));
  EXPECT_EQ(joined({c, c}, 0), number(DType::f32, 2, {2, 3}));
  EXPECT_EQ(joined({c, number(DType::f32, 3, {1, 3})}, 0)->op, NodeOp::Cat);
  EXPECT_EQ(make_barrier(c, counting(DType::f32, {})), c);
}

TEST(BuildMove, trivial_windows_are_reshapes) {
  NodeRef x = counting(DType::f32, {4});
  EXPECT_EQ(make_window(x, 0, 1, 1, 3), make_reshape(x, {4, 1}));
  EXPECT_EQ(make_unwindow(make_reshape(x, {4, 1}), 0, 1, 1, 1, 4), x);
}

TEST(BuildReduce, trivial_axes) {
  NodeRef x = counting(DType::f32, {2, 1, 3});
  EXPECT_EQ(reduced(ReduceOp::Sum, x, {}), x);
  EXPECT_EQ(reduced(ReduceOp::Max, x, {1}), make_reshape(x, {2, 3}));
  EXPECT_EQ(reduced(ReduceOp::Max, x, {1, 2}), make_reshape(reduced(ReduceOp::Max, x, {2}), {2}));
  EXPECT_EQ(reduced(ReduceOp::Sum, x, {-1}), reduced(ReduceOp::Sum, x, {2}));
  EXPECT_EQ(reduced(ReduceOp::Sum, x, {2, 0}), reduced(ReduceOp::Sum, x, {0, 2}));
}

TEST(BuildReduce, reduce_over_empty_axis_gives_identity) {
  auto empty = [](ReduceOp op, DType dtype) { return reduced(op, counting(dtype, {2, 0}), {1}); };
  EXPECT_EQ(empty(ReduceOp::Sum, DType::f32), number(DType::f32, 0, {2}));
  EXPECT_EQ(empty(ReduceOp::Prod, DType::i32), number(DType::i32, 1, {2}));
  EXPECT_EQ(empty(ReduceOp::Max, DType::f32), number(DType::f32, -kInf, {2}));
  EXPECT_EQ(empty(ReduceOp::Min, DType::bf16), number(DType::bf16, kInf, {2}));
  EXPECT_EQ(empty(ReduceOp::Max, DType::i8), number(DType::i8, -128, {2}));
  EXPECT_EQ(empty(ReduceOp::Min, DType::i8), number(DType::i8, 127, {2}));
  EXPECT_EQ(empty(ReduceOp::Max, DType::u16), number(DType::u16, 0, {2}));
  EXPECT_EQ(empty(ReduceOp::Min, DType::u16), number(DType::u16, 65535, {2}));
  EXPECT_EQ(empty(ReduceOp::Max, DType::i64)->literal.i, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(empty(ReduceOp::Min, DType::u64)->literal.u, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(empty(ReduceOp::Max, DType::boolean), number(DType::boolean, 0, {2}));
  EXPECT_EQ(empty(ReduceOp::Min, DType::boolean), number(DType::boolean, 1, {2}));
}

TEST(BuildReduce, constants_fold) {
  EXPECT_EQ(reduced(ReduceOp::Sum, number(DType::f32, 0.5, {4, 3}), {0}), number(DType::f32, 2, {3}));
  EXPECT_EQ(reduced(ReduceOp::Sum, number(DType::u8, 100, {4}), {0}), number(DType::u8, 144));
  EXPECT_EQ(reduced(ReduceOp::Prod, number(DType::i32, 3, {5}), {0}), number(DType::i32, 243));
  EXPECT_EQ(reduced(ReduceOp::Prod, number(DType::f32, 1, {5}), {0}), number(DType::f32, 1));
  EXPECT_EQ(reduced(ReduceOp::Max, number(DType::f32, 7, {5}), {0}), number(DType::f32, 7));
}

TEST(BuildReduce, trivial_scans) {
  NodeRef x = counting(DType::f32, {2, 1, 3});
  EXPECT_EQ(make_scan(ReduceOp::Sum, x, 1), x) << "of one element";
  EXPECT_EQ(make_scan(ReduceOp::Max, number(DType::f32, 3, {4}), 0), number(DType::f32, 3, {4}));
  NodeRef top = make_scan(ReduceOp::Max, x, -1);
  EXPECT_EQ(make_scan(ReduceOp::Max, top, 2), top);
  EXPECT_NE(make_scan(ReduceOp::Max, top, 0), top);
  EXPECT_NE(make_scan(ReduceOp::Min, x, -1), top);
  EXPECT_EQ(make_scan(ReduceOp::Sum, number(DType::f32, 1, {0, 3}), 1)->op, NodeOp::Const);
}

TEST(Build, results_of_a_node_have_types_of_their_own) {
  NodeRef x = counting(DType::bf16, {3, 5});
  const NodeRef nodes[] = {make_arg_reduce(ReduceOp::Max, x, 1), make_sort(x, true, 2)};
  const Shape shapes[] = {Shape{3}, Shape{3, 2}};
  const DType dtypes[] = {DType::bf16, DType::i64};
  for (size_t n = 0; n < 2; ++n) {
    ASSERT_EQ(nodes[n]->result_count(), 2);
    for (int r = 0; r < 2; ++r) {
      const ResultType type = result_type(*nodes[n], r);
      EXPECT_EQ(type.dtype, dtypes[r]);
      EXPECT_EQ(type.shape, shapes[n]);
      NodeRef got = make_get(nodes[n], r);
      EXPECT_EQ(got->op, NodeOp::Get);
      EXPECT_EQ(got->dtype, type.dtype);
      EXPECT_EQ(got->shape, type.shape);
      EXPECT_EQ(got->inputs[0], nodes[n]);
    }
  }
  EXPECT_EQ(result_type(*x, 0).dtype, DType::bf16);
  EXPECT_EQ(result_type(*x, 0).shape, (Shape{3, 5}));
}

TEST(BuildReduce, get_of_trivial_argmax) {
  NodeRef x = counting(DType::f32, {2, 1});
  NodeRef arg = make_arg_reduce(ReduceOp::Max, x, 1);
  EXPECT_EQ(make_get(arg, 0), make_reshape(x, {2}));
  EXPECT_EQ(make_get(arg, 1), number(DType::i64, 0, {2}));
  NodeRef constant = make_arg_reduce(ReduceOp::Min, number(DType::f32, 3, {2, 5}), 1);
  EXPECT_EQ(make_get(constant, 0), number(DType::f32, 3, {2}));
  EXPECT_EQ(make_get(constant, 1), number(DType::i64, 0, {2}));
  EXPECT_EQ(make_get(x, 0), x);
  EXPECT_EQ(make_get(make_arg_reduce(ReduceOp::Max, counting(DType::f32, {0, 3}), 1), 1)->op, NodeOp::Const);
}

TEST(BuildGather, known_index_is_a_slice) {
  NodeRef x = counting(DType::f32, {5, 3});
  auto at = [&](double value) { return make_gather(x, number(DType::i64, value), 0); };
  EXPECT_EQ(at(2), make_reshape(shrunk(x, {2, 0}, {1, 3}), {3}));
  EXPECT_EQ(at(-1)->op, NodeOp::Gather) << "out of range, which is reported when it runs";
  EXPECT_EQ(at(5)->op, NodeOp::Gather);
}

TEST(BuildScatter, takes_one_shape_but_for_the_axis) {
  NodeRef x = counting(DType::f32, {5, 3}), i = counting(DType::i64, {2, 3}), u = counting(DType::f32, {2, 3});
  EXPECT_EQ(make_scatter(ScatterOp::Add, x, i, u, 0)->shape, x->shape);
  EXPECT_EQ(make_scatter(ScatterOp::Add, x, i, u, 0), make_scatter(ScatterOp::Add, x, i, u, -2));
  EXPECT_NE(make_scatter(ScatterOp::Add, x, i, u, 0), make_scatter(ScatterOp::Max, x, i, u, 0));
  EXPECT_EQ(make_scatter(ScatterOp::Set, x, counting(DType::i64, {0, 3}), counting(DType::f32, {0, 3}), 0), x);
  EXPECT_THROW(make_scatter(ScatterOp::Set, x, i, u, 1), ShapeError);
  EXPECT_THROW(make_scatter(ScatterOp::Set, x, i, x, 0), ShapeError);
  EXPECT_THROW(make_scatter(ScatterOp::Set, x, u, u, 0), DTypeError);
  EXPECT_THROW(make_scatter(ScatterOp::Set, x, i, i, 0), DTypeError);
  EXPECT_THROW(make_scatter(ScatterOp::Set, counting(DType::f32, {0, 3}), i, u, 0), IndexError);
  EXPECT_EQ(simplify_one(make_scatter(ScatterOp::Mul, x, i, u, 0)), make_scatter(ScatterOp::Mul, x, i, u, 0));
}

TEST(BuildScatter, evaluates_in_order_and_leaves_out_what_is_outside) {
  NodeRef x = buffer_of({4}, {1, 2, 3, 4}), i = buffer_of(DType::i64, {5}, {2, -1, 2, 4, 0});
  NodeRef u = buffer_of({5}, {10, 20, 30, 40, 50});
  auto result = [&](ScatterOp op) { return values_of(make_scatter(op, x, i, u, 0)); };
  EXPECT_EQ(result(ScatterOp::Set), (std::vector<double>{50, 2, 30, 4}));
  EXPECT_EQ(result(ScatterOp::Add), (std::vector<double>{51, 2, 43, 4}));
  EXPECT_EQ(result(ScatterOp::Mul), (std::vector<double>{50, 2, 900, 4}));
  EXPECT_EQ(result(ScatterOp::Max), (std::vector<double>{50, 2, 30, 4}));
  EXPECT_EQ(result(ScatterOp::Min), (std::vector<double>{1, 2, 3, 4}));
}

TEST(BuildEmpty, results_without_elements_are_constants) {
  NodeRef x = counting(DType::f32, {0, 3}), zero = number(DType::f32, 0, {0, 3});
  EXPECT_EQ(x->op, NodeOp::Buffer);
  EXPECT_EQ(scalar_node(ScalarOp::exp, {x}), zero);
  EXPECT_EQ(scalar_node(ScalarOp::add, {x, x}), zero);
  EXPECT_EQ(make_cast(x, DType::i8), number(DType::i8, 0, {0, 3}));
  EXPECT_EQ(make_reshape(x, {3, 0, 7}), number(DType::f32, 0, {3, 0, 7}));
  EXPECT_EQ(padded(x, {1, 0}, {1, 0}, 5), number(DType::f32, 5, {2, 3}));
  EXPECT_EQ(shrunk(counting(DType::f32, {2, 3}), {2, 0}, {0, 3}), zero);
  EXPECT_EQ(make_expand(counting(DType::f32, {1, 3}), {0, 3}), zero);
  EXPECT_EQ(reduced(ReduceOp::Max, x, {1}), number(DType::f32, 0, {0}));
  EXPECT_EQ(make_gather(x, counting(DType::i32, {0}), 0), zero);
  EXPECT_EQ(make_window(x, 1, 2, 1, 1), number(DType::f32, 0, {0, 2, 2}));
  EXPECT_EQ(joined({x, x}, 0), x);
}

TEST(BuildSymbolic, shrinks_to_sizes_whose_value_alone_shows_that_they_are_none_below_zero) {
  Expr n = Expr::bound(Expr::symbol("n", 0, 8), 3), m = Expr::bound(Expr::symbol("m", 1, 4), 2);
  Expr begin[] = {0}, size[] = {m * n - n}, less[] = {m - n};
  EXPECT_EQ(make_shrink(number(DType::f32, 1, {m * n - n + 1}), begin, size)->shape, (Shape{m * n - n}));
  EXPECT_THROW(make_shrink(number(DType::f32, 1, {m - n + 9}), begin, less), IndexError);
}

TEST(BuildSymbolic, a_reversed_row_of_positions_is_the_same_graph_for_every_length) {
  for (int64_t value : {1, 5}) {
    Expr n = Expr::bound(Expr::symbol("n", 1, 8), value);
    NodeRef column = permuted(make_iota(DType::i32, {1, n}, 1), {1, 0});
    EXPECT_EQ(column->op, NodeOp::Reshape) << value;
    EXPECT_EQ(column->shape, (Shape{n, 1})) << value;
  }
}

TEST(BuildSymbolic, sizes_are_expressions) {
  Expr n = Expr::symbol("n", 1, 64);
  NodeRef x = make_input(0, 0, DType::f32, {n, 4});
  EXPECT_EQ(make_reshape(x, {n * 4}), make_reshape(x, {4 * n}));
  EXPECT_EQ(make_reshape(make_reshape(x, {n * 4}), {n, 4}), x);
  EXPECT_EQ(shrunk(padded(x, {2, 0}, {3, 0}, 0), {0, 1}, {n + 5, 2}),
            padded(shrunk(x, {0, 1}, {n, 2}), {2, 0}, {3, 0}, 0));
  EXPECT_EQ(make_window(x, 0, 1, 2, 1)->shape[0], floordiv(n - 1, 2) + 1);
  EXPECT_ANY_THROW(make_reshape(x, {n, 5}));
  EXPECT_ANY_THROW(shrunk(x, {0, 0}, {2, 4})) << "n may be 1";
  EXPECT_ANY_THROW(scalar_node(ScalarOp::add, {x, make_input(1, 0, DType::f32, {Expr::symbol("n", 1, 64), 4})}));
}

}  // namespace
}  // namespace heddle
