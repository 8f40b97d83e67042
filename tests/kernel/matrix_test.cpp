// Products by a matrix unit that copies: text, rules, and what the interpreter does.
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "kernel/interpreter.h"
#include "kernel/passes.h"
#include "kernel/tensor_maps.h"

namespace heddle::kernel {
namespace {

// c[70, 64] = a[70, 72] * b[72, 64], two blocks of 64 rows, taken in turn.
constexpr const char* kTiles = R"(
kernel @product(in %a: bf16[5040], in %b: bf16[4608], out %c: f32[4480]) threads 256 {
  phase grid() {
    loop turn < 2 {
      %0 = matrix_dot pipeline 2 after (turn * 2) steps (k < 2) %a[0] of (72, 70) by (1, 72) at (k * 64, turn * 64) %b[0] of (64, 72) by (1, 64) at (0, k * 64) transposed : tile<64x64xf32>
      matrix_store %c[0] of (64, 70) by (1, 64) at (0, turn * 64), %0
    }
  }
}
)";

std::string fragments(int count, const char* separator = ", ") {
  std::string s;
  for (int i = 0; i < count; ++i) s += (i ? separator : "") + text("%", i);
  return s;
}

// The same for threads.
std::string threads_text() {
  return text(
      R"(
kernel.thread @product(in %a: bf16[5040], in %b: bf16[4608], out %c: f32[4480]) threads 256 thread t {
  shared %ring: u8[32800]
  shared %leaving: u8[16384]
  phase grid() {
    loop turn < 2 {
      )",
      fragments(16),
      R"( = matrix_dot pipeline 2 after (turn * 2) through %ring steps (k < 2) %a[0] of (72, 70) by (1, 72) at (k * 64, turn * 64) %b[0] of (64, 72) by (1, 64) at (0, k * 64) transposed : vec<2xf32>
      matrix_store through %leaving %c[0] of (64, 70) by (1, 64) at (0, turn * 64), )",
      fragments(16), R"(
    }
  }
}
)");
}

std::vector<float> run(const Kernel& kernel) {
  std::vector<uint16_t> a(5040), b(4608);
  std::vector<float> c(4480, -1);
  auto fill = [](std::vector<uint16_t>& x, int seed) {
    for (size_t i = 0; i < x.size(); ++i)
      store_scalar(x.data(), static_cast<int64_t>(i),
                   Scalar::of(DType::bf16, static_cast<double>((i * 5 + seed) % 7) - 3));
  };
  fill(a, 1);
  fill(b, 2);
  std::vector<void*> buffers = {a.data(), b.data(), c.data()};
  std::vector<int64_t> sizes = {5040, 4608, 4480};
  for (size_t i = 3; i < kernel.buffers.size(); ++i) {
    buffers.push_back(nullptr);
    sizes.push_back(kernel.buffers[i].size.value());
  }
  interpret(kernel, buffers, sizes, {});
  std::vector<float> want(4480);
  for (int64_t i = 0; i < 70; ++i)
    for (int64_t j = 0; j < 64; ++j)
      for (int64_t k = 0; k < 72; ++k)
        want[static_cast<size_t>(i * 64 + j)] += static_cast<float>(load_scalar(a.data(), i * 72 + k, DType::bf16).f *
                                                                    load_scalar(b.data(), k * 64 + j, DType::bf16).f);
  EXPECT_EQ(c, want);
  return c;
}

TEST(Matrix, text_and_meaning_on_both_levels) {
  for (const std::string& source : {std::string(kTiles), threads_text()}) {
    Kernel kernel = parse(source);
    EXPECT_EQ(print(parse(print(kernel))), print(kernel));
    verify(kernel);
    run(kernel);
  }
  Kernel threads = parse(threads_text());
  kernel::run(threads, thread_pipeline());
  verify(threads);
  run(threads);
}

// c = a + s * b for s[64, 128], which is in registers, and b[128, 64], transposed.
std::string left_in_registers(bool threads) {
  std::string tiles = R"(
kernel @product(in %a: f32[4096], in %s: bf16[8192], in %b: bf16[8192], out %c: f32[4096]) threads 256 thread t {
  phase grid() {
    %0 = load %a[d0 * 64 + d1] : tile<64x64xf32>
    %1 = load %s[d0 * 128 + d1] : tile<64x128xbf16>
    %2 = matrix_dot pipeline 2 after (0) adds %0, %1 steps (k < 2) %b[0] of (64, 128) by (1, 64) at (0, k * 64) transposed : tile<64x64xf32>
    matrix_store %c[0] of (64, 64) by (1, 64) at (0, 0), %2
  }
}
)";
  if (!threads) return tiles;
  std::string body;
  for (int i = 0; i < 48; ++i) {
    const bool sum = i < 16;
    const int per_row = sum ? 8 : 16, n = sum ? i : i - 16, half = n / per_row;
    body += text("    %", i, " = load %", sum ? "a" : "s", "[(t // 32 * 16 + t % 32 // 4 + ", half * 8, ") * ",
                 sum ? 64 : 128, " + t % 4 * 2 + ", n % per_row * 8, " + d0] : vec<2x", sum ? "f32" : "bf16", ">\n");
  }
  auto list = [](int from, int to) {
    std::string s;
    for (int i = from; i < to; ++i) s += text(i > from ? ", " : "", "%", i);
    return s;
  };
  return text(
      R"(
kernel.thread @product(in %a: f32[4096], in %s: bf16[8192], in %b: bf16[8192], out %c: f32[4096]) threads 256 thread t {
  shared %ring: u8[16416]
  shared %leaving: u8[16384]
  phase grid() {
)",
      body, "    ", list(48, 64), " = matrix_dot pipeline 2 after (0) through %ring adds ", list(0, 48),
      " steps (k < 2) %b[0] of (64, 128) by (1, 64) at (0, k * 64) transposed : vec<2xf32>\n",
      "    matrix_store through %leaving %c[0] of (64, 64) by (1, 64) at (0, 0), ", list(48, 64), "\n  }\n}\n");
}

TEST(Matrix, adds_to_sums_with_a_left_factor_in_registers) {
  std::vector<float> a(4096), want(4096);
  std::vector<uint16_t> s(8192), b(8192);
  for (size_t i = 0; i < a.size(); ++i) want[i] = a[i] = static_cast<float>(i % 11) - 5;
  for (size_t i = 0; i < s.size(); ++i) {
    store_scalar(s.data(), static_cast<int64_t>(i), Scalar::of(DType::bf16, static_cast<double>(i * 5 % 7) - 3));
    store_scalar(b.data(), static_cast<int64_t>(i), Scalar::of(DType::bf16, static_cast<double>(i * 3 % 5) - 2));
  }
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t j = 0; j < 64; ++j)
      for (int64_t k = 0; k < 128; ++k)
        want[static_cast<size_t>(i * 64 + j)] += static_cast<float>(load_scalar(s.data(), i * 128 + k, DType::bf16).f *
                                                                    load_scalar(b.data(), k * 64 + j, DType::bf16).f);
  for (bool threads : {false, true}) {
    Kernel kernel = parse(left_in_registers(threads));
    EXPECT_EQ(print(parse(print(kernel))), print(kernel));
    std::vector<float> c(4096, -1);
    std::vector<void*> buffers = {a.data(), s.data(), b.data(), c.data()};
    std::vector<int64_t> sizes = {4096, 8192, 8192, 4096};
    for (size_t i = 4; i < kernel.buffers.size(); ++i) {
      buffers.push_back(nullptr);
      sizes.push_back(kernel.buffers[i].size.value());
    }
    interpret(kernel, buffers, sizes, {});
    EXPECT_EQ(c, want);
  }
}

TEST(Matrix, every_element_has_one_holder) {
  for (int64_t columns : {64, 192, 256}) {
    std::vector<int> held(static_cast<size_t>(128 * columns));
    for (int64_t thread = 0; thread < 256; ++thread)
      for (int64_t index = 0; index < columns / 4; ++index)
        for (int64_t lane = 0; lane < 2; ++lane) {
          Fragment at = fragment(thread, index, columns);
          ++held[static_cast<size_t>(at.row * columns + at.column + lane)];
        }
    for (int count : held) ASSERT_EQ(count, 1);
  }
}

TEST(Matrix, descriptors) {
  Kernel kernel = parse(threads_text());
  std::vector<TensorMap> maps = tensor_maps(kernel);
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0].box[0], 64);
  EXPECT_EQ(maps[0].box[1], 64);
  EXPECT_EQ(maps[2].box[0], 32);  // 128 bytes of f32
  EXPECT_EQ(maps[2].region().buffer, 2);
}

TEST(Matrix, results_whose_rows_begin_between_16_bytes_have_no_descriptor) {
  std::string source = threads_text();
  for (auto [from, to] :
       {std::pair("%c: f32[4480]", "%c: f32[4550]"), {"of (64, 70) by (1, 64)", "of (64, 70) by (1, 65)"}})
    source.replace(source.find(from), std::string(from).size(), to);
  Kernel kernel = parse(source);
  verify(kernel);
  std::vector<TensorMap> maps = tensor_maps(kernel);
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[1].region().buffer, 1);
}

TEST(Matrix, broken_rules_are_named) {
  auto problem = [](std::string source, const std::string& from, const std::string& to) {
    source.replace(source.find(from), from.size(), to);
    try {
      verify(parse(source));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  auto expect = [&](const std::string& from, const std::string& to, const std::string& what) {
    EXPECT_NE(problem(kTiles, from, to).find(what), std::string::npos) << problem(kTiles, from, to);
  };
  expect("by (1, 72)", "by (1, 73)", "whose rows begin between them");
  expect("by (1, 72)", "by (2, 72)", "neighbours 2 elements apart");
  expect("%a[0]", "%a[3]", "whose rows begin between them");
  expect("of (72, 70)", "of (turn, 70)", "depends on turn");
  expect("tile<64x64xf32>", "tile<64x64xi32>", "multiplies bf16 into i32");
  expect("out %c", "in %c", "writes to the input %c");
  EXPECT_NE(problem(left_in_registers(false), "64x128xbf16", "64x192xbf16").find("128 deep"), std::string::npos);
  EXPECT_NE(problem(left_in_registers(false), "adds %0, %1", "adds %1, %1").find("adds to tile"), std::string::npos);
  EXPECT_NE(problem(threads_text(), "threads 256", "threads 192").find("192 threads"), std::string::npos);
  EXPECT_NE(problem(threads_text(), "%leaving: u8[16384]", "%leaving: u8[8192]").find("16384 bytes of shared memory"),
            std::string::npos);
  EXPECT_NE(problem(threads_text(), "%ring: u8[32800]", "%ring: u8[32768]").find("32800 bytes of shared memory"),
            std::string::npos);
  EXPECT_NE(
      problem(kTiles, "at (0, k * 64) transposed", "at (0, k * 64) transposed stays").find("factor 1 cannot stay"),
      std::string::npos);
  EXPECT_NE(problem(threads_text(), "vec<2xf32>", "vec<4xf32>").find("a fragment of type"), std::string::npos);
}

TEST(Matrix, all_threads_take_part) {
  std::string source = threads_text();
  const std::string loop = "loop turn < 2 {";
  source.replace(source.find(loop), loop.size(), "branch t < 64 {");
  for (size_t at; (at = source.find("turn * ")) != std::string::npos;) source.replace(at, 7, "0 * ");
  try {
    run(parse(source));
    FAIL();
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("only 64 of 128 threads reach this product"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace heddle::kernel
