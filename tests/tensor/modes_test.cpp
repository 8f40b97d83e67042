// Modes that another thread changes while something is planned: a plan is made in one mode, and found again in that
// one.
#include <heddle/deterministic.h>
#include <heddle/precision.h>
#include <heddle/relaxed.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "graph/build.h"
#include "helpers.h"
#include "runtime/device.h"
#include "runtime/execute.h"
#include "runtime/kernel_cache.h"
#include "runtime/plan_cache.h"

namespace heddle {
namespace {

// Changes all modes as fast as it can, and leaves them off.
class Flipper {
 public:
  ~Flipper() {
    stop_ = true;
    thread_.join();
    set(false);
  }
  static void set(bool on) {
    set_relaxed(on);
    set_deterministic(on);
    allow_tf32(on);
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_{[this] {
    for (bool on = false; !stop_; on = !on) set(on);
  }};
};

TEST(Concurrency, relaxed_mode_changes_while_plans_are_made) {
  // Relaxed the sum overflows: its factor is taken out.
  auto is_finite = [](int n) {
    Tensor x = full({2, n}, 1e30).realize(), w = full({n, 3}, 1e30).realize(), s = full({2, 1}, 1e-30).realize();
    return std::isfinite(testing::doubles(matmul(x * s, w))[0]);
  };
  constexpr int kFirst = 4, kLast = 40;
  {
    Flipper flipper;
    for (int n = kFirst; n < kLast; ++n) is_finite(n);
  }
  for (int n = kFirst; n < kLast; ++n) EXPECT_TRUE(is_finite(n)) << n;
  set_relaxed(true);
  for (int n = kFirst; n < kLast; ++n) EXPECT_FALSE(is_finite(n)) << n;
  set_relaxed(false);
}

TEST(Concurrency, tf32_is_allowed_and_forbidden_while_plans_are_made) {
  Backend& device = heddle::device("simulated");
  constexpr float kThird = 1.0f / 3, kRounded = 1365.0f / 4096;
  auto on_device = [&](float value, const Shape& shape) {
    std::vector<float> data(static_cast<size_t>(shape.known_numel()), value);
    auto memory = device.allocate(data.size() * sizeof(float));
    device.copy_from_host(*memory, data.data(), data.size() * sizeof(float));
    return make_buffer(std::move(memory), kF32, shape);
  };
  // An element of a product of thirds with ones, over the length of the sum.
  auto element = [&](int64_t k) {
    const Shape all{64, 64, k};
    NodeRef a = make_expand(make_reshape(on_device(kThird, {64, k}), {64, 1, k}), all);
    NodeRef b = make_expand(make_reshape(on_device(1, {64, k}), {1, 64, k}), all);
    NodeRef roots[] = {make_reduce(ReduceOp::Sum, make_scalar(ScalarOp::mul, std::vector<NodeRef>{a, b}), {{2}})};
    NodeRef result = realize(roots)[0];
    return static_cast<const float*>(result->storage->host_data())[65] / static_cast<float>(k);
  };
  constexpr int64_t kFirst = 64, kLast = 256;
  auto expect_right = [&] {
    for (bool allowed : {false, true}) {
      allow_tf32(allowed);
      for (int64_t k = kFirst; k < kLast; k += 16)
        EXPECT_NEAR(element(k), allowed ? kRounded : kThird, 1e-6) << k << allowed;
    }
    allow_tf32(false);
  };
  {
    Flipper flipper;
    for (int64_t k = kFirst; k < kLast; k += 16) element(k);
  }
  expect_right();
  // Whoever changes it between planning and compiling changes it too late.
  clear_plan_cache();
  clear_kernel_cache();
  observe_steps([](const Program::Step&, Backend&) { allow_tf32(!tf32_allowed()); });
  for (int64_t k = kFirst; k < kLast; k += 16) element(k);
  observe_steps(nullptr);
  expect_right();
}

}  // namespace
}  // namespace heddle
