// Roots that take over a leaf's memory and differ from it in a part: what is written, and that it is right whatever the
// schedule.
#include "compile/fuse/update_in_place.h"

#include "leaves.h"
#include "run_program.h"

namespace heddle {
namespace {

using testing::buffer_of;
using testing::How;
using testing::leaf;
using testing::op;

// x with value at [begins[i], begins[i] + its size).
NodeRef put(const NodeRef& x, const NodeRef& value, std::vector<Expr> begins) {
  std::vector<Expr> after;
  for (size_t i = 0; i < begins.size(); ++i) after.push_back(x->shape[i] - value->shape[i] - begins[i]);
  NodeRef written =
      make_pad(make_const(Scalar::of(kBool, true), value->shape), begins, after, Scalar::of(kBool, false));
  return op(ScalarOp::where, {written, make_pad(value, begins, after, Scalar::of(x->dtype, 0)), x});
}

NodeRef twice(const NodeRef& x) { return op(ScalarOp::add, {x, x}); }
NodeRef rows(const NodeRef& x, int64_t begin, int64_t count) {
  Expr begins[] = {begin, 0}, sizes[] = {count, x->shape[1]};
  return make_shrink(x, begins, sizes);
}

struct Case {
  const char* name;
  NodeRef root, leaf;
  uint64_t written;  // elements
  bool combines = false;
};

std::vector<Case> cases() {
  NodeRef x = leaf({24, 40}, 1), a = leaf({3, 40}, 2), b = leaf({5, 7}, 3), c = leaf({3, 40}, 4);
  std::vector<double> places;
  for (int i = 0; i < 120; ++i) places.push_back(i < 40 ? 4 : i < 80 ? 20 : (i % 2 ? 4 : 0));
  NodeRef spots = buffer_of(kI64, {3, 40}, places);
  auto scatter = [&](ScatterOp how, const NodeRef& base, int64_t label = kUncheckedIndex) {
    return make_scatter(how, base, spots, a, 0, label);
  };
  NodeRef half = leaf({24, 40}, 5, DType::f16), line = leaf({1000}, 6);
  std::vector<double> many;
  for (int i = 0; i < 300; ++i) many.push_back((i * 37) % 1000);
  NodeRef marks = buffer_of(kI32, {300}, many), values = leaf({300}, 7);
  return {
      {"rows", put(x, a, {6, 0}), x, 120},
      {"part", put(x, twice(b), {19, 33}), x, 35},
      {"chain", put(put(x, a, {6, 0}), b, {4, 9}), x, 155},
      {"same place", put(x, twice(rows(x, 6, 3)), {6, 0}), x, 120},
      {"another place", put(x, rows(x, 5, 3), {6, 0}), x, 240},
      {"narrow floats", put(half, make_cast(a, DType::f16), {2, 0}), half, 120},
      {"scatter", scatter(ScatterOp::Set, x), x, 120},
      {"scatter add", scatter(ScatterOp::Add, x), x, 120, true},
      {"scatter max", scatter(ScatterOp::Max, x), x, 120, true},
      {"scatter along a line", make_scatter(ScatterOp::Add, line, marks, values, 0, kUncheckedIndex), line, 300, true},
      {"scatter and rows", put(scatter(ScatterOp::Set, x), c, {1, 0}), x, 240},
      {"rows and scatter", scatter(ScatterOp::Set, put(x, c, {1, 0})), x, 240},
  };
}

TEST(UpdateInPlace, writes_the_part_alone) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Node* replaces[] = {c.leaf.get()};
    Program program = fuse(std::span(&c.root, 1), replaces);
    EXPECT_TRUE(program.tensors[static_cast<size_t>(program.outputs[0])].updated);
    uint64_t written = 0;
    for (const Program::Step& step : program.steps) written += traffic(step.loops).written;
    EXPECT_EQ(written, c.written * static_cast<uint64_t>(size_of(c.root->dtype)));
    check_program(program, {}, {});
    EXPECT_TRUE(check_on_random_data(program));
  }
}

TEST(UpdateInPlace, is_right_with_any_schedule) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Node* replaces[] = {c.leaf.get()};
    const HostArray want = evaluate(std::span(&c.root, 1))[0];
    for (How how : {How::Tile, How::Simd, How::Simt})
      for (uint64_t seed = 0; seed < 12; ++seed) {
        auto pick = [&](const Loops& loops, const Target& target) {
          return seed == 0 ? default_schedule(loops, target) : random_schedule(loops, target, seed);
        };
        SCOPED_TRACE(text("how ", static_cast<int>(how), ", seed ", seed));
        const HostArray got = testing::run_program(std::span(&c.root, 1), how, pick, {}, nullptr, nullptr, replaces)[0];
        ASSERT_EQ(got.floats.size(), want.floats.size());
        for (size_t i = 0; i < want.floats.size(); ++i)
          ASSERT_NEAR(got.floats[i], want.floats[i], c.combines ? 1e-5 : 1e-6) << i;
      }
  }
}

TEST(UpdateInPlace, an_offset_that_is_a_symbol_moves_the_store_and_nothing_else) {
  NodeRef x = leaf({24, 40}, 1), a = leaf({3, 40}, 2);
  Expr offset = Expr::bound(Expr::symbol("offset", 0, 21), 4);
  NodeRef root = put(x, a, {offset, 0});
  const Node* replaces[] = {x.get()};
  Program program = fuse(std::span(&root, 1), replaces);
  ASSERT_EQ(program.steps.size(), 1u);
  const std::string text = print(program.steps[0].loops);
  EXPECT_NE(text.find("outer(i0 < 120)"), std::string::npos) << text;
  EXPECT_NE(text.find("[offset * 40 + i0], %0"), std::string::npos) << text;
  EXPECT_EQ(text.find(" if "), std::string::npos) << text;
  check_program(program, {}, {});
}

TEST(UpdateInPlace, is_not_what_data_decides_or_what_has_another_base) {
  NodeRef x = leaf({24, 40}, 1), y = leaf({24, 40}, 2), a = leaf({3, 40}, 3);
  NodeRef mask = op(ScalarOp::lt, {x, y});
  NodeRef masked = op(ScalarOp::where, {mask, y, x}), other = put(twice(x), a, {1, 0});
  for (const NodeRef& root : {masked, other}) {
    const Node* replaces[] = {x.get()};
    Program program = fuse(std::span(&root, 1), replaces);
    EXPECT_FALSE(program.tensors[static_cast<size_t>(program.outputs[0])].updated);
    EXPECT_EQ(updated_leaf(root.get()), nullptr);
  }
  EXPECT_EQ(updated_leaf(put(x, a, {1, 0}).get()), x.get());
}

TEST(UpdateInPlace, a_scatter_that_others_read_keeps_its_own_memory) {
  NodeRef x = leaf({24, 40}, 1), a = leaf({3, 40}, 3);
  NodeRef index = buffer_of(kI64, {3, 40}, std::vector<double>(120, 2));
  NodeRef inner = make_scatter(ScatterOp::Set, x, index, a, 0, kUncheckedIndex);
  const std::vector<NodeRef> roots = {put(inner, a, {7, 0}), twice(inner)};
  const Node* replaces[] = {x.get(), nullptr};
  EXPECT_TRUE(find_updates(roots, replaces).empty());
  check_program(fuse(roots, replaces), {}, {});
}

TEST(UpdateInPlace, indices_are_checked_before_anything_is_written) {
  NodeRef x = leaf({24, 40}, 1), a = leaf({3, 40}, 3);
  NodeRef index = make_expand(make_reshape(buffer_of(kI64, {3}, {2, 5, 7}), Shape{3, 1}), Shape{3, 40});
  const std::vector<NodeRef> roots = {make_scatter(ScatterOp::Set, x, index, a, 0, 0)};
  const Node* replaces[] = {x.get()};
  const std::vector<NodeRef> checked = with_checked_indices(roots, replaces);
  Program program = fuse(checked, replaces);
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.steps[0].checks.size(), 1u);
  EXPECT_TRUE(program.steps[1].checks.empty());
  EXPECT_EQ(traffic(program.steps[0].loops).written, 3 * sizeof(int64_t));
  check_program(program, {}, {});
}

}  // namespace
}  // namespace heddle
