// The devices without hardware: the whole path to a SIMT machine, and the checks on launches.
#include <gtest/gtest.h>
#include <heddle/precision.h>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/plan.h"

namespace heddle {
namespace {

NodeRef on(Backend& device, const std::vector<float>& values, const Shape& shape) {
  auto buffer = device.allocate(values.size() * 4);
  device.copy_from_host(*buffer, values.data(), values.size() * 4);
  return make_buffer(buffer, kF32, shape);
}
std::vector<float> read(const NodeRef& node) {
  auto* data = static_cast<const float*>(node->storage->host_data());
  return {data, data + node->shape.static_numel()};
}

TEST(Simulated, a_graph_runs_where_its_leaves_live) {
  Backend& device = heddle::device("simulated");
  NodeRef x = on(device, {1, 2, 3, 4, 5, 6}, {2, 3});
  NodeRef twice = make_scalar(ScalarOp::add, std::vector<NodeRef>{x, x});
  std::vector<NodeRef> roots{make_reduce(ReduceOp::Sum, twice, std::vector<int>{1}),
                             make_permute(x, std::vector<int>{1, 0})};
  std::vector<NodeRef> done = realize(roots);
  EXPECT_EQ(read(done[0]), (std::vector<float>{12, 30}));
  EXPECT_EQ(read(done[1]), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

// Fewer elements than threads: those without one must not read what another is about to write.
TEST(Simulated, small_tensors_are_updated_in_place) {
  Backend& device = heddle::device("simulated");
  for (int64_t n : {1, 3, 50, 1000}) {
    std::vector<float> values(static_cast<size_t>(n), 2);
    NodeRef x = on(device, values, {n});
    const void* before = x->storage->host_data();
    NodeRef roots[] = {make_scalar(ScalarOp::mul, std::vector<NodeRef>{x, x})};
    const Storage* given_up[] = {x->storage.get()};
    x = NodeRef();
    NodeRef done = realize(roots, given_up)[0];
    EXPECT_EQ(done->storage->host_data(), before) << n;
    EXPECT_EQ(read(done), std::vector<float>(static_cast<size_t>(n), 4)) << n;
  }
}

// The same graph: plans and kernels made before the setting changed are not used after it.
TEST(Simulated, tf32_may_be_allowed_and_forbidden_again) {
  Backend& device = heddle::device("simulated");
  const Shape all{64, 64, 64};
  const float third = 1.0f / 3, rounded = 1365.0f / 4096;
  NodeRef a = on(device, std::vector<float>(64 * 64, third), {64, 64});
  NodeRef b = on(device, std::vector<float>(64 * 64, 1), {64, 64});
  NodeRef product = make_scalar(ScalarOp::mul, std::vector<NodeRef>{make_expand(make_reshape(a, {64, 1, 64}), all),
                                                                    make_expand(make_reshape(b, {1, 64, 64}), all)});
  NodeRef roots[] = {make_reduce(ReduceOp::Sum, product, std::vector<int>{2})};
  EXPECT_FALSE(tf32_allowed());
  for (bool allowed : {false, true, false, true}) {
    allow_tf32(allowed);
    EXPECT_EQ(tf32_allowed(), allowed);
    for (float x : read(realize(roots)[0])) ASSERT_NEAR(x, 64 * (allowed ? rounded : third), 1e-5);
  }
  allow_tf32(false);
}

TEST(Simulated, the_null_device_checks_but_computes_nothing) {
  Backend& device = heddle::device("null");
  NodeRef x = on(device, {1, 2, 3, 4}, {4});
  std::vector<NodeRef> roots{make_scalar(ScalarOp::mul, std::vector<NodeRef>{x, x})};
  EXPECT_EQ(read(realize(roots)[0]), (std::vector<float>{0, 0, 0, 0}));
}

TEST(Simulated, there_are_four_and_one_that_computes_nothing) {
  EXPECT_THROW(heddle::device("null:1"), DeviceError);
  EXPECT_THROW(heddle::device("simulated:4"), DeviceError);
  EXPECT_EQ(heddle::device("simulated:3").name(), "simulated:3");
  EXPECT_EQ(&heddle::device("null:0"), &heddle::device("null"));
}

TEST(Simulated, launches_with_wrong_memory_are_refused) {
  Backend& device = heddle::device("null");
  kernel::Kernel kernel = kernel::parse(
      "kernel.thread @copy(in %x: f32[8], out %y: f32[8]) threads 32 thread t {\n"
      "  phase grid() {\n    %0 = load %x[t] if t < 8 : f32\n    store %y[t], %0 if t < 8\n  }\n}\n");
  auto code = device.compile(kernel);
  auto x = device.allocate(32), y = device.allocate(32), small = device.allocate(16);
  auto other = heddle::device("simulated").allocate(32);
  using Parts = std::vector<BufferPart>;
  const Parts good{whole(*x), whole(*y)}, short_one{whole(*x), whole(*small)}, foreign{whole(*other), whole(*y)};
  const Parts nothing{whole(*x), {}}, cut{whole(*x), {y.get(), 0, 16}}, outside{whole(*x), {y.get(), 64, 32}},
      crooked{whole(*x), {y.get(), 4, 28}};
  EXPECT_NO_THROW(device.launch(*code, good, {}));
  EXPECT_THROW(device.launch(*code, short_one, {}), DeviceError);
  for (const Parts& wrong : {foreign, nothing, cut, outside, crooked})
    EXPECT_THROW(device.launch(*code, wrong, {}), DeviceError);
  EXPECT_THROW(device.launch(*code, std::span(good).first(1), {}), DeviceError);
  EXPECT_THROW(heddle::device("simulated").launch(*code, good, {}), DeviceError);
}

// The width of warps is the kernel's, from the target that it was made for.
TEST(Simulated, warps_are_as_wide_as_the_kernel_says) {
  Backend& device = heddle::device("simulated");
  std::vector<float> numbers(64);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  auto x = device.allocate(256), y = device.allocate(256);
  device.copy_from_host(*x, numbers.data(), 256);
  auto shuffled = [&](int warp, int mask) {
    return kernel::parse(text("kernel.thread @halves(in %x: f32[64], out %y: f32[64]) threads 64 warp ", warp,
                              " thread t {\n  phase grid() {\n    %0 = load %x[t] : f32\n    %1 = shuffle_xor %0, ",
                              mask, "\n    store %y[t], %1\n  }\n}\n"));
  };
  for (int warp : {16, 32, 64}) {
    auto code = device.compile(shuffled(warp, warp / 2));
    device.launch(*code, std::vector<BufferPart>{whole(*x), whole(*y)}, {});
    const auto* got = static_cast<const float*>(y->host_data());
    for (int t = 0; t < 64; ++t) ASSERT_EQ(got[t], static_cast<float>(t ^ (warp / 2))) << warp;
    EXPECT_THROW(device.compile(shuffled(warp, warp)), InternalError);
  }
  // A generator of code for one machine takes kernels for it alone.
  EXPECT_NO_THROW(heddle::device("null").compile(shuffled(32, 16)));
  EXPECT_THROW(heddle::device("null").compile(shuffled(16, 8)), CompileError);
}

TEST(Simulated, memory_is_given_back) {
  Backend& device = heddle::device("simulated");
  uint64_t before = device.memory().used;
  {
    auto block = device.allocate(1000);
    EXPECT_EQ(device.memory().used, before + 1000);
  }
  EXPECT_EQ(device.memory().used, before);
}

}  // namespace
}  // namespace heddle
