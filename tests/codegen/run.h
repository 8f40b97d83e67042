// Runs a kernel compiled and interpreted, and compares every byte it wrote.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/codegen.h"
#include "kernel/interpreter.h"

namespace heddle {

// Elements in memory of their own. Bytes around them are checked, and pages further out cannot be touched at all.
class Memory {
 public:
  Memory(DType dtype, int64_t count) : dtype_(dtype), count_(count) {
    bytes_ = static_cast<size_t>(count) * static_cast<size_t>(size_of(dtype));
    size_t rounded = (bytes_ + 63) / 64 * 64;
    pages_ = (rounded + 64 + kPage - 1) / kPage * kPage + 2 * kPage;
    map_ = static_cast<uint8_t*>(mmap(nullptr, pages_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_ + kPage, pages_ - 2 * kPage, PROT_READ | PROT_WRITE);
    std::memset(map_ + kPage, kGuard, pages_ - 2 * kPage);
    data_ = map_ + pages_ - kPage - rounded;
    std::memset(data_, 0, bytes_);
  }
  Memory(const Memory& other) : Memory(other.dtype_, other.count_) {
    if (bytes_) std::memcpy(data_, other.data_, bytes_);
  }
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(map_, pages_); }

  template <class T>
  static Memory of(const std::vector<T>& elements) {
    Memory memory(dtype_of<T>(), static_cast<int64_t>(elements.size()));
    for (size_t k = 0; k < elements.size(); ++k) memory.as<T>()[k] = elements[k];
    return memory;
  }

  DType dtype() const { return dtype_; }
  int64_t count() const { return count_; }
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  Scalar at(int64_t k) const { return load_scalar(data_, k, dtype_); }
  void set(int64_t k, const Scalar& value) { store_scalar(data_, k, value); }
  bool guards_intact() const {
    for (uint8_t* p = map_ + kPage; p < map_ + pages_ - kPage; ++p)
      if ((p < data_ || p >= data_ + bytes_) && *p != kGuard) return false;
    return true;
  }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr uint8_t kGuard = 0xa5;
  DType dtype_;
  int64_t count_;
  size_t bytes_ = 0, pages_ = 0;
  uint8_t *map_ = nullptr, *data_ = nullptr;
};

inline bool same(const Scalar& a, const Scalar& b) {
  if (is_float(a.dtype) && a.f != a.f) return b.f != b.f;  // which NaN it is may differ
  return a == b;
}

// Random bits, mixed with the values at which things go wrong.
inline void fill(Memory& memory, uint32_t seed) {
  std::mt19937_64 random(seed);
  DType dtype = memory.dtype();
  int bits = size_of(dtype) * 8;
  const double special[] = {0.0,      -0.0,      1.0,   -1.0,   0.5,     -0.5,        1.5,    2.5,    -2.5,
                            INFINITY, -INFINITY, NAN,   1e30,   3.0,     -3.0,        7.0,    65504., 65520.,
                            1e-7,     6e-8,      4e9,   -4e9,   127.9,   -128.9,      1e19,   2e19,   -1e19,
                            5.5,      32768.,    1e-40, 5e-324, 1.7e308, 2147483647., 255.5,  256.0,  1e-310,
                            448.,     464.,      465.,  480.,   57344.,  61440.,      61439., 0x1p-9, 0x1p-10};
  for (int64_t k = 0; k < memory.count(); ++k) {
    uint64_t raw = random();
    if (dtype == kBool) {
      memory.set(k, Scalar::of(kBool, (raw & 1) != 0));
    } else if (raw % 3 == 0) {
      double v = special[(raw >> 8) % std::size(special)];
      memory.set(k, Scalar::of(dtype, v));
    } else if (raw % 3 == 1) {  // small numbers: quotients and equal pairs
      memory.set(k, Scalar::of(dtype, static_cast<double>(static_cast<int64_t>(raw >> 40 & 0xff) - 128) / 4));
    } else {
      memory.set(k, Scalar::from_bits(dtype, bits == 64 ? random() : random() & ((uint64_t{1} << bits) - 1)));
    }
  }
}

// Blocks of a phase in two parts, as two workers would.
inline void run_compiled(const kernel::Kernel& kernel, const CompiledKernel& compiled, std::vector<void*> buffers,
                         const std::vector<int64_t>& symbols) {
  Memory scratch(kI8, (compiled.scratch_bytes + 63) / 64 * 64);
  auto extent = [&](const Expr& block) {
    return evaluate(block.is_var() ? block.extent() : Expr(1), [&](const Expr& v) {
      for (size_t k = 0; k < symbols.size(); ++k)
        if (kernel.symbols[k] == v) return symbols[k];
      throw InternalError("unknown symbol");
    });
  };
  const int64_t rounds = kernel.rounds ? extent(kernel.phases[0].blocks[0]) : 1;
  for (int64_t round = 0; round < rounds; ++round)
    for (size_t phase = 0; phase < kernel.phases.size(); ++phase) {
      int64_t blocks = 1;
      for (const Expr& block : kernel.phases[phase].blocks) blocks *= extent(block);
      blocks /= rounds;
      int64_t begin = blocks * round, half = blocks / 3;
      compiled.phases[phase](buffers.data(), symbols.data(), begin, begin + half, scratch.data());
      compiled.phases[phase](buffers.data(), symbols.data(), begin + half, begin + blocks, scratch.data());
    }
  EXPECT_TRUE(scratch.guards_intact()) << "wrote outside the scratch memory";
}

// Elements of a buffer in which a zero may have either sign: minimum and maximum of 0 and -0 give any of them.
struct ZeroSigns {
  size_t buffer;
  int64_t begin, end;
};

// `buffers` in order of the kernel's, Shared ones left out; they hold the compiled kernel's results afterwards.
inline void expect_like_interpreter(const kernel::Kernel& kernel, std::vector<Memory*> buffers,
                                    const Target& target = host_target(), const std::vector<int64_t>& symbols = {},
                                    const std::vector<ZeroSigns>& any_zero = {}) {
  kernel::verify(kernel);
  std::vector<Memory> expected;
  expected.reserve(buffers.size());
  std::vector<void*> compiled_pointers, expected_pointers;
  std::vector<int64_t> sizes;
  size_t next = 0;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    bool shared = buffer.space == kernel::Space::Shared;
    compiled_pointers.push_back(shared ? nullptr : buffers[next]->data());
    if (!shared) expected.emplace_back(*buffers[next]);
    expected_pointers.push_back(shared ? nullptr : expected.back().data());
    sizes.push_back(shared ? 0 : buffers[next]->count());
    if (!shared) ++next;
  }
  kernel::interpret(kernel, expected_pointers, sizes, symbols);
  CompiledKernel compiled;
  try {
    compiled = compile_host(kernel, target);
  } catch (const Error& error) {
    FAIL() << error.what() << "\n" << print(kernel);
  }
  run_compiled(kernel, compiled, compiled_pointers, symbols);
  for (size_t k = 0; k < buffers.size(); ++k) {
    EXPECT_TRUE(buffers[k]->guards_intact()) << "wrote outside buffer " << k << "\n" << print(kernel);
    int shown = 0;
    auto both_zero = [&](int64_t e) {
      for (const ZeroSigns& part : any_zero)
        if (part.buffer == k && part.begin <= e && e < part.end)
          return buffers[k]->at(e).f == 0 && expected[k].at(e).f == 0;
      return false;
    };
    for (int64_t e = 0; e < buffers[k]->count() && shown < 3; ++e)
      if (!same(buffers[k]->at(e), expected[k].at(e)) && !both_zero(e)) {
        ++shown;
        ADD_FAILURE() << target.name << ": buffer " << k << "[" << e << "] is " << buffers[k]->at(e) << ", should be "
                      << expected[k].at(e);
      }
    if (shown) ADD_FAILURE() << print(kernel);
  }
}

// Every CPU target this machine can run.
inline std::vector<Target> targets() {
  std::vector<Target> result;
  for (const char* name : {"avx512", "avx2", "sse"}) {
    try {
      result.push_back(cpu_target(name));
    } catch (const ValueError&) {}
  }
  return result;
}

}  // namespace heddle
