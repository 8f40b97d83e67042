// The SIMD lowering against the interpreter: what its tests share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "compile/simd/lower.h"
#include "kernel/builder.h"
#include "kernel/interpreter.h"
#include "simt_programs.h"

namespace heddle::testing {

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

inline Memory make_memory(const Kernel& k, const std::vector<int64_t>& symbols, unsigned seed) {
  std::mt19937 random(seed);
  Memory m;
  for (const kernel::Buffer& b : k.buffers) {
    int64_t n = evaluate(b.size, [&](const Expr& v) {
      for (size_t i = 0; i < k.symbols.size(); ++i)
        if (k.symbols[i] == v) return symbols[i];
      return int64_t{0};
    });
    std::vector<char> data(static_cast<size_t>(n * size_of(b.dtype)) + 1);
    bool shared = b.space == Space::Shared;
    for (int64_t e = 0; e < n && !shared; ++e) {
      double real = static_cast<double>(random() % 4096) / 1024.0 - 2.0;
      Scalar s =
          is_float(b.dtype) ? Scalar::of(b.dtype, real) : Scalar::of(b.dtype, static_cast<int64_t>(random() % 50));
      store_scalar(data.data(), e, s);
    }
    m.bytes.push_back(std::move(data));
    m.pointers.push_back(shared ? nullptr : m.bytes.back().data());
    m.sizes.push_back(n);
  }
  return m;
}

inline Target avx512() { return Target{}; }
inline Target neon() {
  Target t;
  t.name = "neon";
  t.vector_bytes = 16;
  return t;
}
inline Target avx2() {
  Target t;
  t.name = "avx2";
  t.vector_bytes = 32;
  t.vector_registers = 16;
  return t;
}

// Lowers, checks, runs both and compares all memory; gives the lowered text.
inline std::string expect_same(const Kernel& tile, double tolerance = 0, const std::vector<int64_t>& symbols = {},
                               const Target& target = avx512()) {
  verify(tile);
  Kernel threads = lower_simd(tile, target);
  std::string text = print(threads);
  EXPECT_NO_THROW(verify(threads)) << text;
  EXPECT_EQ(threads.threads, 1);
  EXPECT_EQ(threads.level, kernel::Level::Thread);
  Memory expected = make_memory(tile, symbols, 1), actual = make_memory(threads, symbols, 1);
  // Shared buffers that lowering adds come after all others, so both start with the same data.
  interpret(tile, expected.pointers, expected.sizes, symbols);
  try {
    interpret(threads, actual.pointers, actual.sizes, symbols);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what() << "\n" << print(tile) << text;
    return text;
  }
  for (size_t b = 0; b < tile.buffers.size(); ++b) {
    const kernel::Buffer& buffer = tile.buffers[b];
    if (buffer.space == Space::Shared) continue;
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

inline std::string expect_same(const std::string& tile, double tolerance = 0, const std::vector<int64_t>& symbols = {},
                               const Target& target = avx512()) {
  return expect_same(kernel::parse(tile), tolerance, symbols, target);
}

inline int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// From the line that opens the n-th loop to the line that closes it.
inline std::string loop_text(const std::string& text, int n) {
  size_t at = 0;
  for (int i = 0; i <= n; ++i) at = text.find("loop ", at) + 1;
  size_t line = text.rfind('\n', at) + 1;
  size_t indent = text.find_first_not_of(' ', line) - line;
  size_t end = text.find("\n" + std::string(indent, ' ') + "}", at);
  return text.substr(line, end - line);
}

inline std::string with(std::string text, const std::string& name, int64_t value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name))
    text.replace(at, name.size(), std::to_string(value));
  return text;
}

}  // namespace heddle::testing
