// Sums along columns: how many blocks there are, on both sides of each threshold.
#include <gtest/gtest.h>

#include "compile/fuse/fuse.h"
#include "compile/schedule/schedule.h"
#include "compile/schedule/sizes.h"
#include "leaves.h"
#include "nest_graphs.h"

namespace heddle {
namespace {

using namespace heddle::testing;

Target machine(Machine kind) {
  Target target;
  target.name = kind == Machine::Simt ? "simulated" : "avx512";
  target.machine = kind;
  target.cores = 2;
  target.multiprocessors = 132;
  target.l2_bytes = 1 << 20;
  return target;
}

struct Columns {
  double blocks;
  int64_t width, parts;
};

// Of the sum of a product of so many tensors.
Columns columns_of(const Shape& shape, int factors, Machine kind) {
  NodeRef x = leaf(shape, 1);
  for (int i = 1; i < factors; ++i) x = op(ScalarOp::mul, {x, leaf(shape, static_cast<uint64_t>(i) + 1)});
  NodeRef root = reduce(ReduceOp::Sum, x, 0);
  const Loops loops = fuse(std::span(&root, 1)).steps.at(0).loops;
  const Schedule schedule = default_schedule(loops, machine(kind));
  EXPECT_EQ(check(schedule, loops, machine(kind)), "");
  const StageSchedule& plan = schedule.stages[0];
  const int64_t parts = plan.is<SplitReduction>() ? std::get<SplitReduction>(plan.strategy).parts : 1;
  return {blocks_of(schedule, sizes_of(loops)), schedule.block[0], parts};
}

TEST(ColumnSchedule, few_columns_have_blocks_enough_on_a_gpu) {
  // A block has 256 threads: 65 terms each are added at once, twice as many are worth a phase of parts.
  EXPECT_EQ(columns_of({520, 128}, 1, Machine::Simt).width, 32);
  EXPECT_EQ(columns_of({520, 128}, 1, Machine::Simt).parts, 1);
  EXPECT_GT(columns_of({520, 128}, 2, Machine::Simt).parts, 1);
  EXPECT_EQ(columns_of({800, 128}, 1, Machine::Simt).parts, 1);
  EXPECT_GT(columns_of({801, 128}, 1, Machine::Simt).parts, 1);
  // Enough of them, or enough to read: blocks as wide as memory likes them.
  EXPECT_EQ(columns_of({16, 132 * 128}, 1, Machine::Simt).width, 128);
  EXPECT_EQ(columns_of({1 << 13, 1 << 10}, 1, Machine::Simt).width, 32);
  EXPECT_EQ(columns_of({(1 << 13) + 1, 1 << 10}, 1, Machine::Simt).width, 128);
  EXPECT_GT(columns_of({(1 << 13) + 1, 1 << 10}, 1, Machine::Simt).parts, 1);
}

// A softmax of columns: nothing can be split.
TEST(ColumnSchedule, what_cannot_be_split_has_narrow_blocks) {
  auto blocks = [](const Shape& shape, Machine kind) {
    NodeRef x = op(ScalarOp::exp, {leaf(shape, 1)});
    NodeRef sum = make_reshape(reduce(ReduceOp::Sum, x, 0), Shape{1, shape[1]});
    NodeRef root = op(ScalarOp::div, {x, make_expand(sum, shape)});
    const Program program = fuse(std::span(&root, 1));
    EXPECT_EQ(program.steps.size(), 1u);
    const Schedule schedule = default_schedule(program.steps[0].loops, machine(kind));
    return blocks_of(schedule, sizes_of(program.steps[0].loops));
  };
  EXPECT_EQ(blocks({520, 512}, Machine::Simt), 32);
  EXPECT_EQ(blocks({4096, 128}, Machine::Simt), 8);
  EXPECT_EQ(blocks({4096, 128}, Machine::Simd), 8);  // in the caches of two cores
  EXPECT_EQ(blocks({4097, 128}, Machine::Simd), 1);  // from memory
  EXPECT_EQ(blocks({256, 128}, Machine::Simd), 1);   // little work
  EXPECT_EQ(blocks({257, 128}, Machine::Simd), 8);
}

}  // namespace
}  // namespace heddle
