// Devices as values, and where tensors are.
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <algorithm>
#include <thread>

#include "devices/helpers.h"

namespace heddle {
namespace {

TEST(Devices, have_names_kinds_and_memory) {
  Device cpu("cpu"), second = kOther;
  EXPECT_EQ(cpu.name(), "cpu");
  EXPECT_EQ(second.name(), "simulated:1");
  EXPECT_EQ(second.kind(), "simulated");
  EXPECT_EQ(Device("simulated:0"), Device("simulated"));
  EXPECT_NE(Device("simulated"), second);
  const uint64_t before = second.memory().used;
  Tensor x = from_vector(std::vector<float>(1024), 1024, {.device = second});
  EXPECT_EQ(second.memory().used, before + 4096);
  EXPECT_GT(second.memory().limit, 0u);
  EXPECT_EQ(second.memory().free(), second.memory().limit - second.memory().used);
  EXPECT_EQ(second.capabilities().warp, 32);
  EXPECT_EQ(cpu.capabilities().warp, 1);
  EXPECT_GE(cpu.capabilities().threads, 1);
  EXPECT_FALSE(cpu.capabilities().asynchronous);
}

TEST(Devices, are_listed) {
  std::vector<std::string> names;
  for (const Device& device : devices()) names.push_back(device.name());
  for (const char* name : {"cpu", "simulated", "simulated:1"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

TEST(Devices, one_that_is_not_there_lists_those_that_are) {
  for (const char* name : {"abacus", "abacus:3", "simulated:99"}) {
    std::string message = message_of([&] { Device no(name); });
    EXPECT_NE(message.find("cpu"), std::string::npos) << message;
    EXPECT_NE(message.find("simulated:1"), std::string::npos) << message;
    EXPECT_NE(message.find(std::string(name).substr(0, 6)), std::string::npos) << message;
  }
  EXPECT_THROW(Device("cpu:x"), ValueError);
  EXPECT_THROW(Device("cpu:-1"), ValueError);
  EXPECT_THROW(Device(""), ValueError);
  EXPECT_THROW(zeros(3, {.device = "abacus"}), ValueError);
}

TEST(Devices, every_creating_function_takes_one) {
  const TensorOptions there{.device = kOther};
  std::vector<float> values{1, 2};
  std::vector<Tensor> made = {zeros(2, there),
                              ones(2, there),
                              full(2, 3, there),
                              empty(2, there),
                              scalar(1, there),
                              tensor({1, 2}, there),
                              from_vector(values, 2, there),
                              from_data(values.data(), 2, there),
                              from_memory(values.data(), 2, kF32, Device(kOther)),
                              arange(3, there),
                              arange(0, 3, 1, there),
                              linspace(0, 1, 3, true, there),
                              logspace(0, 1, 3, true, 10, there),
                              eye(2, 2, 0, there),
                              tri(2, 2, 0, there),
                              rand(2, there),
                              randn(2, there),
                              uniform(2, 0, 1, there),
                              normal(2, 0, 1, there),
                              truncated_normal(2, 0, 1, -2, 2, there),
                              exponential(2, 1, there),
                              gamma(2, 2, 1, there),
                              beta(2, 2, 2, there),
                              randint(2, 0, 10, there),
                              bernoulli(2, 0.5, there)};
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].device(), kOther) << i;
    made[i].realize();
    EXPECT_EQ(made[i].device(), kOther) << i;
  }
  EXPECT_EQ(full(2, 3, {.dtype = kI8, .device = kOther}).dtype(), kI8);
  EXPECT_EQ(arange(3, there).dtype(), kI64);
  EXPECT_EQ(from_vector(values, 2, {.dtype = kF64}).dtype(), kF64);
  EXPECT_EQ(zeros_like(made[0].realize()).device(), kOther);
  EXPECT_EQ(zeros_like(made[0]).realize().device(), kOther);
  EXPECT_EQ(made[9].to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
}

TEST(Devices, the_same_seed_gives_the_same_numbers_everywhere) {
  manual_seed(3);
  Tensor here = randn(5).realize();
  manual_seed(3);
  Tensor there = randn(5, {.device = kOther}).realize();
  EXPECT_LT(max_difference(here, there.to(here.device())), 1e-6);
}

TEST(Devices, constants_go_where_they_are_used) {
  Tensor x = ones(3, {.device = kOther}).realize();
  Tensor y = (x + zeros(3) + 1) * cast(arange(3), kF32);
  EXPECT_EQ(y.device(), kOther);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 2, 4}));
  // By themselves on the default device, at the time when they are computed.
  Tensor alone = full(2, 7);
  EXPECT_EQ(alone.device(), default_device());
  EXPECT_EQ(alone.realize().device(), default_device());
  // What a builder makes of a placed value stays with it.
  Tensor whole = ones(3, {.dtype = kI32, .device = kOther}).realize();
  EXPECT_EQ((whole * 0).device(), kOther);
  EXPECT_EQ((whole ^ whole).realize().device(), kOther);
}

TEST(Devices, a_scope_says_where) {
  const Device before = default_device();
  Tensor x, c, r;
  {
    DeviceScope scope(kOther);
    EXPECT_EQ(default_device(), kOther);
    x = tensor({1, 2});
    c = zeros(2);
    r = randn(2);
    {
      DeviceScope inner(kThird);
      EXPECT_EQ(ones(1).device(), kThird);
    }
    EXPECT_EQ(ones(1).device(), kOther);
    std::thread other([&] { EXPECT_EQ(default_device(), before); });
    other.join();
  }
  EXPECT_EQ(default_device(), before);
  for (const Tensor& each : {x, c, r}) EXPECT_EQ(each.device(), kOther);
  for (const Tensor& each : {x, c, r}) EXPECT_EQ(each.realize().device(), kOther);
}

TEST(Devices, an_operator_works_where_its_operand_is) {
  Tensor x = tensor({{3, 1, 2}, {6, 5, 4}}, {.device = kOther}).realize();
  Tensor ids = tensor({2, 0}, {.dtype = kI64, .device = kOther}).realize();
  for (bool scoped : {false, true}) {
    std::optional<DeviceScope> scope;
    if (scoped) scope.emplace(kThird);
    EXPECT_EQ(one_hot(ids, 3).realize().device(), kOther);
    EXPECT_EQ(dropout(x, 0.5).realize().device(), kOther);
    EXPECT_EQ(nonzero(x).realize().device(), kOther);
    EXPECT_EQ(unique(x).values.realize().device(), kOther);
    EXPECT_EQ(bincount(ids).realize().device(), kOther);
    EXPECT_EQ(searchsorted(tensor({1, 2, 3}, {.device = kOther}), x).realize().device(), kOther);
    EXPECT_EQ(repeat_interleave(x, tensor({1, 2}, kI64), 0).realize().device(), kOther);
    EXPECT_EQ(shuffle(x).realize().device(), kOther);
    EXPECT_EQ(multinomial(softmax(x), 2).realize().device(), kOther);
    EXPECT_EQ(categorical(x).realize().device(), kOther);
    EXPECT_EQ(tril(x).realize().device(), kOther);
    EXPECT_EQ(sort(x).indices.realize().device(), kOther);
    EXPECT_EQ(dynamic_slice(x, tensor({0, 1}, {.dtype = kI64, .device = kOther}), {1, 2}).realize().device(), kOther);
    EXPECT_EQ(update_slice(x, slice(x, 0, 0, 1), tensor(1, {.dtype = kI64, .device = kOther})).device(), kOther);
    EXPECT_EQ(adaptive_avg_pool2d(reshape(x, {1, 1, 2, 3}), {1, 2}).realize().device(), kOther);
    EXPECT_EQ(avg_pool2d(reshape(x, {1, 1, 2, 3}), 2).realize().device(), kOther);
    EXPECT_EQ(cross_entropy(x, ids).realize().device(), kOther);
    EXPECT_EQ(pow(cast(x, kI32), 3).realize().device(), kOther);
    EXPECT_EQ(histogram(x, 2).counts.realize().device(), kOther);
  }
}

TEST(Devices, operands_on_two_are_an_error_at_the_call) {
  Tensor a = ones(3, {.device = kOther}), b = ones(3, {.device = kThird});
  auto names_all = [](const std::string& message, const char* op) {
    for (const char* part : {op, "simulated:1", "simulated:2", "to()"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  names_all(message_of([&] { add(a, b); }), "add");
  names_all(message_of([&] { a* b; }), "mul");
  names_all(message_of([&] { where(gt(a, 0), a, b); }), "where");
  names_all(message_of([&] { matmul(reshape(a, {1, 3}), reshape(b, {3, 1})); }), "matmul");
  names_all(message_of([&] { cat({a, b}); }), "cat");
  names_all(message_of([&] { gather(a, cast(b, kI64), 0); }), "gather");
  names_all(message_of([&] { a.assign(b); }), "assign");
  names_all(message_of([&] {
              Tensor c = a;
              c += b;
            }),
            "add");
  names_all(message_of([&] {
              a.requires_grad_();
              sum(a * 2).backward(sum(b));
            }),
            "backward");
}

TEST(Devices, a_tensor_stays_where_it_is_when_it_gets_a_constant) {
  Tensor x = ones(3, {.device = kOther}).realize();
  x.assign(zeros(3));
  EXPECT_EQ(x.device(), kOther);
  EXPECT_EQ(x.realize().device(), kOther);
  x.set({0}, 5);
  EXPECT_EQ(x.realize().device(), kOther);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{5, 0, 0}));
}

TEST(Devices, the_default_can_be_changed) {
  const Device before = default_device();
  set_default_device(kOther);
  Tensor x = zeros(3);
  EXPECT_EQ(x.device(), kOther);
  EXPECT_EQ(tensor({1}).device(), kOther);
  EXPECT_EQ(x.realize().device(), kOther);
  set_default_device(before);
  EXPECT_EQ(zeros(3).realize().device(), before);
}

}  // namespace
}  // namespace heddle
