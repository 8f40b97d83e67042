// Contractions on a SIMT machine's matrix unit: schedules, and that tiles and threads compute what the evaluator does.
#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/run_program.h"
#include "compile/schedule/schedule.h"
#include "compile/simt/lower.h"
#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace heddle::testing;

Target machine(int multiprocessors = 132) {
  Target target = test_target(How::Simt);
  add_instructions(target, kShared);
  target.shared_bytes = 232448;
  target.multiprocessors = multiprocessors;
  return target;
}

// Small whole numbers, so that sums are exact in any order.
NodeRef numbers(DType dtype, const Shape& shape, int seed) {
  std::vector<double> values(static_cast<size_t>(shape.static_numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 7 + i / 13 + seed) % 5) - 2;
  return buffer_of(dtype, shape, values);
}

struct Case {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;  // stored the other way round
};

// a[batch, m, k] * b[batch, k, n] in f32.
NodeRef product(const Case& c, DType dtype, bool shared_b = false) {
  auto factor = [&](int64_t rows, int64_t columns, bool transposed, int seed, bool shared) {
    const int64_t batch = shared ? 1 : c.batch;
    NodeRef x = numbers(dtype, transposed ? Shape{batch, columns, rows} : Shape{batch, rows, columns}, seed);
    if (transposed) x = make_permute(x, std::vector<int>{0, 2, 1});
    return make_cast(x, DType::f32);
  };
  NodeRef a = factor(c.m, c.k, c.transpose_a, 1, false), b = factor(c.k, c.n, c.transpose_b, 2, shared_b);
  const Shape all{c.batch, c.m, c.n, c.k};
  a = make_expand(make_reshape(a, {c.batch, c.m, 1, c.k}), all);
  b = make_permute(b, std::vector<int>{0, 2, 1});
  b = make_expand(make_reshape(b, {shared_b ? 1 : c.batch, 1, c.n, c.k}), all);
  NodeRef factors[] = {a, b};
  NodeRef sum = make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, factors), std::vector<int>{3});
  return sum;
}

int matrix_steps = 0;  // that the picked schedules gave to the matrix unit

PickSchedule defaults() {
  return [](const Loops& loops, const Target& target) {
    Schedule schedule = default_schedule(loops, target);
    matrix_steps += schedule.stages[0].is<MatrixContraction>();
    return schedule;
  };
}

void expect_equal(const NodeRef& root, const PickSchedule& pick, const Target& target, bool threads = true) {
  HostArray want = evaluate(std::span(&root, 1))[0];
  for (How how : {How::Tile, How::Simt}) {
    if (how == How::Simt && !threads) continue;
    HostArray got = run_program(std::span(&root, 1), how, pick, {}, nullptr, &target)[0];
    EXPECT_EQ(got.floats, want.floats);
  }
}

TEST(MatrixSimt, every_transposition) {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true}) {
      SCOPED_TRACE(text(transpose_a, transpose_b));
      matrix_steps = 0;
      expect_equal(product({1, 136, 72, 88, transpose_a, transpose_b}, DType::bf16), defaults(), machine());
      EXPECT_EQ(matrix_steps, 2);
    }
}

TEST(MatrixSimt, few_rows_or_columns) {
  for (bool turn : {false, true}) {
    SCOPED_TRACE(turn);
    expect_equal(product({1, 5, 264, 600, turn, turn}, DType::bf16), defaults(), machine());
    expect_equal(product({1, 520, 16, 136, turn, !turn}, DType::f16), defaults(), machine());
  }
}

TEST(MatrixSimt, few_persistent_blocks_take_all_in_turn) {
  for (int multiprocessors : {1, 3}) {
    matrix_steps = 0;
    expect_equal(product({2, 200, 136, 64, false, false}, DType::f16), defaults(), machine(multiprocessors));
    EXPECT_EQ(matrix_steps, 2);
  }
}

PickSchedule schedule(const std::string& description) {
  return [description](const Loops& loops, const Target& target) {
    Schedule parsed = parse_schedule(description);
    EXPECT_EQ(check(parsed, loops, target), "");
    return parsed;
  };
}

TEST(MatrixSimt, every_tile) {
  const NodeRef root = make_cast(product({1, 66, 264, 72, false, true}, DType::bf16), DType::bf16);
  for (const char* block : {"64 64 threads 256", "64 128 threads 256", "64 192 threads 256", "64 256 threads 256",
                            "128 64 threads 384", "128 256 threads 384"})
    for (const char* persistent : {"", " persistent 2 group 2"}) {
      SCOPED_TRACE(std::string(block) + persistent);
      expect_equal(root, schedule(text("block ", block, "; matrix_contraction pipeline 3", persistent, "; map joined")),
                   machine());
    }
}

TEST(MatrixSimt, rows_that_are_no_multiple_of_16_bytes_are_packed_first) {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true}) {
      SCOPED_TRACE(text(transpose_a, transpose_b));
      matrix_steps = 0;
      expect_equal(product({1, 131, 67, 93, transpose_a, transpose_b}, DType::bf16), defaults(), machine());
      EXPECT_EQ(matrix_steps, 2);
    }
}

TEST(MatrixSimt, batches) {
  for (bool shared_b : {false, true}) {
    matrix_steps = 0;
    expect_equal(product({3, 72, 80, 96, false, false}, DType::f16, shared_b), defaults(), machine());
    expect_equal(product({3, 71, 81, 97, false, true}, DType::f16, shared_b), defaults(), machine());
    EXPECT_EQ(matrix_steps, 4);
  }
}

TEST(MatrixSimt, results_that_are_finished) {
  const Shape shape{96, 72};
  NodeRef x = numbers(DType::bf16, {96, 64}, 3), w = numbers(DType::bf16, {64, 72}, 4);
  NodeRef bias = numbers(DType::bf16, {72}, 5), residual = numbers(DType::f32, shape, 6);
  const Shape all{96, 72, 64};
  NodeRef a = make_expand(make_reshape(make_cast(x, DType::f32), {96, 1, 64}), all);
  NodeRef b = make_permute(make_cast(w, DType::f32), std::vector<int>{1, 0});
  b = make_expand(make_reshape(b, {1, 72, 64}), all);
  NodeRef sum = reduced(ReduceOp::Sum, scalar_node(ScalarOp::mul, {a, b}), {2});
  NodeRef biased =
      scalar_node(ScalarOp::add, {sum, make_expand(make_reshape(make_cast(bias, DType::f32), {1, 72}), shape)});
  NodeRef relu = scalar_node(ScalarOp::maximum, {biased, number(DType::f32, 0, shape)});
  NodeRef root = scalar_node(ScalarOp::add, {relu, residual});
  matrix_steps = 0;
  expect_equal(root, defaults(), machine());
  expect_equal(permuted(root, {1, 0}), defaults(), machine());
  EXPECT_EQ(matrix_steps, 4);
}

// What an optimiser makes of a gradient: there is no room for several tiles of results, so they leave part by part.
TEST(MatrixSimt, several_results_leave_in_parts) {
  const NodeRef sum = product({1, 136, 264, 72, true, false}, DType::bf16);
  const NodeRef before = numbers(DType::f32, {1, 136, 264}, 3);
  const NodeRef first = scalar_node(ScalarOp::add, {scalar_node(ScalarOp::mul, {sum, sum}), before});
  const NodeRef second = scalar_node(ScalarOp::sub, {first, sum});
  const NodeRef roots[] = {first, second, scalar_node(ScalarOp::mul, {second, before})};
  const Target target = machine();
  const std::vector<HostArray> want = evaluate(roots);
  for (How how : {How::Tile, How::Simt}) {
    const std::vector<HostArray> got = run_program(roots, how, defaults(), {}, nullptr, &target);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].floats, want[i].floats) << i;
  }
  const Program program = fuse(roots);
  ASSERT_EQ(program.steps.size(), 1u);
  const Loops& loops = program.steps[0].loops;
  kernel::Kernel kernel = lower_simt(tile(loops, default_schedule(loops, target), target), target);
  std::vector<int> written;
  kernel::visit(kernel.phases.back().body, [&](kernel::Inst& inst) {
    EXPECT_NE(inst.op, kernel::Op::matrix_store);
    if (inst.op == kernel::Op::store) written.push_back(inst.buffer);
  });
  ASSERT_FALSE(written.empty());
  const auto last = std::find(written.rbegin(), written.rend(), written.front());
  EXPECT_GT(2 * (written.rend() - last), std::ssize(written)) << "all of one result, then all of the next";
}

// A factor that another kernel casts to bf16 and that the product reads as f32: bf16 is what memory holds, so that the
// product goes to the matrix unit.
TEST(MatrixSimt, widened_factors_are_stored_narrow) {
  auto times = [](const NodeRef& x, const NodeRef& y) {
    const Shape all{x->shape[0], y->shape[1], x->shape[1]};
    NodeRef a = make_expand(make_reshape(x, {all[0], 1, all[2]}), all);
    NodeRef b = make_expand(make_reshape(make_permute(y, std::vector<int>{1, 0}), {1, all[1], all[2]}), all);
    return reduced(ReduceOp::Sum, scalar_node(ScalarOp::mul, {a, b}), {2});
  };
  auto narrow = [](const NodeRef& x) { return make_cast(make_cast(x, DType::bf16), DType::f32); };
  NodeRef x = make_cast(numbers(DType::bf16, {200, 136}, 3), DType::f32);
  NodeRef w = make_cast(numbers(DType::bf16, {136, 256}, 4), DType::f32);
  NodeRef v = make_cast(numbers(DType::bf16, {256, 264}, 5), DType::f32);
  // One factor is the result of a product, another is computed by work that is not worth repeating.
  NodeRef chained = times(narrow(times(x, w)), v);
  NodeRef sine = numbers(DType::f32, {200, 256}, 6);
  for (int i = 0; i < 4; ++i) sine = scalar_node(ScalarOp::sin, {sine});
  NodeRef computed = times(narrow(sine), v);
  for (const auto& [root, steps, products] : {std::tuple(chained, 2u, 2), std::tuple(computed, 2u, 1)}) {
    const Program program = fuse(std::span(&root, 1));
    EXPECT_EQ(program.steps.size(), steps);
    for (const Program::Tensor& tensor : program.tensors)
      EXPECT_TRUE(tensor.leaf || tensor.output || tensor.node->dtype == DType::bf16) << name(tensor.node->op);
    int found = 0;
    for (const Program::Step& step : program.steps)
      found += default_schedule(step.loops, machine()).stages[0].is<MatrixContraction>();
    EXPECT_EQ(found, products);
  }
  expect_equal(chained, defaults(), machine(), false);
}

TEST(MatrixSimt, divided_sums) {
  expect_equal(
      product({1, 70, 66, 500, false, false}, DType::bf16),
      schedule("block 64 64 threads 256; matrix_contraction pipeline 2 pack_left pack_right parts 3; map joined"),
      machine());
}

TEST(MatrixSimt, random_schedules) {
  const NodeRef root = make_cast(product({2, 72, 67, 100, false, true}, DType::bf16), DType::bf16);
  int matrices = 0;
  for (uint64_t seed = 0; seed < 12; ++seed)
    expect_equal(
        root,
        [&](const Loops& loops, const Target& target) {
          Schedule drawn = random_schedule(loops, target, seed);
          matrices += drawn.stages[0].is<MatrixContraction>();
          return drawn;
        },
        machine());
  EXPECT_GT(matrices, 6);
}

// f32: what the next step needs is loaded one step ahead, up to the last.
TEST(ProductSimt, sums_of_f32) {
  for (int64_t k : {16, 33, 64})
    for (bool turn : {false, true}) {
      SCOPED_TRACE(text(k, " ", turn));
      expect_equal(product({1, 68, 131, k, turn, !turn}, DType::f32), defaults(), machine());
      expect_equal(product({1, 130, 64, k, turn, turn}, DType::f32),
                   schedule(text("block 128 64 threads 128; contraction left block ", k > 16, " panel 128 right block ",
                                 k > 16, " panel 64", k > 16 ? " loop 2 16" : "", "; map joined")),
                   machine());
    }
}

TEST(ProductSimt, few_long_sums_are_divided) {
  int divided = 0;
  expect_equal(
      product({1, 64, 64, 1030, false, false}, DType::f32),
      [&](const Loops& loops, const Target& target) {
        Schedule chosen = default_schedule(loops, target);
        divided += chosen.stages[0].parts() > 1;
        return chosen;
      },
      machine());
  EXPECT_EQ(divided, 2);
}

TEST(MatrixSimt, what_a_matrix_unit_does_not_take) {
  auto problem = [](const NodeRef& root, const std::string& description) {
    Program program = fuse(std::span(&root, 1));
    return check(parse_schedule(description), program.steps[0].loops, machine());
  };
  const NodeRef good = product({1, 64, 64, 64, false, false}, DType::bf16);
  const std::string tail = "; matrix_contraction pipeline 3; map joined";
  EXPECT_EQ(problem(good, "block 64 64 threads 256" + tail), "");
  EXPECT_NE(problem(good, "block 64 64 threads 128" + tail).find("threads"), std::string::npos);
  EXPECT_NE(problem(good, "block 64 32 threads 256" + tail).find("64 x 32"), std::string::npos);
  EXPECT_NE(problem(good, "block 64 64 threads 256; matrix_contraction pipeline 3 loop 2 32; map joined")
                .find("walks its sum by itself"),
            std::string::npos);
  EXPECT_NE(problem(good, "block 128 256 threads 384; matrix_contraction pipeline 9; map joined").find("do not fit"),
            std::string::npos);
  EXPECT_NE(problem(product({1, 64, 63, 64, false, false}, DType::bf16), "block 64 64 threads 256" + tail)
                .find("operand 1 cannot be copied"),
            std::string::npos);
  EXPECT_NE(problem(product({1, 64, 64, 64, false, false}, DType::f32), "block 64 64 threads 256" + tail)
                .find("not ones of a matrix unit"),
            std::string::npos);
}

}  // namespace
}  // namespace heddle
