// What kernels are known by.
#include <gtest/gtest.h>

#include <map>

#include "compile/fuse/fuse.h"
#include "expr/structure.h"
#include "graph/random_graph.h"
#include "kernel/structure.h"

namespace heddle {
namespace {

Structure written(std::span<const Expr> first, const Expr& e) {
  Structure result;
  ExprWriter writer(result);
  for (const Expr& var : first) writer.write(var);
  writer.write(e);
  return result;
}

TEST(Structure, of_expressions_does_not_depend_on_names_and_the_order_in_which_variables_were_made) {
  Expr i = Expr::index("i", 8), j = Expr::index("j", 5), k = Expr::index("k", 3);
  Expr c = Expr::index("c", 3), b = Expr::index("b", 5), a = Expr::index("a", 8);  // the other way round
  auto formulas = [](const Expr& x, const Expr& y, const Expr& z) {
    return std::vector<Expr>{x * 15 + y * 3 + z,
                             floordiv(x + y, 4) + mod(x + z, 3),
                             min(min(x, y), z),
                             logical_and(logical_and(lt(x, 4), lt(y, 2)), lt(z, 1)),
                             logical_or(logical_or(lt(x, 4), lt(y, 2)), lt(z, 1)),
                             eq(x + y, 3),
                             select(lt(x, y), z, x * y)};
  };
  const Expr first[] = {i, j, k}, second[] = {a, b, c};
  std::vector<Expr> one = formulas(i, j, k), other = formulas(a, b, c), turned = formulas(j, i, k);
  for (size_t n = 0; n < one.size(); ++n) {
    EXPECT_TRUE(written(first, one[n]) == written(second, other[n])) << one[n] << "; " << other[n];
    for (size_t m = 0; m < n; ++m)
      EXPECT_FALSE(written(first, one[n]) == written(first, one[m])) << one[n] << "; " << one[m];
  }
  EXPECT_FALSE(written(first, one[0]) == written(first, turned[0]));
  EXPECT_FALSE(written(first, one[6]) == written(first, turned[6]));
}

TEST(Structure, of_expressions_knows_the_ranges_of_variables_and_who_is_who) {
  auto symbol = [](int64_t lo, int64_t hi, int64_t multiple) { return Expr::symbol("n", lo, hi, multiple); };
  const Expr n = symbol(1, 64, 1);
  EXPECT_TRUE(written({}, n) == written({}, symbol(1, 64, 1)));
  EXPECT_FALSE(written({}, n) == written({}, symbol(2, 64, 1)));
  EXPECT_FALSE(written({}, n) == written({}, symbol(1, 65, 1)));
  EXPECT_FALSE(written({}, symbol(4, 64, 4)) == written({}, symbol(4, 64, 2)));
  EXPECT_FALSE(written({}, n) == written({}, Expr::index("n", 65)));
  EXPECT_FALSE(written({}, Expr::index("i", 8)) == written({}, Expr::index("i", 9)));
  EXPECT_TRUE(written({}, Expr::bound(n, 5)) == written({}, Expr::bound(n, 7)));
  const Expr m = symbol(1, 64, 1), both[] = {n, m};
  EXPECT_FALSE(written(both, n * n) == written(both, n * m));
  EXPECT_FALSE(written({}, INT64_MIN) == written({}, INT64_MAX));
}

Loops fused(const NodeRef& root) {
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  return program.steps[0].loops;
}

TEST(Structure, of_loops_is_everything_but_names) {
  NodeRef x = make_input(0, 0, kF32, {6, 10});
  auto softmax_sum = [&](ReduceOp op, double number) {
    NodeRef sum = make_reduce(op, x, std::vector<int>{1});
    NodeRef both[] = {sum, make_const(Scalar::of(kF32, number), sum->shape)};
    return fused(make_scalar(ScalarOp::add, both));
  };
  Loops loops = softmax_sum(ReduceOp::Sum, 2);
  const Structure is = structure(loops);
  EXPECT_TRUE(is == structure(softmax_sum(ReduceOp::Sum, 2)));
  EXPECT_EQ(is.hash(), structure(softmax_sum(ReduceOp::Sum, 2)).hash());
  EXPECT_FALSE(is == structure(softmax_sum(ReduceOp::Prod, 2)));
  EXPECT_FALSE(is == structure(softmax_sum(ReduceOp::Sum, 3)));
  auto changed = [&](auto change) {
    Loops other = loops;
    change(other);
    return structure(other);
  };
  EXPECT_TRUE(is == changed([](Loops& l) { l.name = "other"; }));
  EXPECT_TRUE(is == changed([](Loops& l) { l.buffers[0].name = "other"; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.together = 2; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.buffers[0].dtype = kBF16; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.buffers[0].space = kernel::Space::InOut; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.buffers[0].size = 61; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.outer[0].extent = 5; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.stages[0].kept = 1; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.stages[0].ordered = true; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.stages[0].place = l.outer[0].var; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.stages[0].combine = l.stages[0].reducer; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.stages[0].body.insts[0].address = 0; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.stages[0].body.insts[0].guard = 0; }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.stages[0].body.insts[0].hint = kernel::Hint::Stream; }));
  EXPECT_FALSE(is == changed([](Loops& l) { std::swap(l.stages[0].body, l.stages[1].body); }));
  EXPECT_FALSE(is == changed([](Loops& l) { l.values[0].dtype = kF64; }));
}

// The printed text, which shows everything but names too, tells kernels apart in the same way.
TEST(Structure, of_random_kernels_agrees_with_their_text) {
  std::map<std::string, Structure> of_text;
  std::unordered_map<Structure, std::string> of_structure;
  size_t again = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const testing::RandomGraph graph = testing::random_graph(seed % 150);
    for (Program::Step& step : fuse(graph.roots).steps) {
      if (step.direct) continue;
      step.loops.name = "k";
      std::string text = print(step.loops);
      Structure is = structure(step.loops);
      auto [known, fresh] = of_text.try_emplace(text, is);
      again += !fresh;
      EXPECT_TRUE(known->second == is) << text;
      EXPECT_EQ(of_structure.try_emplace(is, text).first->second, text);
    }
  }
  EXPECT_GT(of_text.size(), 200u);
  EXPECT_GT(again, 200u);
}

}  // namespace
}  // namespace heddle
