// Tile-level programs, written by hand, against plain loops.
#include <cmath>
#include <numeric>
#include <random>

#include "kernel/builder.h"
#include "run_kernel.h"

namespace heddle::kernel {
namespace {

std::vector<float> random_floats(size_t count, int seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<float> out(count);
  for (float& v : out) v = uniform(random);
  return out;
}

TEST(Interpreter, softmax_of_rows) {
  std::vector<float> x = random_floats(8 * 40), y(8 * 40);
  run_kernel(R"(kernel @softmax(in %x: f32[320], out %y: f32[320]) {
  phase grid(i < 8) {
    %0 = load %x[i * 40 + d1] : tile<1x40xf32>
    %1 = reduce maximum %0 axis 1
    %2 = sub %0, %1
    %3 = exp %2
    %4 = reduce add %3 axis 1
    %5 = div %3, %4
    store %y[i * 40 + d1], %5
  }
})",
             {x, y});
  for (int row = 0; row < 8; ++row) {
    double sum = 0, most = -1e9;
    for (int c = 0; c < 40; ++c) most = std::max<double>(most, x[row * 40 + c]);
    for (int c = 0; c < 40; ++c) sum += std::exp(x[row * 40 + c] - most);
    for (int c = 0; c < 40; ++c) EXPECT_NEAR(y[row * 40 + c], std::exp(x[row * 40 + c] - most) / sum, 1e-6);
  }
}

TEST(Interpreter, matmul_with_dot_and_a_guarded_inner_tail) {
  const int m = 8, n = 12, k = 10;
  std::vector<float> a = random_floats(m * k, 2), b = random_floats(k * n, 3), c(m * n);
  run_kernel(R"(kernel @matmul(in %a: f32[80], in %b: f32[120], out %c: f32[96]) {
  phase grid(i < 2, j < 3) {
    %0 = constant 0 : f32
    %z = constant 0 : tile<4x1x4xf32>
    %1 = loop k < 3 carry(%2 = %z) {
      %3 = load %a[(i * 4 + d0) * 10 + k * 4 + d1] if k * 4 + d1 < 10 : tile<4x4x1xf32>
      %4 = load %b[(k * 4 + d1) * 12 + j * 4 + d2] if k * 4 + d1 < 10 : tile<1x4x4xf32>
      %5 = dot %3, %4, %2 axis 1 if k * 4 + d1 < 10
      yield %5
    }
    store %c[(i * 4 + d0) * 12 + j * 4 + d2], %1
  }
})",
             {a, b, c});
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
      EXPECT_EQ(c[i * n + j], sum);
    }
}

TEST(Interpreter, dot_of_small_types_accumulates_in_the_wide_one) {
  std::vector<int8_t> a(64, 100), b(64, 100);
  std::vector<int32_t> c(1);
  run_kernel(R"(kernel @dot(in %a: i8[64], in %b: i8[64], out %c: i32[1]) {
  phase grid() {
    %0 = load %a[d0] : tile<64xi8>
    %1 = load %b[d0] : tile<64xi8>
    %2 = constant 5 : i32
    %3 = dot %0, %1, %2 axis 0
    store %c[d0], %3
  }
})",
             {a, b, c});
  EXPECT_EQ(c[0], 640005);
}

TEST(Interpreter, column_sum_in_two_phases_through_temp) {
  std::vector<float> x(16 * 6), y(6), partial(4 * 6);
  std::iota(x.begin(), x.end(), 0.0f);
  run_kernel(R"(kernel @columns(in %x: f32[96], out %y: f32[6]) {
  temp %t: f32[24]
  phase grid(i < 4) {
    %0 = load %x[i * 24 + d0 * 6 + d1] : tile<4x6xf32>
    %1 = reduce add %0 axis 0
    store %t[i * 6 + d1], %1
  }
  phase grid() {
    %2 = load %t[d0 * 6 + d1] : tile<4x6xf32>
    %3 = reduce add %2 axis 0
    store %y[d1], %3
  }
})",
             {x, y, partial});
  for (int c = 0; c < 6; ++c) EXPECT_EQ(y[c], 16 * c + 6 * 120);
}

TEST(Interpreter, scan_carries_on_from_its_start) {
  std::vector<float> x(24), y(24), t(4);
  std::iota(x.begin(), x.end(), 0.0f);
  run_kernel(R"(kernel @columns(in %x: f32[24], out %y: f32[24], out %t: f32[4]) {
  phase grid() {
    %0 = constant 100 : tile<1x4xf32>
    %1 = load %x[d0 * 4 + d1] : tile<6x4xf32>
    %2, %3 = scan add %1, %0 axis 0 if d0 < 5
    store %y[d0 * 4 + d1], %2
    store %t[d1], %3
  }
})",
             {x, y, t});
  for (int c = 0; c < 4; ++c) {
    float sum = 100;
    for (int r = 0; r < 6; ++r) {
      if (r < 5) sum += x[static_cast<size_t>(r * 4 + c)];
      EXPECT_EQ(y[static_cast<size_t>(r * 4 + c)], sum) << r << ", " << c;
    }
    EXPECT_EQ(t[static_cast<size_t>(c)], sum);
  }
}

TEST(Interpreter, scan_of_lanes_agrees_with_scan_of_a_tile) {
  std::vector<int32_t> x = {3, 1, 4, 1, 5, 9, 2}, y(7), t(1);
  run_kernel(R"(kernel.thread @lanes(in %x: i32[7], out %y: i32[7], out %t: i32[1]) {
  phase grid() {
    %0 = constant 10 : i32
    %1 = load %x[d0] : vec<7xi32>
    %2, %3 = scan add %1, %0 axis 0 if d0 < 6
    store %y[d0], %2
    store %t[0], %3
  }
})",
             {x, y, t});
  EXPECT_EQ(y, (std::vector<int32_t>{13, 14, 18, 19, 24, 33, 33}));
  EXPECT_EQ(t[0], 33);
}

TEST(Interpreter, rounds_run_all_phases_one_after_the_other) {
  // Each round sees what the one before has left.
  std::vector<int32_t> y(10), t(2);
  run_kernel(R"(kernel @rounds(out %y: i32[10]) rounds {
  temp %t: i32[2]
  phase grid(r < 5, i < 2) {
    %0 = index r + 1 : i32
    %1 = load %t[i] if 0 < r : i32
    %2 = add %0, %1
    store %y[r * 2 + i], %2
  }
  phase grid(r < 5, i < 2) {
    %3 = load %y[r * 2 + 1 - i] : i32
    store %t[i], %3
  }
})",
             {y, t});
  EXPECT_EQ(y, (std::vector<int32_t>{1, 1, 3, 3, 6, 6, 10, 10, 15, 15}));
}

TEST(Interpreter, argmax_takes_the_first_of_equals_and_nan) {
  Kernel k{.name = "argmax"};
  k.buffers = {{"x", DType::f32, Space::In, 24}, {"v", DType::f32, Space::Out, 3}, {"i", DType::i64, Space::Out, 3}};
  Expr block = Expr::index("i", 3), row = Expr::index("r", 1), column = Expr::index("c", 8);
  k.phases.push_back({{block}, {}});
  Builder b(k, k.phases[0]);
  const Expr coords[] = {row, column};
  const Value args[] = {b.load(0, DType::f32, {.address = block * 8 + column, .coords = {row, column}}),
                        b.index(DType::i64, column, coords)};
  std::vector<Value> best = b.reduce(args, 1, arg_reducer(true, DType::f32), lt(column, 7), coords);
  Expr one = Expr::index("o", 1), two = Expr::index("p", 1);
  b.store(1, best[0], {.address = block, .coords = {one, two}});
  b.store(2, best[1], {.address = block, .coords = {one, two}});
  const float nan = std::nanf("");
  std::vector<float> x = {1, 5, 2, 5, 0, 0, 0, 99, -1, -1, -2, -3, -1, -9, -9, 0, 1, 2, nan, 4, nan, 0, 0, 0}, v(3);
  std::vector<int64_t> i(3);
  run_kernel(k, {x, v, i});
  EXPECT_EQ(i, (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(v[0], 5);
  EXPECT_EQ(v[1], -1);
  EXPECT_TRUE(std::isnan(v[2]));
}

TEST(Interpreter, gather_reads_where_bound_values_say) {
  std::vector<float> table = random_floats(10 * 4), y(6 * 4);
  std::vector<int32_t> indices = {3, 0, 9, 9, 1, 5};
  const char* text = R"(kernel @gather(in %table: f32[40], in %idx: i32[6], out %y: f32[24]) {
  phase grid(i < 3) {
    %0 = load %idx[i * 2 + d0] : tile<2x1xi32>
    %1 = load %table[v0 * 4 + d1] with v0 < 10 = %0 : tile<2x4xf32>
    store %y[i * 8 + d0 * 4 + d1], %1
  }
})";
  run_kernel(text, {table, indices, y});
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < 4; ++c) EXPECT_EQ(y[r * 4 + c], table[indices[r] * 4 + c]);
  indices[4] = 11;
  std::string message = message_of<DeviceError>([&] { run_kernel(text, {table, indices, y}); });
  EXPECT_CONTAINS(message, "kernel @gather, phase 0, block 2, %1 = load %0: element 44 of %table");
}

TEST(Interpreter, guards_keep_tails_in_bounds) {
  const char* text = R"(kernel @tail(in %x: f32[n], out %y: f32[n], out %sum: f32[1]) symbols(n in [1, 64] multiple 1) {
  phase grid(i < (n + 7) // 8) {
    %0 = load %x[i * 8 + d0] if i * 8 + d0 < n : tile<8xf32>
    %1 = constant 1 : f32
    %2 = add %0, %1
    store %y[i * 8 + d0], %2 if i * 8 + d0 < n
  }
  phase grid() {
    %3 = load %x[d0] if d0 < n : tile<64xf32>
    %4 = constant 1 : f32
    %5 = add %3, %4
    %6 = reduce add %5 axis 0 if d0 < n
    store %sum[d0], %6
  }
})";
  for (int64_t n : {1, 7, 8, 13, 64}) {
    std::vector<float> x(n, 2), y(n), sum(1);
    run_kernel(text, {x, y, sum}, {n});
    EXPECT_EQ(y, std::vector<float>(n, 3));
    EXPECT_EQ(sum[0], 3.0f * static_cast<float>(n));
  }
  std::string unguarded = text;
  unguarded.replace(unguarded.find(" if i * 8 + d0 < n :"), 18, "");
  std::vector<float> x(13), y(13), sum(1);
  EXPECT_THROW(run_kernel(unguarded, {x, y, sum}, {13}), DeviceError);
}

TEST(Interpreter, guarded_load_gives_zero) {
  std::vector<float> x = {5, 6}, y(4, -1);
  run_kernel(R"(kernel @zero(in %x: f32[2], out %y: f32[4]) {
  phase grid() {
    %0 = load %x[d0] if d0 < 2 : tile<4xf32>
    store %y[d0], %0
  }
})",
             {x, y});
  EXPECT_EQ(y, (std::vector<float>{5, 6, 0, 0}));
}

TEST(Interpreter, combine_adds_across_blocks) {
  std::vector<int32_t> bins = {0, 2, 2, 1, 2, 0, 3, 2};
  std::vector<float> histogram(4);
  run_kernel(R"(kernel @histogram(in %b: i32[8], inout %h: f32[4]) {
  phase grid(i < 4) {
    %0 = load %b[i * 2 + d0] : tile<2xi32>
    %1 = constant 1 : tile<2xf32>
    combine add %h[v0], %1 with v0 < 4 = %0
  }
})",
             {bins, histogram});
  EXPECT_EQ(histogram, (std::vector<float>{2, 1, 4, 1}));
}

TEST(Interpreter, loops_carry_in_parallel) {
  std::vector<int64_t> y(2);  // Fibonacci: both values move at once
  run_kernel(R"(kernel @fibonacci(out %y: i64[2]) {
  phase grid() {
    %0 = constant 0 : i64
    %1 = constant 1 : i64
    %2, %3 = loop k < 50 carry(%4 = %0, %5 = %1) {
      %6 = add %4, %5
      yield %5, %6
    }
    store %y[0], %2
    store %y[1], %3
  }
})",
             {y});
  EXPECT_EQ(y, (std::vector<int64_t>{12586269025, 20365011074}));
}

TEST(Interpreter, loop_of_no_rounds_gives_the_initial_value) {
  std::vector<float> y(1);
  run_kernel(R"(kernel @none(out %y: f32[1]) symbols(n in [0, 4]) {
  phase grid() {
    %0 = constant 7 : f32
    %1 = loop k < n carry(%2 = %0) {
      %3 = neg %2
      yield %3
    }
    store %y[0], %1
  }
})",
             {y}, {0});
  EXPECT_EQ(y[0], 7);
}

TEST(Interpreter, branches_choose_by_block) {
  std::vector<int32_t> y(6);
  run_kernel(R"(kernel @sides(out %y: i32[6]) {
  phase grid(i < 6) {
    %0 = index i : i32
    %1 = branch i % 2 == 0 {
      %2 = neg %0
      yield %2
    } else {
      yield %0
    }
    store %y[i], %1
  }
})",
             {y});
  EXPECT_EQ(y, (std::vector<int32_t>{0, 1, -2, 3, -4, 5}));
}

TEST(Interpreter, computes_every_op_as_core_does) {
  std::mt19937 random(5);
  for (int number = 0; number < kScalarOpCount; ++number) {
    ScalarOp op = static_cast<ScalarOp>(number);
    for (DType dtype :
         {DType::boolean, DType::i8, DType::u32, DType::i64, DType::f8e4m3, DType::bf16, DType::f32, DType::f64}) {
      const OpInfo& row = info(op);
      std::vector<DType> dtypes(row.arity, dtype);
      if (row.rule == OpRule::Select) dtypes[0] = DType::boolean;
      std::optional<DType> result = result_dtype(op, dtypes);
      if (!result) continue;
      const int count = 16;
      Kernel k{.name = "each"};
      Expr c = Expr::index("c", count);
      k.phases.emplace_back();
      Builder b(k, k.phases[0]);
      std::vector<std::vector<char>> memory;
      std::vector<Value> args;
      for (DType d : dtypes) {
        std::vector<char>& m = memory.emplace_back(count * size_of(d));
        for (int e = 0; e < count; ++e)
          store_scalar(m.data(), e, Scalar::of(d, static_cast<double>(random() % 41) / 4 - (e % 2 ? 0 : 5)));
        k.buffers.push_back({"x" + std::to_string(args.size()), d, Space::In, count});
        args.push_back(b.load(static_cast<int>(args.size()), d, {.address = c, .coords = {c}}));
      }
      memory.emplace_back(count * size_of(*result));
      k.buffers.push_back({"y", *result, Space::Out, count});
      b.store(row.arity, b.op(op, args), {.address = c, .coords = {c}});
      std::vector<Data> data;
      for (std::vector<char>& m : memory) {
        data.emplace_back(m);
        data.back().size = count;
      }
      run_kernel(k, data);
      for (int e = 0; e < count; ++e) {
        std::vector<Scalar> operands;
        for (int a = 0; a < row.arity; ++a) operands.push_back(load_scalar(memory[a].data(), e, dtypes[a]));
        EXPECT_TRUE(load_scalar(memory.back().data(), e, *result) == heddle::apply(op, operands)) << row.name << dtype;
      }
    }
  }
}

TEST(Interpreter, casts_and_bitcasts) {
  std::vector<float> x = {1.5f, -2.75f, 3e9f};
  std::vector<int32_t> truncated(3);
  std::vector<uint32_t> bits(3);
  run_kernel(R"(kernel @casts(in %x: f32[3], out %i: i32[3], out %b: u32[3]) {
  phase grid() {
    %0 = load %x[d0] : tile<3xf32>
    %1 = cast %0 : tile<3xi32>
    %2 = bitcast %0 : tile<3xu32>
    store %i[d0], %1
    store %b[d0], %2
  }
})",
             {x, truncated, bits});
  EXPECT_EQ(truncated, (std::vector<int32_t>{1, -2, INT32_MAX}));
  EXPECT_EQ(bits[0], 0x3fc00000u);
}

TEST(Interpreter, index_gives_integers_and_conditions) {
  std::vector<int64_t> y(12);
  std::vector<char> even(12);
  Data flags(even);
  run_kernel(R"(kernel @index(out %y: i64[12], out %e: bool[12]) {
  phase grid() {
    %0 = index (d0 * 4 + d1) // 3 * 10 + d1 % 3 : tile<3x4xi64>
    %1 = index (d0 + d1) % 2 == 0 : tile<3x4xbool>
    store %y[d0 * 4 + d1], %0
    store %e[d0 * 4 + d1], %1
  }
})",
             {y, flags});
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) {
      EXPECT_EQ(y[r * 4 + c], (r * 4 + c) / 3 * 10 + c % 3);
      EXPECT_EQ(even[r * 4 + c], (r + c) % 2 == 0);
    }
}

TEST(Interpreter, reports_two_blocks_writing_one_element) {
  std::vector<float> y(8), z(8);
  auto text = [](const char* second) {
    return std::string(R"(kernel @clash(inout %y: f32[8], out %z: f32[8]) {
  phase grid(i < 4) {
    %0 = constant 1 : f32
    )") + second +
           "\n  }\n}";
  };
  EXPECT_NO_THROW(run_kernel(text("store %y[i], %0"), {y, z}));
  std::string message = message_of<DeviceError>([&] { run_kernel(text("store %y[i // 2], %0"), {y, z}); });
  EXPECT_CONTAINS(message,
                  "kernel @clash, phase 0, block 1, store %0: element 0 of %y (8 elements) is accessed by two");
  // One block reads what another writes, in either order.
  EXPECT_THROW(run_kernel(text("store %y[i], %0\n%1 = load %y[(i + 3) % 4] : f32\nstore %z[i], %1"), {y, z}),
               DeviceError);
  EXPECT_THROW(run_kernel(text("%1 = load %y[i + 1] : f32\nstore %y[i], %1"), {y, z}), DeviceError);
  EXPECT_NO_THROW(run_kernel(text("%1 = load %y[i] : f32\nstore %y[i], %1"), {y, z}));
  EXPECT_THROW(run_kernel(text("store %y[i], %0\ncombine add %y[0], %0"), {y, z}), DeviceError);
}

TEST(Interpreter, shared_memory_is_empty_in_every_block) {
  std::vector<float> y(4);
  const char* text = R"(kernel @scratch(out %y: f32[4]) {
  shared %s: f32[4]
  phase grid(i < 4) {
    %0 = constant 1 : f32
    store %s[i], %0
    %1 = load %s[LOAD] : f32
    store %y[i], %1
  }
})";
  std::string good = text, bad = text;
  good.replace(good.find("LOAD"), 4, "i");
  bad.replace(bad.find("LOAD"), 4, "0");  // what block 0 left behind
  EXPECT_NO_THROW(run_kernel(good, {y, Data()}));
  std::string message = message_of<DeviceError>([&] { run_kernel(bad, {y, Data()}); });
  EXPECT_CONTAINS(message, "block 1");
  EXPECT_CONTAINS(message, "is read before anything was written there");
}

TEST(Interpreter, refuses_arguments_that_do_not_fit) {
  const char* text = R"(kernel @sizes(out %y: f32[n]) symbols(n in [2, 8] multiple 2) {
  phase grid(i < n) {
    %0 = constant 1 : f32
    store %y[i], %0
  }
})";
  std::vector<float> y(4);
  EXPECT_NO_THROW(run_kernel(text, {y}, {4}));
  EXPECT_THROW(run_kernel(text, {y}, {6}), ValueError);   // buffer too small
  EXPECT_THROW(run_kernel(text, {y}, {3}), ValueError);   // not a multiple
  EXPECT_THROW(run_kernel(text, {y}, {10}), ValueError);  // out of range
  EXPECT_THROW(run_kernel(text, {y}), ValueError);
  EXPECT_THROW(run_kernel(text, {}, {4}), ValueError);
  EXPECT_THROW(run_kernel(text, {Data()}, {4}), ValueError);
}

}  // namespace
}  // namespace heddle::kernel
