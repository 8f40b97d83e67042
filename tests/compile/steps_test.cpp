// Which steps are joined, and in what order they run.
#include "compile/fuse/steps.h"
#include "../graph/host_storage.h"
#include "compile/fuse/fuse.h"
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

TEST(Steps, that_share_axes_between_stages_still_do_when_they_are_joined) {
  // Maxima and sums of exponentials of rows: two stages along one axis.
  Program both;
  std::vector<NodeRef> alive;
  for (int64_t n : {11, 17}) {
    NodeRef x = counting(kF32, {n, 3 * n});
    NodeRef most = make_reduce(ReduceOp::Max, x, std::vector<int>{1});
    NodeRef lower = scalar_node(ScalarOp::sub, {x, make_expand(make_reshape(most, Shape{n, 1}), x->shape)});
    NodeRef sum = make_reduce(ReduceOp::Sum, scalar_node(ScalarOp::exp, {lower}), std::vector<int>{1});
    alive.push_back(sum);
    Program one = fuse(std::span(&sum, 1));
    ASSERT_EQ(one.steps.size(), 1u);
    std::vector<Stage>& stages = one.steps[0].loops.stages;
    ASSERT_TRUE(stages.size() >= 2 && stages[0].inner.size() == 1 && stages[1].inner.size() == 1);
    const Axis shared = stages[0].inner[0];
    for (kernel::Inst& inst : stages[1].body.insts)
      inst.address = substitute(inst.address, {{stages[1].inner[0].var, shared.var}});
    stages[1].inner[0] = shared;
    for (int& tensor : one.steps[0].segments[0].tensors) tensor += static_cast<int>(both.tensors.size());
    both.tensors.insert(both.tensors.end(), one.tensors.begin(), one.tensors.end());
    both.steps.push_back(std::move(one.steps[0]));
  }
  join_steps(both);
  ASSERT_EQ(both.steps.size(), 1u);
  ASSERT_EQ(both.steps[0].segments.size(), 2u);
  verify(both.steps[0].loops);
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
