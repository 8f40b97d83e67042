// Sums of products over several axes, as units that multiply two matrices get them.
#include <gtest/gtest.h>

#include "compile/fuse/check_program.h"
#include "compile/loops/contraction.h"
#include "leaves.h"

namespace heddle {
namespace {

using testing::leaf;
using testing::op;

struct Layer {
  int64_t batch, channels, filters, size, kernel, stride = 1, dilation = 1;
  bool channels_last = false;
};

// [batch, places, places, kernel, kernel, channels] of an image, and weights, as a convolution multiplies them.
NodeRef convolution(const Layer& l, DType dtype = kBF16) {
  const int64_t reach = (l.kernel - 1) * l.dilation, pad = reach / 2,
                places = (l.size + 2 * pad - reach - 1) / l.stride + 1;
  NodeRef x;
  if (l.channels_last) {
    const int order[] = {0, 3, 1, 2};
    x = make_permute(leaf({l.batch, l.size, l.size, l.channels}, 1, dtype), order);
  } else {
    x = leaf({l.batch, l.channels, l.size, l.size}, 1, dtype);
  }
  SmallVector<Expr, 4> around = {Expr(0), Expr(0), Expr(pad), Expr(pad)};
  x = make_pad(x, around, around, Scalar::of(dtype, 0));
  for (int axis : {2, 3}) x = make_window(x, axis, l.kernel, l.stride, l.dilation);
  const Shape all = {l.batch, l.filters, places, places, l.kernel, l.kernel, l.channels};
  const int order[] = {0, 2, 3, 4, 5, 1};
  x = make_permute(x, order);
  x = make_expand(make_reshape(x, {l.batch, 1, places, places, l.kernel, l.kernel, l.channels}), all);
  NodeRef w = leaf({l.filters, l.kernel, l.kernel, l.channels}, 2, dtype);
  w = make_expand(make_reshape(w, {1, l.filters, 1, 1, l.kernel, l.kernel, l.channels}), all);
  const int summed[] = {4, 5, 6};
  return make_reduce(ReduceOp::Sum, op(ScalarOp::mul, {x, w}), summed);
}

Program packed(const NodeRef& root) {
  Program program = fuse(std::span(&root, 1), {}, {.machine = Machine::Simt});
  check_program(program, {});
  return program;
}

std::vector<int64_t> sizes(const std::vector<Axis>& axes) {
  std::vector<int64_t> result;
  for (const Axis& axis : axes) result.push_back(axis.extent.value());
  return result;
}

// Elements that the steps before the last one write.
std::vector<int64_t> packed_sizes(const Program& program) {
  std::vector<int64_t> result;
  for (size_t s = 0; s + 1 < program.steps.size(); ++s)
    for (const kernel::Buffer& buffer : program.steps[s].loops.buffers)
      if (buffer.space == kernel::Space::Out) result.push_back(buffer.size.value());
  std::sort(result.begin(), result.end());
  return result;
}

TEST(PackProducts, a_convolution_is_a_product_of_two_matrices) {
  const Program program = packed(convolution({2, 16, 24, 14, 3}));
  const Loops& product = program.steps.back().loops;
  EXPECT_EQ(sizes(product.outer), (std::vector<int64_t>{24, 2 * 14 * 14}));
  EXPECT_EQ(sizes(product.stages[0].inner), (std::vector<int64_t>{3 * 3 * 16}));
  EXPECT_TRUE(find_contraction(product, product.stages[0])->is_matmul());
  // The image with its padding, once: not each window of it. Filters lie as they are wanted.
  EXPECT_EQ(packed_sizes(program), (std::vector<int64_t>{2 * 16 * 16 * 16}));
}

TEST(PackProducts, windows_further_apart_share_what_they_overlap_in) {
  EXPECT_EQ(packed_sizes(packed(convolution({2, 16, 40, 15, 3, 2}))), (std::vector<int64_t>{2 * 17 * 17 * 16}));
  EXPECT_EQ(packed_sizes(packed(convolution({2, 16, 24, 15, 3, 1, 2}))), (std::vector<int64_t>{2 * 19 * 19 * 16}));
}

TEST(PackProducts, what_lies_as_it_is_wanted_is_not_copied) {
  const Program program = packed(convolution({2, 16, 24, 14, 3, 1, 1, true}));
  EXPECT_EQ(program.steps.size(), 1u);
}

// Three channels are read as eight, of which five are zeros.
TEST(PackProducts, few_channels_are_filled_up) {
  const Program program = packed(convolution({2, 3, 32, 28, 7, 2}));
  EXPECT_EQ(sizes(program.steps.back().loops.stages[0].inner), (std::vector<int64_t>{7 * 7 * 8}));
}

TEST(PackProducts, small_sums_stay_as_they_are) {
  const Program program = packed(convolution({1, 4, 4, 6, 3}));
  EXPECT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(program.steps[0].loops.stages[0].inner.size(), 3u);
}

TEST(PackProducts, machines_with_vectors_walk_all_axes) {
  const NodeRef root = convolution({2, 16, 24, 14, 3});
  const Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(program.steps[0].loops.stages[0].inner.size(), 3u);
}

// A factor that several heads share, by a division of their number, keeps its own axis.
TEST(PackProducts, axes_of_different_roles_are_not_one) {
  NodeRef q = leaf({8, 32, 16}, 1, kBF16), k = leaf({2, 1, 48, 16}, 2, kBF16);
  k = make_reshape(make_expand(k, {2, 4, 48, 16}), {8, 48, 16});
  const Shape all = {8, 32, 48, 16};
  NodeRef a = make_expand(make_reshape(q, {8, 32, 1, 16}), all), b = make_expand(make_reshape(k, {8, 1, 48, 16}), all);
  const int summed[] = {3};
  const Program program = packed(make_reduce(ReduceOp::Sum, op(ScalarOp::mul, {a, b}), summed));
  const Loops& product = program.steps.back().loops;
  EXPECT_EQ(sizes(product.outer), (std::vector<int64_t>{8, 32, 48}));
  EXPECT_TRUE(find_contraction(product, product.stages[0])->is_matmul());
}

}  // namespace
}  // namespace heddle
