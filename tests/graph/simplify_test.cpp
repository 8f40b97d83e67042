// Rewriting of whole graphs.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "graph/random_graph.h"

namespace heddle {
namespace {

using namespace heddle::testing;

TEST(Simplify, elementwise_work_moves_below_expand) {
  NodeRef x = counting(DType::f32, {1, 3});
  NodeRef wide = scalar_node(ScalarOp::neg, {make_expand(x, {5, 3})});
  EXPECT_EQ(simplify_one(wide), make_expand(scalar_node(ScalarOp::neg, {x}), {5, 3}));
  NodeRef cast = make_cast(make_expand(x, {5, 3}), DType::i32);
  EXPECT_EQ(simplify_one(cast), make_expand(make_cast(x, DType::i32), {5, 3}));
  NodeRef scaled = scalar_node(ScalarOp::mul, {make_expand(x, {5, 3}), number(DType::f32, 3, {5, 3})});
  EXPECT_EQ(simplify_one(scaled), make_expand(scalar_node(ScalarOp::mul, {x, number(DType::f32, 3, {1, 3})}), {5, 3}));
}

TEST(Simplify, only_axes_repeated_in_every_operand_move) {
  NodeRef row = counting(DType::f32, {1, 1, 3}), column = counting(DType::f32, {1, 4, 1});
  Shape wide = {5, 4, 3};
  NodeRef sum = scalar_node(ScalarOp::add, {make_expand(row, wide), make_expand(column, wide)});
  NodeRef thin = scalar_node(ScalarOp::add, {make_expand(row, {1, 4, 3}), make_expand(column, {1, 4, 3})});
  EXPECT_EQ(simplify_one(sum), make_expand(thin, wide));
  EXPECT_EQ(simplify_one(thin), thin);
  NodeRef full = scalar_node(ScalarOp::add, {make_expand(row, wide), counting(DType::f32, wide)});
  EXPECT_EQ(simplify_one(full), full);
}

// The gradient of what two layers read: each product is one that units multiply, and none is rounded before the sum.
TEST(Simplify, a_sum_of_few_products_is_several_sums) {
  const Shape all = {64, 48, 96};
  auto product = [&] {
    return scalar_node(ScalarOp::mul, {make_expand(counting(DType::bf16, {64, 1, 96}), all),
                                       make_expand(counting(DType::bf16, {1, 48, 96}), all)});
  };
  const int axes[] = {2};
  NodeRef sum = make_reduce(ReduceOp::Sum, scalar_node(ScalarOp::add, {product(), product()}), axes);
  NodeRef simple = simplify_one(sum);
  ASSERT_EQ(simple->op, NodeOp::Cast);
  EXPECT_EQ(simple->dtype, DType::bf16);
  NodeRef total = simple->inputs[0];
  ASSERT_EQ(total->op, NodeOp::Scalar);
  EXPECT_EQ(total->scalar_op, ScalarOp::add);
  for (const NodeRef& part : total->inputs) {
    EXPECT_EQ(part->op, NodeOp::Reduce);
    EXPECT_EQ(part->dtype, DType::f32);
    EXPECT_EQ(part->inputs[0]->scalar_op, ScalarOp::mul);
  }
  // Small ones are done sooner in one kernel.
  const Shape few = {4, 5, 6};
  auto small = [&] {
    return scalar_node(ScalarOp::mul, {make_expand(counting(DType::f32, {4, 1, 6}), few),
                                       make_expand(counting(DType::f32, {1, 5, 6}), few)});
  };
  NodeRef short_sum = make_reduce(ReduceOp::Sum, scalar_node(ScalarOp::add, {small(), small()}), axes);
  EXPECT_EQ(simplify_one(short_sum)->op, NodeOp::Reduce);
}

TEST(Simplify, work_on_positions_is_done_once_per_position) {
  NodeRef doubled = scalar_node(ScalarOp::mul, {make_iota(DType::i64, {4, 5}, 1), number(DType::i64, 2, {4, 5})});
  NodeRef once = scalar_node(ScalarOp::mul, {make_iota(DType::i64, {1, 5}, 1), number(DType::i64, 2, {1, 5})});
  EXPECT_EQ(simplify_one(doubled), make_expand(once, {4, 5}));
}

TEST(Simplify, moves_through_whole_chains) {
  NodeRef x = counting(DType::f32, {1, 3}), y = make_expand(x, {5, 3}), thin = x;
  for (ScalarOp op : {ScalarOp::exp, ScalarOp::neg, ScalarOp::tanh}) {
    y = scalar_node(op, {y});
    thin = scalar_node(op, {thin});
  }
  EXPECT_EQ(simplify_one(y), make_expand(thin, {5, 3}));
}

TEST(Simplify, reductions_of_repeated_values) {
  NodeRef i = counting(DType::i32, {1, 3}), f = counting(DType::f32, {1, 3});
  auto over = [](ReduceOp op, const NodeRef& x, int axis) { return reduced(op, make_expand(x, {5, 3}), {axis}); };
  EXPECT_EQ(simplify_one(over(ReduceOp::Sum, i, 0)),
            scalar_node(ScalarOp::mul, {make_reshape(i, {3}), number(DType::i32, 5, {3})}));
  EXPECT_EQ(simplify_one(over(ReduceOp::Max, f, 0)), make_reshape(f, {3}));
  NodeRef sum = over(ReduceOp::Sum, f, 0);
  EXPECT_EQ(simplify_one(sum), sum) << "a product would round differently";
  EXPECT_EQ(simplify_one(over(ReduceOp::Sum, f, 1)), make_expand(reduced(ReduceOp::Sum, f, {1}), {5}));
}

TEST(Simplify, divides_by_the_sum_of_a_softmax_after_a_sum_of_products) {
  Shape wide = {4, 5, 3};
  NodeRef v = counting(DType::f32, {5, 3});
  auto products = [&](const NodeRef& a) {
    NodeRef left = make_expand(make_reshape(a, {4, 1, 3}), wide), right = make_expand(make_reshape(v, {1, 5, 3}), wide);
    return reduced(ReduceOp::Sum, scalar_node(ScalarOp::mul, {left, right}), {2});
  };
  auto row = [&](ReduceOp op, const NodeRef& x) { return make_reshape(reduced(op, x, {1}), {4, 1}); };
  auto spread = [](const NodeRef& x) { return make_expand(x, {4, 3}); };
  NodeRef x = counting(DType::f32, {4, 3}), one = number(DType::f32, 1, {4, 1});
  NodeRef e = scalar_node(ScalarOp::exp, {scalar_node(ScalarOp::sub, {x, spread(row(ReduceOp::Max, x))})});
  NodeRef sum = row(ReduceOp::Sum, e), reciprocal = scalar_node(ScalarOp::div, {one, sum});
  for (ScalarOp op : {ScalarOp::div, ScalarOp::mul}) {
    NodeRef by = spread(op == ScalarOp::div ? sum : reciprocal);
    NodeRef before = products(scalar_node(op, {e, by})), after = simplify_one(before);
    ASSERT_EQ(after->op, NodeOp::Scalar);
    EXPECT_EQ(after->scalar_op, op);
    EXPECT_EQ(after->inputs[op == ScalarOp::div ? 0 : 1], products(e));
    NodeRef both[] = {before, after};
    std::vector<HostArray> values = evaluate(both);
    for (size_t i = 0; i < values[0].floats.size(); ++i)
      EXPECT_NEAR(values[0].floats[i], values[1].floats[i], 1e-9 * (1 + std::fabs(values[0].floats[i])));
  }
  // Any other divisor or factor may be what keeps the products from overflowing.
  NodeRef any = counting(DType::f32, {4, 1}), raw = scalar_node(ScalarOp::exp, {x});
  NodeRef largest = spread(row(ReduceOp::Max, x)), lowest = spread(row(ReduceOp::Min, x));
  NodeRef above = scalar_node(ScalarOp::exp, {scalar_node(ScalarOp::sub, {x, lowest})});
  for (const NodeRef& factor :
       {scalar_node(ScalarOp::div, {x, largest}), scalar_node(ScalarOp::mul, {x, spread(any)}),
        scalar_node(ScalarOp::div, {e, spread(any)}), scalar_node(ScalarOp::mul, {e, spread(sum)}),
        scalar_node(ScalarOp::div, {raw, spread(row(ReduceOp::Sum, raw))}),
        scalar_node(ScalarOp::div, {above, spread(row(ReduceOp::Sum, above))})})
    EXPECT_EQ(simplify_one(products(factor))->op, NodeOp::Reduce);
}

TEST(Simplify, divides_by_a_power_of_two_only_where_its_reciprocal_is_exact) {
  for (DType dtype : {DType::f8e4m3, DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64})
    for (int k = -16; k <= 16; ++k) {
      double divisor = std::ldexp(1.0, k);
      if (k == 0 || Scalar::of(dtype, divisor).f != divisor) continue;
      NodeRef x = counting(dtype, {6});
      NodeRef quotient = scalar_node(ScalarOp::div, {x, number(dtype, divisor, {6})});
      if (quotient->scalar_op == ScalarOp::mul) {
        EXPECT_EQ(quotient->inputs[1]->literal.f, 1 / divisor) << dtype << " 2^" << k;
      }
      HostArray values = evaluate(std::span(&quotient, 1))[0], from = evaluate(std::span(&x, 1))[0];
      for (size_t i = 0; i < 6; ++i) {
        double want = Scalar::of(dtype, from.floats[i] / divisor).f;
        if (want != want) continue;
        EXPECT_EQ(values.floats[i], want) << dtype << " 2^" << k;
      }
    }
  auto is_division = [](DType dtype, double by) {
    NodeRef x = counting(dtype, {6});
    return scalar_node(ScalarOp::div, {x, number(dtype, by, {6})})->scalar_op == ScalarOp::div;
  };
  EXPECT_TRUE(is_division(DType::f8e4m3, 0x1p-9));  // 512 is too large for the dtype
  EXPECT_TRUE(is_division(DType::f8e4m3, 0x1p7));   // 2^-7 is subnormal in it
  EXPECT_FALSE(is_division(DType::f8e4m3, 0x1p-8));
  EXPECT_FALSE(is_division(DType::f32, 0x1p-9));
}

TEST(Simplify, scans_before_it_repeats) {
  NodeRef x = counting(DType::f32, {1, 3}), wide = make_expand(x, {5, 3});
  EXPECT_EQ(simplify_one(make_scan(ReduceOp::Sum, wide, 1)), make_expand(make_scan(ReduceOp::Sum, x, 1), {5, 3}));
  NodeRef along = make_scan(ReduceOp::Sum, wide, 0);
  EXPECT_EQ(simplify_one(along), along);
}

TEST(Simplify, argmax_without_its_index_is_max) {
  NodeRef x = counting(DType::f32, {2, 3});
  NodeRef best = make_arg_reduce(ReduceOp::Max, x, 1);
  NodeRef value = make_get(best, 0), position = make_get(best, 1);
  EXPECT_EQ(simplify_one(value), reduced(ReduceOp::Max, x, {1}));
  EXPECT_EQ(simplify_one(position), position);
  NodeRef both[] = {value, position};
  EXPECT_EQ(simplify(both), (std::vector<NodeRef>{value, position}));
}

TEST(Simplify, keeps_barriers_apart) {
  NodeRef x = counting(DType::f32, {1}), wide = scalar_node(ScalarOp::exp, {make_expand(x, {4})});
  NodeRef roots[] = {make_barrier(wide, x), make_barrier(wide, x)};
  std::vector<NodeRef> now = simplify(roots);
  EXPECT_NE(now[0], now[1]);
  EXPECT_EQ(now[0]->op, NodeOp::Barrier);
  EXPECT_EQ(simplify(roots), now) << "simplifying again gives the same nodes";
}

TEST(Simplify, million_op_chain_is_rewritten_without_recursion) {
  size_t before = live_nodes();
  {
    NodeRef leaf = make_expand(counting(DType::f32, {1}), {4}), x = leaf;
    for (int i = 0; i < 300'000; ++i) x = scalar_node(ScalarOp::add, {x, leaf});
    NodeRef simple = simplify_one(x);
    EXPECT_EQ(simple->op, NodeOp::Expand);
    EXPECT_EQ(simple->inputs[0]->shape, (Shape{1}));
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(Replace, rebuilds_what_depends_on_the_replaced) {
  NodeRef x = counting(DType::f32, {2}), y = buffer_of({2}, {5, 6});
  NodeRef kept = scalar_node(ScalarOp::exp, {y});
  NodeRef roots[] = {scalar_node(ScalarOp::add, {scalar_node(ScalarOp::neg, {x}), kept}), kept};
  std::vector<NodeRef> now = replace(roots, {{x.get(), y}});
  EXPECT_EQ(now[0], scalar_node(ScalarOp::add, {scalar_node(ScalarOp::neg, {y}), kept}));
  EXPECT_EQ(now[1], kept);
  std::vector<NodeRef> folded = replace(roots, {{x.get(), number(DType::f32, 1, {2})}});
  EXPECT_EQ(folded[0]->inputs[0], kept) << "constants stand on the right";
  EXPECT_EQ(folded[0]->inputs[1], number(DType::f32, -1, {2}));
}

TEST(Replace, wrong_shapes_are_errors) {
  NodeRef x = counting(DType::f32, {2});
  NodeRef root = scalar_node(ScalarOp::mul, {x, buffer_of({2}, {5, 6})});
  EXPECT_THROW(replace(std::span(&root, 1), {{x.get(), counting(DType::f32, {3})}}), ShapeError);
}

void expect_same_values(uint64_t seed, const RandomGraphOptions& options) {
  RandomGraph graph = random_graph(seed, options);
  std::vector<NodeRef> simple = simplify(graph.roots);
  std::vector<HostArray> expected = evaluate(graph.roots, graph.symbols), got = evaluate(simple, graph.symbols);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(difference(expected[i], got[i], graph.tolerances[i]), "") << "seed " << seed << ", root " << i << "\n"
                                                                        << print_graph(graph.roots) << "simplified\n"
                                                                        << print_graph(simple);
    for (double value : expected[i].floats) EXPECT_TRUE(std::isfinite(value)) << "seed " << seed;
  }
  EXPECT_EQ(simplify(simple), simple) << "seed " << seed << ": simplifying again changes it\n" << print_graph(simple);
}

TEST(Simplify, preserves_values_of_random_graphs) {
  for (uint64_t seed = 0; seed < 1500 && !::testing::Test::HasFailure(); ++seed) expect_same_values(seed, {});
}

TEST(Simplify, preserves_values_of_large_random_graphs) {
  RandomGraphOptions options;
  options.steps = 80;
  for (uint64_t seed = 0; seed < 60 && !::testing::Test::HasFailure(); ++seed) expect_same_values(seed, options);
}

TEST(Simplify, preserves_values_of_symbolic_random_graphs) {
  RandomGraphOptions options;
  options.symbolic = true;
  for (uint64_t seed = 0; seed < 500 && !::testing::Test::HasFailure(); ++seed) expect_same_values(seed, options);
}

// The value as a buffer of its own: what is built on it cannot look inside.
NodeRef realised(const NodeRef& x, const SymbolValues& symbols) {
  HostArray value = evaluate(std::span(&x, 1), symbols)[0];
  auto storage = std::make_shared<HostStorage>(static_cast<uint64_t>(value.numel() * size_of(value.dtype)));
  for (int64_t i = 0; i < value.numel(); ++i) {
    Scalar element = Scalar::of(value.dtype, 0);
    if (is_float(value.dtype))
      element.f = value.floats[static_cast<size_t>(i)];
    else
      element.u = value.integers[static_cast<size_t>(i)];
    store_scalar(storage->data(), i, element);
  }
  return make_buffer(storage, x->dtype, x->shape);
}

// Step by step on realised values, every builder sees only buffers; in one graph it folds and merges all it can.
void expect_builders_preserve_values(uint64_t seed, RandomGraphOptions options) {
  options.drop_constants = false;
  options.max_nodes = 1'000'000;
  RandomGraph lazy = random_graph(seed, options);
  options.wrap = realised;
  RandomGraph eager = random_graph(seed, options);
  ASSERT_EQ(lazy.roots.size(), eager.roots.size());
  // Symbols are new in each graph.
  std::vector<HostArray> got = evaluate(lazy.roots, lazy.symbols), expected = evaluate(eager.roots, eager.symbols);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(difference(expected[i], got[i], lazy.tolerances[i]), "") << "seed " << seed << ", root " << i << "\n"
                                                                       << print_graph(lazy.roots);
}

TEST(Builders, preserve_values_of_random_graphs) {
  for (uint64_t seed = 0; seed < 2000 && !::testing::Test::HasFailure(); ++seed)
    expect_builders_preserve_values(seed, {});
}

TEST(Builders, preserve_values_of_symbolic_random_graphs) {
  RandomGraphOptions options;
  options.symbolic = true;
  for (uint64_t seed = 0; seed < 1000 && !::testing::Test::HasFailure(); ++seed)
    expect_builders_preserve_values(seed, options);
}

TEST(Builders, preserve_values_of_long_chains_of_views) {
  RandomGraphOptions options;
  options.steps = 100;
  options.dtypes = {DType::i32, DType::f32, DType::boolean, DType::i64};
  for (uint64_t seed = 0; seed < 200 && !::testing::Test::HasFailure(); ++seed)
    expect_builders_preserve_values(seed, options);
}

TEST(RandomGraph, covers_every_kind_of_node_op_and_dtype) {
  std::set<NodeOp> ops;
  std::set<ScalarOp> scalar_ops;
  std::set<DType> dtypes;
  bool empty = false;
  size_t uncertain = 0, roots = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    RandomGraph graph = random_graph(seed);
    for (const Node* node : topological(graph.roots)) {
      ops.insert(node->op);
      dtypes.insert(node->dtype);
      if (node->op == NodeOp::Scalar) scalar_ops.insert(node->scalar_op);
      empty |= node->shape.is_static() && node->shape.static_numel() == 0;
    }
    roots += graph.roots.size();
    uncertain += static_cast<size_t>(std::count_if(graph.tolerances.begin(), graph.tolerances.end(),
                                                   [](double tolerance) { return tolerance > 0; }));
  }
  ops.insert(NodeOp::Input);                 // values of captured functions are given by the caller
  ops.insert({NodeOp::Loop, NodeOp::Cond});  // fuzz_control draws whole programs of them
  ops.insert(NodeOp::Custom);                // tests/custom
  ops.insert(NodeOp::To);                    // there are no devices here: fuzz::spread() draws it
  EXPECT_EQ(ops.size(), static_cast<size_t>(NodeOp::Barrier) + 1);
  for (int op = 0; op < kScalarOpCount; ++op)
    EXPECT_TRUE(scalar_ops.contains(static_cast<ScalarOp>(op))) << info(static_cast<ScalarOp>(op)).name;
  EXPECT_EQ(dtypes.size(), 15u);
  EXPECT_TRUE(empty);
  EXPECT_GT(uncertain, roots / 10);
}

TEST(RandomGraph, is_the_same_for_the_same_seed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomGraph a = random_graph(seed), b = random_graph(seed);
    ASSERT_EQ(a.roots.size(), b.roots.size());
    EXPECT_EQ(print_graph(a.roots), print_graph(b.roots));
    for (size_t i = 0; i < a.roots.size(); ++i) EXPECT_EQ(a.roots[i]->structure, b.roots[i]->structure);
  }
  EXPECT_NE(print_graph(random_graph(1).roots), print_graph(random_graph(2).roots));
}

TEST(RandomGraph, leaves_nothing_behind) {
  size_t before = live_nodes();
  for (uint64_t seed = 0; seed < 50; ++seed) simplify(random_graph(seed).roots);
  EXPECT_EQ(live_nodes(), before);
}

}  // namespace
}  // namespace heddle
