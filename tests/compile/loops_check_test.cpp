// What watches over fusion: the verifier and the interpreter of Loops.
#include <gtest/gtest.h>
#include <heddle/error.h>

#include "compile/fuse/check_program.h"
#include "compile/loops/interpret_loops.h"
#include "nest_graphs.h"

namespace heddle {
namespace {

using testing::leaf;
using testing::matmul;
using testing::op;
using testing::softmax;
using testing::transposed;

Program fused(const NodeRef& root) { return fuse(std::span(&root, 1)); }
// Attention in one kernel: stages that keep axes, and some that do not.
NodeRef attention() {
  NodeRef scores = matmul(leaf({3, 4}, 1), transposed(leaf({5, 4}, 2)));
  return matmul(softmax(scores), leaf({5, 6}, 3));
}
kernel::Inst& instruction(Stage& stage, kernel::Op op) {
  for (kernel::Inst& inst : stage.body.insts)
    if (inst.op == op) return inst;
  throw std::logic_error("no such instruction");
}
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const heddle::InternalError& error) {
    return error.what();
  }
  return "nothing is wrong";
}
// What the verifier says of the loops after `change`.
std::string refusal(Loops loops, const std::function<void(Loops&)>& change) {
  verify(loops);
  change(loops);
  return message_of([&] { verify(loops); });
}
#define EXPECT_SAYS(message, part) EXPECT_NE(std::string(message).find(part), std::string::npos) << (message)

TEST(VerifyLoops, a_variable_has_one_extent) {
  NodeRef root = softmax(leaf({3, 7}, 1));
  Program program = fused(root);
  EXPECT_SAYS(refusal(program.steps[0].loops, [](Loops& l) { l.stages[1].inner[0].extent = 5; }), "is walked to 5");
  EXPECT_SAYS(refusal(program.steps[0].loops, [](Loops& l) { l.outer[0].extent = 2; }), "is walked to 2");
}

TEST(VerifyLoops, no_axis_is_walked_twice) {
  NodeRef root = softmax(leaf({3, 7}, 1));
  Program program = fused(root);
  auto again = [](Loops& l) { l.stages[1].inner.push_back(l.stages[1].inner[0]); };
  EXPECT_SAYS(refusal(program.steps[0].loops, again), "twice");
  auto outer = [](Loops& l) { l.stages[1].inner.push_back(l.outer[0]); };
  EXPECT_SAYS(refusal(program.steps[0].loops, outer), "again");
}

TEST(VerifyLoops, results_are_used_where_they_are_kept_and_after_they_are_computed) {
  NodeRef root = attention();
  Program program = fused(root);
  ASSERT_EQ(program.steps.size(), 1u);
  const Loops& loops = program.steps[0].loops;
  ASSERT_TRUE(is_nested(loops));
  // The stage after the one that keeps the scores walks another axis of the same extent.
  auto other_axis = [](Loops& l) {
    Stage& stage = l.stages[1];
    Axis fresh{Expr::index("z", stage.inner[0].extent), stage.inner[0].extent};
    stage.inner[0] = fresh;
  };
  EXPECT_SAYS(refusal(loops, other_axis), "is kept along");
  EXPECT_SAYS(refusal(loops, [](Loops& l) { std::swap(l.stages[0], l.stages[1]); }), "before it is computed");
}

TEST(VerifyLoops, a_body_is_seen_by_its_own_stage_alone) {
  NodeRef root = softmax(leaf({3, 7}, 1));
  Program program = fused(root);
  auto steal = [](Loops& l) {
    kernel::Value loaded = l.stages[0].body.insts[0].results[0];
    for (kernel::Inst& inst : l.stages[1].body.insts)
      if (kernel::is_scalar_op(inst.op)) inst.args[0] = loaded;
  };
  EXPECT_SAYS(refusal(program.steps[0].loops, steal), "belongs to the body of stage 0");
}

TEST(VerifyLoops, addresses_lie_inside_buffers) {
  NodeRef root = softmax(leaf({3, 7}, 1));
  Program program = fused(root);
  auto beyond = [](Loops& l) {
    kernel::Inst& load = instruction(l.stages[0], kernel::Op::load);
    load.address = load.address + 1;
  };
  EXPECT_SAYS(refusal(program.steps[0].loops, beyond), "goes from 1 to 21 of 21");
  auto below = [](Loops& l) {
    kernel::Inst& store = instruction(l.stages.back(), kernel::Op::store);
    store.address = store.address - 2;
  };
  EXPECT_SAYS(refusal(program.steps[0].loops, below), "goes from -2");
  auto same_place = [](Loops& l) { instruction(l.stages.back(), kernel::Op::store).address = l.outer[0].var; };
  EXPECT_SAYS(refusal(program.steps[0].loops, same_place), "all points along");
}

// Faults that keep every rule of the verifier.
TEST(CheckProgram, finds_what_reads_another_element) {
  NodeRef x = leaf({5, 5}, 1);
  NodeRef root = matmul(x, transposed(x));
  Program program = fused(root);
  check_program(program);
  ASSERT_TRUE(check_on_random_data(program));
  Loops& loops = program.steps[0].loops;
  // x times x, not its transpose.
  kernel::Inst& load = loops.stages[0].body.insts[1];
  ASSERT_EQ(load.op, kernel::Op::load);
  load.address = loops.stages[0].inner[0].var * 5 + loops.outer[1].var;
  verify(loops);
  EXPECT_SAYS(message_of([&] { check_program(program); }), "fused wrongly: kernel " + loops.name);
  EXPECT_SAYS(message_of([&] { check_on_random_data(program); }), "loops @" + loops.name);
}

TEST(CheckProgram, finds_results_that_nobody_writes_and_those_written_twice) {
  NodeRef root = op(ScalarOp::neg, {leaf({4, 6}, 1)});
  Program program = fused(root);
  kernel::Inst& store = instruction(program.steps[0].loops.stages[0], kernel::Op::store);
  Expr point = store.address;
  store.guard = lt(point, 20);
  EXPECT_SAYS(message_of([&] { check_program(program); }), "nobody writes");
  store.guard = 1;
  store.address = floordiv(point, 2);
  EXPECT_SAYS(message_of([&] { check_program(program); }), "which point 0 writes");
}

// Sums of small floats and scatters round in both, or in none.
TEST(CheckProgram, agrees_on_dtypes_scans_gathers_and_scatters) {
  std::vector<NodeRef> roots;
  for (DType dtype : {kF16, kBF16, kF8E4M3, kF32, kF64, kI32}) {
    NodeRef x = leaf({4, 6}, 1, dtype);
    NodeRef index = testing::buffer_of(kI64, {3, 6}, std::vector<double>(18, 2));
    roots.push_back(make_scan(ReduceOp::Sum, x, 1));
    roots.push_back(make_scatter(ScatterOp::Add, x, index, leaf({3, 6}, 2, dtype), 0));
    roots.push_back(make_gather_along(x, index, 0));
    roots.push_back(make_get(make_arg_reduce(ReduceOp::Max, x, 1), 1));
    roots.push_back(testing::reduce(ReduceOp::Sum, make_cast(op(ScalarOp::mul, {x, x}), kBF16), 0));
  }
  check_program(fuse(roots));
  EXPECT_TRUE(check_on_random_data(fuse(roots)));
}

TEST(CheckProgram, leaves_large_programs_alone) {
  NodeRef x = leaf({200, 200}, 1);
  NodeRef root = matmul(x, x);
  EXPECT_FALSE(check_on_random_data(fused(root)));
}

TEST(CheckProgram, symbolic_sizes_are_checked_at_small_values) {
  Expr n = Expr::bound(Expr::symbol("n", 1, 1 << 20, 2), 1 << 20);
  NodeRef x = make_input(0, 1, kF32, {n, 3});
  NodeRef root = testing::reduce(ReduceOp::Sum, op(ScalarOp::exp, {x}), 0);
  Program program = fused(root);
  EXPECT_TRUE(check_on_random_data(program));
  kernel::Inst& load = instruction(program.steps[0].loops.stages[0], kernel::Op::load);
  load.address = mod(load.address + 1, n * 3);
  EXPECT_SAYS(message_of([&] { check_on_random_data(program); }), "fused wrongly");
}

}  // namespace
}  // namespace heddle
