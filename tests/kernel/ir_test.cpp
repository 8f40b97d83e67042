#include <cmath>
#include <limits>

#include "kernel/builder.h"
#include "kernel/structure.h"
#include "run_kernel.h"

namespace heddle::kernel {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Evaluates a reducer's combine on scalars, by hand.
std::vector<Scalar> combine(const Reducer& r, std::vector<Scalar> left, const std::vector<Scalar>& right) {
  std::vector<Scalar> values(r.values.size());
  for (size_t i = 0; i < r.width(); ++i) {
    values[r.combine.params[i]] = left[i];
    values[r.combine.params[r.width() + i]] = right[i];
  }
  for (const Inst& inst : r.combine.insts) {
    std::vector<Scalar> args;
    for (Value v : inst.args) args.push_back(values[v]);
    values[inst.results[0]] = heddle::apply(scalar_op(inst.op), args);
  }
  std::vector<Scalar> out;
  for (Value v : r.combine.results) out.push_back(values[v]);
  return out;
}

TEST(Type, prints_dimensions_and_dtype) {
  EXPECT_EQ(to_string(Type{DType::f32, {}}), "f32");
  EXPECT_EQ(to_string(Type{DType::i64, {8, 64}}), "tile<8x64xi64>");
  EXPECT_EQ((Type{DType::i64, {8, 64}}).numel(), 512);
}

TEST(BroadcastDims, widens_ones_and_scalars) {
  EXPECT_EQ(broadcast_dims({}, {4, 5}), (Dims{4, 5}));
  EXPECT_EQ(broadcast_dims({4, 1}, {1, 5}), (Dims{4, 5}));
  EXPECT_EQ(broadcast_dims({4, 5}, {4, 5}), (Dims{4, 5}));
}

TEST(BroadcastDims, refuses_other_differences) {
  EXPECT_THROW(broadcast_dims({4, 5}, {4, 6}), InternalError);
  EXPECT_THROW(broadcast_dims({4}, {1, 4}), InternalError);
}

TEST(Reducer, simple_ones_are_recognised_with_their_identity) {
  for (ScalarOp op : {ScalarOp::add, ScalarOp::mul, ScalarOp::maximum, ScalarOp::minimum}) {
    auto r = simple_reducer(op, DType::f32);
    ASSERT_TRUE(simple_op(*r));
    EXPECT_EQ(*simple_op(*r), op);
    Scalar x = Scalar::of(DType::f32, -2.5);
    EXPECT_TRUE(combine(*r, r->identity, {x})[0] == x) << info(op).name;
  }
  for (ScalarOp op : {ScalarOp::maximum, ScalarOp::minimum, ScalarOp::bit_and, ScalarOp::bit_or})
    for (DType dtype : {DType::boolean, DType::i8, DType::u16, DType::i64, DType::u64}) {
      auto r = simple_reducer(op, dtype);
      for (int number : {0, 1}) {
        Scalar x = Scalar::of(dtype, number);
        EXPECT_TRUE(combine(*r, r->identity, {x})[0] == x) << info(op).name << " " << dtype;
      }
    }
  EXPECT_THROW(simple_reducer(ScalarOp::sub, DType::f32), InternalError);
}

TEST(Reducer, another_identity_is_not_simple) {
  Reducer r = *simple_reducer(ScalarOp::add, DType::f32);
  r.identity[0] = Scalar::of(DType::f32, 1);
  EXPECT_FALSE(simple_op(r));
  EXPECT_FALSE(simple_op(*arg_reducer(true, DType::f32)));
}

TEST(Reducer, arg_takes_the_first_of_equals_and_nan_over_all) {
  const double nan = std::nan("");
  auto largest = arg_reducer(true, DType::f32), smallest = arg_reducer(false, DType::f32);
  auto pick = [&](const Reducer& r, double a, int64_t i, double b, int64_t j) {
    auto element = [](double v, int64_t n) {
      return std::vector<Scalar>{Scalar::of(DType::f32, v), Scalar::of(DType::i64, n)};
    };
    int64_t forward = combine(r, element(a, i), element(b, j))[1].i;
    int64_t backward = combine(r, element(b, j), element(a, i))[1].i;
    EXPECT_EQ(forward, backward) << a << " " << b;
    return forward;
  };
  EXPECT_EQ(pick(*largest, 1, 0, 2, 1), 1);
  EXPECT_EQ(pick(*smallest, 1, 0, 2, 1), 0);
  EXPECT_EQ(pick(*largest, 2, 7, 2, 3), 3);
  EXPECT_EQ(pick(*largest, 0.0, 5, -0.0, 4), 4);
  EXPECT_EQ(pick(*largest, kInfinity, 0, nan, 9), 9);
  EXPECT_EQ(pick(*smallest, -kInfinity, 0, nan, 9), 9);
  EXPECT_EQ(pick(*largest, nan, 4, nan, 9), 4);
  int64_t nobody = largest->identity[1].i;
  EXPECT_EQ(pick(*largest, -kInfinity, 5, largest->identity[0].f, nobody), 5);
}

TEST(Reducer, arg_is_associative) {
  for (DType dtype : {DType::f32, DType::i32, DType::u8}) {
    auto r = arg_reducer(true, dtype);
    std::vector<std::vector<Scalar>> elements;
    const double numbers[] = {1, 3, std::nan(""), 3, 2, std::nan(""), 0};
    for (int i = 0; i < 7; ++i)
      elements.push_back({Scalar::of(dtype, numbers[i]), Scalar::of(DType::i64, int64_t{i * 5 % 7})});
    for (auto& a : elements)
      for (auto& b : elements)
        for (auto& c : elements) {
          if (a[1].i == b[1].i || b[1].i == c[1].i || a[1].i == c[1].i) continue;
          auto left = combine(*r, combine(*r, a, b), c), right = combine(*r, a, combine(*r, b, c));
          EXPECT_TRUE(left[0] == right[0] && left[1] == right[1]);
        }
  }
}

struct BuilderTest : testing::Test {
  Kernel k;
  Phase p;
  Builder b{k, p};
  Expr row = Expr::index("r", 4), column = Expr::index("c", 8);

  Value tile(DType dtype = DType::f32) {
    const Expr coords[] = {row, column};
    return b.cast(b.index(DType::i32, row * 8 + column, coords), dtype);
  }
};

TEST_F(BuilderTest, infers_types_with_broadcasting) {
  Value x = tile();
  Value s = b.reduce({&x, 1}, 1, simple_reducer(ScalarOp::add, DType::f32))[0];
  EXPECT_EQ(to_string(b.type(s)), "tile<4x1xf32>");
  EXPECT_EQ(to_string(b.type(b.op(ScalarOp::sub, {x, s}))), "tile<4x8xf32>");
  EXPECT_EQ(to_string(b.type(b.op(ScalarOp::lt, {s, b.constant(Scalar::of(DType::f32, 1))}))), "tile<4x1xbool>");
  EXPECT_EQ(b.cast(x, DType::f32), x);
  EXPECT_EQ(to_string(b.type(b.constant(Scalar::of(DType::f16, 0), {2, 3}))), "tile<2x3xf16>");
}

TEST_F(BuilderTest, refuses_what_does_not_fit) {
  Value x = tile(), i = tile(DType::i32);
  EXPECT_THROW(b.op(ScalarOp::add, {x, i}), InternalError);
  EXPECT_THROW(b.op(ScalarOp::sqrt, {i}), InternalError);
  EXPECT_THROW(b.op(ScalarOp::add, {x}), InternalError);
  EXPECT_THROW(b.bitcast(x, DType::i64), InternalError);
  EXPECT_THROW(b.reduce({&x, 1}, 2, simple_reducer(ScalarOp::add, DType::f32)), InternalError);
  EXPECT_THROW(b.store(0, x, {.address = row, .coords = {row}}), InternalError);
  Expr loop = Expr::index("k", 3);
  EXPECT_THROW(b.loop(loop, {&x, 1}, [&](auto) { return std::vector<Value>{i}; }), InternalError);
}

TEST_F(BuilderTest, reduce_of_rank_one_gives_a_tile_or_a_scalar_by_level) {
  for (Level level : {Level::Tile, Level::Thread}) {
    Builder at(k.values, p.body, level);
    const Expr coords[] = {column};
    Value v = at.index(DType::i32, column, coords);
    Value s = at.reduce({&v, 1}, 0, simple_reducer(ScalarOp::add, DType::i32))[0];
    EXPECT_EQ(to_string(at.type(s)), level == Level::Tile ? "tile<1xi32>" : "i32");
  }
}

TEST_F(BuilderTest, apply_inlines_a_reducer_over_tiles) {
  auto r = arg_reducer(true, DType::f32);
  const std::vector<Value> left = {tile(), tile(DType::i64)}, right = {tile(), tile(DType::i64)};
  std::vector<Value> out = b.apply(*r, left, right);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(to_string(b.type(out[0])), "tile<4x8xf32>");
  EXPECT_EQ(to_string(b.type(out[1])), "tile<4x8xi64>");
}

TEST_F(BuilderTest, clone_copies_nested_blocks_with_fresh_values) {
  k.buffers.push_back({"y", DType::f32, Space::Out, 32});
  Value x = tile(), other = tile();
  Expr var = Expr::index("k", 3);
  b.loop(var, {&x, 1},
         [&](std::span<const Value> carried) { return std::vector<Value>{b.op(ScalarOp::add, {carried[0], x})}; });
  Inst loop = p.body.insts.back();
  std::vector<Value> map(k.values.size(), kNoValue);
  map[x] = other;
  b.clone(loop, map);
  const Inst& copy = p.body.insts.back();
  EXPECT_EQ(copy.args[0], other);
  EXPECT_EQ(copy.bodies[0].insts[0].args[1], other);
  EXPECT_NE(copy.bodies[0].params[0], loop.bodies[0].params[0]);
  EXPECT_EQ(copy.bodies[0].insts[0].args[0], copy.bodies[0].params[0]);
  EXPECT_EQ(map[loop.results[0]], copy.results[0]);
  b.store(0, copy.results[0], {.address = row * 8 + column, .coords = {row, column}});
  k.phases.push_back(p);
  EXPECT_NO_THROW(verify(k));
}

TEST_F(BuilderTest, clone_substitutes_and_narrows_inner_loops) {
  k.buffers.push_back({"y", DType::f32, Space::Out, 100});
  Expr outer = Expr::index("i", 4), inner = Expr::index("j", outer + 1);
  Value one = b.constant(Scalar::of(DType::f32, 1));
  Body nest;
  Builder nested(k.values, nest);
  nested.loop(inner, {}, [&](auto) {
    nested.store(0, one, {.address = outer * 8 + inner});
    return std::vector<Value>();
  });
  std::vector<Value> map;
  b.clone(nest.insts[0], map, {{outer, 2}});
  k.phases.push_back(p);
  EXPECT_NO_THROW(verify(k));
  std::vector<float> y(100, 0);
  run_kernel(k, {y});
  float sum = 0;
  for (float v : y) sum += v;
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(y[16] + y[17] + y[18], 3);
}

TEST(Renumber, numbers_in_order_of_appearance_and_drops_the_rest) {
  Kernel k = parse(R"(kernel @k(out %y: f32[4]) {
  phase grid() {
    %a = constant 1 : f32
    %b = loop k < 4 carry(%c = %a) {
      %d = add %c, %c
      yield %d
    }
    store %y[0], %b
  }
})");
  std::string before = print(k);
  k.values.resize(20);
  std::swap(k.values[3], k.values[15]);
  visit(k.phases[0].body, [](Inst& i) {
    auto move = [](Value& v) { v = v == 3 ? 15 : v; };
    for (Value& v : i.args) move(v);
    for (Value& v : i.results) move(v);
    for (Body& b : i.bodies)
      for (Value& v : b.results) move(v);
  });
  renumber(k);
  EXPECT_EQ(k.values.size(), 4u);
  EXPECT_EQ(print(k), before);
  EXPECT_NO_THROW(verify(k));
}

TEST(KernelStructure, ignores_names_but_nothing_else) {
  const char* text = R"(kernel @k(in %x: f32[n], out %y: f32[n]) symbols(n in [1, 4096] multiple 1) {
  phase grid(i < n) {
    %0 = load %x[i] : f32
    %1 = add %0, %0
    store %y[i], %1
  }
})";
  auto with = [&](std::string from, std::string to) {
    std::string t = text;
    size_t at = t.find(from);
    EXPECT_NE(at, std::string::npos);
    return structure(parse(t.replace(at, from.size(), to)));
  };
  const Structure is = structure(parse(text));
  EXPECT_TRUE(is == structure(parse(text)));
  EXPECT_TRUE(is == with("@k", "@other"));
  std::string renamed = text;
  for (size_t at; (at = renamed.find("[i]")) != std::string::npos;) renamed.replace(at, 3, "[block]");
  renamed.replace(renamed.find("(i <"), 4, "(block <");
  EXPECT_TRUE(is == structure(parse(renamed)));
  EXPECT_FALSE(is == with("add", "mul"));
  EXPECT_FALSE(is == with("4096", "4095"));
  EXPECT_FALSE(is == with("multiple 1", "multiple 2"));
  EXPECT_FALSE(is == with("%x[i]", "%x[0]"));
  EXPECT_FALSE(is == with("%1 = add %0, %0\n    store %y[i], %1", "%1 = add %0, %0\n    store %y[i], %1 stream"));
  EXPECT_FALSE(is == with("kernel @", "kernel.thread @"));
}

TEST(Visit, goes_outer_before_inner) {
  Kernel k = parse(R"(kernel @k(out %y: f32[4]) {
  phase grid() {
    loop k < 4 {
      branch k < 2 {
        %0 = constant 1 : f32
        store %y[k], %0
      }
    }
  }
})");
  std::string seen;
  const Body& body = k.phases[0].body;
  visit(body, [&](const Inst& i) { seen += std::string(name(i.op)) + " "; });
  EXPECT_EQ(seen, "loop branch constant store ");
}

}  // namespace
}  // namespace heddle::kernel
