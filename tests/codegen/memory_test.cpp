#include "run.h"

namespace heddle {
namespace {

// Copies with the given address and guard of the load and of the store, on all targets.
struct Copy {
  DType dtype = kF32;
  int lanes = 16;
  int64_t in_size = 0, out_size = 0;
  std::string load_at, load_if, store_at, store_if, grid, prologue;
  bool stream = false;
};

void check(const Copy& c, const std::vector<int64_t>& symbols = {}, const std::string& symbol_list = "") {
  std::string type = c.lanes ? text("vec<", c.lanes, "x", c.dtype, ">") : text(c.dtype);
  auto guard = [](const std::string& g) { return g.empty() ? "" : " if " + g; };
  kernel::Kernel kernel =
      kernel::parse(text("kernel.thread @copy(in %x: ", c.dtype, "[", c.in_size, "], inout %y: ", c.dtype, "[",
                         c.out_size, "], in %i: i32[64])", symbol_list, " {\nphase grid(", c.grid, ") {\n", c.prologue,
                         "%v = load %x[", c.load_at, "]", guard(c.load_if), " : ", type, "\nstore %y[", c.store_at,
                         "], %v", guard(c.store_if), c.stream ? " stream" : "", "\n}\n}\n"));
  for (const Target& target : targets()) {
    Memory x(c.dtype, c.in_size), y(c.dtype, c.out_size), indices(kI32, 64);
    fill(x, 11), fill(y, 12);
    for (int64_t k = 0; k < 64; ++k) indices.as<int32_t>()[k] = static_cast<int32_t>(k * 37 % 64);
    expect_like_interpreter(kernel, {&x, &y, &indices}, target, symbols);
  }
}

const DType kSizes[] = {kBool, kI8, kF16, kF32, kF64};

TEST(Memory, contiguous) {
  for (DType dtype : kSizes)
    for (int lanes : {0, 1, 3, 16, 64})
      check({dtype, lanes, 4 * std::max(lanes, 1), 4 * std::max(lanes, 1),
             text("i * ", std::max(lanes, 1), lanes ? " + d0" : ""), "",
             text("(3 - i) * ", std::max(lanes, 1), lanes ? " + d0" : ""), "", "i < 4", "", false});
}

TEST(Memory, one_element_for_all_lanes) { check({kF32, 16, 8, 128, "i", "", "i * 16 + d0", "", "i < 8", "", false}); }

TEST(Memory, constant_strides_forward_and_backward) {
  for (DType dtype : kSizes) {
    check({dtype, 16, 64, 64, "i * 16 + 15 - d0", "", "48 - i * 16 + d0", "", "i < 4", "", false});
    check({dtype, 16, 64, 64, "i * 16 + d0", "", "63 - i * 16 - d0", "", "i < 4", "", false});
    check({dtype, 16, 64, 64, "i + d0 * 4", "", "i * 16 + d0", "", "i < 4", "", false});
    check({dtype, 16, 64, 64, "i * 16 + d0", "", "i + d0 * 4", "", "i < 4", "", false});
    check({dtype, 7, 64, 64, "i + (6 - d0) * 3", "", "i * 7 + d0", "", "i < 4", "", false});
  }
}

// Rows of images that follow each other: a vector meets the ends of some.
TEST(Memory, runs) {
  struct Rows {
    int64_t row, pitch, stride;
  };
  for (DType dtype : {kI8, kF32, kF64})
    for (int lanes : {dtype == kF64 ? 8 : 16})
      for (Rows r : {Rows{49, 60, 1}, {28, 112, 2}, {14, 56, 3}, {7, 28, 2}, {3, 9, 1}, {40, 200, 5}}) {
        const int64_t count = 100, in_size = (count / r.row + 1) * r.pitch + r.row * r.stride;
        std::string column = text("(i * ", lanes, " + d0)"), grid = text("i < ", (count + lanes - 1) / lanes);
        std::string rows = text(column, " // ", r.row, " * ", r.pitch, " + ", column, " % ", r.row, " * ", r.stride);
        std::string inside = text(column, " < ", count), odd = text(inside, " && 0 < ", column, " % ", r.row);
        check({dtype, lanes, in_size, 128, rows, odd, column, "", grid, "", false});
        check({dtype, lanes, 128, in_size, column, "", rows, odd, grid, "", false});
        check({dtype, lanes, in_size, 128, rows, text(inside, " && i < 2"), column, "", grid, "", false});
      }
}

// Rows of a square, transposed in registers.
TEST(Memory, transposes) {
  for (DType dtype : kSizes)
    for (int lanes : {2, 4, 8, 32}) {
      std::string type = text("vec<", lanes, "x", dtype, ">"), loads, names, results, stores;
      for (int i = 0; i < lanes; ++i) {
        loads += text("%a", i, " = load %x[d0 + ", i * (lanes + 1), "] : ", type, "\n");
        names += text(i ? ", " : "", "%a", i);
        results += text(i ? ", " : "", "%b", i);
        stores += text("store %y[d0 + ", i * lanes, "], %b", i, "\n");
      }
      kernel::Kernel kernel = kernel::parse(
          text("kernel.thread @turn(in %x: ", dtype, "[", lanes * (lanes + 1), "], out %y: ", dtype, "[", lanes * lanes,
               "]) {\nphase grid(i < 1) {\n", loads, results, " = transpose ", names, "\n", stores, "}\n}\n"));
      for (const Target& target : targets()) {
        Memory x(dtype, lanes * (lanes + 1)), y(dtype, lanes * lanes);
        fill(x, 13);
        expect_like_interpreter(kernel, {&x, &y}, target, {});
      }
    }
}

TEST(Memory, addresses_that_are_not_linear) {
  for (DType dtype : kSizes) {
    check({dtype, 16, 64, 64, "(i * 16 + d0) // 3", "", "(i * 16 + d0 + 5) % 64", "", "i < 4", "", false});
    check({dtype, 16, 64, 64, "(d0 % 4) * 16 + d0 // 4 + i * 4", "", "i * 16 + d0", "", "i < 4", "", false});
  }
}

TEST(Memory, tails_under_a_guard_of_lanes) {
  for (DType dtype : kSizes)
    for (int64_t size : {1, 15, 16, 17, 61}) {
      std::string inside = text("i * 16 + d0 < ", size);
      check({dtype, 16, size, size, "i * 16 + d0", inside, "i * 16 + d0", inside, "i < 4", "", false});
      // The last first, forwards and backwards.
      std::string above = text("i * 16 + d0 >= ", 64 - size);
      check({dtype, 16, size, size, text("63 - i * 16 - d0"), above, text("i * 16 + d0 - ", 64 - size), above, "i < 4",
             "", false});
    }
}

TEST(Memory, guards_of_strided_and_gathered_accesses) {
  for (DType dtype : kSizes) {
    check({dtype, 16, 10, 10, "(i * 16 + d0) // 3", "i * 16 + d0 < 30", "i * 16 + d0", "i * 16 + d0 < 10", "i < 4", "",
           false});
    check({dtype, 16, 33, 33, "i + d0 * 3", "i + d0 * 3 < 33", "i + d0 * 3", "i + d0 * 3 < 33", "i < 3", "", false});
    // Close together: nothing beside the wanted elements may be touched.
    for (const char* at : {"i + d0 * 2", "i + 30 - d0 * 2", "i + d0 * 4", "i * 7 - 9 + d0 * 2"})
      for (const char* inside : {"0 <= %", "% < 9 && 3 <= %", "0 <= % && 2 < d0 && d0 != 7", "0 <= % && 0 < i"}) {
        std::string bounds = text(inside, " && % < 21");
        for (size_t place; (place = bounds.find('%')) != std::string::npos;) bounds.replace(place, 1, at);
        check({dtype, 16, 21, 64, at, bounds, "i * 16 + d0", "", "i < 4", "", false});
      }
    check({dtype, 16, 64, 64, "i * 16 + d0", "d0 == i + 3", "i * 16 + d0", "d0 != i", "i < 4", "", false});
    check({dtype, 16, 64, 64, "i * 16 + d0", "(d0 % 3) == 1", "i * 16 + d0", "d0 < 12 && 2 <= d0", "i < 4", "", false});
    check({dtype, 16, 4, 64, "i", "d0 * 2 < i * 9", "i * 16 + d0", "i * 5 - d0 * 3 < 2", "i < 4", "", false});
  }
}

TEST(Memory, guards_without_lanes) {
  for (DType dtype : kSizes) {
    check({dtype, 16, 32, 32, "i * 16 + d0", "i < 2", "i * 16 + d0", "i < 2", "i < 4", "", false});
    check({dtype, 0, 2, 2, "i", "i < 2", "i", "i < 2", "i < 4", "", false});
    check(
        {dtype, 16, 32, 64, "i * 16 + d0", "i < 2 && d0 < 9", "i * 16 + d0", "1 <= i && d0 < 13", "i < 4", "", false});
    check({dtype, 16, 1, 64, "i * 3", "i < 1", "i * 16 + d0", "", "i < 4", "", false});
  }
}

TEST(Memory, run_time_sizes_bound_the_guards) {
  for (int64_t n : {0, 1, 16, 50}) {
    check({kF32, 16, n, n, "i * 16 + d0", "i * 16 + d0 < n", "n - 1 - i * 16 - d0", "i * 16 + d0 < n",
           "i < (n + 15) // 16", "", false},
          {n}, " symbols (n in [0, 1000000])");
  }
}

TEST(Memory, grids_of_several_dimensions_and_run_time_extents) {
  for (int64_t n : {1, 3})
    check({kI32, 8, 3 * 5 * 8 * n, 3 * 5 * 8 * n, "((i * n + j) * 5 + k) * 8 + d0", "",
           "((j * 3 + i) * 5 + k) * 8 + d0", "", "i < 3, j < n, k < 5", "", false},
          {n}, " symbols (n in [1, 100])");
}

TEST(Memory, streaming_stores) {
  check({kF32, 16, 64, 64, "i * 16 + d0", "", "i * 16 + d0", "", "i < 4", "", true});
  check({kF32, 16, 65, 65, "i * 16 + d0", "", "i * 16 + d0 + 1", "", "i < 4", "", true});
  check({kF64, 8, 64, 64, "i * 8 + d0", "i != 2", "i * 8 + d0", "i != 3", "i < 8", "", true});
}

TEST(Memory, indices_from_data) {
  for (const char* text_of_kernel : {R"(
kernel.thread @rows(in %x: f32[1024], in %i: i32[64], inout %y: f32[1024]) {
  phase grid(r < 64) {
    %k = load %i[r] : i32
    %v = load %x[v0 * 16 + d0] with v0 < 64 = %k : vec<16xf32>
    store %y[r * 16 + d0], %v
  }
})",
                                     R"(
kernel.thread @elements(in %x: f32[1024], in %i: i32[64], inout %y: f32[1024]) {
  phase grid(r < 4) {
    %k = load %i[r * 16 + d0] : vec<16xi32>
    %v = load %x[v0 * 16 + d0] with v0 < 64 = %k if v0 < 50 : vec<16xf32>
    store %y[v0 * 7 + r] with v0 < 64 = %k, %v if d0 != 5
  }
})"}) {
    std::string source = text_of_kernel;
    // The text puts what is bound after the value stored.
    size_t at = source.find(" with v0 < 64 = %k, %v");
    if (at != std::string::npos) source.replace(at, 22, ", %v with v0 < 64 = %k");
    kernel::Kernel kernel = kernel::parse(source);
    for (const Target& target : targets()) {
      Memory x(kF32, 1024), indices(kI32, 64), y(kF32, 1024);
      fill(x, 13), fill(y, 14);
      for (int64_t k = 0; k < 64; ++k) indices.as<int32_t>()[k] = static_cast<int32_t>(k * 37 % 64);
      expect_like_interpreter(kernel, {&x, &indices, &y}, target);
    }
  }
}

// Rows by an index that is read ahead, as far as there is one: memory ends with the last index.
TEST(Memory, rows_named_by_an_index_are_prefetched) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @rows(in %x: f32[262144], in %i: i64[301], inout %y: f32[262144]) {
  phase grid() {
    %0 = constant 0 : i64
    loop k < 301 {
      %1 = load %i[k] : i64
      %2 = maximum %1, %0
      branch v0 < 4000 with v0 in [-100, 100000] = %2 {
        %3 = load %x[v0 * 16 + d0] with v0 in [0, 16383] = %2 : vec<16xf32>
        loop j < 4 {
          %4 = load %y[v0 * 64 + j * 16 + d0] with v0 in [0, 4095] = %2 : vec<16xf32>
          %5 = add %3, %4
          store %y[v0 * 64 + j * 16 + d0], %5 with v0 in [0, 4095] = %2
        }
      }
    }
  }
}
)");
  for (const Target& target : targets()) {
    Memory x(kF32, 262144), i(kI64, 301), y(kF32, 262144);
    for (int64_t k = 0; k < 301; ++k) i.as<int64_t>()[k] = k * 7919 % 4500 - 50;
    for (int64_t k = 0; k < 262144; ++k) x.as<float>()[k] = static_cast<float>(k % 1000), y.as<float>()[k] = 1;
    EXPECT_NE(host_assembly(kernel, target).find("prefetch"), std::string::npos) << target.name;
    expect_like_interpreter(kernel, {&x, &i, &y}, target);
  }
}

TEST(Memory, index_gives_addresses_as_values) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @numbers(out %a: i32[64], out %b: i64[64], out %c: bool[64], out %d: i64[64], out %e: i32[4]) {
  phase grid(i < 4) {
    %0 = index i * 16 + d0 * 3 - 7 : vec<16xi32>
    store %a[i * 16 + d0], %0
    %1 = index (i * 5000000000 + d0 * 77) // 13 : vec<16xi64>
    store %b[i * 16 + d0], %1
    %2 = index d0 < i * 5 : vec<16xbool>
    store %c[i * 16 + d0], %2
    %3 = index min(i, d0) * max(i, 3) - select(d0 == i, 100, d0 - 8) // 3 : vec<16xi64>
    store %d[i * 16 + d0], %3
    %4 = index i * i - 3 : i32
    store %e[i], %4
  }
}
)");
  for (const Target& target : targets()) {
    Memory a(kI32, 64), b(kI64, 64), c(kBool, 64), d(kI64, 64), e(kI32, 4);
    expect_like_interpreter(kernel, {&a, &b, &c, &d, &e}, target);
  }
}

}  // namespace
}  // namespace heddle
