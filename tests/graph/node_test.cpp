// Interning, lifetime, hashes, order.
#include "graph/node.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "graph/graph.h"
#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace heddle::testing;

NodeRef add(const NodeRef& a, const NodeRef& b) { return scalar_node(ScalarOp::add, {a, b}); }

// A chain on one leaf that no identity shortens.
NodeRef long_chain(const NodeRef& leaf, int length) {
  NodeRef x = leaf;
  for (int i = 0; i < length; ++i) x = add(x, leaf);
  return x;
}

TEST(Node, equal_nodes_are_one_object) {
  NodeRef x = counting(DType::f32, {2, 3});
  size_t before = live_nodes();
  NodeRef a = add(x, x), b = add(x, x);
  EXPECT_EQ(a, b);
  EXPECT_EQ(live_nodes(), before + 1);
  EXPECT_NE(a, scalar_node(ScalarOp::mul, {x, x}));
}

TEST(Node, buffers_are_equal_only_with_the_same_storage) {
  auto storage = std::make_shared<HostStorage>(24);
  NodeRef a = make_buffer(storage, DType::f32, {2, 3}), b = make_buffer(storage, DType::f32, {2, 3});
  EXPECT_EQ(a, b);
  EXPECT_NE(a, make_buffer(storage, DType::f32, {3, 2}));
  EXPECT_NE(a, make_buffer(storage, DType::i32, {2, 3}));
  EXPECT_NE(a, make_buffer(std::make_shared<HostStorage>(24), DType::f32, {2, 3}));
}

TEST(Node, constants_differ_by_bits) {
  EXPECT_EQ(number(DType::f32, 1.5, {2}), number(DType::f32, 1.5, {2}));
  EXPECT_NE(number(DType::f32, 0.0), number(DType::f32, -0.0));
  EXPECT_NE(number(DType::f32, 1), number(DType::f64, 1));
  NodeRef nan = number(DType::f32, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(nan, number(DType::f32, std::numeric_limits<double>::quiet_NaN()));
}

TEST(Node, storage_and_nodes_die_with_the_last_handle) {
  size_t before = live_nodes();
  auto storage = std::make_shared<HostStorage>(16);
  std::weak_ptr<HostStorage> watch = storage;
  {
    NodeRef x = make_buffer(std::move(storage), DType::f32, {4});
    NodeRef y = add(x, scalar_node(ScalarOp::exp, {x}));
    x = NodeRef();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(live_nodes(), before);
}

TEST(Node, million_op_chain_builds_walks_and_dies) {
  size_t before = live_nodes();
  {
    NodeRef root = long_chain(counting(DType::f32, {4}), 1'000'000);
    EXPECT_EQ(live_nodes(), before + 1'000'001);
    std::vector<const Node*> order = topological(std::span(&root, 1));
    EXPECT_EQ(order.size(), 1'000'001u);
    EXPECT_EQ(order.front()->op, NodeOp::Buffer);
    EXPECT_EQ(order.back(), root.get());
    EXPECT_EQ(simplify_one(root), root);
    std::string printed = print_graph(std::span(&root, 1));
    EXPECT_NE(printed.find("%1000000 = add f32[4] %999999, %0\n"), std::string::npos);
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(Node, topological_puts_inputs_before_users_and_each_once) {
  NodeRef x = counting(DType::f32, {2});
  NodeRef y = scalar_node(ScalarOp::exp, {x}), z = add(x, y);
  NodeRef roots[] = {z, y, add(z, z)};
  std::vector<const Node*> order = topological(roots);
  EXPECT_EQ(order, (std::vector<const Node*>{x.get(), y.get(), z.get(), roots[2].get()}));
}

TEST(Node, wide_diamonds_cost_linear_time) {
  NodeRef leaf = counting(DType::f64, {1}), x = leaf;
  for (int level = 0; level < 60; ++level) {
    NodeRef left = scalar_node(ScalarOp::neg, {x}), right = scalar_node(ScalarOp::abs, {x});
    x = scalar_node(ScalarOp::sub, {right, left});
  }
  EXPECT_LE(topological(std::span(&x, 1)).size(), 181u);
  EXPECT_EQ(values_of(simplify_one(x)), values_of(x));
  EXPECT_LT(print_graph(std::span(&x, 1)).size(), 20'000u);
  EXPECT_LT(print_dot(std::span(&x, 1)).size(), 40'000u);

  NodeRef y = buffer_of(DType::i64, {1}, {1});
  for (int level = 0; level < 60; ++level) y = add(y, y);
  EXPECT_EQ(evaluate_one(y).integers[0], uint64_t{1} << 60);
}

TEST(Node, structure_ignores_which_data) {
  auto graph = [](DType dtype, const Shape& shape) {
    NodeRef x = counting(dtype, shape), y = counting(dtype, shape);
    return reduced(ReduceOp::Sum, scalar_node(ScalarOp::mul, {x, y}), {0});
  };
  NodeRef a = graph(DType::f32, {2, 3}), b = graph(DType::f32, {2, 3});
  EXPECT_NE(a, b);
  EXPECT_NE(a->hash, b->hash);
  EXPECT_EQ(a->structure, b->structure);
  EXPECT_NE(a->structure, graph(DType::f64, {2, 3})->structure);
  EXPECT_NE(a->structure, graph(DType::f32, {3, 2})->structure);
  EXPECT_EQ(make_input(0, 1, DType::f32, {2})->structure, make_input(1, 7, DType::f32, {2})->structure);
}

TEST(Node, structure_tells_ops_attributes_and_constants_apart) {
  NodeRef x = counting(DType::f32, {4, 4, 4});
  NodeRef i = buffer_of(DType::i64, {4}, {0, 1, 2, 3});
  std::vector<NodeRef> all = {
      x,
      i,
      scalar_node(ScalarOp::neg, {x}),
      scalar_node(ScalarOp::exp, {x}),
      scalar_node(ScalarOp::add, {x, number(DType::f32, 1, {4, 4, 4})}),
      scalar_node(ScalarOp::add, {x, number(DType::f32, 2, {4, 4, 4})}),
      make_cast(x, DType::f64),
      make_cast(x, DType::f16),
      make_bitcast(x, DType::i32),
      make_bitcast(x, DType::u32),
      reduced(ReduceOp::Sum, x, {0}),
      reduced(ReduceOp::Sum, x, {1}),
      reduced(ReduceOp::Max, x, {0}),
      make_arg_reduce(ReduceOp::Max, x, 0),
      make_get(make_arg_reduce(ReduceOp::Max, x, 0), 0),
      make_get(make_arg_reduce(ReduceOp::Max, x, 0), 1),
      make_get(make_arg_reduce(ReduceOp::Min, x, 0), 0),
      make_reshape(x, {64}),
      make_reshape(x, {8, 8}),
      permuted(x, {1, 0, 2}),
      permuted(x, {0, 2, 1}),
      flipped(x, {0}),
      flipped(x, {0, 1}),
      padded(x, {1, 0, 0}, {0, 0, 0}, 0),
      padded(x, {0, 0, 0}, {1, 0, 0}, 0),
      padded(x, {1, 0, 0}, {0, 0, 0}, 1),
      shrunk(x, {0, 0, 0}, {2, 4, 4}),
      shrunk(x, {1, 0, 0}, {2, 4, 4}),
      make_window(x, 0, 2, 2, 1),
      make_window(x, 1, 2, 2, 1),
      make_window(x, 0, 2, 2, 2),
      make_unwindow(make_window(x, 0, 2, 2, 1), 0, 2, 2, 1, 4),
      make_unwindow(make_window(x, 0, 2, 2, 1), 0, 2, 2, 1, 5),
      joined({x, x}, 0),
      joined({x, x}, 1),
      make_gather(x, i, 0),
      make_gather(x, i, 1),
      make_iota(DType::i64, {4, 4}, 0),
      make_iota(DType::i64, {4, 4}, 1),
      make_iota(DType::i32, {4, 4}, 1),
      make_barrier(x, x),
  };
  std::set<uint64_t> structures, hashes;
  for (const NodeRef& node : all) {
    structures.insert(node->structure);
    hashes.insert(node->hash);
  }
  EXPECT_EQ(structures.size(), all.size());
  EXPECT_EQ(hashes.size(), all.size());
}

TEST(Node, barriers_never_merge_but_look_alike) {
  NodeRef x = counting(DType::f32, {2}), token = counting(DType::f32, {});
  NodeRef a = make_barrier(x, token), b = make_barrier(x, token);
  EXPECT_NE(a, b);
  EXPECT_EQ(a->structure, b->structure);
  EXPECT_EQ(simplify_one(a), a);
}

TEST(Node, threads_build_the_same_graph_at_once) {
  size_t before = live_nodes();
  {
    NodeRef leaf = counting(DType::f32, {2});
    constexpr int kThreads = 4;
    std::vector<NodeRef> roots(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        // Build and drop the same nodes again and again while others do so too.
        for (int round = 0; round < 200; ++round) roots[t] = long_chain(leaf, 50);
      });
    for (std::thread& thread : threads) thread.join();
    for (const NodeRef& root : roots) EXPECT_EQ(root, roots[0]);
    EXPECT_EQ(live_nodes(), before + 51);
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(Node, nodes_die_in_other_threads_than_they_were_born_in) {
  size_t before = live_nodes();
  for (int round = 0; round < 4; ++round) {
    NodeRef chain = long_chain(counting(DType::f32, {2}), 20'000);
    std::thread([moved = std::move(chain)]() mutable { moved = NodeRef(); }).join();
  }
  EXPECT_EQ(live_nodes(), before);
}

}  // namespace
}  // namespace heddle
