// The pieces a plan is made of, one at a time: the key, the traffic count, the aliasing check.
#include <gtest/gtest.h>

#include "compile/loops/traffic.h"
#include "helpers.h"
#include "kernel/builder.h"
#include "runtime/alias.h"
#include "runtime/graph_key.h"
#include "runtime/packing.h"

namespace heddle {
namespace {

using namespace heddle::testing;
using kernel::Builder;
using kernel::Kernel;
using kernel::Space;
using kernel::Value;

Builder::Access at(const Expr& address, const Expr& guard = 1) {
  Builder::Access access;
  access.address = address;
  access.guard = guard;
  return access;
}

GraphKey key_of(const NodeRef& root, std::span<const Storage* const> donatable = {}) {
  GraphKey key;
  NodeRef roots[] = {root};
  key.read(roots, donatable);
  return key;
}

TEST(GraphKey, depends_on_structure_and_not_on_data) {
  NodeRef a = tensor({1, 2, 3}), b = tensor({4, 5, 6}), c = tensor({7, 8, 9, 10});
  GraphKey first = key_of(add(a, b)), second = key_of(add(b, a));
  EXPECT_EQ(first.words, second.words);
  EXPECT_EQ(first.hash, second.hash);
  EXPECT_NE(first.words, key_of(add(a, a)).words);
  EXPECT_NE(first.words, key_of(mul(a, b)).words);
  EXPECT_NE(first.words, key_of(add(c, c)).words);
  const Storage* given[] = {a->storage.get()};
  EXPECT_NE(first.words, key_of(add(a, b), given).words);
  EXPECT_EQ(first.leaves, (std::vector<const Node*>{a.get(), b.get()}));
  EXPECT_EQ(first.device, &device());
}

TEST(GraphKey, keeps_constants_apart_and_bools_inside) {
  NodeRef a = tensor({1, 2, 3});
  GraphKey half = key_of(mul(a, full_like(a, 0.5))), third = key_of(mul(a, full_like(a, 0.3)));
  EXPECT_EQ(half.words, third.words);
  EXPECT_NE(half.numbers, third.numbers);
  auto key_of_const = [](DType dtype, int64_t value) {
    return key_of(make_const(heddle::Scalar::of(dtype, value), Shape{Expr(3)}));
  };
  for (DType dtype : {DType::i8, DType::u8, DType::i32, DType::u64}) {
    EXPECT_EQ(key_of_const(dtype, 7).words, key_of_const(dtype, 8).words);
    EXPECT_EQ(key_of_const(dtype, 7).numbers, std::vector<uint64_t>{7});
  }
  EXPECT_NE(key_of_const(DType::boolean, 0).words, key_of_const(DType::boolean, 1).words);
  EXPECT_TRUE(key_of_const(DType::boolean, 1).numbers.empty());
  EXPECT_NE(key_of_const(DType::i32, 7).words, key_of_const(DType::i64, 7).words);
}

TEST(GraphKey, keeps_offsets_of_fixed_parts_apart) {
  NodeRef a = tensor(counting(12), Shape{Expr(3), Expr(4)});
  std::vector<NodeRef> alive;
  auto part = [&](int64_t begin, int64_t size) {
    Expr from[] = {0, begin}, count[] = {3, size};
    return key_of(alive.emplace_back(make_shrink(a, from, count)));
  };
  EXPECT_EQ(part(0, 2).words, part(2, 2).words);
  EXPECT_EQ(part(2, 2).numbers, std::vector<uint64_t>{2});  // where the whole axis is taken there is nothing to choose
  EXPECT_NE(part(0, 2).words, part(0, 3).words);
  EXPECT_EQ(room(part(2, 2).places[0]), Expr(2));
  auto padded = [&](int64_t before, int64_t after, int64_t filling) {
    Expr first[] = {before, 0}, last[] = {after, 0};
    return key_of(alive.emplace_back(make_pad(a, first, last, heddle::Scalar::of(a->dtype, filling))));
  };
  EXPECT_EQ(padded(1, 4, 0).words, padded(5, 0, 7).words);
  EXPECT_NE(padded(1, 4, 0).words, padded(1, 3, 0).words);
  EXPECT_EQ(room(padded(1, 4, 0).places[1]), Expr(5));
}

TEST(GraphKey, attributes_and_shapes_count) {
  NodeRef a = tensor(counting(12), Shape{Expr(3), Expr(4)});
  NodeRef b = tensor(counting(12), Shape{Expr(4), Expr(3)});
  int zero[] = {0}, one[] = {1};
  EXPECT_NE(key_of(make_flip(a, zero)).words, key_of(make_flip(a, one)).words);
  EXPECT_NE(key_of(make_flip(a, zero)).words, key_of(make_flip(b, zero)).words);
  EXPECT_NE(key_of(make_reduce(ReduceOp::Sum, a, zero)).words, key_of(make_reduce(ReduceOp::Max, a, zero)).words);
}

TEST(GraphKey, counts_references_from_inside) {
  NodeRef a = tensor({1, 2, 3});
  NodeRef squared = mul(a, a);
  NodeRef root = add(squared, a);
  NodeRef roots[] = {root, squared, root};
  GraphKey key;
  key.read(roots, {});
  EXPECT_EQ(key.outputs, 2u);
  EXPECT_EQ(key.references[key.number(root.get())], 2u);
  EXPECT_EQ(key.references[key.number(squared.get())], 2u);
  EXPECT_EQ(key.references[key.number(a.get())], 3u);
}

TEST(GraphKey, an_object_may_be_used_again_and_again) {
  NodeRef a = tensor({1, 2, 3}), b = tensor({4, 5, 6});
  NodeRef chain = a;
  for (int i = 0; i < 1000; ++i) chain = add(chain, b);
  GraphKey key;
  for (int round = 0; round < 3; ++round) {
    NodeRef large[] = {chain}, small[] = {add(a, b)};
    key.read(large, {});
    EXPECT_EQ(key.nodes.size(), 1002u);
    key.read(small, {});
    EXPECT_EQ(key.nodes.size(), 3u);
    EXPECT_EQ(key.words, key_of(small[0]).words);
    key.shrink();
  }
}

// Two stages over rows: a sum, then x - sum; x is read twice and counts once.
TEST(Traffic, counts_distinct_elements) {
  Loops loops;
  loops.name = "rows";
  loops.buffers = {
      {"x", DType::f32, Space::In, 4000}, {"y", DType::f32, Space::Out, 2000}, {"s", DType::f64, Space::In, 1}};
  Expr r = Expr::index("r", 20), c = Expr::index("c", 100), d = Expr::index("d", 100);
  loops.outer = {{r, 20}};
  Stage sum, store;
  sum.inner = {{c, 100}};
  store.inner = {{d, 100}};
  {
    Builder b(loops.values, sum.body);
    sum.body.results = {b.load(0, DType::f32, at(r * 100 + c))};
    sum.reducer = kernel::simple_reducer(ScalarOp::add, DType::f32);
  }
  loops.values.push_back({DType::f32, {}});
  sum.results = {static_cast<Value>(loops.values.size() - 1)};
  {
    Builder b(loops.values, store.body);
    Value x = b.load(0, DType::f32, at(r * 100 + d));
    b.load(2, DType::f64, at(0));
    b.store(1, b.op(ScalarOp::sub, {x, sum.results[0]}), at(r * 100 + d));
  }
  loops.stages = {sum, store};
  Traffic t = traffic(loops);
  EXPECT_EQ(t.read, 2000u * 4 + 8);  // half of x, once
  EXPECT_EQ(t.written, 2000u * 4);

  // Shifted by one it is another set of elements, but never more than the buffer holds.
  Builder b(loops.values, loops.stages[1].body);
  b.load(0, DType::f32, at(r * 100 + d + 1));
  EXPECT_EQ(traffic(loops).read, 4000u * 4 + 8);
}

Kernel elementwise(const std::function<void(Builder&, const Expr& block)>& body) {
  Kernel k;
  k.name = "k";
  k.level = kernel::Level::Thread;
  k.buffers = {
      {"x", DType::f32, Space::In, 100}, {"y", DType::f32, Space::Out, 100}, {"z", DType::f32, Space::Out, 100}};
  Expr c = Expr::index("c", 100);
  kernel::Phase phase{{c}, {}};
  Builder b(k, phase);
  body(b, c);
  k.phases = {phase};
  return k;
}

TEST(Alias, aligned_loads_before_the_store_may_share) {
  Kernel k = elementwise([](Builder& b, const Expr& c) {
    Value x = b.load(0, DType::f32, at(c));
    b.store(1, b.op(ScalarOp::mul, {x, x}), at(c));
  });
  EXPECT_TRUE(may_share_memory(k, 0, 1));
  EXPECT_FALSE(may_share_memory(k, 1, 0));
}

TEST(Alias, other_orders_and_places_may_not) {
  Kernel shifted = elementwise([](Builder& b, const Expr& c) { b.store(1, b.load(0, DType::f32, at(99 - c)), at(c)); });
  EXPECT_FALSE(may_share_memory(shifted, 0, 1));
  Kernel late = elementwise([](Builder& b, const Expr& c) {
    b.store(1, b.load(0, DType::f32, at(c)), at(c));
    b.store(2, b.load(0, DType::f32, at(c)), at(c));
  });
  EXPECT_FALSE(may_share_memory(late, 0, 1));
  EXPECT_FALSE(may_share_memory(late, 0, 2));  // the first load does not feed the second store
  Kernel unrelated = elementwise([](Builder& b, const Expr& c) {
    Value x = b.load(0, DType::f32, at(c));
    b.store(1, b.constant(heddle::Scalar::of(DType::f32, 1)), at(c));
    b.store(2, x, at(c));
  });
  EXPECT_FALSE(may_share_memory(unrelated, 0, 1));
  EXPECT_TRUE(may_share_memory(unrelated, 0, 2));
  Kernel nested = elementwise([](Builder& b, const Expr& c) {
    Expr i = Expr::index("i", 4);
    b.loop(i, {}, [&](std::span<const Value>) {
      b.load(0, DType::f32, at(c));
      return std::vector<Value>{};
    });
    b.store(1, b.load(0, DType::f32, at(c)), at(c));
  });
  EXPECT_FALSE(may_share_memory(nested, 0, 1));
}

std::vector<int> packed_inputs(const std::string& phases) {
  Kernel kernel = kernel::parse(std::string("kernel.thread @k(in %a: f32[64], in %b: f32[64], out %y: f32[64]) {\n") +
                                "temp %t: f32[64]\ntemp %u: f32[64]\nshared %l: f32[64]\n" + phases + "}\n");
  std::vector<int> result;
  for (const PackingPhase& packing : packing_phases(kernel)) {
    EXPECT_EQ(kernel.buffers[static_cast<size_t>(packing.temp)].space, Space::Temp);
    result.push_back(packing.input);
  }
  return result;
}

std::string phase(const std::string& body) { return "phase grid(i < 64) {\n" + body + "}\n"; }

TEST(Packing, phases_that_copy_one_input) {
  const std::string pack_a = phase("%0 = load %a[63 - i] : f32\nstore %t[i], %0\n");
  const std::string pack_b = phase("%1 = load %b[i] : f32\n%2 = mul %1, %1\nstore %u[i], %2\n");
  const std::string use = phase("%3 = load %t[i] : f32\n%4 = load %u[i] : f32\n%5 = mul %3, %4\nstore %y[i], %5\n");
  EXPECT_EQ(packed_inputs(pack_a + pack_b + use), (std::vector<int>{0, 1}));
  EXPECT_EQ(packed_inputs(pack_a + use), (std::vector<int>{0}));
  const std::string shared = phase("%0 = load %a[i] : f32\nstore %l[0], %0\n%6 = load %l[0] : f32\nstore %t[i], %6\n");
  EXPECT_EQ(packed_inputs(shared + use), (std::vector<int>{0}));
}

TEST(Packing, phases_that_do_more) {
  const std::string use = phase("%3 = load %t[i] : f32\nstore %y[i], %3\n");
  EXPECT_TRUE(
      packed_inputs(phase("%0 = load %a[i] : f32\n%1 = load %b[i] : f32\n%2 = add %0, %1\nstore %t[i], %2\n") + use)
          .empty())
      << "two inputs";
  EXPECT_TRUE(packed_inputs(phase("%0 = load %a[i] : f32\nstore %t[i], %0\nstore %u[i], %0\n") + use).empty());
  EXPECT_TRUE(packed_inputs(phase("%0 = load %a[i] : f32\nstore %y[i], %0\n") + use).empty()) << "a result";
  EXPECT_TRUE(packed_inputs(phase("%0 = load %a[i] : f32\nstore %t[i], %0\n") +
                            phase("%1 = load %t[i] : f32\nstore %t[i], %1\n") + use)
                  .empty())
      << "written again";
  EXPECT_TRUE(packed_inputs(phase("%0 = load %a[i] : f32\n%1 = load %t[i] : f32\nstore %t[i], %0\n") + use).empty());
}

}  // namespace
}  // namespace heddle
