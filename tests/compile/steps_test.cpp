// Which steps are joined, and in what order they run.
#include "../graph/host_storage.h"
#include "compile/fuse.h"
#include "graph/build.h"
#include "gtest/gtest.h"

namespace heddle {
namespace {

using testing::counting;
using testing::scalar_node;

NodeRef total(const NodeRef& x) { return make_reduce(ReduceOp::Sum, x, std::vector<int>{0}); }

TEST(Steps, of_equal_structure_are_segments_of_one) {
  std::vector<NodeRef> roots;
  for (int64_t n : {48, 16, 160}) {
    NodeRef x = counting(kF32, {n});
    roots.push_back(scalar_node(ScalarOp::mul, {x, x}));
  }
  Program program = fuse(roots);
  ASSERT_EQ(program.steps.size(), 1u);
  const Program::Step& step = program.steps[0];
  ASSERT_EQ(step.segments.size(), 3u);
  ASSERT_EQ(step.loops.symbols.size(), 1u);
  EXPECT_EQ(step.loops.symbols[0].lo(), 16);
  EXPECT_EQ(step.loops.symbols[0].hi(), 160);
  EXPECT_EQ(step.loops.symbols[0].multiple(), 16);
  for (const Program::Segment& segment : step.segments)
    EXPECT_EQ(segment.traffic.written, 4 * static_cast<uint64_t>(segment.symbols[0].value()));
}

TEST(Steps, of_another_structure_stay_apart) {
  NodeRef x = counting(kF32, {48}), y = counting(kF32, {16});
  std::vector<NodeRef> roots{scalar_node(ScalarOp::mul, {x, x}), scalar_node(ScalarOp::add, {y, y})};
  EXPECT_EQ(fuse(roots).steps.size(), 2u);
}

TEST(Steps, wait_for_the_token_of_a_barrier) {
  NodeRef x = counting(kF32, {50}), y = counting(kF32, {60});
  NodeRef token = total(scalar_node(ScalarOp::exp, {y}));
  NodeRef late = total(scalar_node(ScalarOp::mul, {make_barrier(x, token), x}));
  std::vector<NodeRef> roots{late, token};
  Program program = fuse(roots);
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_TRUE(program.steps[0].after.empty());
  ASSERT_EQ(program.steps[1].after.size(), 1u);
  EXPECT_EQ(program.tensors[static_cast<size_t>(program.steps[1].after[0])].node, token.get());
}

}  // namespace
}  // namespace heddle
