// Sorting kernels, interpreted and compiled for every target, against std::stable_sort.
#include "compile/direct/sort.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/nvptx.h"
#include "codegen/run.h"

namespace heddle {
namespace {

enum class Data { Mixed, Few, Equal, Ascending, Small, Zeros };
constexpr Data kAllData[] = {Data::Mixed, Data::Few, Data::Equal, Data::Ascending, Data::Small, Data::Zeros};

Memory make_data(const SortTask& task, Data kind, uint32_t seed) {
  Memory memory(task.dtype, task.rows * task.n);
  fill(memory, seed);
  if (kind == Data::Mixed) return memory;
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < memory.count(); ++i) {
    double v = 0;
    switch (kind) {
      case Data::Few:
        if (random() % 2 == 0) memory.set(i, memory.at(static_cast<int64_t>(random() % 5) % memory.count()));
        continue;
      case Data::Equal: v = 3; break;
      case Data::Ascending: v = static_cast<double>(i % task.n % 100); break;
      case Data::Small: v = static_cast<double>(random() % 7); break;
      default:
        v = random() % 2 ? 0.0 : -0.0;
        if (random() % 5 == 0) v = random() % 2 ? NAN : 1;
        if (random() % 9 == 0) v = -NAN;
    }
    memory.set(i, Scalar::of(task.dtype, v));
  }
  return memory;
}

// Positions in order, by the rules of NumPy (and of PyTorch for descending order).
std::vector<int64_t> expected_order(const SortTask& task, const Memory& x, int64_t row) {
  std::vector<Scalar> elements;
  for (int64_t i = 0; i < task.n; ++i) elements.push_back(x.at(row * task.n + i));
  auto less = [&](int64_t i, int64_t j) {
    const Scalar &a = elements[static_cast<size_t>(i)], &b = elements[static_cast<size_t>(j)];
    if (is_float(task.dtype)) return std::isnan(b.f) ? !std::isnan(a.f) : a.f < b.f;
    return is_signed(task.dtype) ? a.i < b.i : a.u < b.u;
  };
  std::vector<int64_t> order(static_cast<size_t>(task.n));
  std::iota(order.begin(), order.end(), 0);
  if (task.descending)
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return less(j, i); });
  else
    std::stable_sort(order.begin(), order.end(), less);
  return order;
}

void expect_sorted(const SortTask& task, const Memory& x, const std::vector<Memory>& results) {
  for (int64_t row = 0; row < task.rows; ++row) {
    std::vector<int64_t> order = expected_order(task, x, row);
    for (int64_t i = 0; i < task.kept; ++i) {
      int64_t from = order[static_cast<size_t>(i)], at = row * task.kept + i;
      if (task.values) {
        Scalar got = results[0].at(at), want = x.at(row * task.n + from);
        ASSERT_TRUE(same(got, want)) << "row " << row << ", value " << i << ": " << got << " instead of " << want;
        if (is_float(task.dtype)) {
          ASSERT_EQ(std::signbit(got.f) && got.f == 0, std::signbit(want.f) && want.f == 0)
              << "row " << row << ", zero " << i;
        }
      }
      if (task.indices) {
        ASSERT_EQ(results.back().at(at).i, from) << "row " << row << ", position " << i;
      }
    }
  }
}

// A kernel for one task, to be run on several data.
class Sorter {
 public:
  Sorter(const SortTask& task, const Target& target) : task_(task), target_(target), direct_(sort_kernel(task)) {
    kernel_ = build_direct(direct_, target);
  }

  void run_compiled(const Memory& x) {
    if (compiled_.phases.empty()) compiled_ = compile_host(kernel_, target_);
    run(x, true);
  }
  void interpret(const Memory& x) { run(x, false); }

 private:
  void run(const Memory& x, bool compiled) {
    SCOPED_TRACE(text(direct_.description, ", ", target_.name, compiled ? ", compiled" : ", interpreted"));
    std::vector<Memory> results, temps;
    results.reserve(2);
    temps.reserve(kernel_.buffers.size());
    std::vector<void*> buffers;
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const kernel::Buffer& buffer = kernel_.buffers[i];
      sizes.push_back(buffer.size.value());
      void* memory = nullptr;
      if (i == 0)
        memory = x.data();
      else if (i < direct_.buffers.size())
        memory = results.emplace_back(buffer.dtype, buffer.size.value()).data();
      else if (buffer.space == kernel::Space::Temp)
        memory = temps.emplace_back(buffer.dtype, buffer.size.value()).data();
      buffers.push_back(memory);
    }
    if (compiled)
      heddle::run_compiled(kernel_, compiled_, buffers, {});
    else
      kernel::interpret(kernel_, buffers, sizes);
    for (const Memory& memory : results) EXPECT_TRUE(memory.guards_intact());
    for (const Memory& memory : temps) EXPECT_TRUE(memory.guards_intact());
    expect_sorted(task_, x, results);
  }

  SortTask task_;
  Target target_;
  DirectKernel direct_;
  kernel::Kernel kernel_;
  CompiledKernel compiled_;
};

Target simt_target() {
  Target target;
  target.name = "simulated";
  target.machine = Machine::Simt;
  return target;
}

std::vector<Target> cpu_targets() {
  std::vector<Target> targets;
  for (const char* name : {"avx512", "avx2", "sse"}) {
    try {
      targets.push_back(cpu_target(name));
    } catch (const ValueError&) {}
  }
  return targets;
}

constexpr DType kAllDTypes[] = {kBool, kI8,     kI16,    kI32, kI64,  kU8,  kU16, kU32,
                                kU64,  kF8E4M3, kF8E5M2, kF16, kBF16, kF32, kF64};

Target any_cpu(uint32_t number) {
  std::vector<Target> targets = cpu_targets();
  return targets[number % targets.size()];
}

TEST(Sort, every_dtype_and_order_of_short_and_longer_rows) {
  uint32_t seed = 0;
  for (DType dtype : kAllDTypes)
    for (int64_t n : {1, 2, 16, 61, 97}) {
      uint32_t what = 1 + ++seed % 3;
      SortTask task{2, n, n, dtype, seed % 2 == 0, (what & 1) != 0, (what & 2) != 0};
      Sorter cpu(task, any_cpu(seed)), simt(task, simt_target());
      for (Data data : kAllData) {
        Memory x = make_data(task, data, seed);
        cpu.run_compiled(x);
        if (data != Data::Mixed) continue;
        cpu.interpret(x);
        simt.interpret(x);
      }
    }
}

TEST(Sort, every_kind_of_data_on_every_target) {
  for (const Target& target : cpu_targets())
    for (DType dtype : {kF32, kF64, kF16, kU64})
      for (bool descending : {false, true}) {
        SortTask task{1, 431, 431, dtype, descending, true, dtype != kF16};
        Sorter sorter(task, target);
        for (Data data : kAllData) sorter.run_compiled(make_data(task, data, 11));
      }
}

TEST(Sort, long_rows_are_cut_into_blocks) {
  uint32_t seed = 0;
  for (DType dtype : {kF32, kI64, kBool, kBF16}) {
    SortTask task{2, 20011, 20011, dtype, dtype == kBF16, dtype != kI64, dtype != kBool};
    Sorter sorter(task, any_cpu(++seed));
    for (Data data : {Data::Mixed, Data::Small}) sorter.run_compiled(make_data(task, data, seed));
  }
  for (bool descending : {false, true})
    for (int64_t kept : {20011, 500})
      for (bool values : {false, true}) {
        SortTask task{2, 20011, kept, kBool, descending, values, !values || kept == 500};
        ++seed;
        Sorter(task, any_cpu(seed)).run_compiled(make_data(task, Data::Mixed, seed));
      }
  SortTask task{1, 8200, 8200, kF32, false, true, true};
  Sorter(task, any_cpu(0)).interpret(make_data(task, Data::Mixed, 5));
  Target small = simt_target();
  small.shared_bytes = 4096;
  small.multiprocessors = 1;
  task.n = task.kept = 4097;
  Sorter(task, small).interpret(make_data(task, Data::Few, 5));
}

// As many rows as a vector has lanes, and a few more; lengths around those of vectors and of what registers hold.
TEST(Sort, many_rows_are_sorted_in_lanes) {
  uint32_t seed = 200;
  for (DType dtype : kAllDTypes)
    for (int64_t n : {2, 7, 8, 9, 15, 16, 17, 33, 64, 65, 130}) {
      const uint32_t what = 1 + ++seed % 3;
      if (seed % 2 == n % 3 % 2) continue;
      const int64_t rows = seed % 2 == 0 ? 64 : 37, kept = seed % 5 == 0 ? n - 1 : n;
      SortTask task{rows, n, kept, dtype, seed % 7 < 3, (what & 1) != 0, (what & 2) != 0};
      Sorter sorter(task, any_cpu(seed / 2));
      for (Data data : {Data::Mixed, Data::Zeros, Data::Few}) sorter.run_compiled(make_data(task, data, seed));
      if (seed % 9 == 0) sorter.interpret(make_data(task, Data::Zeros, seed));
    }
}

TEST(Sort, zeros_of_both_signs_keep_their_order) {
  uint32_t seed = 0;
  for (DType dtype : {kF16, kBF16, kF32, kF64})
    for (int64_t rows : {1, 70})
      for (bool descending : {false, true}) {
        SortTask task{rows, 700, descending ? 699 : 700, dtype, descending, true, false};
        Sorter sorter(task, any_cpu(++seed % 4));
        Memory x = make_data(task, Data::Zeros, 12);
        sorter.run_compiled(x);
        for (int64_t i = 0; i < x.count(); ++i)  // one row, or few, with a single zero of the other sign
          x.set(i, Scalar::of(dtype, i == 300 ? -0.0 : static_cast<double>(i % 3)));
        sorter.run_compiled(x);
      }
}

// Chunks are of 8192 elements of 4 bytes, and of as many bytes otherwise.
TEST(Sort, chunks_of_a_row_are_merged) {
  uint32_t seed = 300;
  for (const Target& target : cpu_targets())
    for (int64_t n : {255, 256, 257, 2048, 2049, 4097, 8191, 8192, 8193, 16385, 65537, 90001}) {
      SortTask task{seed % 2 + 1, n, n, seed % 3 == 0 ? kF64 : seed % 3 == 1 ? kF32 : kI32, seed % 2 == 0, true, false};
      if (++seed % 3 == 0) task.indices = true;
      if (seed % 4 == 0) task.kept = n / 2;
      Sorter sorter(task, target);
      for (Data data : {Data::Mixed, Data::Ascending, Data::Equal, Data::Zeros})
        sorter.run_compiled(make_data(task, data, seed));
    }
}

TEST(Sort, a_row_that_fills_its_chunks_but_for_a_little) {
  for (int64_t n : {(int64_t{1} << 20) - 1, (int64_t{1} << 20) + 5000}) {
    SortTask task{1, n, n, kF32, false, true, false};
    Sorter(task, any_cpu(0)).run_compiled(make_data(task, Data::Mixed, 13));
  }
}

TEST(Sort, keeps_the_first_of_a_full_sort) {
  for (int64_t n : {201, 9000})
    for (int64_t kept : {int64_t{190}, n - 1}) {
      SortTask task{2, n, kept, kF32, kept == 190, true, true};
      Sorter sorter(task, any_cpu(0));
      for (Data data : kAllData) sorter.run_compiled(make_data(task, data, 6));
    }
}

TEST(Sort, selects_the_first_few) {
  uint32_t seed = 100;
  for (DType dtype : kAllDTypes)
    for (int64_t kept : {1, 50}) {
      ++seed;
      SortTask task{2, 1000 + seed % 77, kept, dtype, seed % 2 == 0, true, true};
      Sorter cpu(task, any_cpu(seed)), simt(task, simt_target());
      for (Data data : kAllData) {
        Memory x = make_data(task, data, seed);
        cpu.run_compiled(x);
        if (data != Data::Few) continue;
        if (seed % 3 == 0) cpu.interpret(x);
        if (seed % 5 == 0) simt.interpret(x);
      }
    }
}

TEST(Sort, selects_from_the_parts_of_a_long_row) {
  for (const Target& target : cpu_targets())
    for (int64_t n : {16384, 70001}) {
      SortTask task{1, n, 40, kF32, n == 16384, true, true};
      Sorter sorter(task, target);
      for (Data data : kAllData) sorter.run_compiled(make_data(task, data, 8));
    }
  SortTask task{1, 16500, 5, kF32, true, true, true};
  Memory x = make_data(task, Data::Mixed, 9);
  Sorter(task, any_cpu(0)).interpret(x);
  Sorter(task, simt_target()).interpret(x);
}

// The best elements crowd in few groups: many more candidates than wanted.
TEST(Sort, selects_from_crowded_groups) {
  for (const Target& target : cpu_targets()) {
    SortTask task{1, 4096, 50, kF32, true, true, true};
    Memory x(kF32, task.n);
    for (int64_t i = 0; i < task.n; ++i)
      x.set(i, Scalar::of(kF32, i < 700 ? static_cast<double>(1000 + i * 37 % 701) : static_cast<double>(i % 13)));
    Sorter sorter(task, target);
    sorter.run_compiled(x);
    sorter.interpret(x);
  }
}

TEST(Sort, makes_ptx) {
  for (int64_t n : {10, 3000, 100000})
    for (int64_t kept : {int64_t{10}, n}) {
      SortTask task{3, n, kept, kF32, false, true, true};
      DirectKernel direct = sort_kernel(task);
      EXPECT_NE(ptx(build_direct(direct, nvidia_target()), nvidia_target()).find(direct.name + "_0"),
                std::string::npos);
    }
}

}  // namespace
}  // namespace heddle
