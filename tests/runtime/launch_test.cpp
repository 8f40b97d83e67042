// Kernels written by hand, launched on the CPU device.
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "helpers.h"
#include "kernel/builder.h"

namespace heddle {
namespace {

using kernel::Builder;
using kernel::Kernel;
using kernel::Phase;
using kernel::Space;
using kernel::Value;

Backend& cpu() { return device("cpu"); }  // its memory is that of the host

Builder::Access at(const Expr& address) {
  Builder::Access access;
  access.address = address;
  return access;
}

// y[i] = 2 * x[n - 1 - i] + 1, with the reversal between two phases.
Kernel two_phases(int64_t n) {
  Kernel k;
  k.name = "two_phases";
  k.level = kernel::Level::Thread;
  k.buffers = {{"x", DType::f32, Space::In, n}, {"y", DType::f32, Space::Out, n}, {"t", DType::f32, Space::Temp, n}};
  Expr c = Expr::index("c", n), d = Expr::index("d", n);
  Phase first{{c}, {}}, second{{d}, {}};
  {
    Builder b(k, first);
    Value two = b.constant(heddle::Scalar::of(DType::f32, 2));
    b.store(2, b.op(ScalarOp::mul, {b.load(0, DType::f32, at(c)), two}), at(c));
  }
  {
    Builder b(k, second);
    Value one = b.constant(heddle::Scalar::of(DType::f32, 1));
    b.store(1, b.op(ScalarOp::add, {b.load(2, DType::f32, at(n - 1 - d)), one}), at(d));
  }
  k.phases = {first, second};
  kernel::verify(k);
  return k;
}

template <class T>
std::shared_ptr<DeviceBuffer> on(Backend& device, const std::vector<T>& values) {
  auto buffer = device.allocate(values.size() * sizeof(T));
  device.copy_from_host(*buffer, values.data(), values.size() * sizeof(T));
  return buffer;
}
template <class T>
std::vector<T> read(const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  buffer.device().copy_to_host(values.data(), buffer, buffer.bytes());
  return values;
}

void expect_reversed(const Executable& code, int64_t n, float start) {
  const auto bytes = static_cast<uint64_t>(n) * sizeof(float);
  auto in = on(cpu(), testing::counting(n, start)), out = cpu().allocate(bytes), temp = cpu().allocate(bytes);
  const BufferPart buffers[] = {whole(*in), whole(*out), whole(*temp)};
  cpu().launch(code, buffers, {});
  cpu().synchronize();
  const auto y = read<float>(*out);
  for (int64_t i = 0; i < n; ++i)
    ASSERT_EQ(y[static_cast<size_t>(i)], 2 * (start + static_cast<float>(n - 1 - i)) + 1) << i << " of " << n;
}

TEST(Launch, phases_run_one_after_the_other_on_any_number_of_threads) {
  for (int64_t n : {1, 2, 3, 1000, 100'001}) {  // the last is large enough to be shared
    auto code = cpu().compile(two_phases(n));
    EXPECT_EQ(code->kernel().name, "two_phases");
    for (int i = 0; i < 5; ++i) expect_reversed(*code, n, static_cast<float>(i));
  }
}

// All in one buffer: what lies between the parts stays as it was.
TEST(Launch, buffers_are_parts_of_memory) {
  for (const char* name : {"cpu", "simulated"}) {
    Backend& where = device(name);
    constexpr int64_t kCount = 20, kPart = 32;  // elements; of 128 bytes each
    auto code = where.compile(two_phases(kCount));
    std::vector<float> values(6 * kPart, -1);
    for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(3 * kPart + i)] = static_cast<float>(i);
    auto memory = on(where, values);
    auto part = [&](uint64_t number) { return BufferPart{memory.get(), number * kPart * 4, kCount * 4}; };
    const BufferPart buffers[] = {part(3), part(1), part(5)};
    where.launch(*code, buffers, {});
    where.synchronize();
    const auto after = read<float>(*memory);
    for (int64_t i = 0; i < 6 * kPart; ++i) {
      const int64_t which = i / kPart, at = i % kPart, from = kCount - 1 - at;
      float expected = -1;
      if (at < kCount && which == 1) expected = static_cast<float>(2 * from + 1);
      if (at < kCount && which == 3) expected = static_cast<float>(at);
      if (at < kCount && which == 5) expected = static_cast<float>(2 * at);
      ASSERT_EQ(after[static_cast<size_t>(i)], expected) << name << ", element " << i;
    }
    // Several segments of one launch, each in a part of its own.
    const BufferPart first[] = {part(3), part(0), part(2)}, second[] = {part(3), part(4), part(5)};
    const LaunchSegment both[] = {{first, {}}, {second, {}}};
    where.launch(*code, both);
    where.synchronize();
    const auto twice = read<float>(*memory);
    for (int64_t i = 0; i < kCount; ++i)
      for (int64_t which : {0, 4})
        ASSERT_EQ(twice[static_cast<size_t>(which * kPart + i)], static_cast<float>(2 * (kCount - 1 - i) + 1)) << name;
  }
}

TEST(Launch, several_user_threads_launch_at_once) {
  auto large = cpu().compile(two_phases(50'000)), small = cpu().compile(two_phases(10));
  std::vector<std::thread> users;
  for (int u = 0; u < 4; ++u)
    users.emplace_back([&, u] {
      for (int i = 0; i < 10; ++i) {
        expect_reversed(*large, 50'000, static_cast<float>(u));
        expect_reversed(*small, 10, static_cast<float>(u));
      }
    });
  for (std::thread& user : users) user.join();
}

TEST(Launch, every_thread_has_its_own_scratch) {
  // Each block writes its number all over a shared buffer and reads it back.
  constexpr int64_t kBlocks = 20'000, kShared = 3000;
  Kernel k;
  k.name = "scratch";
  k.level = kernel::Level::Thread;
  k.buffers = {{"y", DType::i32, Space::Out, kBlocks}, {"l", DType::i32, Space::Shared, kShared}};
  Expr c = Expr::index("c", kBlocks), i = Expr::index("i", 16);
  Phase phase{{c}, {}};
  {
    Builder b(k, phase);
    b.loop(i, {}, [&](std::span<const Value>) {
      b.store(1, b.index(DType::i32, c, {}), at(i * 180));
      return std::vector<Value>{};
    });
    b.store(0, b.load(1, DType::i32, at(15 * 180)), at(c));
  }
  k.phases = {phase};
  kernel::verify(k);
  auto code = cpu().compile(k);
  for (int round = 0; round < 5; ++round) {
    auto out = on(cpu(), std::vector<int32_t>(kBlocks, -1));
    const BufferPart buffers[] = {whole(*out), {}};
    cpu().launch(*code, buffers, {});
    const auto y = read<int32_t>(*out);
    for (int64_t block = 0; block < kBlocks; ++block) ASSERT_EQ(y[static_cast<size_t>(block)], block);
  }
}

TEST(Launch, symbols_give_the_grid) {
  Expr n = Expr::symbol("n", 0, 1000);
  Kernel k;
  k.name = "symbolic";
  k.level = kernel::Level::Thread;
  k.symbols = {n};
  k.buffers = {{"y", DType::i32, Space::Out, n}};
  Expr c = Expr::index("c", n);
  Phase phase{{c}, {}};
  {
    Builder b(k, phase);
    b.store(0, b.index(DType::i32, c + n, {}), at(c));
  }
  k.phases = {phase};
  auto code = cpu().compile(k);
  for (int64_t size : {0, 1, 7, 100}) {
    auto out = on(cpu(), std::vector<int32_t>(101, -1));
    const BufferPart buffers[] = {whole(*out)};
    int64_t symbols[] = {size};
    cpu().launch(*code, buffers, symbols);
    const auto y = read<int32_t>(*out);
    for (int64_t i = 0; i <= 100; ++i) ASSERT_EQ(y[static_cast<size_t>(i)], i < size ? i + size : -1);
  }
}

TEST(Launch, the_wrong_number_of_buffers_is_refused) {
  auto code = cpu().compile(two_phases(4));
  auto data = cpu().allocate(16);
  const BufferPart buffers[] = {whole(*data), whole(*data)};
  EXPECT_THROW(cpu().launch(*code, buffers, {}), InternalError);
}

}  // namespace
}  // namespace heddle
