// The oracle against values computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace heddle::testing;
using Values = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Evaluate, leaves) {
  EXPECT_EQ(values_of(number(DType::f16, 1.5, {3})), (Values{1.5, 1.5, 1.5}));
  EXPECT_EQ(values_of(buffer_of(DType::i8, {2}, {-3, 7})), (Values{-3, 7}));
  EXPECT_EQ(values_of(make_iota(DType::i32, {2, 3}, 1)), (Values{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(values_of(make_iota(DType::i64, {2, 3}, 0)), (Values{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(evaluate_one(number(DType::f32, 1, {0, 3})).shape, (std::vector<int64_t>{0, 3}));
  NodeRef x = make_input(3, 1, DType::f32, {2});
  HostArray given{DType::f32, {2}, {4, 5}, {}};
  NodeRef twice = scalar_node(ScalarOp::add, {x, x});
  EXPECT_EQ(doubles(evaluate(std::span(&twice, 1), {}, {{x.get(), given}})[0]), (Values{8, 10}));
}

TEST(Evaluate, scans) {
  NodeRef x = buffer_of({2, 3}, {1, 2, 3, 4, 0, -1});
  EXPECT_EQ(values_of(make_scan(ReduceOp::Sum, x, 1)), (Values{1, 3, 6, 4, 4, 3}));
  EXPECT_EQ(values_of(make_scan(ReduceOp::Sum, x, 0)), (Values{1, 2, 3, 5, 2, 2}));
  EXPECT_EQ(values_of(make_scan(ReduceOp::Prod, x, 1)), (Values{1, 2, 6, 4, 0, 0}));
  EXPECT_EQ(values_of(make_scan(ReduceOp::Max, x, 1)), (Values{1, 2, 3, 4, 4, 4}));
  EXPECT_EQ(values_of(make_scan(ReduceOp::Min, x, 1)), (Values{1, 1, 1, 4, 0, -1}));
}

TEST(Evaluate, floats_are_rounded_only_at_the_end) {
  // In f16 2048 + 1 would round to 2048; kept exact, subtracting 2048 gives 1.
  NodeRef big = buffer_of(DType::f16, {1}, {2048}), one = buffer_of(DType::f16, {1}, {1});
  NodeRef sum = scalar_node(ScalarOp::add, {big, one});
  EXPECT_EQ(values_of(sum), (Values{2048}));
  EXPECT_EQ(values_of(scalar_node(ScalarOp::sub, {sum, big})), (Values{1}));
  // An explicit cast rounds.
  NodeRef wide = scalar_node(ScalarOp::add, {make_cast(big, DType::f32), make_cast(one, DType::f32)});
  NodeRef rounded = make_cast(make_cast(wide, DType::f16), DType::f32);
  EXPECT_EQ(values_of(rounded), (Values{2048}));
  EXPECT_EQ(values_of(scalar_node(ScalarOp::exp, {buffer_of({1}, {1})})), (Values{std::exp(1.0f)}));
}

TEST(Evaluate, integers_wrap_in_their_dtype) {
  NodeRef a = buffer_of(DType::u8, {3}, {200, 255, 3}), b = buffer_of(DType::u8, {3}, {100, 1, 5});
  EXPECT_EQ(values_of(scalar_node(ScalarOp::add, {a, b})), (Values{44, 0, 8}));
  EXPECT_EQ(values_of(scalar_node(ScalarOp::sub, {b, a})), (Values{156, 2, 2}));
  NodeRef c = buffer_of(DType::i32, {3}, {-7, 7, 5}), d = buffer_of(DType::i32, {3}, {2, -2, 0});
  EXPECT_EQ(values_of(scalar_node(ScalarOp::floordiv, {c, d})), (Values{-4, -4, 0}));
  EXPECT_EQ(values_of(scalar_node(ScalarOp::mod, {c, d})), (Values{1, -1, 0}));
}

TEST(Evaluate, comparisons_and_choices) {
  NodeRef a = buffer_of({4}, {1, 2, 3, kNaN}), b = buffer_of({4}, {2, 2, 2, kNaN});
  NodeRef less = scalar_node(ScalarOp::lt, {a, b});
  EXPECT_EQ(less->dtype, DType::boolean);
  EXPECT_EQ(values_of(less), (Values{1, 0, 0, 0}));
  EXPECT_EQ(values_of(scalar_node(ScalarOp::le, {a, b})), (Values{1, 1, 0, 0}));
  EXPECT_EQ(values_of(scalar_node(ScalarOp::ne, {a, b})), (Values{1, 0, 1, 1}));
  NodeRef chosen = scalar_node(ScalarOp::where, {less, buffer_of({4}, {10, 11, 12, 13}), b});
  Values got = values_of(chosen);
  EXPECT_TRUE(std::isnan(got.back()));
  got.pop_back();
  EXPECT_EQ(got, (Values{10, 2, 2}));
  NodeRef flags = scalar_node(ScalarOp::where, {less, less, scalar_node(ScalarOp::bit_not, {less})});
  EXPECT_EQ(values_of(flags), (Values{1, 1, 1, 1}));
}

TEST(Evaluate, casts) {
  NodeRef x = buffer_of({5}, {-1.5, 2.75, 300, kNaN, 0});
  EXPECT_EQ(values_of(make_cast(x, DType::i32)), (Values{-1, 2, 300, 0, 0}));
  EXPECT_EQ(values_of(make_cast(x, DType::u8)), (Values{0, 2, 255, 0, 0}));
  EXPECT_EQ(values_of(make_cast(x, DType::boolean)), (Values{1, 1, 1, 1, 0}));
  NodeRef i = buffer_of(DType::i32, {2}, {-1, 300});
  EXPECT_EQ(values_of(make_cast(i, DType::u8)), (Values{255, 44}));
  EXPECT_EQ(values_of(make_cast(buffer_of(DType::f32, {1}, {1.0009765625 + 0.000244140625}), DType::f16)),
            (Values{1.0009765625}));
  EXPECT_EQ(values_of(make_bitcast(buffer_of({2}, {1, -2}), DType::u32)), (Values{0x3f800000, 0xc0000000}));
  EXPECT_EQ(values_of(make_bitcast(buffer_of(DType::u16, {1}, {0x3c00}), DType::f16)), (Values{1}));
}

TEST(Evaluate, reductions) {
  NodeRef x = buffer_of({2, 3}, {1, 5, 3, -4, 0, 2});
  EXPECT_EQ(values_of(reduced(ReduceOp::Sum, x, {0})), (Values{-3, 5, 5}));
  EXPECT_EQ(values_of(reduced(ReduceOp::Sum, x, {1})), (Values{9, -2}));
  EXPECT_EQ(values_of(reduced(ReduceOp::Sum, x, {0, 1})), (Values{7}));
  EXPECT_EQ(values_of(reduced(ReduceOp::Prod, x, {1})), (Values{15, 0}));
  EXPECT_EQ(values_of(reduced(ReduceOp::Max, x, {1})), (Values{5, 2}));
  EXPECT_EQ(values_of(reduced(ReduceOp::Min, x, {0})), (Values{-4, 0, 2}));
  EXPECT_TRUE(std::isnan(values_of(reduced(ReduceOp::Max, buffer_of({3}, {1, kNaN, 2}), {0}))[0]));
  EXPECT_EQ(values_of(reduced(ReduceOp::Sum, buffer_of(DType::i8, {3}, {100, 100, 1}), {0})), (Values{-55}));
  EXPECT_EQ(values_of(reduced(ReduceOp::Max, buffer_of(DType::boolean, {3}, {0, 1, 0}), {0})), (Values{1}));
  EXPECT_EQ(values_of(reduced(ReduceOp::Min, buffer_of(DType::u64, {3}, {4, 9, 5}), {0})), (Values{4}));
}

TEST(Evaluate, arg_reductions_find_the_first) {
  NodeRef x = buffer_of({2, 4}, {1, 5, 5, 0, 2, kNaN, 9, kNaN});
  NodeRef best = make_arg_reduce(ReduceOp::Max, x, 1);
  EXPECT_EQ(values_of(make_get(best, 1)), (Values{1, 1}));
  EXPECT_EQ(values_of(make_get(best, 0))[0], 5);
  EXPECT_TRUE(std::isnan(values_of(make_get(best, 0))[1]));
  NodeRef i = buffer_of(DType::i32, {2, 3}, {3, -1, -1, 0, 4, 0});
  NodeRef least = make_arg_reduce(ReduceOp::Min, i, 0);
  NodeRef results[] = {make_get(least, 1), make_get(least, 0)};
  std::vector<HostArray> values = evaluate(results);
  EXPECT_EQ(values[0].dtype, DType::i64);
  EXPECT_EQ(doubles(values[0]), (Values{1, 0, 0}));
  EXPECT_EQ(doubles(values[1]), (Values{0, -1, -1}));
  NodeRef flags = buffer_of(DType::boolean, {3}, {0, 1, 1});
  EXPECT_EQ(values_of(make_get(make_arg_reduce(ReduceOp::Max, flags, 0), 1)), (Values{1}));
}

TEST(Evaluate, views) {
  NodeRef x = counting(DType::f32, {2, 3});
  EXPECT_EQ(values_of(make_reshape(x, {3, 2})), (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values_of(permuted(x, {1, 0})), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values_of(permuted(counting(DType::i32, {2, 1, 3, 2}), {3, 1, 0, 2})),
            (Values{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(values_of(make_expand(counting(DType::f32, {2, 1}), {2, 3})), (Values{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(values_of(padded(x, {1, 0}, {0, 1}, 9)), (Values{9, 9, 9, 9, 0, 1, 2, 9, 3, 4, 5, 9}));
  EXPECT_EQ(values_of(shrunk(x, {0, 1}, {2, 2})), (Values{1, 2, 4, 5}));
  EXPECT_EQ(values_of(flipped(x, {1})), (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(values_of(flipped(x, {0, 1})), (Values{5, 4, 3, 2, 1, 0}));
}

TEST(Evaluate, windows) {
  NodeRef x = counting(DType::f32, {6});
  EXPECT_EQ(values_of(make_window(x, 0, 3, 2, 1)), (Values{0, 1, 2, 2, 3, 4}));
  EXPECT_EQ(values_of(make_window(x, 0, 2, 1, 3)), (Values{0, 3, 1, 4, 2, 5}));
  NodeRef two = counting(DType::f32, {3, 2});
  NodeRef inner = make_window(two, 0, 2, 1, 1);
  EXPECT_EQ(evaluate_one(inner).shape, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(values_of(inner), (Values{0, 2, 1, 3, 2, 4, 3, 5}));
  // Each element comes back as often as windows cover it.
  EXPECT_EQ(values_of(make_unwindow(make_window(x, 0, 3, 2, 1), 0, 3, 2, 1, 6)), (Values{0, 1, 4, 3, 4, 0}));
  EXPECT_EQ(values_of(make_unwindow(inner, 0, 2, 1, 1, 3)), (Values{0, 1, 4, 6, 4, 5}));
}

TEST(Evaluate, cat_and_gather) {
  NodeRef x = counting(DType::f32, {2, 3}), y = buffer_of({2, 1}, {8, 9});
  EXPECT_EQ(values_of(joined({x, y, x}, 1)), (Values{0, 1, 2, 8, 0, 1, 2, 3, 4, 5, 9, 3, 4, 5}));
  EXPECT_EQ(values_of(joined({x, x}, 0)), (Values{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  NodeRef index = buffer_of(DType::i32, {2, 2}, {2, -5, 99, 1});
  NodeRef picked = make_gather(x, index, 1);
  EXPECT_EQ(evaluate_one(picked).shape, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(values_of(picked), (Values{2, 0, 2, 1, 5, 3, 5, 4}));
  EXPECT_EQ(values_of(make_gather(x, buffer_of(DType::u64, {1}, {1e19}), 0)), (Values{3, 4, 5}));
  EXPECT_EQ(values_of(make_gather(x, buffer_of(DType::u8, {3}, {1, 0, 1}), 0)), (Values{3, 4, 5, 0, 1, 2, 3, 4, 5}));
}

TEST(Evaluate, barrier_is_its_value) {
  NodeRef x = counting(DType::f32, {2});
  EXPECT_EQ(values_of(make_barrier(x, counting(DType::f32, {}))), (Values{0, 1}));
}

TEST(Evaluate, symbolic_sizes) {
  Expr n = Expr::symbol("n", 0, 8);
  NodeRef x = make_input(0, 0, DType::i32, {n, 2});
  NodeRef roots[] = {reduced(ReduceOp::Max, x, {0}), make_reshape(flipped(x, {0}), {n * 2}),
                     padded(x, {n, 0}, {0, 0}, 7), make_iota(DType::i64, {n + 1}, 0)};
  auto run = [&](int64_t size, std::vector<uint64_t> data) {
    return evaluate(roots, {{n, size}}, {{x.get(), HostArray{DType::i32, {size, 2}, {}, std::move(data)}}});
  };
  std::vector<HostArray> two = run(2, {1, 2, 3, 4});
  EXPECT_EQ(doubles(two[0]), (Values{3, 4}));
  EXPECT_EQ(doubles(two[1]), (Values{3, 4, 1, 2}));
  EXPECT_EQ(doubles(two[2]), (Values{7, 7, 7, 7, 1, 2, 3, 4}));
  EXPECT_EQ(doubles(two[3]), (Values{0, 1, 2}));
  std::vector<HostArray> none = run(0, {});
  EXPECT_EQ(doubles(none[0]), (Values{-2147483648.0, -2147483648.0}));
  EXPECT_EQ(none[2].shape, (std::vector<int64_t>{0, 2}));
}

TEST(Evaluate, million_op_chain) {
  NodeRef leaf = buffer_of(DType::i32, {2}, {1, 2}), x = leaf;
  for (int i = 0; i < 1'000'000; ++i) x = scalar_node(ScalarOp::add, {x, leaf});
  EXPECT_EQ(values_of(x), (Values{1'000'001, 2'000'002}));
}

}  // namespace
}  // namespace heddle
