#include <gtest/gtest.h>

#include "helpers.h"

namespace heddle {
namespace {

using namespace heddle::testing;

// Realises root, giving up the storage of `leaf`. Both references are consumed, as by a handle that is rebound.
NodeRef donate(NodeRef root, NodeRef leaf) {
  const Storage* storage[] = {leaf->storage.get()};
  leaf = NodeRef();
  NodeRef roots[] = {std::move(root)};
  return realize(roots, storage)[0];
}

TEST(Donation, an_elementwise_update_works_in_place) {
  for (int64_t n : {4, 100, 5000}) {
    NodeRef x = tensor(counting(n));
    const void* before = address(x);
    for (int step = 1; step <= 3; ++step) {
      NodeRef next = add(x, full_like(x, 1.0));
      x = donate(std::move(next), std::move(x));
      EXPECT_EQ(address(x), before);
      EXPECT_EQ(values(x), counting(n, static_cast<float>(step)));
    }
  }
}

TEST(Donation, nothing_is_given_up_without_being_listed) {
  NodeRef x = tensor(counting(16));
  const void* before = address(x);
  NodeRef roots[] = {add(x, full_like(x, 1.0))};
  x = NodeRef();
  NodeRef result = realize(roots)[0];
  EXPECT_NE(address(result), before);
}

TEST(Donation, another_handle_of_the_data_keeps_it) {
  NodeRef x = tensor(counting(16));
  NodeRef other = x;
  NodeRef next = add(x, full_like(x, 1.0));
  NodeRef result = donate(std::move(next), std::move(x));
  EXPECT_EQ(values(other), counting(16));
  EXPECT_EQ(values(result), counting(16, 1));
}

TEST(Donation, a_holder_of_the_storage_keeps_it) {
  NodeRef x = tensor(counting(16));
  std::shared_ptr<Storage> held = x->storage;
  NodeRef next = add(x, full_like(x, 1.0));
  NodeRef result = donate(std::move(next), std::move(x));
  EXPECT_NE(result->storage, held);
  EXPECT_EQ(static_cast<const float*>(held->host_data())[3], 3.0f);
}

TEST(Donation, an_unrealised_value_that_needs_the_data_keeps_it) {
  NodeRef x = tensor(counting(16));
  NodeRef middle = add(x, x);  // somebody still wants this later
  NodeRef next = mul(middle, full_like(x, 3.0));
  NodeRef result = donate(std::move(next), std::move(x));
  EXPECT_EQ(values(result)[5], 30.0f);
  EXPECT_EQ(values(realize_one(middle))[5], 10.0f);
}

TEST(Donation, a_second_handle_of_the_root_keeps_the_data) {
  NodeRef x = tensor(counting(16));
  NodeRef next = add(x, x);
  NodeRef copy = next;
  NodeRef result = donate(std::move(next), std::move(x));
  EXPECT_EQ(values(result)[5], 10.0f);
  EXPECT_EQ(values(realize_one(copy))[5], 10.0f);
}

TEST(Donation, reading_out_of_order_forbids_it) {
  NodeRef x = tensor(counting(64));
  int axes[] = {0};
  NodeRef next = add(x, make_flip(x, axes));
  NodeRef result = donate(std::move(next), std::move(x));
  EXPECT_EQ(values(result), std::vector<float>(64, 63.0f));
}

TEST(Donation, several_outputs_that_read_each_others_leaves_are_right) {
  for (int64_t n : {3, 16, 1000, 40000}) {
    NodeRef p = tensor(counting(n)), m = tensor(counting(n, 100));
    NodeRef next_m = add(mul(m, full_like(m, 0.5)), p);
    NodeRef next_p = add(p, next_m);
    const Storage* storages[] = {p->storage.get(), m->storage.get()};
    p = m = NodeRef();
    NodeRef roots[] = {std::move(next_p), std::move(next_m)};
    std::vector<NodeRef> results = realize(roots, storages);
    std::vector<float> got_p = values(results[0]), got_m = values(results[1]);
    for (int64_t i = 0; i < n; ++i) {
      auto v = static_cast<float>(i);
      float expected_m = (v + 100) * 0.5f + v;
      ASSERT_EQ(got_m[static_cast<size_t>(i)], expected_m) << n << " " << i;
      ASSERT_EQ(got_p[static_cast<size_t>(i)], v + expected_m) << n << " " << i;
    }
  }
}

TEST(Donation, a_leaf_whose_last_reader_came_earlier_is_taken) {
  // The sum over everything is needed before the result can be written.
  NodeRef x = tensor(counting(256), Shape{Expr(256)});
  int axes[] = {0};
  NodeRef total = make_reduce(ReduceOp::Max, x, axes);
  NodeRef spread = make_expand(make_reshape(total, Shape{Expr(1)}), Shape{Expr(256)});
  NodeRef next = add(spread, full_like(spread, 1.0));
  total = spread = NodeRef();
  NodeRef result = donate(std::move(next), std::move(x));
  EXPECT_EQ(values(result), std::vector<float>(256, 256.0f));
}

TEST(Donation, another_dtype_of_the_same_size_may_take_the_memory_and_be_read_as_such) {
  NodeRef x = tensor({1.5f, -2.5f, 3.0f, 4.0f});
  NodeRef next = make_cast(x, DType::i32);
  NodeRef result = donate(std::move(next), std::move(x));
  const auto* got = static_cast<const int32_t*>(result->storage->host_data());
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], -2);
  EXPECT_EQ(got[3], 4);
}

}  // namespace
}  // namespace heddle
