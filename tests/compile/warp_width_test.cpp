// Machines whose warps are not of 32 threads: results are the same, and shuffles go as far as a warp reaches.
#include <set>

#include "base/error.h"
#include "leaves.h"
#include "run_program.h"

namespace heddle {
namespace {

using namespace heddle::testing;

NodeRef reduce(ReduceOp o, const NodeRef& x, int axis) { return make_reduce(o, x, std::vector<int>{axis}); }
NodeRef spread(const NodeRef& x, const Shape& shape, size_t axis) {
  Shape kept = shape;
  kept[axis] = 1;
  return make_expand(make_reshape(x, kept), shape);
}

std::vector<std::pair<const char*, NodeRef>> programs() {
  NodeRef x = leaf({5, 700}, 1), tall = leaf({300, 7}, 2);
  NodeRef largest = spread(reduce(ReduceOp::Max, x, 1), x->shape, 1);
  NodeRef powers = op(ScalarOp::exp, {op(ScalarOp::sub, {x, largest})});
  NodeRef softmax = op(ScalarOp::div, {powers, spread(reduce(ReduceOp::Sum, powers, 1), x->shape, 1)});
  const Shape all{40, 40, 70};
  NodeRef left = make_expand(make_reshape(leaf({40, 70}, 3), {40, 1, 70}), all);
  NodeRef right = make_expand(make_reshape(leaf({40, 70}, 4), {1, 40, 70}), all);
  return {{"sum of rows", reduce(ReduceOp::Sum, x, 1)},
          {"sum of columns", reduce(ReduceOp::Sum, tall, 0)},
          {"largest, and where", make_get(make_arg_reduce(ReduceOp::Max, x, 1), 1)},
          {"running sum", make_scan(ReduceOp::Sum, x, 1)},
          {"running sum of columns", make_scan(ReduceOp::Sum, tall, 0)},
          {"running maximum", make_scan(ReduceOp::Max, leaf({2000}, 5), 0)},
          {"softmax", softmax},
          {"product", reduce(ReduceOp::Sum, op(ScalarOp::mul, {left, right}), 2)}};
}

Target machine(int warp) {
  Target target = test_target(How::Simt);
  target.warp = warp;
  return target;
}

TEST(WarpWidth, results_do_not_depend_on_it) {
  for (const auto& [name, root] : programs()) {
    const HostArray want = evaluate(std::span(&root, 1))[0];
    for (int warp : {8, 16, 32, 64, 128})
      for (uint64_t seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(text(name, ", warps of ", warp, ", schedule ", seed));
        const Target target = machine(warp);
        auto pick = [&](const Loops& loops, const Target& t) {
          return seed == 0 ? default_schedule(loops, t) : random_schedule(loops, t, seed);
        };
        expect_close(run_program(std::span(&root, 1), How::Simt, pick, {}, nullptr, &target)[0], want, 1e-4);
      }
  }
}

TEST(WarpWidth, shuffles_reach_the_whole_warp_and_no_further) {
  for (const char* name : {"sum of rows", "running sum"})
    for (int warp : {16, 32, 64}) {
      SCOPED_TRACE(text(name, ", warps of ", warp));
      NodeRef root;
      for (const auto& [known, graph] : programs())
        if (std::string(known) == name) root = graph;
      const Target target = machine(warp);
      std::set<int> masks;
      auto look = [&](const kernel::Kernel& k, std::span<void* const> buffers, std::span<const int64_t> sizes,
                      std::span<const int64_t> symbols) {
        EXPECT_EQ(k.warp, warp);
        EXPECT_EQ(kernel::print(kernel::parse(kernel::print(k))), kernel::print(k));
        EXPECT_EQ(kernel::parse(kernel::print(k)).warp, warp);
        for (const kernel::Phase& phase : k.phases)
          kernel::visit(phase.body, [&](const kernel::Inst& inst) {
            if (inst.op == kernel::Op::shuffle_xor) masks.insert(inst.immediate);
          });
        kernel::interpret(k, buffers, sizes, symbols);
      };
      run_program(std::span(&root, 1), How::Simt, default_schedule, look, nullptr, &target);
      ASSERT_FALSE(masks.empty());
      EXPECT_GE(*masks.rbegin(), warp / 2);
      EXPECT_LT(*masks.rbegin(), warp);
    }
}

Loops product() {
  const Shape all{64, 64, 64};
  NodeRef left = make_expand(make_reshape(leaf({64, 64}, 3), {64, 1, 64}), all);
  NodeRef right = make_expand(make_reshape(leaf({64, 64}, 4), {1, 64, 64}), all);
  NodeRef root = reduce(ReduceOp::Sum, op(ScalarOp::mul, {left, right}), 2);
  return fuse(std::span(&root, 1)).steps[0].loops;
}

// Fragments of matrices lie in 32 lanes: other machines do without that unit.
TEST(WarpWidth, fragments_need_warps_of_their_own_width) {
  const Schedule schedule = parse_schedule("block 32 32 threads 128; matrix_contraction warps pipeline 3; map joined");
  for (int warp : {16, 32, 64}) {
    Target target = machine(warp);
    add_instructions(target, kFragments);
    target.tf32 = true;
    target.shared_bytes = 166912;
    EXPECT_EQ(check(schedule, product(), target), warp == 32 ? "" : "stage 0: the machine does not multiply f32");
  }
}

// A shape that no kernel knows is not used.
TEST(WarpWidth, instructions_of_another_shape_are_left_alone) {
  Target plain = machine(32);
  plain.tf32 = true;
  Target target = plain, usual = plain;
  target.matrix = {{Issue::Warp, MatrixLayout::Fragments, DType::f32, DType::f32, 32, 32, 8, true}};
  add_instructions(usual, kFragments);
  EXPECT_EQ(print(default_schedule(product(), target)), print(default_schedule(product(), plain)));
  EXPECT_NE(print(default_schedule(product(), usual)), print(default_schedule(product(), plain)));
}

}  // namespace
}  // namespace heddle
