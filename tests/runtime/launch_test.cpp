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

Device& cpu() { return device("cpu"); }  // its memory is that of the host

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

void expect_reversed(const Executable& code, int64_t n, float start) {
  std::vector<float> x = testing::counting(n, start), y(static_cast<size_t>(n)), t(static_cast<size_t>(n));
  void* buffers[] = {x.data(), y.data(), t.data()};
  cpu().launch(code, buffers, {});
  cpu().synchronize();
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
  std::vector<int32_t> y(kBlocks);
  void* buffers[] = {y.data(), nullptr};
  for (int round = 0; round < 5; ++round) {
    std::fill(y.begin(), y.end(), -1);
    cpu().launch(*code, buffers, {});
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
    std::vector<int32_t> y(101, -1);
    void* buffers[] = {y.data()};
    int64_t symbols[] = {size};
    cpu().launch(*code, buffers, symbols);
    for (int64_t i = 0; i <= 100; ++i) ASSERT_EQ(y[static_cast<size_t>(i)], i < size ? i + size : -1);
  }
}

TEST(Launch, the_wrong_number_of_buffers_is_refused) {
  auto code = cpu().compile(two_phases(4));
  float data[4] = {};
  void* buffers[] = {data, data};
  EXPECT_THROW(cpu().launch(*code, buffers, {}), InternalError);
}

}  // namespace
}  // namespace heddle
