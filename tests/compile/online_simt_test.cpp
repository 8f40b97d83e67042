// Attention on a SIMT machine's matrix unit: tiles and threads against the evaluator.
#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/loops/online.h"
#include "compile/schedule/schedule.h"
#include "nest_graphs.h"
#include "run_program.h"

namespace heddle {
namespace {

using namespace heddle::testing;

Target machine() {
  Target target = test_target(How::Simt);
  add_instructions(target, kShared);
  target.shared_bytes = 232448;
  target.multiprocessors = 132;
  return target;
}

struct Sizes {
  int64_t queries, keys, width, values;
  std::vector<int64_t> heads = {};
};

using Mask = std::function<NodeRef(const NodeRef& scores)>;

// Weights are as narrow as the values, and divided by their sum afterwards.
NodeRef attention(const Sizes& n, DType dtype, const Mask& mask = {}, double scale = 0.125) {
  auto input = [&](int64_t rows, int64_t columns, uint64_t seed) {
    Shape shape;
    for (int64_t heads : n.heads) shape.push_back(heads);
    shape.push_back(rows);
    shape.push_back(columns);
    return make_cast(leaf(shape, seed, dtype), kF32);
  };
  NodeRef q = input(n.queries, n.width, 1), k = input(n.keys, n.width, 2), v = input(n.keys, n.values, 3);
  NodeRef s = matmul(q, transposed(k));
  s = op(ScalarOp::mul, {s, number(scale, s)});
  if (mask) s = mask(s);
  NodeRef e = op(ScalarOp::exp, {op(ScalarOp::sub, {s, rows(ReduceOp::Max, s)})});
  e = make_cast(make_cast(e, dtype), kF32);
  NodeRef o = matmul(e, v);
  Shape kept = o->shape;
  kept[kept.rank() - 1] = 1;
  NodeRef sum = make_expand(make_reshape(reduce(ReduceOp::Sum, e, e->shape.rank() - 1), kept), o->shape);
  return make_cast(op(ScalarOp::div, {o, sum}), dtype);
}

PickSchedule chunks(int* found, const std::string& description = {}) {
  return [found, description](const Loops& loops, const Target& target) {
    Schedule schedule = description.empty() ? default_schedule(loops, target) : parse_schedule(description);
    EXPECT_EQ(check(schedule, loops, target), "");
    *found += schedule.chunks.has_value();
    return schedule;
  };
}

// Rounding of weights depends on the maximum so far.
void expect_close_to_evaluator(const NodeRef& root, DType dtype, const std::string& description = {}) {
  HostArray want = evaluate(std::span(&root, 1))[0];
  const Target target = machine();
  for (How how : {How::Tile, How::Simt}) {
    int found = 0, launches = 0;
    HostArray got = run_program(std::span(&root, 1), how, chunks(&found, description), {}, &launches, &target)[0];
    EXPECT_EQ(found, 1);
    EXPECT_EQ(launches, 1);
    expect_close(got, want, dtype == DType::f16 ? 2e-3 : 1.6e-2);
  }
}

TEST(OnlineSimt, plain_and_causal) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    expect_close_to_evaluator(attention({128, 256, 64, 64}, dtype), dtype);
    expect_close_to_evaluator(attention({256, 256, 64, 64}, dtype, causal), dtype);
  }
}

TEST(OnlineSimt, odd_sizes) {
  expect_close_to_evaluator(attention({70, 200, 72, 64}, DType::f16), DType::f16);
  expect_close_to_evaluator(attention({200, 77, 128, 136}, DType::f16, causal), DType::f16);
  expect_close_to_evaluator(attention({9, 130, 64, 96}, DType::bf16), DType::bf16);
}

// Only chunks that the edge of a mask crosses look at it.
TEST(OnlineSimt, blocks_before_the_edge_of_a_mask) {
  const Target target = machine();
  auto loops_of = [&](const NodeRef& root) {
    Program program = fuse(std::span(&root, 1));
    EXPECT_EQ(program.steps.size(), 1u);
    const Loops& loops = program.steps[0].loops;
    std::vector<int> masks;  // in each loop over chunks, conditions on positions
    const kernel::Kernel tiles = tile(loops, default_schedule(loops, target), target);
    for (const kernel::Inst& inst : tiles.phases[0].body.insts) {
      if (inst.op != kernel::Op::loop) continue;
      masks.push_back(0);
      for (const kernel::Inst& inner : inst.bodies[0].insts) masks.back() += inner.op == kernel::Op::index;
    }
    return masks;
  };
  auto later = [](const NodeRef& scores) {  // queries that come after 130 keys
    NodeRef before = make_const(Scalar::of(DType::i64, 130), scores->shape);
    return masked(op(ScalarOp::le, {position(scores, 1), op(ScalarOp::add, {position(scores, 2), before})}), scores);
  };
  for (const Mask& mask : {Mask(causal), Mask(later)}) {
    NodeRef root = attention({200, 330, 64, 64}, DType::f16, mask);
    const std::vector<int> masks = loops_of(root);
    ASSERT_EQ(masks.size(), 2u);
    EXPECT_EQ(masks[0], 0);
    EXPECT_GT(masks[1], 0);
    expect_close_to_evaluator(root, DType::f16);
    expect_close_to_evaluator(root, DType::f16,
                              "block 128 threads 384 chunk 64; nested_contraction pipeline 3; reduction; map; "
                              "nested_contraction pipeline 2; reduction; map");
  }
  EXPECT_EQ(loops_of(attention({300, 300, 64, 64}, DType::f16)).size(), 1u);
  EXPECT_EQ(loops_of(attention({300, 300, 64, 64}, DType::f16, [](const NodeRef& s) { return window(s, 40); })).size(),
            1u);
}

TEST(OnlineSimt, heads_and_windows) {
  expect_close_to_evaluator(attention({130, 130, 64, 64, {2, 2}}, DType::f16, causal), DType::f16);
  auto near = [](const NodeRef& scores) { return window(scores, 40); };
  expect_close_to_evaluator(attention({260, 260, 64, 64}, DType::f16, near), DType::f16);
}

TEST(OnlineSimt, a_bias_is_read_where_scores_stand) {
  NodeRef bias = leaf({100, 150}, 7);
  auto add = [&](const NodeRef& scores) { return op(ScalarOp::add, {scores, bias}); };
  expect_close_to_evaluator(attention({100, 150, 64, 64}, DType::f16, add), DType::f16);
}

// Beyond the last key the copies are zeros, which would be far above these scores.
TEST(OnlineSimt, scores_far_below_zero) {
  auto down = [](const NodeRef& scores) { return op(ScalarOp::sub, {scores, number(1000, scores)}); };
  expect_close_to_evaluator(attention({64, 100, 64, 64}, DType::f16, down), DType::f16);
}

// Positions in small integers wrap around: what is left out then has no end.
TEST(OnlineSimt, masks_of_positions_that_wrap_around) {
  auto narrow = [](const NodeRef& scores) {
    NodeRef k = make_cast(position(scores, 1), DType::i8);
    return masked(op(ScalarOp::lt, {k, make_const(Scalar::of(DType::i8, 100), scores->shape)}), scores);
  };
  NodeRef root = attention({130, 300, 64, 64}, DType::f16, narrow);
  expect_close_to_evaluator(root, DType::f16);
  HostArray want = evaluate(std::span(&root, 1))[0];
  expect_close(run_program(std::span(&root, 1), How::Simd, default_schedule)[0], want, 2e-3);
}

// The largest score of a row has the weight 1, however large it is; rows that are filled with a number have means.
TEST(OnlineSimt, very_large_scores) {
  expect_close_to_evaluator(attention({64, 128, 64, 64}, DType::f16, {}, 1e9), DType::f16);
  NodeRef of_rows = leaf({64, 1}, 9);
  for (double fill : {-1e9, -3e38}) {
    SCOPED_TRACE(fill);
    auto filled = [&](const NodeRef& scores) {
      NodeRef seen = make_expand(op(ScalarOp::lt, {of_rows, number(0, of_rows)}), scores->shape);
      NodeRef all = op(ScalarOp::where, {seen, scores, number(fill, scores)});
      return op(ScalarOp::mul, {all, number(0.1, scores)});
    };
    expect_close_to_evaluator(attention({64, 128, 64, 64}, DType::f16, filled, 1.0), DType::f16);
  }
}

TEST(OnlineSimt, rows_without_keys_are_not_a_number) {
  auto none = [](const NodeRef& scores) { return window(scores, 1); };
  expect_close_to_evaluator(attention({200, 130, 64, 64}, DType::bf16, none), DType::bf16);
}

TEST(OnlineSimt, every_chunk_and_block) {
  NodeRef root = attention({130, 300, 128, 64}, DType::f16);
  for (const char* block : {"64 threads 256", "128 threads 384"})
    for (const char* chunk : {"64", "128"}) {
      SCOPED_TRACE(std::string(block) + " " + chunk);
      expect_close_to_evaluator(
          root, DType::f16,
          text("block ", block, " chunk ", chunk,
               "; nested_contraction pipeline 2; reduction; map; nested_contraction pipeline 3; reduction; map"));
    }
}

// Results of one byte leave by ordinary stores, while what is added is read along the other axis.
TEST(OnlineSimt, there_is_room_for_what_finishes_results) {
  NodeRef o = make_cast(attention({256, 256, 128, 128}, DType::f16), kF32);
  NodeRef sum = op(ScalarOp::add, {o, transposed(leaf({128, 256}, 9))});
  NodeRef root = op(ScalarOp::lt, {number(3, sum), sum});
  const Target target = machine();
  int found = 0;
  HostArray want = evaluate(std::span(&root, 1))[0];
  HostArray got = run_program(std::span(&root, 1), How::Simt, chunks(&found), {}, nullptr, &target)[0];
  EXPECT_EQ(found, 1);
  int64_t others = 0;  // sums that rounding takes across the bound
  for (size_t i = 0; i < want.integers.size(); ++i) others += want.integers[i] != got.integers[i];
  EXPECT_LT(others, 10);
}

// What a product takes from registers may come straight from memory, along any axis: no other product laid it out.
TEST(OnlineSimt, a_left_factor_that_was_loaded) {
  for (const char* where : {"d1 * 64 + d0", "d0 * 128 + d1"}) {
    SCOPED_TRACE(where);
    kernel::Kernel tiles = kernel::parse(text(R"(
kernel @loaded(in %x: bf16[8192], in %y: bf16[16384], out %z: bf16[8192]) threads 256 thread t {
  phase grid() {
    %0 = constant 0 : tile<64x1x128xf32>
    %1 = loop l0 < 1 carry(%2 = %0) {
      %3 = load %x[)",
                                              where, R"(] : tile<64x128x1xbf16>
      %4 = matrix_dot pipeline 2 after (l0 * 2) adds %2, %3 steps (l1 < 2) %y[0] of (128, 128) by (1, 128) at (0, l1 * 64) transposed : tile<64x1x128xf32>
      yield %4
    }
    %5 = cast %1 : tile<64x1x128xbf16>
    store %z[d2 * 64 + d0], %5
  }
}
)"));
    const kernel::Kernel threads = lower(tiles, machine());
    EXPECT_NO_THROW(kernel::verify(threads));
    auto run = [](const kernel::Kernel& k) {
      std::vector<std::vector<std::byte>> memory;
      std::vector<void*> buffers;
      std::vector<int64_t> sizes;
      for (const kernel::Buffer& buffer : k.buffers) {
        sizes.push_back(buffer.size.value());
        memory.emplace_back(static_cast<size_t>(sizes.back() * size_of(buffer.dtype)));
        for (int64_t i = 0; i < sizes.back() && memory.size() <= 2; ++i)
          store_scalar(memory.back().data(), i, Scalar::of(buffer.dtype, static_cast<double>(i * 7 % 31) - 15));
      }
      for (auto& bytes : memory) buffers.push_back(bytes.data());
      kernel::interpret(k, buffers, sizes, {});
      return memory[2];
    };
    EXPECT_EQ(run(threads), run(tiles));
  }
}

// A block of rows and columns has no room for what each of its results is spread over.
TEST(OnlineSimt, results_that_are_spread_over_more_axes) {
  const Target target = machine();
  NodeRef x = leaf({16, 64, 5, 7}, 9, DType::bf16);
  NodeRef o = make_reshape(attention({16, 64, 64, 64}, DType::bf16), {16, 64, 1, 1});
  NodeRef root = op(ScalarOp::add, {make_expand(o, x->shape), x});
  HostArray want = evaluate(std::span(&root, 1))[0];
  int64_t largest = 0;
  auto pick = [&](const Loops& loops, const Target& on) {
    Schedule schedule = default_schedule(loops, on);
    for (const kernel::Type& type : tile(loops, schedule, on).values) largest = std::max(largest, type.numel());
    return schedule;
  };
  expect_close(run_program(std::span(&root, 1), How::Simt, pick, {}, nullptr, &target)[0], want, 1.6e-2);
  EXPECT_LE(largest, 16 * 64 * 64);
}

TEST(OnlineSimt, what_it_does_not_take) {
  int found = 0;
  const Target target = machine();
  // Weights that were never narrow would lose something.
  NodeRef s = matmul(make_cast(leaf({128, 64}, 1, DType::bf16), kF32),
                     transposed(make_cast(leaf({128, 64}, 2, DType::bf16), kF32)));
  NodeRef wide = matmul(softmax(s), make_cast(leaf({128, 64}, 3, DType::bf16), kF32));
  HostArray want = evaluate(std::span(&wide, 1))[0];
  HostArray got = run_program(std::span(&wide, 1), How::Simt, chunks(&found), {}, nullptr, &target)[0];
  EXPECT_EQ(found, 0);
  expect_close(got, want, 1e-4);
}

}  // namespace
}  // namespace heddle
