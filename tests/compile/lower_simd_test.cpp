// The SIMD lowering against the interpreter: the tile-level program and its thread-level form give the same memory.
#include "compile/lower.h"
#include "simd_programs.h"

namespace heddle {
namespace {

using namespace testing;

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
  EXPECT_EQ(count(text, "shared"), 0) << text;
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
  EXPECT_EQ(count(text, "shared"), 0) << text;
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
  EXPECT_EQ(count(text, "shared"), 0) << text;
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

// Sums of 16 rows are one vector in a register. What is done with them row by row still runs along the rows.
TEST(LowerSimd, what_is_computed_once_per_row_does_not_turn_the_vectors) {
  std::string text = expect_same(R"(
kernel @norm(in %x: f32[4096], in %w: f32[128], out %s: f32[32], out %y: f32[4096]) {
  phase grid(c < 2) {
    %v = load %x[c * 2048 + d0 * 128 + d1] : tile<16x128xf32>
    %q = mul %v, %v
    %t = reduce add %q axis 1
    %r = sqrt %t
    store %s[c * 16 + d0], %r
    %n = div %v, %r
    %g = load %w[d1] : tile<1x128xf32>
    %o = mul %n, %g
    store %y[c * 2048 + d0 * 128 + d1], %o
  }
}
)",
                                 1e-5);
  EXPECT_EQ(count(text, "d0 * 128"), 0) << text;
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
  EXPECT_EQ(count(text, "shared"), 0) << text;
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
  EXPECT_EQ(count(text, "  shared "), 1) << text;
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
          EXPECT_EQ(count(text, "shared %"), is_long ? 2 : 0) << text;
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

TEST(LowerSimd, lowering_twice_is_an_internal_error) {
  Kernel k = lower_simd(kernel::parse(kMatmul), avx512());
  EXPECT_THROW(lower_simd(k, avx512()), InternalError);
}

}  // namespace
}  // namespace heddle
