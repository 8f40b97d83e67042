#include <algorithm>
#include <cmath>

#include "run.h"

namespace heddle {
namespace {

const DType kAll[] = {kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF8E4M3, kF8E5M2, kF16, kBF16, kF32, kF64};

std::string type_name(DType dtype, int lanes) {
  return lanes == 0 ? name(dtype) : text("vec<", lanes, "x", name(dtype), ">");
}

// One kernel with every op that takes the dtype: out = op(a, b, c), each into its own part of an output of its dtype.
void check_ops(DType dtype, int lanes, const Target& target) {
  int width = std::max(lanes, 1);
  int64_t count = lanes == 0 ? 600 : 40 * width;
  std::string type = type_name(dtype, lanes), flag = type_name(kBool, lanes);
  std::string at = text("i * ", width, lanes ? " + d0" : "");
  std::string body = text("%a = load %x[", at, "] : ", type, "\n%b = load %y[", at, "] : ", type, "\n%c = load %z[", at,
                          "] : ", type, "\n%p = load %w[", at, "] : ", flag, "\n");
  int same_results = 0, flag_results = 0;
  std::vector<ZeroSigns> any_zero;
  for (int k = 0; k < kScalarOpCount; ++k) {
    ScalarOp op = static_cast<ScalarOp>(k);
    const OpInfo& row = info(op);
    if (!row.native) continue;
    std::vector<DType> operands(static_cast<size_t>(row.arity), dtype);
    if (op == ScalarOp::where) operands[0] = kBool;
    std::optional<DType> result = result_dtype(op, operands);
    if (!result) continue;
    const char* args[] = {"%a", "%a, %b", "%a, %b, %c"};
    std::string list = op == ScalarOp::where ? "%p, %a, %b" : args[row.arity - 1];
    bool to_flag = *result == kBool && dtype != kBool;
    int& slot = to_flag ? flag_results : same_results;
    body += text("%r", k, " = ", row.name, " ", list, "\nstore %", to_flag ? "f" : "o", "[", slot * count, " + ", at,
                 "], %r", k, "\n");
    if (is_float(dtype) && (op == ScalarOp::minimum || op == ScalarOp::maximum))
      any_zero.push_back({4, slot * count, (slot + 1) * count});
    ++slot;
  }
  kernel::Kernel kernel = kernel::parse(
      text("kernel.thread @ops(in %x: ", dtype, "[", count, "], in %y: ", dtype, "[", count, "], in %z: ", dtype, "[",
           count, "], in %w: bool[", count, "], out %o: ", dtype, "[", same_results * count, "], out %f: bool[",
           std::max(flag_results, 1) * count, "]) {\nphase grid(i < ", count / width, ") {\n", body, "}\n}\n"));
  Memory x(dtype, count), y(dtype, count), z(dtype, count), w(kBool, count), out(dtype, same_results * count),
      flags(kBool, std::max(flag_results, 1) * count);
  fill(x, 1), fill(y, 2), fill(z, 3), fill(w, 4);
  for (int64_t k = 0; k < count; k += 7) y.set(k, x.at(k));  // equal operands
  expect_like_interpreter(kernel, {&x, &y, &z, &w, &out, &flags}, target, {}, any_zero);
}

TEST(Ops, every_native_op_of_every_dtype_on_scalars) {
  for (DType dtype : kAll) check_ops(dtype, 0, host_target());
}

TEST(Ops, every_native_op_of_every_dtype_on_vectors) {
  for (DType dtype : kAll) check_ops(dtype, 64 / size_of(dtype), host_target());
}

TEST(Ops, every_native_op_on_odd_vectors) {
  for (DType dtype : {kBool, kI32, kF16, kF32, kF64}) check_ops(dtype, 5, host_target());
}

TEST(Ops, every_native_op_on_lesser_machines) {
  for (const Target& target : targets())
    if (target.name != host_target().name)
      for (DType dtype : kAll) check_ops(dtype, 8, target);
}

void check_casts(DType from, int lanes, const Target& target) {
  int width = std::max(lanes, 1);
  int64_t count = lanes == 0 ? 600 : 40 * width;
  std::string at = text("i * ", width, lanes ? " + d0" : "");
  std::string head = text("kernel.thread @casts(in %x: ", from, "[", count, "]");
  std::string body = text("%a = load %x[", at, "] : ", type_name(from, lanes), "\n");
  Memory x(from, count);
  fill(x, 5);
  std::vector<std::unique_ptr<Memory>> outputs;
  std::vector<Memory*> buffers{&x};
  for (DType to : kAll) {
    for (const char* op : {"cast", "bitcast"}) {
      if (std::string(op) == "bitcast" && size_of(from) != size_of(to)) continue;
      size_t k = outputs.size();
      head += text(", out %o", k, ": ", to, "[", count, "]");
      body += text("%r", k, " = ", op, " %a : ", type_name(to, lanes), "\nstore %o", k, "[", at, "], %r", k, "\n");
      outputs.push_back(std::make_unique<Memory>(to, count));
      buffers.push_back(outputs.back().get());
    }
  }
  kernel::Kernel kernel = kernel::parse(text(head, ") {\nphase grid(i < ", count / width, ") {\n", body, "}\n}\n"));
  expect_like_interpreter(kernel, buffers, target);
}

TEST(Casts, between_all_pairs_of_dtypes_on_scalars) {
  for (DType dtype : kAll) check_casts(dtype, 0, host_target());
}

TEST(Casts, between_all_pairs_of_dtypes_on_vectors) {
  for (DType dtype : kAll) check_casts(dtype, 16, host_target());
}

TEST(Casts, between_all_pairs_of_dtypes_on_lesser_machines) {
  for (const Target& target : targets())
    if (target.name != host_target().name)
      for (DType dtype : kAll) check_casts(dtype, 4, target);
}

TEST(Casts, every_half_and_bfloat_through_f32_and_back) {
  for (const Target& target : targets())
    for (DType small : {kF16, kBF16}) {
      Memory x(small, 65536), wide(kF32, 65536), back(small, 65536);
      for (int64_t k = 0; k < 65536; ++k) x.as<uint16_t>()[k] = static_cast<uint16_t>(k);
      kernel::Kernel kernel =
          kernel::parse(text("kernel.thread @small(in %x: ", small, "[65536], out %y: f32[65536], out %z: ", small,
                             "[65536]) {\nphase grid(i < 4096) {\n%a = load %x[i * 16 + d0] : vec<16x", small,
                             ">\n%b = cast %a : vec<16xf32>\nstore %y[i * 16 + d0], %b\n%c = cast %b : vec<16x", small,
                             ">\nstore %z[i * 16 + d0], %c\n}\n}\n"));
      CompiledKernel compiled = compile_host(kernel, target);
      run_compiled(kernel, compiled, {x.data(), wide.data(), back.data()}, {});
      int wrong = 0;
      for (int64_t k = 0; k < 65536 && wrong < 5; ++k) {
        if (!same(wide.at(k), cast(x.at(k), kF32)) || !same(back.at(k), x.at(k))) {
          ++wrong;
          ADD_FAILURE() << target.name << " " << small << " bits " << k << ": " << wide.at(k) << " and " << back.at(k);
        }
      }
    }
}

TEST(Casts, to_f8_round_once_from_every_half_and_from_f64) {
  constexpr int64_t count = 65536;
  for (const Target& target : targets())
    for (DType from : {kF16, kF64}) {
      Memory x(from, count), a(kF8E4M3, count), b(kF8E5M2, count), back(kF32, count);
      for (int64_t k = 0; k < count; ++k) {
        if (from == kF16) {
          x.as<uint16_t>()[k] = static_cast<uint16_t>(k);
        } else {  // half-way between neighbours of f8, and a hair to each side: f32 does not see it
          double tie = std::ldexp(16 + static_cast<double>(k % 16), static_cast<int>(k / 64 % 40) - 26);
          double near = k % 4 == 0 ? 1 : k % 4 == 1 ? 1 + 0x1p-50 : 1 - 0x1p-50;
          x.as<double>()[k] = (k & 32 ? -tie : tie) * near;
        }
      }
      kernel::Kernel kernel = kernel::parse(
          text("kernel.thread @f8(in %x: ", from, "[65536], out %a: f8e4m3[65536], out %b: f8e5m2[65536], ",
               "out %c: f32[65536]) {\nphase grid(i < 4096) {\n%v = load %x[i * 16 + d0] : vec<16x", from,
               ">\n%p = cast %v : vec<16xf8e4m3>\nstore %a[i * 16 + d0], %p\n%q = cast %v : vec<16xf8e5m2>\n",
               "store %b[i * 16 + d0], %q\n%r = cast %p : vec<16xf32>\nstore %c[i * 16 + d0], %r\n}\n}\n"));
      CompiledKernel compiled = compile_host(kernel, target);
      run_compiled(kernel, compiled, {x.data(), a.data(), b.data(), back.data()}, {});
      int wrong = 0;
      for (int64_t k = 0; k < count && wrong < 5; ++k) {
        bool right = same(a.at(k), cast(x.at(k), kF8E4M3)) && same(b.at(k), cast(x.at(k), kF8E5M2)) &&
                     same(back.at(k), cast(a.at(k), kF32));
        if (right) continue;
        ++wrong;
        ADD_FAILURE() << target.name << " " << x.at(k) << " gave " << a.at(k) << " and " << b.at(k) << ", should be "
                      << cast(x.at(k), kF8E4M3) << " and " << cast(x.at(k), kF8E5M2);
      }
    }
}

// Around every bfloat, subnormal ones included: ties and their neighbours.
TEST(Casts, f32_to_bfloat_rounds_to_nearest_even_in_vectors_of_any_length) {
  const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  const int64_t n = 65536 * 6;
  Memory x(kF32, n);
  for (int64_t k = 0; k < n; ++k)
    x.as<uint32_t>()[k] = static_cast<uint32_t>(k % 65536) << 16 | low[static_cast<size_t>(k / 65536)];
  for (const Target& target : targets())
    for (int lanes : {4, 8, 16, 32}) {
      Memory y(kBF16, n);
      kernel::Kernel kernel = kernel::parse(text("kernel.thread @narrow(in %x: f32[", n, "], out %y: bf16[", n,
                                                 "]) {\nphase grid(i < ", n / lanes, ") {\n%a = load %x[i * ", lanes,
                                                 " + d0] : vec<", lanes, "xf32>\n%b = cast %a : vec<", lanes,
                                                 "xbf16>\nstore %y[i * ", lanes, " + d0], %b\n}\n}\n"));
      CompiledKernel compiled = compile_host(kernel, target);
      run_compiled(kernel, compiled, {x.data(), y.data()}, {});
      int wrong = 0;
      for (int64_t k = 0; k < n && wrong < 5; ++k) {
        if (same(y.at(k), cast(x.at(k), kBF16))) continue;
        ++wrong;
        ADD_FAILURE() << target.name << " " << lanes << " lanes, bits " << x.as<uint32_t>()[k] << ": " << y.at(k);
      }
    }
}

TEST(Ops, a_vector_meets_a_scalar) {
  Memory x(kF32, 32), y(kF32, 32);
  fill(x, 6);
  expect_like_interpreter(kernel::parse(R"(
kernel.thread @scale(in %x: f32[32], out %y: f32[32]) {
  phase grid(i < 2) {
    %a = load %x[i * 16 + d0] : vec<16xf32>
    %s = load %x[i] : f32
    %b = mul %s, %a
    %t = lt %a, %s
    %c = where %t, %b, %s
    store %y[i * 16 + d0], %c
  }
}
)"),
                          {&x, &y});
}

TEST(Ops, floats_are_not_contracted) {
  // 1 + 2^-12 squared minus its rounded square is 0, unless multiplication and subtraction are fused.
  Memory x = Memory::of<float>(std::vector<float>(16, 1.0f + 0x1p-12f)), y(kF32, 16);
  expect_like_interpreter(kernel::parse(R"(
kernel.thread @square(in %x: f32[16], out %y: f32[16]) {
  phase grid() {
    %a = load %x[d0] : vec<16xf32>
    %b = mul %a, %a
    %c = constant -1.00048828125 : f32
    %d = add %b, %c
    store %y[d0], %d
  }
}
)"),
                          {&x, &y});
  EXPECT_EQ(y.as<float>()[0], 0.0f);
}

TEST(Ops, math_ops_are_refused_by_name) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @e(in %x: f32[1], out %y: f32[1]) {
  phase grid() {
    %a = load %x[0] : f32
    %b = exp %a
    store %y[0], %b
  }
}
)");
  try {
    compile_host(kernel, host_target());
    FAIL() << "compiled";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("exp on f32"), std::string::npos) << error.what();
  }
}

TEST(Hints, a_load_that_prefetches_gives_the_same_and_asks_for_the_line) {
  const char* source =
      "kernel.thread @fetch(in %x: f32[256], out %y: f32[256]) {\n  phase grid(i < 16) {\n"
      "    %0 = load %x[i * 16 + d0] prefetch 64 : vec<16xf32>\n    store %y[i * 16 + d0], %0\n  }\n}\n";
  kernel::Kernel kernel = kernel::parse(source);
  EXPECT_EQ(print(kernel), source);
  Memory x(kF32, 256), y(kF32, 256);
  fill(x, 9);
  for (const Target& target : targets()) {
    expect_like_interpreter(kernel, {&x, &y}, target);
    EXPECT_NE(host_assembly(kernel, target).find("prefetch"), std::string::npos) << target.name;
  }
}

TEST(Hints, only_loads_prefetch) {
  kernel::Kernel kernel = kernel::parse(
      "kernel.thread @fetch(out %y: f32[16]) {\nphase grid() {\n%0 = constant 1 : vec<16xf32>\n"
      "store %y[d0], %0 prefetch 64\n}\n}\n");
  EXPECT_THROW(kernel::verify(kernel), InternalError);
}

}  // namespace
}  // namespace heddle
