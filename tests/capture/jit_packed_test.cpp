// Weights that stay packed from call to call of a captured function: whatever changes them, results are never old.
#include <set>
#include <thread>

#include "runtime/device.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

constexpr int64_t kChannels = 16, kFilters = 32, kSize = 6;

// Small integers: all sums are exact, in any order.
Tensor image(int64_t seed = 0) {
  return ((arange(2 * kChannels * kSize * kSize) * 5 + seed) % 7 - 3)
      .to(DType::f32)
      .reshape(2, kChannels, kSize, kSize)
      .realize();
}
Tensor weights(int64_t seed = 0) {
  return ((arange(kFilters * kChannels * 9) * 3 + seed) % 5 - 2)
      .to(DType::f32)
      .reshape(kFilters, kChannels, 3, 3)
      .realize();
}
Tensor convolve(const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {.padding = 1}); }

bool same(const Tensor& a, const Tensor& b) { return a.to_vector<float>() == b.to_vector<float>(); }

// What the function gives, against the same computed anew. Returns how many packings were left out.
template <class F>
uint64_t expect_right(F& f, const Tensor& x, const Tensor& w) {
  const uint64_t before = run_stats().kept_packings;
  Tensor y = f(x);
  y.realize();
  const uint64_t left_out = run_stats().kept_packings - before;
  EXPECT_TRUE(same(y, convolve(x, w.clone().realize())));
  return left_out;
}

// Whether this device's schedules pack weights by a phase of their own.
bool packs() { return device().target().machine == Machine::Simd; }

TEST(JitPacked, weights_are_packed_once) {
  if (!packs()) GTEST_SKIP() << "weights are not packed on " << device().name();
  Tensor w = weights();
  auto f = jit([&](const Tensor& x) { return convolve(x, w); });
  for (int i = 0; i < 6; ++i) EXPECT_EQ(expect_right(f, image(i), w), i < 2 ? 0u : 1u) << "call " << i;
  ASSERT_EQ(f.plans().size(), 1u);
  // Panels are filled up to a number of rows that depends on the target.
  EXPECT_GE(f.plans()[0].kept_bytes, static_cast<uint64_t>(w.numel()) * 4);
  EXPECT_LE(f.plans()[0].kept_bytes, static_cast<uint64_t>(w.numel()) * 6);
  EXPECT_NE(to_string(f.plans()[0]).find("stay packed"), std::string::npos);
}

TEST(JitPacked, so_are_arguments_that_stay) {
  if (!packs()) GTEST_SKIP() << "weights are not packed on " << device().name();
  Tensor w = weights();
  auto g = jit([](const Tensor& x, const Tensor& v) { return convolve(x, v); });
  auto f = [&](const Tensor& x) { return g(x, w); };
  for (int i = 0; i < 4; ++i) expect_right(f, image(i), w);
  EXPECT_EQ(expect_right(f, image(9), w), 1u);
  Tensor other = weights(1);
  auto h = [&](const Tensor& x) { return g(x, other); };
  EXPECT_EQ(expect_right(h, image(), other), 0u);
  EXPECT_EQ(expect_right(f, image(), w), 0u);
}

TEST(JitPacked, parts_of_sums_are_not_kept) {
  Tensor x = ones({4096, 512}).realize();
  auto f = jit([](Tensor y) { return std::pair(sum(y, 0), sum(y)); });
  const uint64_t before = run_stats().kept_packings;
  for (int i = 0; i < 4; ++i) expect_close(f(x).second, {4096.0 * 512});
  EXPECT_EQ(run_stats().kept_packings, before);
  EXPECT_EQ(f.plans()[0].kept_bytes, 0u);
}

TEST(JitPacked, assignment) {
  Tensor w = weights();
  auto f = jit([&](const Tensor& x) { return convolve(x, w); });
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 4; ++i) expect_right(f, image(i), w);
    w.assign(weights(round + 1));
  }
}

// The old memory becomes that of the new value.
TEST(JitPacked, values_that_take_over_the_memory_of_the_old) {
  Tensor w = weights();
  auto f = jit([&](const Tensor& x) { return convolve(x, w); });
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 4; ++i) expect_right(f, image(i), w);
    const void* before = w.data<float>().data();
    w += 1;
    w.realize();
    EXPECT_EQ(w.data<float>().data(), before) << "nothing is tested where the memory is another";
  }
}

TEST(JitPacked, updates_in_place_by_another_function) {
  Tensor w = weights();
  auto f = jit([&](const Tensor& x) { return convolve(x, w); });
  auto step = jit([&](const Tensor& g) {
    w -= g;
    return g.sum();
  });
  Tensor g = ones({1}).realize();
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 1 + round % 4; ++i) expect_right(f, image(i), w);
    const void* before = w.data<float>().data();
    step(g);
    if (round > 0) {
      EXPECT_EQ(w.data<float>().data(), before) << "nothing is tested where the memory is another";
    }
  }
}

TEST(JitPacked, updates_in_place_by_the_function_itself) {
  Tensor w = weights(), reference = weights();
  auto f = jit([&](const Tensor& x) {
    Tensor y = convolve(x, w);
    w += 1;
    return y;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor y = f(image(i));
    EXPECT_TRUE(same(y, convolve(image(i), reference))) << "call " << i;
    reference = (reference + 1).realize();
  }
  EXPECT_EQ(f.plans()[0].kept_bytes, 0u);
}

// A result that is forgotten is memory for the next one.
TEST(JitPacked, weights_made_by_another_function) {
  auto make = jit([](const Tensor& v) { return v * 2; });
  auto f = jit([](const Tensor& x, const Tensor& w) { return convolve(x, w); });
  std::set<const void*> addresses;
  for (int i = 0; i < 8; ++i) {
    Tensor v = weights(i / 3), w = make(v);
    addresses.insert(w.data<float>().data());
    for (int k = 0; k < 3; ++k)
      EXPECT_TRUE(same(f(image(k), w), convolve(image(k), (v * 2).realize()))) << "round " << i;
  }
  EXPECT_LT(addresses.size(), 8u) << "nothing is tested where the memory is another";
}

TEST(JitPacked, two_functions_keep_their_own) {
  Tensor w = weights();
  auto f = jit([&](const Tensor& x) { return convolve(x, w); });
  auto g = jit([&](const Tensor& x) { return convolve(x, w) * 2; });
  for (int i = 0; i < 4; ++i) {
    expect_right(f, image(i), w);
    EXPECT_TRUE(same(g(image(i)), convolve(image(i), w) * 2));
  }
  w += 1;
  for (int i = 0; i < 4; ++i) {
    expect_right(f, image(i), w);
    EXPECT_TRUE(same(g(image(i)), convolve(image(i), w) * 2));
  }
}

// A call that fails before it packs leaves nothing that looks packed.
TEST(JitPacked, failed_calls) {
  Tensor w = weights(), table = arange(10).to(DType::f32).realize();
  auto f = jit([&](const Tensor& x, const Tensor& ids) { return convolve(x * take(table, ids).sum(), w); });
  Tensor good = from_vector<int64_t>({1, 2}, {2}), bad = from_vector<int64_t>({1, 12}, {2});
  auto expect = [&](int64_t seed) { EXPECT_TRUE(same(f(image(seed), good), convolve(image(seed) * 3, w))) << seed; };
  expect(0);
  EXPECT_THROW(f(image(1), bad), IndexError);
  EXPECT_THROW(f(image(1), bad), IndexError);
  for (int i = 2; i < 6; ++i) expect(i);
  w += 1;
  expect(6);
  EXPECT_THROW(f(image(1), bad), IndexError);
  for (int i = 7; i < 10; ++i) expect(i);
}

TEST(JitPacked, memory_goes_with_the_function) {
  if (!packs()) GTEST_SKIP() << "weights are not packed on " << device().name();
  const uint64_t before = device().memory().used;
  {
    Tensor w = weights();
    auto f = jit([&](const Tensor& x) { return convolve(x, w); });
    for (int i = 0; i < 4; ++i) f(image(i));
    EXPECT_GT(device().memory().used, before + 2 * static_cast<uint64_t>(w.numel()) * 4);
  }
  EXPECT_EQ(device().memory().used, before);
}

TEST(JitPacked, functions_of_several_threads_share_weights) {
  Tensor w = weights();
  auto work = [&](int64_t seed) {
    auto f = jit([&](const Tensor& x) { return convolve(x, w); });
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(same(f(image(seed + i)), convolve(image(seed + i), w.clone().realize())));
  };
  std::thread other([&] { work(3); });
  work(0);
  other.join();
}

}  // namespace
}  // namespace heddle
