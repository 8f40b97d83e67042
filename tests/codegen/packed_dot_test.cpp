// Products of bf16 and i8: several numbers packed to a word, multiplied one word at a time or in panels on a matrix
// unit.
#include <random>

#include "../compile/run_program.h"
#include "../graph/host_storage.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "compile/loops/contraction.h"

namespace heddle {
namespace {

using testing::How;

NodeRef numbers(const Shape& shape, uint64_t seed, DType dtype) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<size_t>(shape.static_numel()));
  for (double& v : values) v = static_cast<double>(static_cast<int64_t>(random() % 17) - 8);
  return testing::buffer_of(dtype, shape, values);
}

// a is m x k or transposed, b is k x n or transposed; the sum is as wide as the dtype's products need.
NodeRef product(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, DType narrow) {
  const DType wide = narrow == DType::bf16 ? DType::f32 : DType::i32;
  auto factor = [&](int64_t rows, bool transposed, uint64_t seed) {  // rows x k
    NodeRef x = numbers(transposed ? Shape{k, rows} : Shape{rows, k}, seed, narrow);
    return make_cast(transposed ? make_permute(x, std::vector<int>{1, 0}) : x, wide);
  };
  Shape all{m, n, k};
  NodeRef x = make_expand(make_reshape(factor(m, transpose_a, 1), Shape{m, 1, k}), all);
  NodeRef y = make_expand(make_reshape(factor(n, transpose_b, 2), Shape{1, n, k}), all);
  NodeRef factors[] = {x, y};
  return make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), std::vector<int>{2});
}

Target machine_with(bool matrix) {
  Target target = testing::test_target(How::Simd);
  add_instructions(target, kPackedPairs);
  add_instructions(target, kPackedBytes);
  if (matrix) add_instructions(target, kPanels);
  return target;
}

struct Case {
  int64_t m, n, k;
  DType dtype;
};

class PackedDot : public ::testing::TestWithParam<Case> {};

TEST_P(PackedDot, agree_with_the_evaluator) {
  const Case c = GetParam();
  for (bool matrix : {false, true})
    for (int transposed = 0; transposed < 4; ++transposed) {
      NodeRef root = product(c.m, c.n, c.k, transposed & 1, transposed & 2, c.dtype);
      std::vector<HostArray> want = evaluate(std::span(&root, 1));
      const Target target = machine_with(matrix);
      for (How how : {How::Tile, How::Simd}) {
        SCOPED_TRACE(
            text(matrix ? "matrix" : "packed", how == How::Tile ? ", tile" : ", simd", ", transposed ", transposed));
        std::string used;
        auto got = testing::run_program(
            std::span(&root, 1), how,
            [&](const Loops& l, const Target& t) {
              Schedule s = default_schedule(l, t);
              used = print(s);
              return s;
            },
            {}, nullptr, &target);
        EXPECT_NE(used.find(matrix ? "matrix" : "packed"), std::string::npos) << used;
        testing::expect_close(got[0], want[0], 0);  // small whole numbers: every order of adding gives the same
        if (HasFatalFailure()) return;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PackedDot,
                         ::testing::Values(Case{32, 32, 32, DType::bf16}, Case{37, 70, 41, DType::bf16},
                                           Case{8, 9, 3, DType::bf16}, Case{33, 20, 520, DType::bf16},
                                           Case{40, 50, 64, DType::i8}, Case{33, 31, 67, DType::i8}),
                         [](const auto& test) {
                           const Case& c = test.param;
                           return text(c.m, "x", c.n, "x", c.k, c.dtype == DType::i8 ? "_i8" : "_bf16");
                         });

TEST(PackedDotKernels, random_schedules_draw_them_and_are_right) {
  NodeRef root = product(21, 34, 30, false, false, DType::bf16);
  std::vector<HostArray> want = evaluate(std::span(&root, 1));
  int drawn = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::string used;
    auto pick = [&](const Loops& l, const Target& t) {
      Schedule s = random_schedule(l, t, seed);
      used = print(s);
      return s;
    };
    auto got = testing::run_program(std::span(&root, 1), How::Simd, pick);
    drawn += used.find("packed") != std::string::npos;
    testing::expect_close(got[0], want[0], 0);
    ASSERT_FALSE(HasFatalFailure()) << used;
  }
  EXPECT_GT(drawn, 0);
}

// Sums over two axes of a[m, i, j] * b[n, i, j]; a factor may not follow one of them.
NodeRef product_over_two(int64_t m, int64_t n, int64_t i, int64_t j, bool a_follows_j, double huge, DType narrow) {
  const DType wide = narrow == DType::bf16 ? DType::f32 : DType::i32;
  Shape all{m, n, i, j};
  NodeRef a = numbers({m, 1, i, a_follows_j ? j : 1}, 3, narrow), b = numbers({1, n, i, j}, 4, narrow);
  if (huge != 0) {
    std::vector<double> same(static_cast<size_t>(a->shape.static_numel()), huge);
    a = testing::buffer_of(narrow, a->shape, same);
    b = testing::buffer_of(narrow, b->shape, std::vector<double>(static_cast<size_t>(n * i * j), 1.0));
  }
  NodeRef factors[] = {make_expand(make_cast(a, wide), all), make_expand(make_cast(b, wide), all)};
  return make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), std::vector<int>{2, 3});
}

TEST(PackedDotKernels, sums_over_several_axes_are_packed_along_any_of_them) {
  struct Two {
    int64_t i, j;
    bool follows;
    double huge;
  };
  for (const Two& t : {Two{40, 3, true, 0}, Two{3, 40, true, 0}, Two{9, 33, false, 0}, Two{3, 33, false, INFINITY}})
    for (DType dtype : {DType::bf16, DType::i8})
      for (bool matrix : {false, true}) {
        if (dtype == DType::i8 && t.huge != 0) continue;
        NodeRef root = product_over_two(40, 48, t.i, t.j, t.follows, t.huge, dtype);
        std::vector<HostArray> want = evaluate(std::span(&root, 1));
        const Target target = machine_with(matrix);
        std::string used;
        auto pick = [&](const Loops& l, const Target& machine) {
          Schedule s = default_schedule(l, machine);
          used = print(s);
          return s;
        };
        auto got = testing::run_program(std::span(&root, 1), How::Simd, pick, {}, nullptr, &target);
        SCOPED_TRACE(text(t.i, " x ", t.j, matrix ? " matrix: " : ": ", used));
        testing::expect_close(got[0], want[0], 0);
        if (HasFatalFailure()) return;
      }
}

// Channels before the places of a kernel, as in a convolution: the longest reduced axis is not the last.
TEST(PackedDotKernels, the_packed_axis_need_not_be_the_last) {
  for (bool matrix : {false, true}) {
    const int64_t channels = 40, places = 3, width = 34;
    NodeRef image = numbers({channels, width + places - 1}, 5, DType::bf16);
    NodeRef weights = numbers({33, channels, places}, 6, DType::bf16);
    NodeRef windows = make_window(image, 1, places, 1, 1);  // channels, width, places
    Shape all{33, width, channels, places};
    NodeRef x = make_permute(make_cast(windows, DType::f32), std::vector<int>{1, 0, 2});
    x = make_expand(make_reshape(x, Shape{1, width, channels, places}), all);
    NodeRef w = make_expand(make_reshape(make_cast(weights, DType::f32), Shape{33, 1, channels, places}), all);
    NodeRef factors[] = {w, x};
    NodeRef root = make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), std::vector<int>{2, 3});
    std::vector<HostArray> want = evaluate(std::span(&root, 1));
    const Target target = machine_with(matrix);
    std::string used;
    auto pick = [&](const Loops& l, const Target& machine) {
      Schedule s = default_schedule(l, machine);
      used = print(l) + print(s);
      return s;
    };
    auto got = testing::run_program(std::span(&root, 1), How::Simd, pick, {}, nullptr, &target);
    SCOPED_TRACE(used);
    EXPECT_NE(used.find(matrix ? "matrix" : "packed"), std::string::npos);
    testing::expect_close(got[0], want[0], 0);
    if (HasFatalFailure()) return;
  }
}

TEST(PackedDotKernels, schedules_that_would_count_packed_numbers_twice_are_refused) {
  NodeRef root = product(33, 40, 30, false, false, DType::bf16);
  Program program = fuse(std::span(&root, 1));
  const Loops& loops = program.steps[0].loops;
  Schedule s = parse_schedule("block 32 32; packed_contraction left phase panel 32 right phase panel 32 loop 2 1; map");
  EXPECT_NE(check(s, loops, machine_with(false)).find("no axis to pack"), std::string::npos);
}

TEST(PackedDotKernels, a_matrix_unit_needs_no_loops_over_rows_and_columns) {
  NodeRef root = product(33, 40, 130, false, false, DType::bf16);
  std::vector<HostArray> want = evaluate(std::span(&root, 1));
  const Target target = machine_with(true);
  auto pick = [&](const Loops&, const Target&) {
    return parse_schedule(
        "block 32 32; packed_contraction matrix left block 1 panel 32 right block 1 panel 32 loop 2 64; map");
  };
  auto got = testing::run_program(std::span(&root, 1), How::Simd, pick, {}, nullptr, &target);
  testing::expect_close(got[0], want[0], 0);
}

kernel::Kernel matrix_kernel(DType narrow) {
  NodeRef root = product(64, 64, 600, false, false, narrow);
  Program program = fuse(std::span(&root, 1));
  const Target target = machine_with(true);
  const Loops& loops = program.steps[0].loops;
  return lower(tile(loops, default_schedule(loops, target), target), target);
}

TEST(PackedDotKernels, panels_print_and_parse_back) {
  const std::string text = kernel::print(matrix_kernel(DType::bf16));
  EXPECT_NE(text.find("panel_dot"), std::string::npos);
  kernel::Kernel back = kernel::parse(text);
  kernel::verify(back);
  EXPECT_EQ(kernel::print(back), text);
}

TEST(PackedDotKernels, the_matrix_unit_is_configured_once_and_holds_the_sums) {
  Target target = host_target();
  if (target.name != "avx512") GTEST_SKIP() << "needs AVX-512";
  target.matrix.assign(std::begin(kPanels), std::end(kPanels));
  target.llvm_cpu = "sapphirerapids";
  target.llvm_features = "";
  for (DType dtype : {DType::bf16, DType::i8}) {
    const std::string code = host_assembly(matrix_kernel(dtype), target);
    auto count = [&](const std::string& what) {
      int found = 0;
      for (size_t at = code.find(what); at != std::string::npos; at = code.find(what, at + 1)) ++found;
      return found;
    };
    EXPECT_EQ(count("ldtilecfg"), 1);
    EXPECT_EQ(count("tilerelease"), 1);
    const int products = count(dtype == DType::bf16 ? "tdpbf16ps" : "tdpbssd");
    EXPECT_GE(products, 4);
    EXPECT_EQ(count("tilestored"), products);  // four sums for each panel, none in between
  }
}

}  // namespace
}  // namespace heddle
