#include <thread>

#include "run.h"

namespace heddle {
namespace {

// Small integers: sums are exact in any order.
void fill_small(Memory& memory, uint32_t seed) {
  std::mt19937 random(seed);
  for (int64_t k = 0; k < memory.count(); ++k)
    memory.set(k, Scalar::of(memory.dtype(), static_cast<int64_t>(random() % 9) - (is_signed(memory.dtype()) ? 4 : 0)));
}

TEST(Control, loops_carry_values) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @sums(in %x: f32[1024], out %y: f32[64], out %z: f32[4]) symbols (n in [0, 16]) {
  phase grid(i < 4) {
    %zero = constant 0 : vec<16xf32>
    %one = constant 1 : f32
    %s, %t = loop k < n carry (%a = %zero, %b = %one) {
      %v = load %x[i * 256 + k * 16 + d0] : vec<16xf32>
      %a1 = add %a, %v
      %b1 = loop j < 3 carry (%c = %b) {
        %w = load %x[i * 256 + k * 16 + j] : f32
        %c1 = add %c, %w
        yield %c1
      }
      yield %a1, %b1
    }
    store %y[i * 16 + d0], %s
    store %z[i], %t
  }
}
)");
  for (int64_t n : {0, 1, 16}) {
    Memory x(kF32, 1024), y(kF32, 64), z(kF32, 4);
    fill(x, 21);
    for (int64_t k = 0; k < 1024; ++k) x.as<float>()[k] = static_cast<float>(k % 17) - 8;
    expect_like_interpreter(kernel, {&x, &y, &z}, host_target(), {n});
  }
}

TEST(Control, branches_give_values) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @choose(in %x: f32[64], inout %y: f32[64]) symbols (n in [0, 100]) {
  phase grid(i < 4) {
    %v = load %x[i * 16 + d0] : vec<16xf32>
    %r = branch i * 7 < n {
      %a = neg %v
      yield %a
    } else {
      %b = add %v, %v
      yield %b
    }
    branch i != 2 {
      store %y[i * 16 + d0], %r
    }
  }
}
)");
  for (int64_t n : {0, 8, 100}) {
    Memory x(kF32, 64), y(kF32, 64);
    fill(x, 22);
    expect_like_interpreter(kernel, {&x, &y}, host_target(), {n});
  }
}

TEST(Control, branches_by_data_run_one_side) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @pick(in %x: f32[64], inout %y: f32[64], out %n: i32[1]) {
  phase grid(c < 1) {
    %zero = constant 0 : f32
    %none = constant 0 : i32
    %one = constant 1 : i32
    %count = loop i < 64 carry(%seen = %none) {
      %v = load %x[i] : f32
      %b = lt %zero, %v
      %next = branch v0 with v0 < 2 = %b {
        store %y[v0], %v with v0 < 64 = %seen
        %more = add %seen, %one
        yield %more
      } else {
        yield %seen
      }
      yield %next
    }
    store %n[0], %count
  }
}
)");
  Memory x(kF32, 64), y(kF32, 64), n(kI32, 1);
  fill(x, 23);
  expect_like_interpreter(kernel, {&x, &y, &n}, host_target(), {});
}

TEST(Control, phases_and_shared_memory) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @two(in %x: f32[64], out %y: f32[64]) {
  shared %l: f32[20]
  shared %m: bool[3]
  temp %t: f32[64]
  phase grid(i < 4) {
    %v = load %x[i * 16 + d0] : vec<16xf32>
    store %l[d0 + 4], %v
    %p = index i < 2 : bool
    store %m[1], %p
    %w = load %l[19 - d0] : vec<16xf32>
    %q = load %m[1] : bool
    %u = where %q, %w, %v
    store %t[i * 16 + d0], %u
  }
  phase grid(i < 16) {
    %v = load %t[d0 * 16 + i] : vec<4xf32>
    store %y[i * 4 + d0], %v
  }
}
)");
  Memory x(kF32, 64), y(kF32, 64), t(kF32, 64);
  fill(x, 23);
  expect_like_interpreter(kernel, {&x, &y, &t}, host_target());
}

TEST(Reduce, simple_reducers_of_any_width) {
  for (DType dtype : {kI8, kU16, kI32, kI64, kF16, kF32, kF64})
    for (int lanes : {1, 2, 3, 7, 8, 16, 21, 64})
      for (const char* op : {"add", "maximum", "minimum"}) {
        kernel::Kernel kernel =
            kernel::parse(text("kernel.thread @r(in %x: ", dtype, "[", 3 * lanes, "], out %y: ", dtype,
                               "[6]) {\nphase grid(i < 3) {\n%v = load %x[i * ", lanes, " + d0] : vec<", lanes, "x",
                               dtype, ">\n%s = reduce ", op, " %v axis 0\nstore %y[i * 2], %s\n%t = reduce ", op,
                               " %v axis 0 if d0 < i * 3\nstore %y[i * 2 + 1], %t\n}\n}\n"));
        Memory x(dtype, 3 * lanes), y(dtype, 6);
        fill_small(x, 24);
        expect_like_interpreter(kernel, {&x, &y});
      }
}

TEST(Reduce, bits_and_flags) {
  for (const char* op : {"bit_and", "bit_or", "maximum"})
    for (DType dtype : {kBool, kU8, kI32}) {
      kernel::Kernel kernel = kernel::parse(text("kernel.thread @r(in %x: ", dtype, "[16], out %y: ", dtype,
                                                 "[2]) {\nphase grid(i < 2) {\n%v = load %x[i * 8 + d0] : vec<8x",
                                                 dtype, ">\n%s = reduce ", op, " %v axis 0\nstore %y[i], %s\n}\n}\n"));
      Memory x(dtype, 16), y(dtype, 2);
      fill(x, 25);
      expect_like_interpreter(kernel, {&x, &y});
    }
}

TEST(Reduce, nan_wins_a_maximum) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @r(in %x: f32[16], out %y: f32[1]) {
  phase grid() {
    %v = load %x[d0] : vec<16xf32>
    %s = reduce maximum %v axis 0
    store %y[0], %s
  }
}
)");
  Memory x(kF32, 16), y(kF32, 1);
  x.as<float>()[11] = NAN;
  expect_like_interpreter(kernel, {&x, &y});
  EXPECT_NE(y.as<float>()[0], y.as<float>()[0]);
}

TEST(Reduce, pairs_of_value_and_position) {
  for (bool largest : {false, true})
    for (int64_t lanes : {5, 16}) {
      kernel::Kernel kernel;
      kernel.name = "arg";
      kernel.level = kernel::Level::Thread;
      kernel.buffers = {{"x", kF32, kernel::Space::In, 4 * lanes},
                        {"y", kF32, kernel::Space::Out, 4},
                        {"z", kI64, kernel::Space::Out, 4}};
      kernel.values = {{kF32, {lanes}}, {kI64, {lanes}}, {kF32, {}}, {kI64, {}}};
      Expr block = Expr::index("i", 4), c0 = Expr::index("c0", lanes), c1 = Expr::index("c1", lanes),
           c2 = Expr::index("c2", lanes);
      kernel::Inst load, index, reduce, store_value, store_index;
      load.op = kernel::Op::load, load.buffer = 0, load.results = {0}, load.address = block * lanes + c0,
      load.coords = {c0};
      index.op = kernel::Op::index, index.results = {1}, index.address = c1 + 100, index.coords = {c1};
      reduce.op = kernel::Op::reduce, reduce.args = {0, 1}, reduce.results = {2, 3},
      reduce.reducer = kernel::arg_reducer(largest, kF32);
      reduce.guard = lt(c2, lanes - block), reduce.coords = {c2};
      store_value.op = store_index.op = kernel::Op::store;
      store_value.args = {2}, store_value.buffer = 1, store_value.address = block;
      store_index.args = {3}, store_index.buffer = 2, store_index.address = block;
      kernel::Phase phase;
      phase.blocks = {block};
      phase.body.insts = {load, index, reduce, store_value, store_index};
      kernel.phases = {phase};
      Memory x(kF32, 4 * lanes), y(kF32, 4), z(kI64, 4);
      fill_small(x, 26);  // many ties
      x.as<float>()[lanes + 2] = NAN;
      expect_like_interpreter(kernel, {&x, &y, &z});
    }
}

// Into global memory (atomically) and into shared memory, with lanes that meet.
TEST(Combine, adds_into_memory_lane_by_lane) {
  for (const char* op : {"add", "maximum", "minimum", "mul"})
    for (DType dtype : {kI8, kI32, kU64, kF16, kBF16, kF32, kF64})
      for (const char* address : {"i * 16 + d0", "d0 // 4 + i * 4", "15 - d0 + i * 16", "i * 3"}) {
        kernel::Kernel kernel = kernel::parse(
            text("kernel.thread @c(in %x: ", dtype, "[32], inout %y: ", dtype, "[32], out %z: ", dtype,
                 "[64]) {\nshared %l: ", dtype, "[32]\nphase grid(i < 2) {\n%v = load %x[i * 16 + d0] : vec<16x", dtype,
                 ">\ncombine ", op, " %y[", address, "], %v\n%w = load %x[d0] : vec<32x", dtype,
                 ">\nstore %l[d0], %w\ncombine ", op, " %l[", address,
                 "], %v if d0 < 11 + i\n%u = load %l[d0] : vec<32x", dtype, ">\nstore %z[i * 32 + d0], %u\n}\n}\n"));
        Memory x(dtype, 32), y(dtype, 32), z(dtype, 64);
        fill_small(x, 27), fill_small(y, 28);
        expect_like_interpreter(kernel, {&x, &y, &z});
      }
}

TEST(Combine, is_atomic_between_workers) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @count(inout %a: f32[1], inout %b: i32[1], inout %c: bf16[2]) {
  phase grid(i < 20000) {
    %one = constant 1 : f32
    combine add %a[0], %one
    %two = constant 1 : i32
    combine add %b[0], %two
    %v = index i % 128 : i32
    %w = cast %v : bf16
    combine maximum %c[i % 2], %w
  }
}
)");
  CompiledKernel compiled = compile_host(kernel, host_target());
  Memory a(kF32, 1), b(kI32, 1), c(kBF16, 2);
  void* buffers[] = {a.data(), b.data(), c.data()};
  std::vector<std::thread> workers;
  for (int64_t part = 0; part < 4; ++part)
    workers.emplace_back([&, part] { compiled.phases[0](buffers, nullptr, part * 5000, part * 5000 + 5000, nullptr); });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(a.as<float>()[0], 20000);
  EXPECT_EQ(b.as<int32_t>()[0], 20000);
  EXPECT_EQ(c.at(0).f, 126);
  EXPECT_EQ(c.at(1).f, 127);
}

}  // namespace
}  // namespace heddle
