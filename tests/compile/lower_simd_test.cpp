// The SIMD lowering against the interpreter: the tile-level program and its thread-level form give the same memory.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "compile/lower.h"
#include "kernel/builder.h"
#include "kernel/interpreter.h"
#include "simt_programs.h"

namespace heddle {
namespace {

using kernel::Builder;
using kernel::Dims;
using kernel::Kernel;
using kernel::Space;
using kernel::Value;

// Memory for every buffer of a kernel, filled from a seed.
struct Memory {
  std::vector<std::vector<char>> bytes;
  std::vector<void*> pointers;
  std::vector<int64_t> sizes;
};

Memory make_memory(const Kernel& k, const std::vector<int64_t>& symbols, unsigned seed) {
  std::mt19937 random(seed);
  Memory m;
  for (const kernel::Buffer& b : k.buffers) {
    int64_t n = evaluate(b.size, [&](const Expr& v) {
      for (size_t i = 0; i < k.symbols.size(); ++i)
        if (k.symbols[i] == v) return symbols[i];
      return int64_t{0};
    });
    std::vector<char> data(static_cast<size_t>(n * size_of(b.dtype)) + 1);
    bool local = b.space == Space::Local;
    for (int64_t e = 0; e < n && !local; ++e) {
      double real = static_cast<double>(random() % 4096) / 1024.0 - 2.0;
      Scalar s =
          is_float(b.dtype) ? Scalar::of(b.dtype, real) : Scalar::of(b.dtype, static_cast<int64_t>(random() % 50));
      store_scalar(data.data(), e, s);
    }
    m.bytes.push_back(std::move(data));
    m.pointers.push_back(local ? nullptr : m.bytes.back().data());
    m.sizes.push_back(n);
  }
  return m;
}

Target avx512() { return Target{}; }
Target neon() {
  Target t;
  t.name = "neon";
  t.vector_bytes = 16;
  return t;
}
Target avx2() {
  Target t;
  t.name = "avx2";
  t.vector_bytes = 32;
  t.vector_registers = 16;
  return t;
}

// Lowers, checks, runs both and compares all memory; gives the lowered text.
std::string expect_same(const Kernel& tile, double tolerance = 0, const std::vector<int64_t>& symbols = {},
                        const Target& target = avx512()) {
  verify(tile);
  Kernel threads = lower_simd(tile, target);
  std::string text = print(threads);
  EXPECT_NO_THROW(verify(threads)) << text;
  EXPECT_EQ(threads.threads, 1);
  EXPECT_EQ(threads.level, kernel::Level::Thread);
  Memory expected = make_memory(tile, symbols, 1), actual = make_memory(threads, symbols, 1);
  // Locals that lowering adds come after all others, so both start with the same data.
  interpret(tile, expected.pointers, expected.sizes, symbols);
  try {
    interpret(threads, actual.pointers, actual.sizes, symbols);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what() << "\n" << print(tile) << text;
    return text;
  }
  for (size_t b = 0; b < tile.buffers.size(); ++b) {
    const kernel::Buffer& buffer = tile.buffers[b];
    if (buffer.space == Space::Local) continue;
    for (int64_t e = 0; e < expected.sizes[b]; ++e) {
      Scalar want = load_scalar(expected.pointers[b], e, buffer.dtype);
      Scalar got = load_scalar(actual.pointers[b], e, buffer.dtype);
      if (want == got) continue;
      double w = want.as_double(), g = got.as_double();
      if (w == g || std::abs(w - g) <= tolerance * (1 + std::abs(w))) continue;
      ADD_FAILURE() << "element " << e << " of %" << buffer.name << " is " << got << ", should be " << want << "\n"
                    << print(tile) << text;
      return text;
    }
  }
  return text;
}

std::string expect_same(const std::string& tile, double tolerance = 0, const std::vector<int64_t>& symbols = {},
                        const Target& target = avx512()) {
  return expect_same(kernel::parse(tile), tolerance, symbols, target);
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// From the line that opens the n-th loop to the line that closes it.
std::string loop_text(const std::string& text, int n) {
  size_t at = 0;
  for (int i = 0; i <= n; ++i) at = text.find("loop ", at) + 1;
  size_t line = text.rfind('\n', at) + 1;
  size_t indent = text.find_first_not_of(' ', line) - line;
  size_t end = text.find("\n" + std::string(indent, ' ') + "}", at);
  return text.substr(line, end - line);
}

std::string with(std::string text, const std::string& name, int64_t value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name))
    text.replace(at, name.size(), std::to_string(value));
  return text;
}

TEST(LowerSimd, programs_of_all_kinds_keep_their_meaning) {
  for (const testing::SimtProgram& p : testing::simt_programs()) {
    SCOPED_TRACE(p.name);
    Kernel k = kernel::parse(p.text);
    std::vector<int64_t> symbols;
    for (const Expr& s : k.symbols) symbols.push_back(std::min<int64_t>(s.hi(), 431));
    expect_same(k, p.tolerance, symbols);
    expect_same(k, p.tolerance, symbols, avx2());
  }
}

const char* const kElementwise = R"(
kernel @chain(in %x: f32[SIZE], in %w: f32[SIZE], out %y: f32[SIZE]) {
  phase grid(c < (SIZE + 255) // 256) {
    %a = load %x[c * 256 + d0] if c * 256 + d0 < SIZE : tile<256xf32>
    %b = load %w[c * 256 + d0] if c * 256 + d0 < SIZE : tile<256xf32>
    %m = mul %a, %b
    %t = tanh %m
    %s = add %t, %a
    store %y[c * 256 + d0], %s if c * 256 + d0 < SIZE
  }
}
)";

TEST(LowerSimd, elementwise_of_odd_sizes) {
  for (int64_t n : {1, 3, 15, 16, 17, 255, 256, 257, 1023}) expect_same(with(kElementwise, "SIZE", n));
}

TEST(LowerSimd, elementwise_main_loop_is_of_full_unmasked_vectors) {
  std::string text = expect_same(with(kElementwise, "SIZE", 4097));
  std::string main = loop_text(text, 0);
  EXPECT_GT(count(main, "vec<16xf32>"), 0) << text;
  EXPECT_EQ(count(main, " if "), 0) << text;
  EXPECT_EQ(count(main, ": f32"), 0) << text;
}

const char* const kSoftmax = R"(
kernel @softmax(in %x: f32[ROWS * COLS], out %y: f32[ROWS * COLS]) {
  phase grid(r < ROWS) {
    %v = load %x[r * COLS + d1] : tile<1xCOLSxf32>
    %m = reduce maximum %v axis 1
    %d = sub %v, %m
    %e = exp %d
    %s = reduce add %e axis 1
    %q = div %e, %s
    store %y[r * COLS + d1], %q
  }
}
)";

TEST(LowerSimd, softmax_of_odd_rows) {
  for (int64_t n : {1, 2, 3, 16, 17, 50, 64, 129, 4097}) expect_same(with(with(kSoftmax, "COLS", n), "ROWS", 2), 1e-5);
}

TEST(LowerSimd, softmax_has_no_scalar_loops_and_computes_exp_once) {
  std::string text = expect_same(with(with(kSoftmax, "COLS", 4096), "ROWS", 1), 1e-5);
  EXPECT_EQ(count(text, "loop "), 3) << text;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(count(loop_text(text, i), "load"), count(loop_text(text, i), ": vec<16xf32>"));
  EXPECT_EQ(count(text, " = exp "), 2) << text;  // unrolled twice in one loop
}

TEST(LowerSimd, short_rows_stay_in_registers) {
  std::string text = expect_same(with(with(kSoftmax, "COLS", 64), "ROWS", 3), 1e-5);
  EXPECT_EQ(count(text, "local"), 0) << text;
  EXPECT_EQ(count(text, "= load"), 4) << text;
  EXPECT_EQ(count(text, "loop "), 0) << text;
}

TEST(LowerSimd, many_short_rows_are_vectors_of_rows) {
  std::string text = expect_same(R"(
kernel @rows(in %x: f32[1023], out %y: f32[1023]) {
  phase grid(c < 1) {
    %v = load %x[d0 * 3 + d1] : tile<341x3xf32>
    %m = reduce maximum %v axis 1
    %d = sub %v, %m
    %e = exp %d
    %s = reduce add %e axis 1
    %q = div %e, %s
    store %y[d0 * 3 + d1], %q
  }
}
)",
                                 1e-5);
  EXPECT_EQ(count(text, "local"), 0) << text;
  EXPECT_EQ(count(text, "= reduce"), 0) << text;
}

TEST(LowerSimd, rows_of_a_tile_go_through_all_steps_together) {
  std::string text = expect_same(R"(
kernel @layernorm(in %x: f32[6400], in %g: f32[100], out %y: f32[6400]) {
  phase grid(c < 2) {
    %v = load %x[(c * 40 + d0) * 100 + d1] if c * 40 + d0 < 64 : tile<40x100xf32>
    %n = constant 0.01 : f32
    %s = reduce add %v axis 1
    %q = mul %v, %v
    %s2 = reduce add %q axis 1
    %mu = mul %s, %n
    %e2 = mul %s2, %n
    %mm = mul %mu, %mu
    %var = sub %e2, %mm
    %sd = sqrt %var
    %d = sub %v, %mu
    %r = div %d, %sd
    %w = load %g[d1] : tile<1x100xf32>
    %o = mul %r, %w
    store %y[(c * 40 + d0) * 100 + d1], %o if c * 40 + d0 < 64
  }
}
)",
                                 1e-4);
  EXPECT_EQ(count(text, "local"), 0) << text;
  EXPECT_EQ(count(text, "sqrt"), 1) << text;
}

const char* const kShortRows = R"(
kernel @log_softmax(in %x: f32[ROWS * COLS], out %y: f32[ROWS * COLS]) {
  phase grid(c < 1) {
    %v = load %x[d0 * COLS + d1] : tile<ROWSxCOLSxf32>
    %m = reduce maximum %v axis 1
    %d = sub %v, %m
    %e = exp %d
    %s = reduce add %e axis 1
    %l = log %s
    %q = sub %d, %l
    store %y[d0 * COLS + d1], %q
  }
}
)";

TEST(LowerSimd, short_rows_share_the_vectors_of_what_is_computed_once_per_row) {
  for (int64_t rows : {2, 4, 7, 12, 16, 32, 33, 34})
    for (int64_t columns : {8, 50, 64, 500}) expect_same(with(with(kShortRows, "COLS", columns), "ROWS", rows), 1e-5);
  std::string text = expect_same(with(with(kShortRows, "COLS", 64), "ROWS", 32), 1e-5);
  EXPECT_EQ(count(text, " = log "), 1) << text;
  size_t log = text.find(" = log ");
  size_t loaded = text.rfind(" = load ", log);
  EXPECT_EQ(count(text.substr(loaded, log - loaded), ": vec<16xf32>"), 1) << text;
}

TEST(LowerSimd, softmax_over_the_outer_dimension) {
  expect_same(R"(
kernel @columns(in %x: f32[7400], out %y: f32[7400]) {
  phase grid(c < 1) {
    %v = load %x[d1 * 200 + d0] : tile<200x37xf32>
    %m = reduce maximum %v axis 1
    %d = sub %v, %m
    %e = exp %d
    %s = reduce add %e axis 1
    %q = div %e, %s
    store %y[d1 * 200 + d0], %q
  }
}
)",
              1e-5);
}

const char* const kMatmul = R"(
kernel @matmul(in %a: f32[6 * 384], in %b: f32[64 * 384], out %c: f32[6 * 64]) {
  phase grid(t < 1) {
    %zero = constant 0 : tile<6x64x1xf32>
    %sum = loop k < 2 carry(%acc = %zero) {
      %x = load %a[(k * 192 + d2) * 6 + d0] : tile<6x1x192xf32>
      %w = load %b[(k * 192 + d2) * 64 + d1] : tile<1x64x192xf32>
      %n = dot %x, %w, %acc axis 2
      yield %n
    }
    store %c[d0 * 64 + d1], %sum
  }
}
)";

TEST(LowerSimd, micro_kernel_keeps_its_sums_in_registers) {
  std::string text = expect_same(kMatmul, 1e-4);
  std::string inner = loop_text(text, 1);
  int fma = count(inner, "= fma"), scalar = count(inner, "load %a"), vector = count(inner, "load %b");
  EXPECT_EQ(fma % 24, 0) << text;
  EXPECT_EQ(scalar, fma / 4) << text;
  EXPECT_EQ(vector, fma / 6) << text;
  EXPECT_EQ(count(inner, "store"), 0) << text;
  EXPECT_EQ(count(text, "local"), 0) << text;
}

TEST(LowerSimd, dot_of_rows_uses_vectors_along_the_sum) {
  std::string text = expect_same(R"(
kernel @gemv(in %a: f32[8 * 1000], in %x: f32[1000], out %y: f32[8]) {
  phase grid(c < 1) {
    %w = load %a[d0 * 1000 + d1] : tile<8x1000xf32>
    %v = load %x[d1] : tile<1x1000xf32>
    %zero = constant 0 : f32
    %r = dot %w, %v, %zero axis 1
    store %y[d0], %r
  }
}
)",
                                 1e-4);
  EXPECT_EQ(count(loop_text(text, 0), "load %x"), 1) << text;
  EXPECT_EQ(count(loop_text(text, 0), "= fma"), 8) << text;
}

TEST(LowerSimd, dots_of_other_types_and_large_sums) {
  expect_same(R"(
kernel @f64dot(in %a: f64[60 * 33], in %b: f64[33 * 70], out %c: f64[60 * 70]) {
  phase grid(t < 10) {
    %zero = constant 0 : tile<6x70x1xf64>
    %r = loop k < 3 carry(%acc = %zero) {
      %x = load %a[(t * 6 + d0) * 33 + k * 11 + d2] : tile<6x1x11xf64>
      %w = load %b[(k * 11 + d2) * 70 + d1] : tile<1x70x11xf64>
      %n = dot %x, %w, %acc axis 2
      yield %n
    }
    store %c[(t * 6 + d0) * 70 + d1], %r
  }
}
)",
              1e-12);
  expect_same(R"(
kernel @i8dot(in %a: i8[20 * 30], in %b: i8[30 * 40], out %c: i32[20 * 40]) {
  phase grid(t < 1) {
    %x = load %a[d0 * 30 + d2] : tile<20x1x30xi8>
    %w = load %b[d2 * 40 + d1] : tile<1x40x30xi8>
    %zero = constant 0 : i32
    %r = dot %x, %w, %zero axis 2
    store %c[d0 * 40 + d1], %r
  }
}
)");
  // Both operands contiguous along the sum, a guard that cuts the sum off, another tile as the start.
  expect_same(R"(
kernel @abt(in %a: f32[9 * 100], in %b: f32[10 * 100], in %s: f32[90], out %c: f32[90]) {
  phase grid(t < 1) {
    %x = load %a[d0 * 100 + d2] if d2 < 100 : tile<9x1x128xf32>
    %w = load %b[d1 * 100 + d2] if d2 < 100 : tile<1x10x128xf32>
    %z = load %s[d0 * 10 + d1] : tile<9x10x1xf32>
    %r = dot %x, %w, %z axis 2 if d2 < 100
    %q = neg %r
    store %c[d0 * 10 + d1], %q
  }
}
)",
              1e-4);
}

TEST(LowerSimd, dot_with_a_large_carried_tile_adds_in_place) {
  std::string text = expect_same(R"(
kernel @big(in %a: f32[32 * 40], in %b: f32[64 * 40], out %c: f32[32 * 64]) {
  phase grid(t < 1) {
    %zero = constant 0 : tile<32x64x1xf32>
    %r = loop k < 4 carry(%acc = %zero) {
      %x = load %a[d0 * 40 + k * 10 + d2] : tile<32x1x10xf32>
      %w = load %b[(k * 10 + d2) * 64 + d1] : tile<1x64x10xf32>
      %n = dot %x, %w, %acc axis 2
      yield %n
    }
    store %c[d0 * 64 + d1], %r
  }
}
)",
                                 1e-4);
  EXPECT_EQ(count(text, "  local "), 1) << text;
}

TEST(LowerSimd, dot_does_not_add_in_place_when_the_old_sum_is_read_later) {
  expect_same(R"(
kernel @old(in %a: i32[32 * 40], in %b: i32[64 * 40], out %c: i32[32 * 64], out %d: i32[32 * 64]) {
  phase grid(t < 1) {
    %zero = constant 0 : tile<32x64x1xi32>
    %r = loop k < 4 carry(%acc = %zero) {
      %x = load %a[d0 * 40 + k * 10 + d2] : tile<32x1x10xi32>
      %w = load %b[(k * 10 + d2) * 64 + d1] : tile<1x64x10xi32>
      %n = dot %x, %w, %acc axis 2
      %step = sub %n, %acc
      store %d[d0 * 64 + d1], %step
      yield %n
    }
    store %c[d0 * 64 + d1], %r
  }
}
)");
}

TEST(LowerSimd, tuple_reducers) {
  for (bool peeled : {false, true}) {
    std::string rows = peeled ? "4" : "1";
    expect_same(R"(
kernel @welford(in %x: f64[4000], out %mean: f64[4], out %m2: f64[4]) {
  phase grid(r < 4 // )" +
                    rows + R"() {
    %v = load %x[(r * )" +
                    rows + R"( + d0) * 1000 + d1] : tile<)" + rows + R"(x1000xf64>
    %one = constant 1 : tile<)" +
                    rows + R"(x1000xf64>
    %zero = constant 0 : tile<)" +
                    rows + R"(x1000xf64>
    %n, %mu, %s = reduce {
      (%0: f64, %1: f64, %2: f64, %3: f64, %4: f64, %5: f64)
      %6 = add %0, %3
      %7 = sub %4, %1
      %c = constant 1 : f64
      %8 = maximum %6, %c
      %9 = div %3, %8
      %10 = mul %7, %9
      %11 = add %1, %10
      %12 = add %2, %5
      %13 = mul %7, %7
      %14 = mul %13, %0
      %15 = mul %14, %9
      %16 = add %12, %15
      yield %6, %11, %16
    } identity(0, 0, 0) %one, %v, %zero axis 1
    store %mean[r * )" +
                    rows + R"( + d0], %mu
    store %m2[r * )" +
                    rows + R"( + d0], %s
  }
}
)",
                1e-10);
  }
}

TEST(LowerSimd, two_reductions_of_one_tile_share_a_nest_with_a_store) {
  std::string text = expect_same(R"(
kernel @shared(in %x: i32[5000], out %y: i32[5000], out %s: i32[1], out %m: i32[1]) {
  phase grid(r < 1) {
    %v = load %x[d0] : tile<5000xi32>
    %a = reduce add %v axis 0
    %b = reduce maximum %v axis 0
    %n = neg %v
    store %y[d0], %n
    store %s[0], %a
    store %m[0], %b
  }
}
)");
  EXPECT_EQ(count(text, "loop "), 1) << text;
}

TEST(LowerSimd, loads_do_not_move_across_stores_to_their_buffer) {
  expect_same(R"(
kernel @swap(inout %x: f32[600], inout %z: f32[600]) {
  phase grid(c < 1) {
    %a = load %x[d0] : tile<600xf32>
    %b = load %z[599 - d0] : tile<600xf32>
    store %x[d0], %b
    %late = load %x[d0] : tile<600xf32>
    %s = add %a, %late
    store %z[d0], %s
  }
}
)");
  expect_same(R"(
kernel @shift(inout %x: i32[1000]) {
  phase grid(c < 1) {
    %a = load %x[d0] : tile<999xi32>
    store %x[d0 + 1], %a
  }
}
)");
  expect_same(R"(
kernel @back(inout %x: i32[600], in %z: i32[600], out %y: i32[600]) {
  phase grid(c < 1) {
    %a = load %z[d0] : tile<600xi32>
    store %x[d0], %a
    %late = load %x[599 - d0] : tile<600xi32>
    store %y[d0], %late
  }
}
)");
  expect_same(R"(
kernel @captured(inout %x: i32[64], out %y: i32[64]) {
  phase grid(c < 1) {
    %a = load %x[d0] : tile<64xi32>
    loop i < 3 {
      %b = load %x[d0] : tile<64xi32>
      %s = add %a, %b
      store %x[63 - d0], %s
    }
    store %y[d0], %a
  }
}
)");
}

TEST(LowerSimd, softmax_in_place) {
  expect_same(R"(
kernel @inplace(inout %x: f32[1500]) {
  phase grid(c < 1) {
    %v = load %x[d0 * 100 + d1] : tile<15x100xf32>
    %m = reduce maximum %v axis 1
    %d = sub %v, %m
    %e = exp %d
    %s = reduce add %e axis 1
    %q = div %e, %s
    store %x[d0 * 100 + d1], %q
  }
}
)",
              1e-5);
}

TEST(LowerSimd, pads_transposes_strides_and_rank_3) {
  expect_same(R"(
kernel @pad(in %x: f32[30 * 20], out %y: f32[34 * 26]) {
  phase grid(c < 1) {
    %v = load %x[(d0 - 2) * 20 + d1 - 3] if d0 < 32 && 1 < d0 && d1 < 23 && 2 < d1 : tile<34x26xf32>
    store %y[d0 * 26 + d1], %v
  }
}
)");
  expect_same(R"(
kernel @permute(in %x: i32[7 * 9 * 33], out %y: i32[7 * 9 * 33], out %r: i32[7 * 33]) {
  phase grid(c < 1) {
    %v = load %x[d0 * 297 + d1 * 33 + d2] : tile<7x9x33xi32>
    store %y[d2 * 63 + d0 * 9 + d1], %v
    %s = reduce add %v axis 1
    store %r[d2 * 7 + d0], %s
  }
}
)");
  expect_same(R"(
kernel @strided(in %x: i16[3000], out %y: i16[1000], out %z: i16[1000]) {
  phase grid(c < 1) {
    %v = load %x[d0 * 3 + 1] : tile<1000xi16>
    %w = load %x[2999 - d0] : tile<1000xi16>
    %s = add %v, %w
    store %y[d0], %s
    store %z[999 - d0], %v
  }
}
)");
}

const char* const kRowsCopied = R"(
kernel @rows(in %x: TYPE[8 * 700], out %y: TYPE[8 * COLS]) {
  phase grid(c < 4) {
    %v = load %x[(c * 2 + d0) * 700 + d1 + 5] : tile<2xCOLSxTYPE>
    store %y[(c * 2 + d0) * COLS + d1], %v stream
  }
}
)";

// The streamed stores of rows that start anywhere are aligned but for their ends.
TEST(LowerSimd, streamed_rows_of_odd_length_are_stored_in_aligned_vectors) {
  for (const char* type : {"f32", "bf16", "i8", "f64"})
    for (int64_t columns : {128, 129, 140, 255, 513, 690})
      for (const Target& target : {avx512(), avx2()}) {
        std::string tile = with(kRowsCopied, "COLS", columns);
        for (size_t at = tile.find("TYPE"); at != std::string::npos; at = tile.find("TYPE")) tile.replace(at, 4, type);
        SCOPED_TRACE(tile);
        expect_same(tile, 0, {}, target);
      }
  std::string tile = with(kRowsCopied, "COLS", 513);
  for (size_t at = tile.find("TYPE"); at != std::string::npos; at = tile.find("TYPE")) tile.replace(at, 4, "f32");
  Kernel lowered = lower(kernel::parse(tile), avx512());
  int full = 0;
  for (const kernel::Phase& phase : lowered.phases)
    kernel::visit(phase.body, [&](const kernel::Inst& inst) {
      if (inst.op != kernel::Op::store || !inst.guard.is_const(1)) return;
      ++full;
      Expr first = substitute(inst.address, {{inst.coords[0], 0}});
      EXPECT_TRUE(mod(first, 16).is_const(0)) << to_string(first);
    });
  EXPECT_GE(full, 1) << print(lowered);
}

TEST(LowerSimd, transposed_tiles_are_read_along_memory) {
  std::string text = expect_same(R"(
kernel @turn(in %x: f32[64 * 1024], out %y: f32[64 * 1024]) {
  phase grid(c < 16) {
    %v = load %x[d1 * 1024 + c * 64 + d0] if c * 64 + d0 < 1024 : tile<64x64xf32>
    %n = neg %v
    store %y[(c * 64 + d0) * 64 + d1], %n if c * 64 + d0 < 1024
  }
}
)");
  EXPECT_EQ(count(text, " = transpose "), 1) << text;
  EXPECT_EQ(count(text, "load %x["), 16) << text;
  for (size_t at = text.find("load %x["); at != std::string::npos; at = text.find("load %x[", at + 1))
    EXPECT_EQ(text.substr(at, text.find(']', at) - at).find("d0 *"), std::string::npos) << text;
}

// Squares in the middle, what is left of them at the edges: in registers where the code is short, row by row through
// scratch where it is long. In bounds everywhere, or the interpreter objects.
TEST(LowerSimd, squares_of_any_dtype_size_and_edge) {
  const std::string head = R"(
kernel @turn(in %x: T[R * C], in %y: T[R * C], in %r: T[R], in %c: T[C], out %z: T[R * C], out %w: T[R * C]) {
  phase grid(i < (R + 39) // 40, j < (C + 69) // 70) {
    %0 = load %x[(j * 70 + d1) * R + i * 40 + d0] if i * 40 + d0 < R && j * 70 + d1 < C : tile<40x70xT>
    %1 = load %y[(i * 40 + d0) * C + j * 70 + d1] if i * 40 + d0 < R && j * 70 + d1 < C : tile<40x70xT>
    %2 = maximum %0, %1
)";
  const std::string longer = R"(
    %3 = load %r[i * 40 + d0] if i * 40 + d0 < R : tile<40x1xT>
    %4 = load %c[j * 70 + d1] if j * 70 + d1 < C : tile<1x70xT>
    %5 = load %x[(j * 70 + d1) * R + i * 40 + d0 - 3] if i * 40 + d0 < R && j * 70 + d1 < C && i * 40 + d0 > 5 && d1 > 2 : tile<40x70xT>
    %6 = minimum %3, %4
    %7 = maximum %2, %6
    %8 = maximum %7, %5
    store %w[(i * 40 + d0) * C + j * 70 + d1], %8 if i * 40 + d0 < R && j * 70 + d1 < C
)";
  const std::string tail = R"(
    store %z[(i * 40 + d0) * C + j * 70 + d1], %2 if i * 40 + d0 < R && j * 70 + d1 < C
  }
}
)";
  for (const Target& target : {avx512(), avx2(), neon()})
    for (const char* dtype : {"f64", "f32", "bf16", "i8", "bool"})
      for (const char* sizes : {"70 90", "80 140", "17 64"})
        for (bool is_long : {false, true}) {
          const std::string rows(sizes, 2), columns(sizes + 3);
          std::string filled;
          for (char c : head + (is_long ? longer : "") + tail)
            filled += c == 'T' ? std::string(dtype) : c == 'R' ? rows : c == 'C' ? columns : std::string(1, c);
          std::string text = expect_same(filled, 0, {}, target);
          EXPECT_EQ(count(text, " = transpose "), is_long ? 2 : 1) << text;
          EXPECT_EQ(count(text, "local %"), is_long ? 2 : 0) << text;
        }
}

TEST(LowerSimd, guards_with_data_in_them) {
  expect_same(R"(
kernel @masked(in %x: f32[300], in %len: i32[3], in %at: i32[300], out %y: f32[3], out %z: f32[300]) {
  phase grid(c < 3) {
    %n = load %len[c] : tile<1x1xi32>
    %v = load %x[c * 100 + d1] : tile<1x100xf32>
    %s = reduce add %v axis 1 with v0 in [0, 100] multiple 1 = %n if d1 < v0
    store %y[c], %s
    %j = load %at[c * 100 + d1] : tile<1x100xi32>
    %g = load %x[v0] with v0 < 300 = %j if v0 < 40 : tile<1x100xf32>
    store %z[c * 100 + d1], %g
  }
}
)",
              1e-5);
}

TEST(LowerSimd, zero_trip_loops_and_false_guards) {
  const char* text = R"(
kernel @none(in %x: f32[n * 4 + 1], out %y: f32[100], out %s: f32[4]) symbols(n in [0, 100]) {
  phase grid(c < 4) {
    %zero = constant 0 : tile<1x40xf32>
    %acc = loop i < n // 40 carry(%a = %zero) {
      %v = load %x[c * n + i * 40 + d1] : tile<1x40xf32>
      %t = add %a, %v
      yield %t
    }
    %w = load %x[c * n + (n // 40) * 40 + d1] if (n // 40) * 40 + d1 < n : tile<1x40xf32>
    %r = reduce add %w axis 1 if (n // 40) * 40 + d1 < n
    %q = reduce add %acc axis 1
    %o = add %r, %q
    store %s[c], %o if c < n
    %b = constant 7 : tile<1x25xf32>
    store %y[c * 25 + d1], %b if c * 30 < n && d1 < n
  }
}
)";
  for (int64_t n : {0, 1, 39, 40, 41, 100}) expect_same(text, 1e-5, {n});
}

TEST(LowerSimd, carried_tiles_in_memory_and_registers) {
  expect_same(R"(
kernel @fib(out %y: i32[2000], out %z: i32[40]) {
  phase grid(c < 1) {
    %a = index d0 : tile<2000xi32>
    %b = constant 1 : tile<2000xi32>
    %p, %q = loop i < 6 carry(%u = %a, %v = %b) {
      %n = add %u, %v
      yield %v, %n
    }
    store %y[d0], %q
    %s = index d0 : tile<40xi32>
    %t = constant 2 : tile<40xi32>
    %g, %h = loop i < 5 carry(%u = %s, %v = %t) {
      %n = add %u, %v
      yield %v, %n
    }
    store %z[d0], %h
  }
}
)");
  expect_same(R"(
kernel @shapes(in %x: i32[4800], out %y: i32[4800], out %z: i32[600]) {
  phase grid(c < 1) {
    %a = load %x[d0 * 8 + d1] : tile<600x8xi32>
    %one = constant 1 : tile<600x1xi32>
    %p, %q = loop i < 4 carry(%v = %one, %u = %a) {
      %n = add %u, %v
      %m = add %v, %v
      yield %m, %n
    }
    store %y[d0 * 8 + d1], %q
    store %z[d0], %p
  }
}
)");
  expect_same(R"(
kernel @rowscale(in %x: i32[3000], out %y: i32[3000]) {
  phase grid(c < 1) {
    %a = load %x[d0 * 100 + d1] : tile<30x100xi32>
    %one = constant 1 : tile<30x1xi32>
    %p, %q = loop i < 4 carry(%u = %a, %v = %one) {
      %n = add %u, %v
      %m = reduce maximum %n axis 1
      %k = sub %n, %m
      yield %k, %m
    }
    %r = add %p, %q
    store %y[d0 * 100 + d1], %r
  }
}
)");
}

// Random programs over i32, where any order of a sum gives the same bits.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Kernel make() {
    k_.name = "random";
    rank_ = 1 + pick(3);
    for (int d = 0; d < rank_; ++d) dims_.push_back(size());
    kernel::Phase& phase = k_.phases.emplace_back();
    cell_ = Expr::index("c", 3);
    phase.cells = {cell_};
    Builder b(k_, phase);
    steps(b, 4 + pick(8), 0);
    for (Value v : pool_)
      if (pick(4) == 0) store(b, v);
    store(b, pool_.back());
    return std::move(k_);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int64_t size() {
    const int64_t sizes[] = {1, 1, 2, 3, 5, 8, 16, 17, 31, 40, 70};
    return sizes[pick(rank_ == 1 ? 11 : 9)];
  }
  Value any() { return pool_[static_cast<size_t>(pick(static_cast<int>(pool_.size())))]; }

  Dims some_shape() {
    Dims shape = dims_;
    for (int64_t& d : shape)
      if (pick(4) == 0) d = 1;
    return shape;
  }
  std::vector<Expr> coords_of(const Dims& shape) {
    std::vector<Expr> out;
    for (int64_t d : shape) out.push_back(Expr::index("d", d));
    return out;
  }
  // An address that gives each element its own place, and the places in all.
  std::pair<Expr, int64_t> address(const Dims& shape, std::span<const Expr> coords) {
    std::vector<int> order;
    for (int d = 0; d < rank_; ++d) order.push_back(d);
    if (pick(3) == 0) std::shuffle(order.begin(), order.end(), random_);
    Expr at = 0;
    int64_t stride = pick(5) == 0 ? 2 : 1;
    for (int i = rank_ - 1; i >= 0; --i) {
      int d = order[static_cast<size_t>(i)];
      Expr c = coords[static_cast<size_t>(d)];
      if (pick(8) == 0) c = Expr(shape[static_cast<size_t>(d)] - 1) - c;
      at = at + c * Expr(stride);
      stride *= shape[static_cast<size_t>(d)];
    }
    return {at, stride};
  }
  // A buffer that loads and stores share, now and then; each cell has its own part of it.
  struct Place {
    int buffer;
    Expr address;
  };
  Place place(const Dims& shape, std::span<const Expr> coords, Space space) {
    auto [at, n] = address(shape, coords);
    if (pick(4) == 0) {
      int64_t part = 2;
      for (int64_t d : dims_) part *= d;
      if (shared_ < 0) shared_ = buffer(Space::InOut, 3 * part);
      return {shared_, at + cell_ * Expr(part)};
    }
    return {buffer(space, 3 * n), at + cell_ * Expr(n)};
  }
  Expr guard(const Dims& shape, std::span<const Expr> coords) {
    Expr g = 1;
    for (int d = 0; d < rank_; ++d) {
      int64_t n = shape[static_cast<size_t>(d)];
      if (pick(3) == 0) {
        // The same few limits again and again, so that guards of loads and stores agree now and then.
        Expr limit = pick(2) == 0 ? Expr(n * 3 - n / 2) : Expr(n * 2 + 1);
        g = logical_and(g, lt(cell_ * Expr(n) + coords[static_cast<size_t>(d)], limit));
      } else if (pick(10) == 0) {
        g = logical_and(g, lt(1, coords[static_cast<size_t>(d)] + cell_));
      }
    }
    return g;
  }
  int buffer(Space space, int64_t n) {
    k_.buffers.push_back({"b" + std::to_string(k_.buffers.size()), kI32, space, n});
    return static_cast<int>(k_.buffers.size()) - 1;
  }

  Value load(Builder& b) {
    Dims shape = some_shape();
    std::vector<Expr> coords = coords_of(shape);
    Place at = place(shape, coords, Space::In);
    Builder::Access access;
    access.address = at.address;
    access.guard = guard(shape, coords);
    access.coords = SmallVector<Expr, 4>(std::span<const Expr>(coords));
    return b.load(at.buffer, kI32, access);
  }
  void store(Builder& b, Value v) {
    const Dims shape = b.type(v).shape;
    if (shape.empty()) return;
    std::vector<Expr> coords = coords_of(shape);
    Place at = place(shape, coords, Space::Out);
    Builder::Access access;
    access.address = at.address;
    access.guard = guard(shape, coords);
    access.coords = SmallVector<Expr, 4>(std::span<const Expr>(coords));
    b.store(at.buffer, v, access);
  }
  Value compute(Builder& b) {
    const ScalarOp binary[] = {ScalarOp::add,     ScalarOp::sub,      ScalarOp::mul, ScalarOp::maximum,
                               ScalarOp::bit_xor, ScalarOp::floordiv, ScalarOp::mod};
    Value x = any(), y = any();
    if (pick(6) == 0) return b.op(ScalarOp::where, {b.op(ScalarOp::lt, {x, y}), x, any()});
    return b.op(binary[pick(7)], {x, y});
  }
  Value reduce(Builder& b) {
    Value v = any();
    const Dims shape = b.type(v).shape;
    if (shape.empty()) return v;
    auto op = kernel::simple_reducer(pick(2) ? ScalarOp::add : ScalarOp::minimum, kI32);
    std::vector<Expr> coords = coords_of(shape);
    Value args[] = {v};
    return b.reduce(args, pick(rank_), op, pick(2) ? guard(shape, coords) : Expr(1), coords)[0];
  }
  Value dot(Builder& b) {
    Value x = any(), y = any();
    Dims shape = kernel::broadcast_dims(b.type(x).shape, b.type(y).shape);
    if (shape.empty()) return x;
    std::vector<Expr> coords = coords_of(shape);
    Value zero = b.constant(Scalar::of(kI32, 3));
    return b.dot(x, y, zero, pick(rank_), pick(2) ? guard(shape, coords) : Expr(1), coords);
  }
  Value loop(Builder& b, int depth) {
    std::vector<Value> init;
    for (int i = 0; i < 1 + pick(2); ++i) init.push_back(any());
    Expr var = Expr::index("i", pick(2) ? Expr(pick(4)) : cell_);
    if (!var.is_var()) return any();
    std::vector<Value> outer = pool_;
    std::vector<Value> results = b.loop(var, init, [&](std::span<const Value> carried) {
      for (Value v : carried) pool_.push_back(v);
      steps(b, 2 + pick(4), depth + 1);
      std::vector<Value> next;
      for (Value v : carried) {
        Value found = v;
        for (Value candidate : pool_)
          if (b.type(candidate) == b.type(v) && pick(3) == 0) found = candidate;
        next.push_back(found);
      }
      return next;
    });
    pool_ = outer;
    for (Value v : results) pool_.push_back(v);
    return results[0];
  }
  void steps(Builder& b, int n, int depth) {
    for (int i = 0; i < n; ++i) {
      if (!pool_.empty() && pick(8) == 0) store(b, any());
      int what = pool_.empty() ? 0 : pick(12);
      Value v = what < 2                ? load(b)
                : what < 8              ? compute(b)
                : what < 9 && depth < 2 ? loop(b, depth)
                : what < 10             ? dot(b)
                                        : reduce(b);
      pool_.push_back(v);
    }
  }

  std::mt19937 random_;
  Kernel k_;
  int rank_ = 0;
  Dims dims_;
  Expr cell_;
  int shared_ = -1;
  std::vector<Value> pool_;
};

TEST(LowerSimd, random_programs_keep_their_meaning) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Kernel k = Generator(seed).make();
    expect_same(k, 0, {}, seed % 3 == 0 ? avx2() : seed % 5 == 0 ? neon() : avx512());
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(LowerSimd, lowering_twice_is_an_internal_error) {
  Kernel k = lower_simd(kernel::parse(kMatmul), avx512());
  EXPECT_THROW(lower_simd(k, avx512()), InternalError);
}

}  // namespace
}  // namespace heddle
