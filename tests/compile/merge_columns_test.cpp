// Convolutions as Loops: short rows of results become long ones where that fills vectors.
#include <gtest/gtest.h>

#include <heddle/error.h>
#include <cmath>

#include "compile/fuse/fuse.h"
#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

struct Layer {
  int64_t batch, channels, filters, size, kernel, stride;
};

// Windows of padded images times weights, summed.
Loops convolution(const Layer& l) {
  int64_t pad = l.kernel / 2, places = (l.size + 2 * pad - l.kernel) / l.stride + 1;
  NodeRef x = make_input(0, 0, DType::f32, {l.batch, l.channels, l.size, l.size});
  SmallVector<Expr, 4> around = {Expr(0), Expr(0), Expr(pad), Expr(pad)};
  x = make_pad(x, around, around, Scalar::of(DType::f32, 0));
  for (int axis : {2, 3}) x = make_window(x, axis, l.kernel, l.stride, 1);
  Shape all = {l.batch, l.filters, places, places, l.kernel, l.kernel, l.channels};
  int order[] = {0, 2, 3, 4, 5, 1};
  x = make_permute(x, order);  // batch, places, kernel, channels
  x = make_expand(make_reshape(x, {l.batch, 1, places, places, l.kernel, l.kernel, l.channels}), all);
  NodeRef w = make_input(1, 0, DType::f32, {l.filters, l.kernel, l.kernel, l.channels});
  w = make_expand(make_reshape(w, {1, l.filters, 1, 1, l.kernel, l.kernel, l.channels}), all);
  NodeRef factors[] = {x, w};
  int summed[] = {4, 5, 6};
  NodeRef root = make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), summed);
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  return program.steps[0].loops;
}

std::vector<int64_t> outer(const Loops& loops) {
  std::vector<int64_t> sizes;
  for (const Axis& axis : loops.outer) sizes.push_back(axis.extent.value());
  return sizes;
}

const kernel::Inst& image_load(const Loops& loops) {
  for (const kernel::Inst& inst : loops.stages[0].body.insts)
    if (inst.op == kernel::Op::load && !inst.guard.is_const(1)) return inst;
  throw ValueError("no load has a guard");
}

TEST(MergeColumns, rows_of_an_image_are_one_where_memory_is_walked_in_order) {
  Loops loops = convolution({8, 64, 64, 56, 3, 1});
  EXPECT_EQ(outer(loops), (std::vector<int64_t>{8, 64, 3136}));
  std::optional<Linear> linear = linear_in(image_load(loops).address, loops.outer[2].var);
  ASSERT_TRUE(linear) << print(loops);
  EXPECT_EQ(linear->coefficient, 1);
  verify(loops);
}

TEST(MergeColumns, rows_stay_where_they_fill_vectors) {
  EXPECT_EQ(outer(convolution({8, 64, 64, 64, 3, 1})), (std::vector<int64_t>{8, 64, 64, 64}));
}

// A vector that meets the end of a row is two loads.
TEST(MergeColumns, rows_of_a_few_pieces_are_merged) {
  EXPECT_EQ(outer(convolution({8, 64, 128, 56, 3, 2})), (std::vector<int64_t>{8, 128, 784}));
  EXPECT_EQ(outer(convolution({8, 256, 256, 14, 3, 1})), (std::vector<int64_t>{256, 1568}));
}

TEST(MergeColumns, small_images_are_one_row_all_together) {
  EXPECT_EQ(outer(convolution({8, 512, 512, 7, 3, 1})), (std::vector<int64_t>{512, 392}));
  EXPECT_EQ(outer(convolution({8, 256, 512, 14, 3, 2})), (std::vector<int64_t>{512, 392}));
}

TEST(MergeColumns, zeros_around_an_image_take_no_instruction) {
  Loops loops = convolution({8, 64, 64, 56, 3, 1});
  for (const kernel::Inst& inst : loops.stages[0].body.insts) EXPECT_NE(inst.op, kernel::Op::where) << print(loops);
}

// No buffer in memory holds the windows: panels live in a block.
TEST(MergeColumns, windows_are_packed_inside_blocks) {
  Target target;
  target.name = "avx512";
  for (const Layer& layer :
       {Layer{8, 64, 64, 56, 3, 1}, {8, 128, 1024, 28, 3, 1}, {8, 512, 512, 7, 3, 1}, {8, 3, 64, 224, 7, 2}}) {
    Schedule schedule = default_schedule(convolution(layer), target);
    const auto* contraction = std::get_if<RegisterContraction>(&schedule.stages[0].strategy);
    ASSERT_TRUE(contraction && (contraction->left || contraction->right));
    EXPECT_TRUE(!contraction->right || contraction->right->scope == Staged::Scope::Block) << layer.filters;
  }
}

// Nobody waits long for the core that has most to do, and few lanes are empty.
TEST(MergeColumns, cores_share_evenly) {
  Target target;
  target.name = "avx512";
  for (int cores : {1, 2, 3, 4, 8, 16})
    for (const Layer& layer : {Layer{8, 64, 128, 56, 3, 2},
                               {8, 128, 256, 28, 3, 2},
                               {8, 256, 256, 14, 3, 1},
                               {8, 256, 512, 14, 3, 2},
                               {8, 512, 512, 7, 3, 1}}) {
      target.cores = cores;
      Loops loops = convolution(layer);
      Schedule schedule = default_schedule(loops, target);
      double blocks = 1, size = 1, all = 1;
      for (size_t i = 0; i < loops.outer.size(); ++i) {
        const auto extent = static_cast<double>(loops.outer[i].extent.value());
        const auto block = static_cast<double>(schedule.block[i]);
        blocks *= std::ceil(extent / block), size *= block, all *= extent;
      }
      EXPECT_LT(std::ceil(blocks / cores) * size, (cores < 8 ? 1.08 : 1.2) * all / cores)
          << cores << " cores, " << layer.filters << " filters: " << print(schedule);
    }
}

}  // namespace
}  // namespace heddle
