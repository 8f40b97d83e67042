// Symbolic sizes on their way from the graph to tiles.
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "compile/fuse/fuse.h"
#include "compile/lower.h"
#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

NodeRef scalar(ScalarOp op, std::initializer_list<NodeRef> inputs) {
  return make_scalar(op, std::span<const NodeRef>(inputs.begin(), inputs.size()));
}

Loops fused(const NodeRef& root) {
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  verify(program.steps[0].loops);
  return program.steps[0].loops;
}

Target simd() {
  Target target;
  target.name = "avx512";
  return target;
}

TEST(SymbolicLoops, list_each_symbol_once_with_what_is_known_of_it) {
  Expr n = Expr::symbol("n", 1, 100), m = Expr::symbol("m", 0, 64, 8);
  NodeRef x = make_input(0, 0, DType::f32, {n, m}), y = make_input(1, 0, DType::f32, {m});
  int axes[] = {0};
  NodeRef sum = make_reduce(ReduceOp::Sum, x, axes);
  Loops loops = fused(scalar(ScalarOp::add, {sum, y}));
  EXPECT_EQ(loops.symbols.size(), 2u);
  std::string text = print(loops);
  EXPECT_NE(text.find("n in [1, 100] multiple 1"), std::string::npos) << text;
  EXPECT_NE(text.find("m in [0, 64] multiple 8"), std::string::npos) << text;
}

TEST(SymbolicLoops, two_sizes_of_one_name_print_apart) {
  Expr n = Expr::symbol("n", 1, 100), other = Expr::symbol("n", 1, 100);
  int axes[] = {1, 0};
  auto transposed = [&](const Expr& rows, const Expr& columns) {
    NodeRef x = make_input(0, 0, DType::f32, {rows, columns});
    return fused(scalar(ScalarOp::neg, {make_permute(x, axes)}));
  };
  std::string text = print(transposed(n, other));
  EXPECT_NE(text.find("n_1"), std::string::npos) << text;
  EXPECT_NE(print(transposed(n, n)), text);
}

TEST(SymbolicLoops, the_value_of_a_bound_symbol_leaves_no_trace) {
  Expr n = Expr::symbol("n", 1, 100), m = Expr::symbol("m", 1, 100);
  auto text = [&](int64_t a, int64_t b) {
    NodeRef x = make_input(0, 0, DType::f32, {Expr::bound(n, a), 3, Expr::bound(m, b)});
    int axes[] = {2, 0, 1};
    return print(fused(scalar(ScalarOp::neg, {make_permute(x, axes)})));
  };
  std::string first = text(5, 7);
  EXPECT_EQ(text(7, 5), first);
  EXPECT_EQ(text(1, 1), first);
}

TEST(SymbolicLoops, rows_of_any_number_are_walked_like_a_known_number_of_them) {
  auto tiles = [&](const Expr& rows) {
    NodeRef x = make_input(0, 0, DType::f32, {rows, 64});
    Loops loops = fused(scalar(ScalarOp::neg, {x}));
    EXPECT_EQ(loops.outer.size(), 1u);  // n * 64 elements in a row
    return default_schedule(loops, simd());
  };
  EXPECT_EQ(print(tiles(Expr::symbol("n", 1, 4096))), print(tiles(4096)));
}

TEST(SymbolicLoops, matrix_products_are_packed_and_blocked) {
  Expr m = Expr::symbol("m", 1, 512), n = Expr::symbol("n", 1, 512), k = Expr::symbol("k", 1, 512);
  NodeRef a = make_input(0, 0, DType::f32, {m, 1, k}), b = make_input(1, 0, DType::f32, {1, n, k});
  Shape all = {m, n, k};
  int axes[] = {2};
  Loops loops =
      fused(make_reduce(ReduceOp::Sum, scalar(ScalarOp::mul, {make_expand(a, all), make_expand(b, all)}), axes));
  Schedule schedule = default_schedule(loops, simd());
  const auto* contraction = std::get_if<RegisterContraction>(&schedule.stages[0].strategy);
  ASSERT_TRUE(contraction);
  EXPECT_TRUE(contraction->left && contraction->right);
  kernel::Kernel tiles = tile(loops, schedule, simd());
  kernel::verify(tiles);
  EXPECT_EQ(tiles.phases.size(), 2u);  // panels of b are packed inside the blocks
  kernel::verify(lower(std::move(tiles), simd()));
}

}  // namespace
}  // namespace heddle
