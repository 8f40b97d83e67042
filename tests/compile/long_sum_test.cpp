// A long sum of floats is a sum of short ones, whatever the schedule: no accumulator takes many terms in a row.
#include <gtest/gtest.h>

#include "leaves.h"
#include "run_program.h"

namespace heddle {
namespace {

using namespace heddle::testing;

// Small whole numbers: their sums are exact in any order.
NodeRef whole_numbers(const Shape& shape, uint64_t seed) { return make_cast(leaf(shape, seed, DType::i32), kF32); }

// The most iterations of any loop that carries something.
int64_t longest_loop(const kernel::Kernel& kernel) {
  int64_t longest = 0;
  for (const kernel::Phase& phase : kernel.phases)
    kernel::visit(phase.body, [&](const kernel::Inst& inst) {
      if (inst.op == kernel::Op::loop && !inst.args.empty()) longest = std::max(longest, inst.extent.hi());
    });
  return longest;
}

// `steps`: the longest chain that the schedule may have.
void expect_blocked(const NodeRef& root, const std::string& schedule, int64_t steps) {
  const HostArray want = evaluate(std::span(&root, 1))[0];
  for (How how : {How::Tile, How::Simd, How::Simt}) {
    SCOPED_TRACE(how == How::Tile ? "tile" : how == How::Simd ? "simd" : "simt");
    int64_t longest = 0;
    auto pick = [&](const Loops& loops, const Target& target) {
      Schedule picked = parse_schedule(schedule);
      if (how == How::Simt) picked.threads = 64;
      EXPECT_EQ(check(picked, loops, target), "");
      longest = longest_loop(tile(loops, picked, target));
      return picked;
    };
    expect_close(run_program(std::span(&root, 1), how, pick)[0], want, 0);
    EXPECT_LE(longest, steps);
  }
}

TEST(LongSum, of_a_row) {
  for (int64_t n : {64 * 32, 64 * 33, 64 * 40, 64 * 1024, 64 * 1025 + 7, 100003}) {
    SCOPED_TRACE(n);
    NodeRef x = whole_numbers({n}, 1);
    expect_blocked(make_reduce(ReduceOp::Sum, x, std::vector<int>{0}), "block; reduction loop 0 64; map joined", 32);
    expect_blocked(make_reduce(ReduceOp::Sum, x, std::vector<int>{0}),
                   "block; split_reduction parts 3 loop 0 64; map joined", 32);
  }
}

TEST(LongSum, of_rows_with_short_tiles) {
  NodeRef root = make_reduce(ReduceOp::Sum, whole_numbers({3, 9001}, 2), std::vector<int>{1});
  expect_blocked(root, "block 2; reduction loop 1 8; map joined", 128);
}

// Maxima do not round: nothing changes for them.
TEST(LongSum, not_of_maxima) {
  NodeRef root = make_reduce(ReduceOp::Max, whole_numbers({64 * 100}, 3), std::vector<int>{0});
  expect_blocked(root, "block; reduction loop 0 64; map joined", 100);
}

TEST(LongSum, of_products) {
  const Shape all{4, 5, 3001};
  NodeRef a = make_expand(make_reshape(whole_numbers({4, 3001}, 4), {4, 1, 3001}), all);
  NodeRef b = make_expand(make_reshape(whole_numbers({5, 3001}, 5), {1, 5, 3001}), all);
  NodeRef root = make_reduce(ReduceOp::Sum, op(ScalarOp::mul, {a, b}), std::vector<int>{2});
  const HostArray want = evaluate(std::span(&root, 1))[0];
  int64_t deepest = 0;
  auto pick = [&](const Loops& loops, const Target& target) {
    Schedule schedule = parse_schedule("block 4 5; contraction; map joined");
    EXPECT_EQ(check(schedule, loops, target), "");
    for (const kernel::Type& type : tile(loops, schedule, target).values)
      for (int64_t size : type.shape) deepest = std::max(deepest, size);
    return schedule;
  };
  expect_close(run_program(std::span(&root, 1), How::Simd, pick)[0], want, 0);
  EXPECT_LE(deepest, 512);
}

}  // namespace
}  // namespace heddle
