#include "tune/search.h"

#include <gtest/gtest.h>

#include "../graph/host_storage.h"
#include "compile/fuse.h"

namespace heddle {
namespace {

Loops loops_of(const NodeRef& root) {
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  return program.steps[0].loops;
}

Loops row_sums() { return loops_of(testing::reduced(ReduceOp::Sum, testing::counting(kF32, {60, 70}), {1})); }

TEST(Search, never_returns_something_slower_than_the_default) {
  SearchResult result = search(row_sums(), device("cpu"), 12);
  EXPECT_EQ(result.tried, 12);
  EXPECT_EQ(result.wrong, 0);
  EXPECT_LE(result.best_seconds, result.default_seconds);
  EXPECT_GT(result.best_seconds, 0);
  EXPECT_EQ(check(result.best, row_sums(), device("cpu").target()), "");
}

TEST(Search, no_trials_give_the_default_schedule) {
  Loops loops = row_sums();
  SearchResult result = search(loops, device("cpu"), 0);
  EXPECT_EQ(print(result.best), print(default_schedule(loops, device("cpu").target())));
}

TEST(Search, candidates_of_a_matrix_product_are_right) {
  NodeRef a = testing::counting(kF32, {20, 1, 30}), b = testing::counting(kF32, {1, 40, 30});
  NodeRef product =
      testing::scalar_node(ScalarOp::mul, {make_expand(a, Shape{20, 40, 30}), make_expand(b, Shape{20, 40, 30})});
  SearchResult result = search(loops_of(testing::reduced(ReduceOp::Sum, product, {2})), device("cpu"), 20, 7);
  EXPECT_EQ(result.wrong, 0);
  EXPECT_EQ(result.failed, 0);
}

}  // namespace
}  // namespace heddle
