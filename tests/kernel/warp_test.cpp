// A matrix unit that warps use: text, rules, and what the interpreter does.
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "kernel/interpreter.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

// c[40, 48] = a[40, 72] * b[72, 48]: one block of 48 x 48, the second factor across the sum.
constexpr const char* kTiles = R"(
kernel @product(in %a: bf16[2880], in %b: bf16[3456], out %c: f32[1920]) threads 32 {
  phase grid() {
    %0 = warp_dot pipeline 2 steps (k < 3) %a[0] of (72, 40) by (1, 72) at (k * 32, 0) %b[0] of (48, 72) by (1, 48) at (0, k * 32) transposed : tile<48x48xf32>
    store %c[d0 * 48 + d1], %0 if d0 < 40
  }
}
)";

// c[16, 16] = a[16, 16] * b[16, 16], by one warp: each lane copies 16 bytes of both, which lie 24 elements apart.
constexpr const char* kThreads = R"(
kernel.thread @product(in %a: bf16[256], in %b: bf16[256], out %c: f32[256]) threads 32 thread t {
  shared %left: bf16[384]
  shared %right: bf16[384]
  phase grid() {
    copy %left[(t // 2) * 24 + (t % 2) * 8], %a[t * 8] first 8
    copy_fence 1
    copy %right[(t // 2) * 24 + (t % 2) * 8], %b[t * 8] first 8
    copy_fence 0
    barrier
    %0 = load_matrix %left[(t % 16) * 24 + (t // 16) * 8]
    %1 = load_matrix %right[(t // 8 % 2) * 192 + (t % 8) * 24 + (t // 16) * 8] transposed
    %2 = constant 0 : vec<2xf32>
    %3, %4, %5, %6 = mma %0, %1, %2, %2, %2, %2
    store %c[(t // 4) * 16 + (t % 4) * 2 + d0], %3
    store %c[(t // 4) * 16 + (t % 4) * 2 + d0 + 128], %4
    store %c[(t // 4) * 16 + (t % 4) * 2 + d0 + 8], %5
    store %c[(t // 4) * 16 + (t % 4) * 2 + d0 + 136], %6
  }
}
)";

std::string replaced(std::string source, const std::string& from, const std::string& to) {
  const size_t at = source.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? source : source.replace(at, from.size(), to);
}

// m x k times k x n.
void expect_product(const Kernel& kernel, int64_t m, int64_t k, int64_t n) {
  std::vector<uint16_t> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
  std::vector<float> c(static_cast<size_t>(m * n), -1), want(c.size());
  auto fill = [](std::vector<uint16_t>& x, size_t seed) {
    for (size_t i = 0; i < x.size(); ++i)
      store_scalar(x.data(), static_cast<int64_t>(i),
                   Scalar::of(DType::bf16, static_cast<double>((i * 5 + i / 11 + seed) % 7) - 3));
  };
  fill(a, 1);
  fill(b, 2);
  std::vector<void*> buffers = {a.data(), b.data(), c.data()};
  std::vector<int64_t> sizes = {m * k, k * n, m * n};
  for (size_t i = 3; i < kernel.buffers.size(); ++i) {
    buffers.push_back(nullptr);
    sizes.push_back(kernel.buffers[i].size.value());
  }
  interpret(kernel, buffers, sizes, {});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        want[static_cast<size_t>(i * n + j)] += static_cast<float>(load_scalar(a.data(), i * k + l, DType::bf16).f *
                                                                   load_scalar(b.data(), l * n + j, DType::bf16).f);
  EXPECT_EQ(c, want);
}

TEST(Warp, text_and_meaning_on_both_levels) {
  for (const char* source : {kTiles, kThreads}) {
    Kernel kernel = parse(source);
    EXPECT_EQ(print(parse(print(kernel))), print(kernel));
    verify(kernel);
  }
  expect_product(parse(kTiles), 40, 72, 48);
  Kernel threads = parse(kThreads);
  expect_product(threads, 16, 16, 16);
  run(threads, thread_pipeline());
  verify(threads);
  expect_product(threads, 16, 16, 16);
}

// The first factor as an expression in both positions, with rows in another order; what a guard leaves out is 0.
constexpr const char* kGathered = R"(
kernel @product(in %a: bf16[2880], in %b: bf16[3456], out %c: f32[1920]) threads 32 {
  phase grid() {
    %0 = warp_dot pipeline 2 steps (k < 3) %a gathers (x < 72, y < 40) [(y // 8) * 576 + (y % 8) * 72 + x if y < 40] at (k * 32, 0) %b[0] of (48, 72) by (1, 48) at (0, k * 32) transposed : tile<48x48xf32>
    store %c[d0 * 48 + d1], %0 if d0 < 40
  }
}
)";

TEST(Warp, gathered_factors) {
  Kernel kernel = parse(kGathered);
  EXPECT_EQ(print(parse(print(kernel))), print(kernel));
  verify(kernel);
  expect_product(kernel, 40, 72, 48);
  Kernel half = parse(replaced(kGathered, "+ x if y < 40]", "+ x if x // 8 % 2 == 0]"));
  EXPECT_EQ(print(parse(print(half))), print(half));
  verify(half);
  auto refused = [&](const char* from, const char* to, const char* why) {
    try {
      verify(parse(replaced(kGathered, from, to)));
      ADD_FAILURE() << "nothing is wrong with " << to;
    } catch (const InternalError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  refused("(y % 8) * 72 + x", "(y % 8) * 72 + x * 2", "not neighbours");
  refused("(y % 8) * 72 + x", "(y % 8) * 71 + x", "not neighbours");
  refused("if y < 40", "if x % 2 == 0", "not neighbours");
  refused("gathers (x < 72,", "gathers (x < 71,", "no whole pieces");
  refused("at (k * 32, 0) %b", "at (k * 32 + 1, 0) %b", "inside a piece");
}

// Elements from `first` on are 0, and so is everything where the guard fails; neither is read.
TEST(Warp, copies_of_a_part_fill_up_with_zeros) {
  Kernel kernel = parse(R"(
kernel.thread @part(in %a: i32[50], out %c: i32[128]) threads 32 thread t {
  shared %ring: i32[128]
  phase grid() {
    copy %ring[t * 4], %a[t * 4] first min(max(50 - t * 4, 0), 4) if t % 2 == 0
    copy_fence 0
    %0 = load %ring[t * 4 + d0] : vec<4xi32>
    store %c[t * 4 + d0], %0
  }
}
)");
  EXPECT_EQ(print(parse(print(kernel))), print(kernel));
  std::vector<int32_t> a(50), c(128, -1), want(128, 0);
  for (int32_t i = 0; i < 50; ++i) a[static_cast<size_t>(i)] = i + 1;
  for (int32_t i = 0; i < 50; ++i)
    if (i / 4 % 2 == 0) want[static_cast<size_t>(i)] = i + 1;
  std::vector<void*> buffers = {a.data(), c.data(), nullptr};
  std::vector<int64_t> sizes = {50, 128, 128};
  interpret(kernel, buffers, sizes, {});
  EXPECT_EQ(c, want);
}

TEST(Warp, what_has_not_arrived_is_rubbish) {
  // The last group is still on its way.
  Kernel early = parse(replaced(kThreads, "copy_fence 0", "copy_fence 1"));
  std::vector<uint16_t> a(256, 0x3f80), b(256, 0x3f80);
  std::vector<float> c(256);
  std::vector<void*> buffers = {a.data(), b.data(), c.data(), nullptr, nullptr};
  std::vector<int64_t> sizes = {256, 256, 256, 384, 384};
  interpret(early, buffers, sizes, {});
  EXPECT_NE(c[0], 16);
  interpret(parse(kThreads), buffers, sizes, {});
  EXPECT_EQ(c[0], 16);
}

std::string problem_of_run(const std::string& source) {
  std::vector<uint16_t> a(256), b(256);
  std::vector<float> c(256);
  std::vector<void*> buffers = {a.data(), b.data(), c.data(), nullptr, nullptr};
  std::vector<int64_t> sizes = {256, 256, 256, 384, 384};
  try {
    interpret(parse(source), buffers, sizes, {});
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "";
}

TEST(Warp, races_and_missing_threads_are_found) {
  EXPECT_NE(problem_of_run(replaced(kThreads, "    barrier\n", "")).find("two threads without a barrier"),
            std::string::npos);
  EXPECT_NE(problem_of_run(replaced(kThreads, "%a[t * 8]", "%a[t * 16]")).find("is outside the buffer"),
            std::string::npos);
  std::string some = replaced(kThreads, "%0 = load_matrix",
                              "branch t < 16 {\n      %9 = load_matrix %left[0]\n    }\n    %0 = load_matrix");
  EXPECT_NE(problem_of_run(some).find("only 16 threads of the warp from thread 0 reach this fragment"),
            std::string::npos);
}

TEST(Warp, broken_rules_are_named) {
  auto expect = [](const char* source, const std::string& from, const std::string& to, const std::string& what) {
    std::string problem;
    try {
      verify(parse(replaced(source, from, to)));
    } catch (const Error& e) {
      problem = e.what();
    }
    EXPECT_NE(problem.find(what), std::string::npos) << what << ": " << problem;
  };
  expect(kTiles, "pipeline 2", "pipeline 1", "has room for 1 stages");
  expect(kTiles, "tile<48x48xf32>", "tile<48x48xi32>", "multiplies bf16 into i32");
  expect(kTiles, "by (1, 72)", "by (1, 73)", "whose rows begin between them");
  expect(kThreads, "%a[t * 8] first 8", "%a[t * 8 + 4] first 8", "copies 16 bytes at element");
  expect(kThreads, "%a[t * 8] first 8", "%a[t * 8] first 9", "copies 9 elements");
  expect(kThreads, "%a[t * 8]", "%right[t * 8]", "copies from %right to %left");
  expect(kThreads, "load_matrix %left[(t % 16) * 24", "load_matrix %left[(t % 16) * 20", "reads 16 bytes at element");
  expect(kThreads, "load_matrix %left", "load_matrix %a", "which is not shared");
  expect(kThreads, "constant 0 : vec<2xf32>", "constant 0 : vec<2xi32>", "multiplies bf16 into i32");
  expect(kThreads, "threads 32", "threads 48", "needs whole warps");
  expect(kThreads, "mma %0, %1, %2", "mma %0, %2, %2", "a fragment of type");
}

}  // namespace
}  // namespace heddle::kernel
