// A device that fails at any of its calls: an exception names it, and everything else goes on.
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "devices/helpers.h"
#include "kernel/interpreter.h"
#include "runtime/split_devices.h"

namespace heddle {
namespace {

int calls_left = -1;  // until the device fails; negative: it does not

void count_call() {
  if (calls_left == 0) throw DeviceError("brittle: lost");
  if (calls_left > 0) --calls_left;
}

class BrittleBuffer final : public DeviceBuffer {
 public:
  BrittleBuffer(Backend& device, uint64_t bytes) : DeviceBuffer(device, bytes) {
    address_ = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
  }
  ~BrittleBuffer() override { std::free(address_); }
  BrittleBuffer(const BrittleBuffer&) = delete;
  BrittleBuffer& operator=(const BrittleBuffer&) = delete;
  const void* host_data() const override { return address(); }
  bool on_host() const override { return false; }  // all that is read goes through the device
};

class BrittleCode final : public Executable {
 public:
  explicit BrittleCode(const kernel::Kernel& kernel) : kernel_(kernel) {}
  const kernel::Kernel& kernel() const override { return kernel_; }

 private:
  kernel::Kernel kernel_;
};

class Brittle final : public Backend {
 public:
  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  int threads() const override { return 1; }
  bool is_asynchronous() const override { return true; }
  std::shared_ptr<DeviceBuffer> allocate(uint64_t bytes) override {
    count_call();
    return std::make_shared<BrittleBuffer>(*this, bytes);
  }
  void copy_from_host(DeviceBuffer& to, const void* from, uint64_t bytes) override {
    count_call();
    if (bytes) std::memcpy(to.address(), from, bytes);
  }
  void copy_to_host(void* to, const DeviceBuffer& from, uint64_t bytes) override {
    count_call();
    if (bytes) std::memcpy(to, from.address(), bytes);
  }
  void copy(const BufferPart& to, const BufferPart& from) override {
    count_call();
    if (to.bytes) std::memcpy(to.address(), from.address(), to.bytes);
  }
  std::shared_ptr<Executable> compile(const kernel::Kernel& kernel, std::string*) override {
    count_call();
    return std::make_shared<BrittleCode>(kernel);
  }
  void launch(const Executable& executable, std::span<const LaunchSegment> segments) override {
    count_call();
    for (const LaunchSegment& segment : segments) {
      std::vector<int64_t> sizes;
      std::vector<void*> addresses;
      for (size_t b = 0; b < segment.buffers.size(); ++b) {
        sizes.push_back(
            evaluate(executable.kernel().buffers[b].size, symbol_values(executable.kernel(), segment.symbols)));
        addresses.push_back(segment.buffers[b].address());
      }
      kernel::interpret(executable.kernel(), addresses, sizes, segment.symbols);
    }
  }
  void synchronize() override { count_call(); }
  Memory memory() const override { return {0, 0, 0, uint64_t{1} << 40}; }
  void free_cached() override {}

 private:
  std::string name_ = "brittle";
  Target target_ = device("simulated").target();
};

void use_brittle() {
  static const bool once =
      (register_device("brittle", [](int) -> std::unique_ptr<Backend> { return std::make_unique<Brittle>(); }), true);
  (void)once;
}

TEST(Failure, at_any_call_leaves_everything_else_as_it_was) {
  use_brittle();
  calls_left = -1;
  Tensor a = randn({4, 6}, {.device = "cpu"}).realize(), state = ones({4, 5}, {.device = kOther}).realize();
  Tensor w = randn({6, 5}, {.device = "brittle"}).realize();
  auto compute = [&] { return relu(matmul(a.to("brittle"), w)).to(kOther) + state; };
  auto captured = jit([&](const Tensor& x) { return sum(relu(matmul(x.to("brittle"), w)).to("cpu")); });
  const std::vector<float> wanted = compute().to_vector<float>(), wanted_a = a.to_vector<float>(),
                           wanted_w = w.to_vector<float>();
  const float wanted_sum = captured(a).item<float>();
  captured(a);
  int failures = 0;
  for (int calls = 0; calls < 40; ++calls) {
    calls_left = calls;
    Tensor y = compute();
    const std::string plain = message_of([&] { y.realize(); });
    calls_left = calls;
    const std::string replayed = message_of([&] { captured(a); });
    calls_left = -1;
    for (const std::string& message : {plain, replayed}) {
      failures += message != "no error";
      EXPECT_TRUE(message == "no error" || message.find("brittle") != std::string::npos) << message;
    }
    // Other devices, and the tensors of this one.
    ASSERT_EQ(a.to_vector<float>(), wanted_a);
    ASSERT_EQ(w.to_vector<float>(), wanted_w);
    ASSERT_EQ(sum(state).item<float>(), 20);
    ASSERT_EQ(y.to_vector<float>(), wanted);
    ASSERT_EQ(captured(a).item<float>(), wanted_sum);
  }
  EXPECT_GT(failures, 4);
}

TEST(Order, devices_that_work_beside_others_begin_first) {
  use_brittle();
  calls_left = -1;
  Tensor here = randn(8, {.device = "cpu"}).realize(), there = randn(8, {.device = "brittle"}).realize();
  const std::vector<NodeRef> roots = {exp(here).node(), exp(there).node(), (sum(there).to("cpu") + here).node()};
  GraphKey key;
  key.read(roots, {});
  const std::shared_ptr<const CachedPlan> plan = plan_for(roots, key);
  ASSERT_TRUE(plan->plan.split);
  std::vector<std::string> order;
  for (const SplitPlan::Step& step : plan->plan.split->steps)
    order.push_back(step.kind == SplitPlan::Step::Kind::Copy ? "copy"
                                                             : plan->plan.split->parts[step.index].device->name());
  EXPECT_EQ(order, (std::vector<std::string>{"brittle", "cpu", "copy", "cpu"}));
}

TEST(Failure, while_it_is_compiled) {
  use_brittle();
  for (int calls = 0; calls < 6; ++calls) {
    calls_left = -1;
    Tensor x = ones(3 + calls, {.device = "brittle"}).realize();
    calls_left = calls;
    message_of([&] { exp(x * 2).to("cpu").realize(); });
    calls_left = -1;
    EXPECT_NEAR(sum(exp(x * 2)).to("cpu").item<double>(), (3 + calls) * std::exp(2.0), 1e-3);
  }
}

TEST(Failure, without_memory_names_the_device) {
  for (const char* name : {"cpu", kOther}) {
    Tensor x = ones(8, {.device = name}).realize();
    const std::string message = message_of([&] { zeros({1 << 30, 1 << 30}, {.device = name}).realize(); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_EQ(sum(x).item<float>(), 8);
  }
}

}  // namespace
}  // namespace heddle
