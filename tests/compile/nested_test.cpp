// Nested sums: attention and its like, through every stage, against the evaluator.
#include "compile/loops/online.h"
#include "compile/loops/useful_span.h"
#include "graph/gradient.h"
#include "nest_graphs.h"
#include "run_program.h"

namespace heddle {
namespace {

using namespace heddle::testing;

struct Case {
  std::string name;
  std::vector<NodeRef> roots;
  int launches;
  double tolerance = 2e-5;
};

std::vector<NodeRef> with_gradients(const NodeRef& out, std::vector<NodeRef> inputs, uint64_t seed) {
  NodeRef g = leaf(out->shape, seed);
  std::vector<NodeRef> roots = gradient(std::span(&out, 1), std::span(&g, 1), inputs);
  roots.insert(roots.begin(), out);
  return simplify(roots);
}

std::vector<Case> cases() {
  std::vector<Case> list;
  NodeRef q = leaf({70, 16}, 1), k = leaf({50, 16}, 2), v = leaf({50, 24}, 3), bias = leaf({70, 50}, 4);
  NodeRef s = matmul(q, transposed(k));
  NodeRef scaled = op(ScalarOp::mul, {s, number(0.25, s)});
  list.push_back({"attention", {matmul(softmax(scaled), v)}, 1});
  list.push_back({"divided_afterwards", simplify(std::vector{matmul(softmax(scaled), v)}), 1});
  list.push_back({"bias", {matmul(softmax(op(ScalarOp::add, {scaled, bias})), v)}, 1});
  list.push_back({"causal", {matmul(softmax(causal(scaled)), v)}, 1});
  list.push_back({"window", {matmul(softmax(window(scaled, 7)), v)}, 1});
  // Rows from the fiftieth on see nothing: NaN, as without fusion.
  list.push_back({"rows_without_keys", {matmul(softmax(window(scaled, 1)), v)}, 1});
  NodeRef q2 = leaf({2, 3, 33, 8}, 5), k2 = leaf({2, 3, 40, 8}, 6), v2 = leaf({2, 3, 40, 5}, 7);
  NodeRef s2 = matmul(q2, transposed(k2));
  list.push_back({"heads", {matmul(softmax(causal(s2)), v2)}, 1});
  list.push_back({"heads_divided_afterwards", simplify(std::vector{matmul(softmax(causal(s2)), v2)}), 1});
  list.push_back({"weights_too", {matmul(softmax(s2), v2), softmax(s2)}, 3});
  // No reductions that depend on each other, but a large factor.
  list.push_back({"product_of_products",
                  {matmul(op(ScalarOp::tanh, {matmul(leaf({100, 8}, 8), leaf({8, 90}, 9))}), leaf({90, 24}, 10))},
                  1,
                  2e-4});
  // Weights that hold a row of inputs for each output.
  list.push_back({"weights_of_rows",
                  {matmul(op(ScalarOp::tanh, {matmul(leaf({100, 8}, 8), transposed(leaf({90, 8}, 9)))}),
                          transposed(leaf({24, 90}, 10)))},
                  1,
                  2e-4});
  // From memory; the statistics belong to the same kernel.
  list.push_back({"softmax_of_memory", {matmul(softmax(leaf({90, 40}, 11)), leaf({40, 30}, 12))}, 1});
  // What is reduced along no common axis is stored as well: once, whoever takes which part.
  NodeRef of_rows = reduce(ReduceOp::Sum, leaf({90, 7}, 25), 1);
  NodeRef scales = make_expand(make_reshape(of_rows, Shape{90, 1}), Shape{90, 40});
  list.push_back({"sums_of_rows_too",
                  {matmul(softmax(op(ScalarOp::mul, {scales, leaf({90, 40}, 26)})), leaf({40, 30}, 27)), of_rows},
                  -1});
  list.push_back({"one_key", {matmul(softmax(matmul(q, transposed(leaf({1, 16}, 13)))), leaf({1, 24}, 14))}, 1});
  list.push_back({"bf16",
                  {matmul(softmax(matmul(make_cast(leaf({70, 16}, 15, kBF16), kF32),
                                         transposed(make_cast(leaf({50, 16}, 16, kBF16), kF32)))),
                          v)},
                  1});
  // The kernel's result waits for what is made of its own maxima: they cannot be in one kernel.
  NodeRef m = reduce(ReduceOp::Max, scaled, 1);
  NodeRef around = matmul(make_reshape(m, Shape{1, 70}), leaf({70, 24}, 17));
  list.push_back({"result_meets_its_maxima",
                  {op(ScalarOp::mul, {matmul(softmax(scaled), v), make_expand(around, Shape{70, 24})})},
                  2,
                  2e-4});
  list.push_back({"gradients", with_gradients(matmul(softmax(scaled), v), {q, k, v}, 18), -1, 1e-4});
  list.push_back({"gradients_causal", with_gradients(matmul(softmax(causal(s2)), v2), {q2, k2, v2}, 19), -1, 1e-4});
  // Long enough that no gradient is worth a trip of the scores through memory.
  NodeRef q3 = leaf({2, 80, 8}, 20), k3 = leaf({2, 70, 8}, 21), v3 = leaf({2, 70, 8}, 22);
  NodeRef s3 = matmul(q3, transposed(k3));
  list.push_back({"gradients_in_nests", with_gradients(matmul(softmax(s3), v3), {q3, k3, v3}, 23), -1, 1e-4});
  return list;
}

class Nested : public ::testing::TestWithParam<size_t> {};

TEST_P(Nested, agrees_with_the_evaluator_under_default_and_random_schedules) {
  Case c = cases()[GetParam()];
  SCOPED_TRACE(c.name);
  // What is not nested may draw schedules that need more shared memory than there is.
  testing::expect_like_evaluator(c.roots, c.launches, c.tolerance,
                                 [&](How how) { return how == How::Simt && c.launches != 1 ? 1 : 4; });
}

// Neighbours of the second weight lie along the sum: vectors along its outputs would be gathered, so they run across
// the rows of the block, all of which a tile takes.
TEST(Nested, a_weight_of_rows_of_inputs_meets_vectors_of_rows) {
  auto tile_rows = [](bool rows_of_inputs) {
    NodeRef hidden = op(ScalarOp::tanh, {matmul(leaf({192, 32}, 1), transposed(leaf({256, 32}, 2)))});
    NodeRef weight = rows_of_inputs ? transposed(leaf({64, 256}, 3)) : leaf({256, 64}, 3);
    NodeRef root = matmul(hidden, weight);
    Program program = fuse(std::span(&root, 1));
    EXPECT_EQ(program.steps.size(), 1u);
    const Loops& loops = program.steps[0].loops;
    Schedule schedule = default_schedule(loops, Target{});
    const size_t product = loops.stages.size() - 2;  // before what stores its results
    EXPECT_TRUE(schedule.stages[product].is<RegisterContraction>());
    int64_t rows = schedule.block[0];
    for (const Level& level : schedule.stages[product].loops)
      if (level.axis == 0) rows = level.step;
    return rows;
  };
  EXPECT_EQ(tile_rows(true), 48);
  EXPECT_EQ(tile_rows(false), 6);
}

// The common axis in chunks of any size and in parts, wherever that is legal.
TEST_P(Nested, agrees_with_the_evaluator_block_by_block) {
  Case c = cases()[GetParam()];
  SCOPED_TRACE(c.name);
  std::vector<HostArray> want = evaluate(c.roots);
  std::vector<NodeRef> roots = simplify(c.roots);  // divides by the sum of weights afterwards
  int chunks = 0, parts = 0;
  for (How how : {How::Tile, How::Simd})
    for (uint64_t seed = 0; seed < 3; ++seed) {
      auto pick = [&](const Loops& loops, const Target& target) {
        if (!find_online(loops)) return random_schedule(loops, target, seed);
        for (uint64_t draw = 0;; ++draw) {
          Schedule schedule = random_schedule(loops, target, 100 * seed + draw);
          if (!schedule.chunks || (seed == 1) != (schedule.chunks->parts > 1)) continue;
          ++chunks;
          parts += schedule.chunks->parts > 1;
          return schedule;
        }
      };
      std::vector<HostArray> got = testing::run_program(roots, how, pick);
      for (size_t i = 0; i < want.size(); ++i) testing::expect_close(got[i], want[i], c.tolerance);
    }
  EXPECT_TRUE(parts > 0 || c.launches != 1 || c.name == "one_key") << chunks;
}

INSTANTIATE_TEST_SUITE_P(Graphs, Nested, ::testing::Range<size_t>(0, cases().size()),
                         [](const auto& test) { return cases()[test.param].name; });

Loops only_kernel(const NodeRef& root) {
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  return program.steps[0].loops;
}

TEST(NestedLoops, masks_bound_what_is_useful_of_the_keys) {
  NodeRef q = leaf({64, 8}, 1), k = leaf({96, 8}, 2), v = leaf({96, 8}, 3);
  NodeRef s = matmul(q, transposed(k));
  auto span_of_keys = [&](const NodeRef& scores) {
    Loops loops = only_kernel(matmul(softmax(scores), v));
    const Axis& keys = loops.stages[0].inner[0];
    EXPECT_TRUE(keys.extent.is_const(96));
    Span span = useful_span(loops, keys);
    Substitution at = {{loops.outer[0].var, 40}};
    return std::pair(substitute(span.begin, at).value(), substitute(span.end, at).value());
  };
  EXPECT_EQ(span_of_keys(s), std::pair(int64_t{0}, int64_t{96}));
  EXPECT_EQ(span_of_keys(causal(s)), std::pair(int64_t{0}, int64_t{41}));
  EXPECT_EQ(span_of_keys(window(s, 7)), std::pair(int64_t{34}, int64_t{41}));
  // Twice the scores and no weight at all are different things.
  NodeRef half = op(ScalarOp::where, {op(ScalarOp::le, {position(s, 1), position(s, 2)}), s, number(0, s)});
  EXPECT_EQ(span_of_keys(half), std::pair(int64_t{0}, int64_t{96}));
}

TEST(NestedLoops, keep_axes_that_later_stages_share) {
  NodeRef q = leaf({64, 8}, 1), k = leaf({96, 8}, 2), v = leaf({96, 8}, 3);
  NodeRef root = matmul(softmax(matmul(q, transposed(k))), v);
  Loops loops = only_kernel(simplify(std::span(&root, 1))[0]);
  verify(loops);
  std::string text = print(loops);
  for (const char* part : {"stage inner(r0 < 96, r1 < 8) keeps 1", "reduce maximum", "keep %", "keeps 1\n"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  // The scores and the weights are held inside: nothing of that size is a buffer.
  for (const kernel::Buffer& buffer : loops.buffers) EXPECT_LE(buffer.size.hi(), 96 * 8);
}

// The result and all gradients: sums over queries compute the weights again, and the divisor, whoever divides by it,
// belongs to the sum that has the weights.
TEST(NestedLoops, gradients_hold_no_scores_in_memory) {
  NodeRef q = leaf({2, 256, 16}, 1), k = leaf({2, 256, 16}, 2), v = leaf({2, 256, 16}, 3);
  for (bool mask : {false, true}) {
    NodeRef s = matmul(q, transposed(k));
    if (mask) s = causal(s);
    for (bool result : {true, false}) {
      NodeRef e = op(ScalarOp::exp, {s});
      NodeRef weights = op(ScalarOp::div, {e, rows(ReduceOp::Sum, e)});
      std::vector<NodeRef> roots = with_gradients(matmul(weights, v), {q, k, v}, 4);
      if (!result) roots.erase(roots.begin());
      Program program = fuse(roots);
      for (const Program::Tensor& tensor : program.tensors)
        EXPECT_LT(tensor.node->shape.numel().value(), 2 * 256 * 256) << mask << result << tensor.node->shape;
      EXPECT_TRUE(std::ranges::any_of(program.steps, [](const Program::Step& step) { return step.nested.size() > 1; }));
      // In kernels of their own if there is no room for two.
      auto one = [](const Program::Step& step) { return std::string(step.nested.size() > 1 ? "two" : ""); };
      auto nested = [](const Program& all) {
        size_t sums = 0;
        for (const Program::Step& step : all.steps) sums += step.nested.size();
        return sums;
      };
      Program apart = fuse(roots, {}, {.refuses_nest = one});
      for (const Program::Step& step : apart.steps) EXPECT_LE(step.nested.size(), 1u);
      EXPECT_EQ(nested(apart), nested(program));
      // None at all if there is none for one.
      auto none = [](const Program::Step&) { return std::string("none"); };
      EXPECT_EQ(nested(fuse(roots, {}, {.refuses_nest = none})), 0u);
    }
  }
}

// The divisor and the maximum of columns are not those of rows, though there are as many.
TEST(NestedLoops, statistics_along_another_axis_are_others) {
  NodeRef q = leaf({64, 8}, 1), k = leaf({64, 8}, 2), v = leaf({64, 8}, 3);
  NodeRef s = matmul(q, transposed(k));
  NodeRef columns = reduce(ReduceOp::Sum, op(ScalarOp::exp, {s}), 0);
  std::vector<NodeRef> roots = {matmul(softmax(s), v), columns};
  testing::expect_like_evaluator(simplify(roots), -1, 1e-4, [](How) { return 1; });
}

}  // namespace
}  // namespace heddle
