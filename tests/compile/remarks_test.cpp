// What is one kernel and what is not, and what is said about it.
#include <gtest/gtest.h>

#include "compile/fuse/fuse.h"
#include "compile/schedule/schedule.h"
#include "nest_graphs.h"

namespace heddle {
namespace {

using namespace testing;

// Nobody looks at its elements.
NodeRef input(const Shape& shape, DType dtype = kF32) { return make_placeholder(dtype, shape); }

Program fused(const std::vector<NodeRef>& roots, FuseOptions options = {}) {
  options.remarks = true;
  return fuse(roots, {}, options);
}

// Whether there is just one remark, with this in it.
void expect_remark(const Program& program, const std::string& part) {
  ASSERT_EQ(program.remarks.size(), 1u) << program.steps.size() << " kernels";
  EXPECT_NE(program.remarks[0].find(part), std::string::npos) << program.remarks[0];
}

TEST(Remarks, one_kernel_needs_none) {
  Program program = fused({softmax(input({128, 64}))});
  EXPECT_EQ(program.steps.size(), 1u);
  EXPECT_TRUE(program.remarks.empty());
}

TEST(Remarks, are_made_only_for_those_who_want_them) {
  NodeRef x = input({64, 64}), y = input({64, 64});
  NodeRef root = matmul(matmul(x, y), y);
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 2u);
  EXPECT_TRUE(program.remarks.empty());
}

TEST(Remarks, a_product_of_a_product_needs_whole_rows) {
  NodeRef x = input({64, 64}), y = input({64, 64});
  Program program = fused({matmul(matmul(x, y), y)});
  EXPECT_EQ(program.steps.size(), 2u);
  expect_remark(program,
                "sum_64x64 -> sum_64x64 (f32[64, 64]): the reader needs all of a row that is still being reduced");
}

TEST(Remarks, a_mean_of_everything_has_too_few_rows) {
  NodeRef x = input({1 << 10, 1 << 10});
  NodeRef sum = make_reduce(ReduceOp::Sum, x, std::vector<int>{0, 1});
  NodeRef mean = make_expand(make_reshape(sum, {1, 1}), x->shape);
  Program program = fused({op(ScalarOp::sub, {x, mean})});
  EXPECT_EQ(program.steps.size(), 2u);
  expect_remark(program, "1 row is too few for all cores");
}

TEST(Remarks, what_is_costly_is_computed_once) {
  NodeRef x = input({1 << 14});
  NodeRef costly = op(ScalarOp::tanh, {op(ScalarOp::exp, {x})});
  const Shape all = {64, 1 << 14};
  NodeRef many = make_expand(make_reshape(costly, {1, 1 << 14}), all);
  NodeRef scaled = op(ScalarOp::mul, {many, input(all)});
  Program program = fused({scaled});
  EXPECT_EQ(program.steps.size(), 2u);
  expect_remark(program, "the reader would compute each element 64 times");
  // On a machine where arithmetic costs nothing it is computed again and again.
  EXPECT_EQ(fused({scaled}, {.rates = {.operation = 0}}).steps.size(), 1u);
}

TEST(Remarks, a_sort_stands_alone) {
  NodeRef x = input({8, 100});
  NodeRef sorted = make_get(make_sort(op(ScalarOp::exp, {x}), false, 100), 0);
  Program program = fused({op(ScalarOp::add, {sorted, sorted})});
  ASSERT_EQ(program.steps.size(), 3u);
  ASSERT_EQ(program.remarks.size(), 2u);
  for (const std::string& remark : program.remarks)
    EXPECT_NE(remark.find("sorts, loops, conditions and kernels that somebody wrote read memory and write memory"),
              std::string::npos)
        << remark;
}

TEST(Remarks, what_several_kernels_read_is_written_once) {
  NodeRef both = matmul(input({512, 512}), input({512, 512}));
  Program program = fused({matmul(both, input({512, 96})), matmul(transposed(both), input({512, 64}))});
  EXPECT_EQ(program.steps.size(), 3u);
  ASSERT_EQ(program.remarks.size(), 2u);
  for (const std::string& remark : program.remarks)
    EXPECT_NE(remark.find("still being reduced"), std::string::npos) << remark;
}

TEST(Remarks, packing_is_a_kernel_that_the_matrix_unit_reads) {
  // Rows of 50, of which 48 count: no 16 bytes of them begin where a copy could.
  const Expr begin[] = {0, 0, 1}, size[] = {64, 4, 48};
  const Shape all = {64, 96, 4, 48};
  const int summed[] = {2, 3};
  NodeRef x = make_shrink(input({64, 4, 50}, kBF16), begin, size), w = input({96, 4, 48}, kBF16);
  NodeRef left = make_expand(make_reshape(x, {64, 1, 4, 48}), all);
  NodeRef right = make_expand(make_reshape(w, {1, 96, 4, 48}), all);
  Program program =
      fused({make_reduce(ReduceOp::Sum, op(ScalarOp::mul, {left, right}), summed)}, {.machine = Machine::Simt});
  EXPECT_EQ(program.steps.size(), 2u);
  expect_remark(program, "laid out as a matrix unit reads it");
}

// ---- the matrix unit ----

Target machine() {
  Target target;
  target.machine = Machine::Simt;
  for (std::span<const MatrixInstruction> rows :
       {std::span<const MatrixInstruction>(kShared), std::span<const MatrixInstruction>(kFragments),
        std::span<const MatrixInstruction>(kFragmentsOfF8)})
    add_instructions(target, rows);
  target.shared_bytes = 232448;
  return target;
}

// Of the only product of a graph, as its default schedule does it.
std::vector<std::string> about_the_unit(const NodeRef& root, const Target& target = machine()) {
  Program program = fuse(std::span(&root, 1), {}, {.machine = Machine::Simt});
  const Loops& loops = program.steps.back().loops;
  return matrix_remarks(loops, default_schedule(loops, target), target);
}

TEST(MatrixRemarks, what_is_on_the_unit_needs_none) {
  EXPECT_TRUE(about_the_unit(matmul(input({512, 512}, kBF16), input({512, 512}, kBF16))).empty());
}

TEST(MatrixRemarks, say_which_dtype_has_no_instruction) {
  auto said = about_the_unit(matmul(input({512, 512}, kF64), input({512, 512}, kF64)));
  EXPECT_EQ(said, std::vector<std::string>{"not on the matrix unit: factors of f64 have no matrix instruction here"});
}

TEST(MatrixRemarks, say_how_f32_gets_there) {
  NodeRef root = matmul(input({512, 512}), input({512, 512}));
  EXPECT_EQ(about_the_unit(root), std::vector<std::string>{"not on the matrix unit: f32 keeps all its bits: "
                                                           "allow_tf32(true) lets it round its factors"});
  EXPECT_TRUE(about_the_unit(root, with_tf32(machine())).empty());
}

TEST(MatrixRemarks, say_which_size_is_too_small) {
  auto said = about_the_unit(matmul(input({4096, 17}, kBF16), input({17, 4096}, kBF16)));
  EXPECT_EQ(said,
            std::vector<std::string>{"not on the matrix unit: a sum of 17 terms, and fewer than 32 gain nothing"});
  said = about_the_unit(matmul(input({3, 4096}, kBF16), input({4096, 4096}, kBF16)));
  EXPECT_EQ(said, std::vector<std::string>{"not on the matrix unit: 3 rows or columns, and fewer than 4 gain nothing"});
}

TEST(MatrixRemarks, a_machine_without_the_unit_needs_none) {
  Target target = machine();
  target.matrix.clear();
  EXPECT_TRUE(about_the_unit(matmul(input({512, 512}), input({512, 512})), target).empty());
}

}  // namespace
}  // namespace heddle
