// Contractions on a matrix unit that warps use: schedules, and that tiles and threads compute what the evaluator does.
#include "compile/schedule/matrix_contraction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "compile/run_program.h"
#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace heddle::testing;

Target machine(int multiprocessors = 132) {
  Target target = test_target(How::Simt);
  add_instructions(target, kFragments);
  add_instructions(target, kFragmentsOfF8);
  target.tf32 = true;
  target.shared_bytes = 166912;
  target.multiprocessors = multiprocessors;
  return target;
}

// Small whole numbers, so that sums are exact in any order.
NodeRef numbers(DType dtype, const Shape& shape, int seed) {
  std::vector<double> values(static_cast<size_t>(shape.static_numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 7 + i / 13 + static_cast<size_t>(seed)) % 5) - 2;
  return buffer_of(dtype, shape, values);
}

struct Case {
  int64_t batch, m, n, k;
  bool transpose_a = false, transpose_b = false;  // stored the other way round
};

DType sum_of(DType dtype) { return is_float(dtype) ? DType::f32 : DType::i32; }

// a[batch, m, k] * b[batch, k, n] in f32 or i32.
NodeRef product(const Case& c, DType dtype) {
  auto factor = [&](int64_t rows, int64_t columns, bool transposed, int seed) {
    NodeRef x = numbers(dtype, transposed ? Shape{c.batch, columns, rows} : Shape{c.batch, rows, columns}, seed);
    if (transposed) x = permuted(x, {0, 2, 1});
    return make_cast(x, sum_of(dtype));
  };
  const Shape all{c.batch, c.m, c.n, c.k};
  NodeRef a = make_expand(make_reshape(factor(c.m, c.k, c.transpose_a, 1), {c.batch, c.m, 1, c.k}), all);
  NodeRef b = permuted(factor(c.k, c.n, c.transpose_b, 2), {0, 2, 1});
  b = make_expand(make_reshape(b, {c.batch, 1, c.n, c.k}), all);
  return reduced(ReduceOp::Sum, scalar_node(ScalarOp::mul, {a, b}), {3});
}

struct Count {
  int steps = 0;   // that went to the matrix unit
  int packed = 0;  // factors that were packed first
  int divided = 0;
};

PickSchedule defaults(Count& count) {
  return [&count](const Loops& loops, const Target& target) {
    Schedule schedule = default_schedule(loops, target);
    if (const auto* unit = std::get_if<MatrixContraction>(&schedule.stages[0].strategy)) {
      count.steps += unit->warps;
      count.packed += unit->pack_left + unit->pack_right;
      count.divided += unit->parts > 1;
    }
    return schedule;
  };
}

PickSchedule schedule(const std::string& description) {
  return [description](const Loops& loops, const Target& target) {
    Schedule parsed = parse_schedule(description);
    EXPECT_EQ(print(parsed), description);
    EXPECT_EQ(check(parsed, loops, target), "");
    return parsed;
  };
}

void expect_equal(const NodeRef& root, const PickSchedule& pick, const Target& target = machine()) {
  HostArray want = evaluate(std::span(&root, 1))[0];
  for (How how : {How::Tile, How::Simt}) {
    HostArray got = run_program(std::span(&root, 1), how, pick, {}, nullptr, &target)[0];
    EXPECT_EQ(got.floats, want.floats);
    EXPECT_EQ(got.integers, want.integers);
  }
}

constexpr DType kFactors[] = {DType::bf16, DType::f16, DType::i8, DType::f8e4m3, DType::f8e5m2, DType::f32};

TEST(WarpSimt, every_dtype_and_transposition) {
  for (DType dtype : kFactors)
    for (bool transpose_a : {false, true})
      for (bool transpose_b : {false, true}) {
        SCOPED_TRACE(text(dtype, " ", transpose_a, transpose_b));
        Count count;
        expect_equal(product({1, 80, 96, 112, transpose_a, transpose_b}, dtype), defaults(count));
        EXPECT_EQ(count.steps, 2);
        // What is not of two bytes is transposed by packing it.
        EXPECT_EQ(count.packed, size_of(dtype) == 2 ? 0 : 2 * (transpose_a + !transpose_b));
      }
}

TEST(WarpSimt, odd_sizes_are_packed_first) {
  for (DType dtype : kFactors)
    for (bool turn : {false, true}) {
      SCOPED_TRACE(text(dtype, " ", turn));
      Count count;
      expect_equal(product({1, 67, 83, 93, turn, !turn}, dtype), defaults(count));
      EXPECT_EQ(count.steps, 2);
      EXPECT_EQ(count.packed, 4);
    }
}

TEST(WarpSimt, every_tile) {
  const NodeRef root = make_cast(product({1, 34, 136, 72, false, true}, DType::bf16), DType::bf16);
  for (const char* block :
       {"16 16 threads 32", "64 64 threads 128", "128 256 threads 256", "16 128 threads 128", "48 96 threads 64"})
    for (const char* persistent : {"", " persistent 2 group 2"})
      for (int pipeline : {2, 3}) {
        SCOPED_TRACE(text(block, persistent, " pipeline ", pipeline));
        expect_equal(root, schedule(text("block ", block, "; matrix_contraction warps pipeline ", pipeline, persistent,
                                         "; map joined")));
      }
}

// Sums of few blocks are divided, but not where several products fill the machine together.
TEST(WarpSimt, products_that_are_launched_together) {
  auto chosen = [](int count) {
    std::vector<NodeRef> roots;
    for (int i = 0; i < count; ++i) roots.push_back(product({1, 16, 256, 2048}, DType::bf16));
    Program program = fuse(roots);
    EXPECT_EQ(program.steps.size(), 1u);
    EXPECT_EQ(program.steps[0].loops.together, count);
    return default_schedule(program.steps[0].loops, machine(8)).stages[0].parts();
  };
  EXPECT_EQ(chosen(1), 4);
  EXPECT_EQ(chosen(2), 2);
  EXPECT_EQ(chosen(4), 1);
}

TEST(WarpSimt, batches_and_few_rows) {
  for (DType dtype : {DType::f16, DType::i8}) {
    Count count;
    expect_equal(product({3, 40, 80, 96}, dtype), defaults(count));
    expect_equal(product({3, 41, 81, 97, false, true}, dtype), defaults(count));
    expect_equal(product({1, 5, 264, 600}, dtype), defaults(count));
    expect_equal(product({1, 520, 8, 136, true, false}, dtype), defaults(count));
    EXPECT_EQ(count.steps, 8);
  }
}

TEST(WarpSimt, results_that_are_finished) {
  const Shape shape{96, 72}, all{96, 72, 64};
  for (DType dtype : {DType::bf16, DType::f8e4m3}) {
    NodeRef x = numbers(dtype, {96, 64}, 3), w = numbers(dtype, {72, 64}, 4);
    NodeRef bias = numbers(DType::bf16, {72}, 5), residual = numbers(DType::f32, shape, 6);
    NodeRef a = make_expand(make_reshape(make_cast(x, DType::f32), {96, 1, 64}), all);
    NodeRef b = make_expand(make_reshape(make_cast(w, DType::f32), {1, 72, 64}), all);
    NodeRef sum = reduced(ReduceOp::Sum, scalar_node(ScalarOp::mul, {a, b}), {2});
    NodeRef biased =
        scalar_node(ScalarOp::add, {sum, make_expand(make_reshape(make_cast(bias, DType::f32), {1, 72}), shape)});
    NodeRef relu = scalar_node(ScalarOp::maximum, {biased, number(DType::f32, 0, shape)});
    NodeRef root = scalar_node(ScalarOp::add, {relu, residual});
    Count count;
    expect_equal(root, defaults(count));
    expect_equal(permuted(root, {1, 0}), defaults(count));
    expect_equal(make_cast(root, DType::bf16), defaults(count));
    EXPECT_EQ(count.steps, 6);
  }
}

TEST(WarpSimt, factors_that_are_computed_are_packed) {
  const Shape all{64, 48, 96};
  NodeRef x = scalar_node(ScalarOp::mul, {numbers(DType::f32, {64, 96}, 1), number(DType::f32, 2, {64, 96})});
  NodeRef a = make_cast(make_cast(x, DType::bf16), DType::f32);
  NodeRef b = make_cast(numbers(DType::bf16, {48, 96}, 2), DType::f32);
  NodeRef root = reduced(ReduceOp::Sum,
                         scalar_node(ScalarOp::mul, {make_expand(make_reshape(a, {64, 1, 96}), all),
                                                     make_expand(make_reshape(b, {1, 48, 96}), all)}),
                         {2});
  Count count;
  expect_equal(root, defaults(count));
  EXPECT_EQ(count.steps, 2);
}

TEST(WarpSimt, long_sums_are_divided) {
  for (DType dtype : {DType::bf16, DType::i8, DType::f32}) {
    Count count;
    expect_equal(product({1, 40, 48, 1100}, dtype), defaults(count));
    EXPECT_EQ(count.divided, 2);
  }
  expect_equal(
      product({1, 64, 64, 500, false, true}, DType::f16),
      schedule(
          "block 64 64 threads 128; matrix_contraction warps pipeline 3 pack_left pack_right parts 3; map joined"));
}

TEST(WarpSimt, few_persistent_blocks_take_all_in_turn) {
  expect_equal(
      product({2, 200, 136, 64}, DType::bf16),
      schedule("block 1 64 64 threads 128; matrix_contraction warps pipeline 3 persistent 3 group 2; map joined"));
}

// Factors that tf32 cannot hold are rounded to the nearest number that it can, and it must be asked for.
TEST(WarpSimt, tf32_rounds_and_is_asked_for) {
  const double third = static_cast<float>(1.0 / 3), rounded = 1365.0 / 4096;  // 1.0101010101 * 2^-2
  const Shape all{64, 64, 64};
  auto factor = [&](double value) { return buffer_of(DType::f32, {64, 64}, std::vector<double>(64 * 64, value)); };
  auto of = [&](const NodeRef& a, const NodeRef& b) {
    return reduced(ReduceOp::Sum,
                   scalar_node(ScalarOp::mul, {make_expand(make_reshape(a, {64, 1, 64}), all),
                                               make_expand(make_reshape(b, {1, 64, 64}), all)}),
                   {2});
  };
  NodeRef root = of(factor(third), factor(1));
  Target target = machine();
  for (How how : {How::Tile, How::Simt}) {
    Count count;
    HostArray got = run_program(std::span(&root, 1), how, defaults(count), {}, nullptr, &target)[0];
    EXPECT_EQ(count.steps, 1);
    for (double x : got.floats) ASSERT_EQ(x, 64 * rounded);
  }
  target.tf32 = false;
  Count count;
  HostArray got = run_program(std::span(&root, 1), How::Simt, defaults(count), {}, nullptr, &target)[0];
  EXPECT_EQ(count.steps, 0);
  for (double x : got.floats) ASSERT_NEAR(x, 64 * third, 1e-5);
}

TEST(WarpSimt, infinities_and_nan_pass_through_tf32) {
  const Shape all{64, 64, 64};
  std::vector<double> values(64 * 64, 1);
  values[0] = INFINITY;
  values[64] = NAN;
  NodeRef a = buffer_of(DType::f32, {64, 64}, values),
          b = buffer_of(DType::f32, {64, 64}, std::vector<double>(64 * 64, 1));
  NodeRef root = reduced(ReduceOp::Sum,
                         scalar_node(ScalarOp::mul, {make_expand(make_reshape(a, {64, 1, 64}), all),
                                                     make_expand(make_reshape(b, {1, 64, 64}), all)}),
                         {2});
  const Target target = machine();
  Count count;
  HostArray got = run_program(std::span(&root, 1), How::Simt, defaults(count), {}, nullptr, &target)[0];
  EXPECT_EQ(got.floats[0], INFINITY);
  EXPECT_TRUE(std::isnan(got.floats[64]));
  EXPECT_EQ(got.floats[128], 64);
}

TEST(WarpSimt, random_schedules) {
  int warps = 0;
  for (DType dtype : {DType::bf16, DType::i8}) {
    const NodeRef root = product({2, 40, 35, 100, false, true}, dtype);
    for (uint64_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(seed);
      expect_equal(root, [&](const Loops& loops, const Target& target) {
        Schedule drawn = random_schedule(loops, target, seed);
        const auto* unit = std::get_if<MatrixContraction>(&drawn.stages[0].strategy);
        warps += unit && unit->warps;
        return drawn;
      });
    }
  }
  EXPECT_GT(warps, 4);
}

TEST(WarpSimt, what_it_does_not_take) {
  auto problem = [](const NodeRef& root, const std::string& description, const Target& target = machine()) {
    Program program = fuse(std::span(&root, 1));
    return check(parse_schedule(description), program.steps[0].loops, target);
  };
  auto expect = [](const std::string& got, const std::string& what) {
    EXPECT_NE(got.find(what), std::string::npos) << what << ": " << got;
  };
  const NodeRef good = product({1, 64, 64, 64}, DType::bf16);
  const std::string tail = "; matrix_contraction warps pipeline 3; map joined";
  EXPECT_EQ(problem(good, "block 64 64 threads 128" + tail), "");
  expect(problem(good, "block 64 64 threads 96" + tail), "blocks of 64 x 64 for 96 threads");
  expect(problem(good, "block 64 40 threads 64" + tail), "blocks of 64 x 40");
  expect(problem(good, "block 128 256 threads 128" + tail), "256 sums for each thread");
  expect(problem(good, "block 64 64 threads 128; matrix_contraction warps pipeline 3 loop 2 32; map joined"),
         "walks its sum by itself");
  expect(problem(good, "block 64 64 threads 128; matrix_contraction warps pipeline 1; map joined"),
         "room for 1 stages");
  expect(problem(good, "block 128 256 threads 256; matrix_contraction warps pipeline 7; map joined"), "do not fit");
  expect(problem(product({1, 64, 66, 64}, DType::bf16), "block 64 64 threads 128" + tail), "cannot be copied as it is");
  expect(problem(make_cast(product({1, 64, 64, 64}, DType::i32), DType::f64), "block 64 64 threads 128" + tail),
         "not ones of a matrix unit");
  Target old = machine();
  old.tf32 = false;
  std::erase_if(old.matrix,
                [](const MatrixInstruction& row) { return size_of(row.factor) == 1 && is_float(row.factor); });
  expect(problem(product({1, 64, 64, 64, false, true}, DType::f8e4m3), "block 64 64 threads 128" + tail, old),
         "does not multiply f8e4m3");
  EXPECT_EQ(problem(product({1, 64, 64, 64, false, true}, DType::i8), "block 64 64 threads 128" + tail, old), "");
  expect(problem(product({1, 64, 64, 64, false, true}, DType::f32), "block 64 64 threads 128" + tail, old),
         "nobody asked for products of tf32");
  remove_instructions(old, MatrixLayout::Fragments);
  expect(problem(good, "block 64 64 threads 128" + tail, old), "no matrix unit for warps");
}

}  // namespace
}  // namespace heddle
