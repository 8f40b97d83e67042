#include "graph/gradient.h"

#include "base/error.h"
#include "graph/gradient_check.h"
#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace testing;
using Nodes = std::vector<NodeRef>;

NodeRef along(const Shape& shape, const std::vector<double>& values) { return buffer_of(DType::i64, shape, values); }

// Values away from kinks and poles of each function.
struct Range {
  ScalarOp op;
  double low, high;
};
const Range kUnary[] = {
    {ScalarOp::neg, -2, 2},      {ScalarOp::abs, 0.3, 2},       {ScalarOp::abs, -2, -0.3},
    {ScalarOp::sqrt, 0.3, 3},    {ScalarOp::floor, 0.2, 0.8},   {ScalarOp::ceil, 0.2, 0.8},
    {ScalarOp::trunc, 0.2, 0.8}, {ScalarOp::round, 0.6, 1.4},   {ScalarOp::exp, -2, 2},
    {ScalarOp::exp2, -2, 2},     {ScalarOp::expm1, -2, 2},      {ScalarOp::log, 0.3, 3},
    {ScalarOp::log2, 0.3, 3},    {ScalarOp::log10, 0.3, 3},     {ScalarOp::log1p, -0.6, 3},
    {ScalarOp::sin, -3, 3},      {ScalarOp::cos, -3, 3},        {ScalarOp::tan, -1.2, 1.2},
    {ScalarOp::asin, -0.8, 0.8}, {ScalarOp::acos, -0.8, 0.8},   {ScalarOp::atan, -3, 3},
    {ScalarOp::sinh, -2, 2},     {ScalarOp::cosh, -2, 2},       {ScalarOp::tanh, -2, 2},
    {ScalarOp::asinh, -3, 3},    {ScalarOp::acosh, 1.3, 4},     {ScalarOp::atanh, -0.8, 0.8},
    {ScalarOp::erf, -2, 2},      {ScalarOp::erfinv, -0.8, 0.8}, {ScalarOp::cbrt, 0.3, 3},
};
const Range kBinary[] = {
    {ScalarOp::add, -2, 2},     {ScalarOp::sub, -2, 2},     {ScalarOp::mul, -2, 2},  {ScalarOp::div, 0.4, 2},
    {ScalarOp::minimum, -2, 2}, {ScalarOp::maximum, -2, 2}, {ScalarOp::pow, 0.4, 2}, {ScalarOp::atan2, 0.4, 2},
};

TEST(Gradient, of_every_function_of_one_operand) {
  for (const Range& c : kUnary)
    check_gradients(info(c.op).name, random_point({{5}}, c.low, c.high, 11),
                    [&](const Nodes& x) { return scalar_node(c.op, {x[0]}); });
}

TEST(Gradient, of_every_function_of_two_operands) {
  for (const Range& c : kBinary)
    check_gradients(info(c.op).name, random_point({{2, 3}, {2, 3}}, c.low, c.high, 12),
                    [&](const Nodes& x) { return scalar_node(c.op, {x[0], x[1]}); });
  check_gradients("mod", random_point({{6}}, 2.1, 2.9, 1),
                  [](const Nodes& x) { return scalar_node(ScalarOp::mod, {x[0], number(DType::f64, 1.5, {6})}); });
  check_gradients(
      "mod by", random_point({{6}}, 1.1, 1.9, 1),
      [](const Nodes& x) { return scalar_node(ScalarOp::mod, {number(DType::f64, 7.7, {6}), x[0]}); }, false);
  check_gradients("scale", random_point({{6}, {6}}, 1.1, 1.9, 1),
                  [](const Nodes& x) { return scalar_node(ScalarOp::scale, {x[0], x[1]}); });
  check_gradients("floordiv", random_point({{6}}, 2.1, 2.9, 1),
                  [](const Nodes& x) { return scalar_node(ScalarOp::floordiv, {x[0], number(DType::f64, 1.0, {6})}); });
}

// A scalar op without a row in the tables above, or without a rule, fails here.
TEST(Gradient, is_defined_for_every_op_that_gives_floats) {
  for (int i = 0; i < kScalarOpCount; ++i) {
    auto op = static_cast<ScalarOp>(i);
    std::vector<DType> dtypes(static_cast<size_t>(info(op).arity), DType::f64);
    if (op == ScalarOp::where) dtypes[0] = DType::boolean;
    std::optional<DType> result = result_dtype(op, dtypes);
    if (!result || !is_float(*result)) continue;
    Nodes x;
    for (size_t k = 0; k < dtypes.size(); ++k) x.push_back(make_input(static_cast<int64_t>(k), 1, dtypes[k], {3}));
    NodeRef y = make_scalar(op, x), one = number(DType::f64, 1, {3});
    Nodes g = gradient(std::span(&y, 1), std::span(&one, 1), x);
    for (size_t k = 0; k < x.size(); ++k) EXPECT_EQ(bool(g[k]), dtypes[k] == DType::f64) << info(op).name;
  }
}

TEST(Gradient, of_choices_and_fma) {
  check_gradients("where", random_point({{4}, {4}}, -2, 2, 3), [](const Nodes& x) {
    NodeRef positive = scalar_node(ScalarOp::lt, {number(DType::f64, 0, {4}), x[0]});
    return scalar_node(ScalarOp::where, {positive, scalar_node(ScalarOp::mul, {x[0], x[1]}), x[1]});
  });
  check_gradients("fma", random_point({{4}, {4}, {4}}, -2, 2, 3),
                  [](const Nodes& x) { return scalar_node(ScalarOp::fma, {x[0], x[1], x[2]}); });
}

TEST(Gradient, of_reductions) {
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min})
    for (const std::vector<int>& axes : {std::vector<int>{0}, {1}, {0, 2}, {0, 1, 2}})
      check_gradients(name(op), random_point({{2, 3, 2}}, 0.4, 1.6, 4), [&](const Nodes& x) {
        NodeRef y = make_reduce(op, x[0], axes);
        return scalar_node(ScalarOp::mul, {y, y});
      });
}

TEST(Gradient, of_a_product_with_zeros) {
  Point point = random_point({{3, 4}}, 0.5, 2, 5);
  point.values[0].floats[1] = 0;                              // one zero in the first row
  point.values[0].floats[5] = point.values[0].floats[7] = 0;  // two in the second
  check_gradients("prod", point, [](const Nodes& x) { return reduced(ReduceOp::Prod, x[0], {1}); }, false);
  check_gradients("cumprod", point, [](const Nodes& x) { return make_scan(ReduceOp::Prod, x[0], 1); }, false);
}

TEST(Gradient, of_scans) {
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min})
    for (int axis : {0, 1})
      check_gradients(text("scan ", name(op)), random_point({{3, 4}}, 0.4, 1.6, 6), [&](const Nodes& x) {
        NodeRef y = make_scan(op, x[0], axis);
        return scalar_node(ScalarOp::mul, {y, y});
      });
}

TEST(Gradient, of_movement) {
  auto squared = [](const NodeRef& y) { return scalar_node(ScalarOp::mul, {y, y}); };
  Point point = random_point({{2, 3, 4}}, -2, 2, 7);
  check_gradients("reshape", point, [&](const Nodes& x) { return squared(make_reshape(x[0], {4, 6})); });
  check_gradients("permute", point, [&](const Nodes& x) { return squared(permuted(x[0], {2, 0, 1})); });
  check_gradients("expand", random_point({{2, 1, 3}}, -2, 2, 7),
                  [&](const Nodes& x) { return squared(make_expand(x[0], {2, 4, 3})); });
  check_gradients("pad", point, [&](const Nodes& x) { return squared(padded(x[0], {1, 0, 2}, {0, 1, 1}, 3)); });
  check_gradients("shrink", point, [&](const Nodes& x) { return squared(shrunk(x[0], {0, 1, 1}, {2, 2, 2})); });
  check_gradients("flip", point, [&](const Nodes& x) { return squared(flipped(x[0], {0, 2})); });
  for (int64_t stride : {1, 2})
    for (int64_t dilation : {1, 2}) {
      check_gradients("window", random_point({{2, 7}}, -2, 2, 7),
                      [&](const Nodes& x) { return squared(make_window(x[0], 1, 3, stride, dilation)); });
      int64_t positions = (7 - dilation * 2 - 1) / stride + 1;
      check_gradients("unwindow", random_point({{2, positions, 3}}, -2, 2, 7),
                      [&](const Nodes& x) { return squared(make_unwindow(x[0], 1, 3, stride, dilation, 7)); });
    }
  check_gradients("cat", random_point({{2, 3}, {2, 1}, {2, 2}}, -2, 2, 7),
                  [&](const Nodes& x) { return squared(joined({x[0], x[1], x[2], x[0]}, 1)); });
}

TEST(Gradient, of_gather_and_scatter) {
  auto squared = [](const NodeRef& y) { return scalar_node(ScalarOp::mul, {y, y}); };
  Point point = random_point({{3, 4}}, 0.4, 2, 8);
  check_gradients("gather rows", point,
                  [&](const Nodes& x) { return squared(make_gather(x[0], along({2, 2}, {2, 0, 2, 1}), 0)); });
  check_gradients("gather columns", point,
                  [&](const Nodes& x) { return squared(make_gather(x[0], along({3}, {3, 0, 3}), 1)); });
  check_gradients("gather along", point, [&](const Nodes& x) {
    return squared(make_gather_along(x[0], along({2, 4}, {2, 0, 2, 1, 0, 0, 2, 2}), 0));
  });
  check_gradients("pick one", point,
                  [&](const Nodes& x) { return squared(make_gather_along(x[0], along({3, 1}, {3, 0, 2}), 1)); });
  for (ScatterOp op : {ScatterOp::Set, ScatterOp::Add, ScatterOp::Mul, ScatterOp::Max, ScatterOp::Min})
    check_gradients(text("scatter ", name(op)), random_point({{3, 2}, {4, 2}}, 0.4, 2, 9), [&](const Nodes& x) {
      return squared(make_scatter(op, x[0], along({4, 2}, {0, 1, 2, 1, 0, 0, 0, 2}), x[1], 0));
    });
  Point zeros = random_point({{3}, {5}}, 0.4, 2, 9);
  zeros.values[1].floats[1] = zeros.values[1].floats[3] = zeros.values[1].floats[4] = 0;
  check_gradients(
      "scatter mul with zeros", zeros,
      [&](const Nodes& x) { return make_scatter(ScatterOp::Mul, x[0], along({5}, {0, 0, 1, 1, 1}), x[1], 0); }, false);
}

TEST(Gradient, of_sort_and_arg_reduce) {
  auto squared = [](const NodeRef& y) { return scalar_node(ScalarOp::mul, {y, y}); };
  Point point = random_point({{3, 5}}, -2, 2, 10);
  for (bool descending : {false, true})
    for (int64_t count : {5, 2})
      check_gradients("sort", point,
                      [&](const Nodes& x) { return squared(make_get(make_sort(x[0], descending, count), 0)); });
  check_gradients("max with index", point,
                  [&](const Nodes& x) { return squared(make_get(make_arg_reduce(ReduceOp::Max, x[0], 1), 0)); });
}

TEST(Gradient, of_casts_goes_back_to_the_dtype_of_the_input) {
  NodeRef x = make_input(0, 1, DType::bf16, {3}), one = number(DType::f32, 1, {3});
  NodeRef y = make_cast(x, DType::f32);
  Nodes g = gradient(std::span(&y, 1), std::span(&one, 1), std::span(&x, 1));
  EXPECT_EQ(g[0]->dtype, DType::bf16);
}

std::vector<double> gradient_values(const NodeRef& y, const NodeRef& x) {
  NodeRef one = number(y->dtype, 1, y->shape);
  Nodes g = gradient(std::span(&y, 1), std::span(&one, 1), std::span(&x, 1));
  return values_of(g[0]);
}

TEST(Gradient, of_ties_goes_to_the_first_element_or_half_to_each_operand) {
  NodeRef x = buffer_of(DType::f64, {4}, {1, 3, 3, 2});
  EXPECT_EQ(gradient_values(reduced(ReduceOp::Max, x, {0}), x), (std::vector<double>{0, 1, 0, 0}));
  NodeRef a = buffer_of(DType::f64, {3}, {1, 2, 3}), b = buffer_of(DType::f64, {3}, {1, 1, 4});
  EXPECT_EQ(gradient_values(scalar_node(ScalarOp::maximum, {a, b}), a), (std::vector<double>{0.5, 1, 0}));
}

TEST(Gradient, of_scattered_extremes_with_ties_goes_to_the_base_or_the_first_update) {
  for (ScatterOp op : {ScatterOp::Max, ScatterOp::Min}) {
    NodeRef base = buffer_of(DType::f64, {3}, {5, op == ScatterOp::Max ? -9.0 : 9.0, -0.5});
    NodeRef updates = buffer_of(DType::f64, {5}, {5, 2, 2, -0.5, 7});
    // The last one falls outside: it must not win where the index is clamped to.
    NodeRef y = make_scatter(op, base, along({5}, {0, 1, 1, 2, 3}), updates, 0);
    EXPECT_EQ(gradient_values(y, base), (std::vector<double>{1, 0, 1}));
    EXPECT_EQ(gradient_values(y, updates), (std::vector<double>{0, 1, 0, 0, 0}));
  }
}

// Scatters round to f32 while elementwise results do not, as in kernels that compute the same value twice.
TEST(Gradient, of_scattered_extremes_does_not_depend_on_rounding) {
  NodeRef x = buffer_of(DType::f32, {2}, {0.1, 0.7}), u = buffer_of(DType::f32, {3}, {0.2, 0.3, 0.6});
  NodeRef y = make_scatter(ScatterOp::Max, scalar_node(ScalarOp::mul, {x, x}), along({3}, {0, 0, 1}),
                           scalar_node(ScalarOp::mul, {u, u}), 0);
  EXPECT_EQ(gradient_values(y, x), (std::vector<double>{0, 1.4f}));
  EXPECT_EQ(gradient_values(y, u), (std::vector<double>{0, 0.6f, 0}));
}

TEST(Gradient, of_scans_along_axes_that_may_be_empty) {
  Expr n = Expr::bound(Expr::symbol("n", 0, 8), 3), m = Expr::bound(Expr::symbol("m", 2, 4), 2);
  for (const Expr& size : {n, m * n - n}) {  // bounds do not show that the second is no less than 0
    auto storage = std::make_shared<HostStorage>(3 * sizeof(double));
    for (int i = 0; i < 3; ++i) store_scalar(storage->data(), i, Scalar::of(DType::f64, i == 1 ? 5 : i));
    NodeRef x = make_buffer(storage, DType::f64, Shape{size});
    EXPECT_EQ(gradient_values(make_scan(ReduceOp::Max, x, 0), x), (std::vector<double>{1, 2, 0}));
    EXPECT_EQ(gradient_values(make_scan(ReduceOp::Min, x, 0), x), (std::vector<double>{3, 0, 0}));
    EXPECT_EQ(gradient_values(reduced(ReduceOp::Prod, x, {0}), x), (std::vector<double>{10, 0, 0}));
  }
}

TEST(Gradient, of_relu_at_zero_is_zero) {
  NodeRef x = buffer_of(DType::f64, {3}, {-1, 0, 1});
  NodeRef relu = scalar_node(ScalarOp::maximum, {x, number(DType::f64, 0, {3})});
  EXPECT_EQ(gradient_values(relu, x), (std::vector<double>{0, 0, 1}));
}

// The well-known trap: where(x > 0, sqrt(x), 0) must not be NaN at and below zero.
TEST(Gradient, what_where_leaves_out_stays_out) {
  NodeRef x = buffer_of(DType::f64, {3}, {-1, 0, 4}), zero = number(DType::f64, 0, {3});
  NodeRef positive = scalar_node(ScalarOp::lt, {zero, x});
  for (ScalarOp op : {ScalarOp::sqrt, ScalarOp::log, ScalarOp::acosh}) {
    std::vector<double> g = gradient_values(scalar_node(ScalarOp::where, {positive, scalar_node(op, {x}), zero}), x);
    EXPECT_EQ(g[0], 0) << info(op).name;
    EXPECT_EQ(g[1], 0) << info(op).name;
    EXPECT_GT(g[2], 0) << info(op).name;
  }
  NodeRef quotient = scalar_node(ScalarOp::div, {number(DType::f64, 1, {3}), x});
  EXPECT_EQ(gradient_values(scalar_node(ScalarOp::where, {positive, quotient, zero}), x),
            (std::vector<double>{0, 0, -1.0 / 16}));
}

TEST(Gradient, of_sqrt_at_zero_is_infinite) {
  NodeRef x = buffer_of(DType::f64, {1}, {0});
  EXPECT_TRUE(std::isinf(gradient_values(scalar_node(ScalarOp::sqrt, {x}), x)[0]));
}

TEST(Gradient, detached_values_are_constants) {
  NodeRef x = buffer_of(DType::f64, {2}, {3, 5});
  EXPECT_EQ(gradient_values(scalar_node(ScalarOp::mul, {x, make_detached(x)}), x), (std::vector<double>{3, 5}));
}

TEST(Gradient, says_why_there_is_none) {
  NodeRef x = buffer_of(DType::f64, {2}, {3, 5}), other = buffer_of(DType::f64, {2}, {3, 5});
  NodeRef one = number(DType::f64, 1, {2});
  auto why = [&](const NodeRef& y) {
    EXPECT_FALSE(gradient(std::span(&y, 1), std::span(&one, 1), std::span(&x, 1))[0]);
    return why_no_gradient(std::span(&y, 1), x);
  };
  EXPECT_EQ(why(other), "does not depend on it");
  EXPECT_EQ(why(make_detached(scalar_node(ScalarOp::sin, {x}))), "depends on it only through detach()");
  EXPECT_EQ(why(make_cast(make_cast(x, DType::i32), DType::f64)),
            "depends on it only through cast to i32, which has no gradient");
  NodeRef below = scalar_node(ScalarOp::lt, {x, other});
  EXPECT_EQ(why(make_cast(below, DType::f64)), "depends on it only through lt to bool, which has no gradient");
  NodeRef index = make_get(make_arg_reduce(ReduceOp::Max, x, 0), 1);
  EXPECT_EQ(why(make_expand(make_reshape(make_cast(index, DType::f64), {1}), {2})),
            "depends on it only through the positions that argmax gives, which are i64");
}

TEST(Gradient, follows_realised_data_to_its_history) {
  NodeRef x = buffer_of(DType::f64, {2}, {3, 5});
  NodeRef square = scalar_node(ScalarOp::mul, {x, x});
  auto history = std::make_shared<GradientRule>();
  history->computed_from = square;
  NodeRef data = buffer_of(DType::f64, {2}, {9, 25});
  NodeRef realised = make_buffer(data->storage, DType::f64, {2}, history);
  NodeRef y = scalar_node(ScalarOp::mul, {realised, x});
  EXPECT_EQ(gradient_values(y, x), (std::vector<double>{27, 75}));
  // Recorded partly before and partly after the value was realised.
  NodeRef both = scalar_node(ScalarOp::add, {scalar_node(ScalarOp::mul, {square, x}), y});
  EXPECT_EQ(gradient_values(both, realised), (std::vector<double>{6, 10}));
}

TEST(Gradient, of_deep_graphs_needs_no_stack) {
  NodeRef x = make_input(0, 1, DType::f64, {1}), y = x;
  for (int i = 0; i < 200000; ++i) y = scalar_node(ScalarOp::sin, {y});
  NodeRef one = number(DType::f64, 1, {1});
  EXPECT_TRUE(gradient(std::span(&y, 1), std::span(&one, 1), std::span(&x, 1))[0]);
}

TEST(Gradient, of_a_custom_rule_checks_what_the_rule_gives) {
  auto rule = std::make_shared<const GradientRule>(GradientRule{
      "odd", [](const Node&, const NodeRef&, GradientRule::Wanted) { return Nodes{number(DType::f32, 1, {5})}; }});
  NodeRef x = make_input(0, 1, DType::f64, {2}), one = number(DType::f64, 1, {2});
  NodeRef y = make_pullback(x, std::span(&x, 1), rule);
  EXPECT_THROW(gradient(std::span(&y, 1), std::span(&one, 1), std::span(&x, 1)), ShapeError);
}

}  // namespace
}  // namespace heddle
