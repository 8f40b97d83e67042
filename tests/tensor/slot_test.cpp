// Tensors are slots: assignment, handles, and memory that is used again.
#include <thread>

#include "helpers.h"
#include "runtime/device.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Slot, copies_of_a_handle_see_assignments) {
  Tensor x = tensor({1, 2}), same = x, value = x + 0;
  x.assign(tensor({3, 4}));
  expect_equal(same, {3, 4});
  expect_equal(value, {1, 2});
  same += 1;
  expect_equal(x, {4, 5});
  x = tensor({9});  // x is now another slot
  expect_equal(same, {4, 5});
}

TEST(Slot, compound_assignment) {
  Tensor x = tensor({1, 2, 3});
  x += tensor({1, 1, 1});
  x *= 2;
  x -= 1.0;
  x /= tensor({3, 5, 7});
  expect_equal(x, {1, 1, 1});
  Tensor n = tensor({1, 2}, kI32);
  n += 3;
  n *= tensor({2, 2}, kI32);
  EXPECT_EQ(integers(n), (std::vector<int64_t>{8, 10}));
  expect_error<DTypeError>([&] { n += 0.5; }, {"operator+=", "f32", "i32"});
  expect_error<DTypeError>([&] { n /= 2; }, {"operator/=", "f32", "i32"});
  expect_equal(n, {8, 10});
}

TEST(Slot, broadcasting_may_not_grow_a_slot) {
  Tensor x = zeros({2});
  x += scalar(1);
  expect_equal(x, {1, 1});
  expect_error<ShapeError>([&] { x += zeros({3, 2}); }, {"operator+=", "[3, 2]", "[2]"});
}

TEST(Slot, realising_keeps_the_value) {
  Tensor x = tensor({1, 2}).realize(), y = x * 2;
  EXPECT_FALSE(y.is_realized());
  expect_equal(y, {2, 4});
  EXPECT_TRUE(y.is_realized());
  StatsSince stats;
  expect_equal(y, {2, 4});
  EXPECT_EQ(stats->launches, 0u);
}

TEST(Slot, several_tensors_realise_together) {
  Tensor x = counting({100}), y = x * 2, z = y + 1;
  StatsSince stats;
  realize({y, z});
  EXPECT_LE(stats->launches, 2u);
  EXPECT_TRUE(y.is_realized() && z.is_realized());
  EXPECT_EQ(z[99].item<float>(), 199);
}

TEST(Donation, an_update_in_a_loop_works_in_place) {
  Tensor x = counting({100000});
  const void* before = address(x);
  x.assign(x + 1);
  x.realize();
  uint64_t used = device().memory().used, peak = device().memory().peak;
  for (int i = 0; i < 20; ++i) {
    x.assign(x + 1);
    x.realize();
    EXPECT_EQ(device().memory().used, used);
  }
  EXPECT_EQ(address(x), before) << "the old memory was not taken over";
  EXPECT_EQ(device().memory().peak, peak);
  EXPECT_EQ(x[99999].item<float>(), 99999 + 21);
}

TEST(Donation, compound_assignment_works_in_place_too) {
  Tensor x = counting({5000}), step = ones({5000}).realize();
  const void* before = address(x);
  for (int i = 0; i < 5; ++i) {
    x += step;
    x.realize();
  }
  EXPECT_EQ(address(x), before);
  EXPECT_EQ(x[7].item<float>(), 12);
}

TEST(Donation, another_handle_or_value_keeps_the_old_data) {
  Tensor x = counting({1000}), other(x.node()), later = x * 10;
  x.assign(x + 1);
  x.realize();
  EXPECT_EQ(other[5].item<float>(), 5);
  EXPECT_EQ(later[5].item<float>(), 50);
  EXPECT_EQ(x[5].item<float>(), 6);
}

TEST(Donation, an_update_that_reads_other_elements_is_right) {
  Tensor x = counting({1001});
  for (int i = 0; i < 3; ++i) {
    x.assign(x + flip(x, {0}));
    x.realize();
  }
  EXPECT_EQ(x[0].item<float>(), 4000);
  Tensor m = noise_tensor({50, 50});
  std::vector<double> want = doubles(matmul(m, m));
  m.assign(matmul(m, m));
  m.realize();
  expect_close(m, want, 0);
}

TEST(Slot, memory_of_a_long_loop_stays_flat) {
  Tensor x = counting({10000}), w = ones({10000}).realize();
  uint64_t most = 0;
  for (int i = 0; i < 50; ++i) {
    x = (x * 0.5 + w).realize();
    if (i == 5) most = device().memory().used;
    if (i > 5) {
      EXPECT_LE(device().memory().used, most);
    }
  }
}

TEST(Slot, changing_scalars_do_not_recompile) {
  Tensor x = counting({64});
  for (int i = 0; i < 5; ++i) (x * (0.1 + i)).realize();
  StatsSince stats;
  for (int i = 5; i < 50; ++i) EXPECT_NEAR((x * (0.1 + i))[1].item<float>(), 0.1 + i, 1e-5);
  EXPECT_LE(stats->plan_misses, 2u);
}

TEST(Slots, every_operator_gives_a_slot_of_its_own) {
  Tensor integers = tensor({1, 2, 3}, kI32), truths = tensor({1, 0}, kBool), nothing = zeros({0, 3});
  for (const Tensor& same : {floor(integers), ceil(integers), trunc(integers), round(integers), abs(truths),
                             sign(truths), softmax(nothing, 1), log_softmax(nothing, 1), cast(integers, kI32),
                             reshape(integers, {3}), pow(tensor({1, 2}), 1)})
    for (const Tensor& operand : {integers, truths, nothing}) EXPECT_NE(&same.slot(), &operand.slot());
  Tensor y = floor(integers);
  y += 1;
  expect_equal(integers, {1, 2, 3});
}

TEST(Slots, threads_may_realise_the_same_tensors_in_any_order) {
  std::vector<Tensor> forwards;
  for (int i = 0; i < 32; ++i) forwards.push_back(tensor({0}).realize());
  std::vector<Tensor> backwards(forwards.rbegin(), forwards.rend());
  std::thread other([&] {
    for (int round = 0; round < 300; ++round) {
      for (Tensor& t : backwards) t.assign(t + 1);
      realize(backwards);
    }
  });
  for (int round = 0; round < 300; ++round) {
    for (Tensor& t : forwards) t.assign(t + 1);
    realize(forwards);
  }
  other.join();
  for (const Tensor& t : forwards) EXPECT_GE(t.item<float>(), 300);
}

TEST(Slots, a_tensor_given_twice_is_realised_once) {
  Tensor x = tensor({1, 2}).realize();
  x += 1;
  realize({x, x});
  expect_equal(x, {2, 3});
}

}  // namespace
}  // namespace heddle
