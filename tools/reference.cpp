#include "tools/reference.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tools/machine.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

void on_threads(int threads, const std::function<void(int)>& part) {
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(part, i);
  part(0);
}

// Shares out [0, bytes) in whole pages.
void share_bytes(uint64_t bytes, int threads, const std::function<void(uint64_t begin, uint64_t size)>& part) {
  constexpr uint64_t kPage = 4096;
  uint64_t share = (bytes / static_cast<uint64_t>(threads) + kPage - 1) / kPage * kPage;
  on_threads(threads, [&](int i) {
    uint64_t begin = std::min(bytes, share * static_cast<uint64_t>(i));
    part(begin, std::min(share, bytes - begin));
  });
}

bool has_avx512() { return __builtin_cpu_supports("avx512f"); }
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

// The kernels below want 64-byte alignment and do whole blocks of 256 bytes; the caller sees to the rest.

__attribute__((target("avx512f"))) void stream_avx512(char* to, const char* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 256) {
    __m512i a = _mm512_load_si512(from + i), b = _mm512_load_si512(from + i + 64);
    __m512i c = _mm512_load_si512(from + i + 128), d = _mm512_load_si512(from + i + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 192), d);
  }
  _mm_sfence();
}

void stream_sse(char* to, const char* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 64) {
    for (uint64_t k = 0; k < 64; k += 16) {
      __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + k));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + k), value);
    }
  }
  _mm_sfence();
}

__attribute__((target("avx512f"))) void read_avx512(const char* from, uint64_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (uint64_t i = 0; i < bytes; i += 256) {
    a = _mm512_or_si512(a, _mm512_load_si512(from + i));
    b = _mm512_or_si512(b, _mm512_load_si512(from + i + 64));
    c = _mm512_or_si512(c, _mm512_load_si512(from + i + 128));
    d = _mm512_or_si512(d, _mm512_load_si512(from + i + 192));
  }
  a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
  asm volatile("" : : "v"(a));  // somebody uses the sum: the loads must happen
}

void read_sse(const char* from, uint64_t bytes) {
  __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
  for (uint64_t i = 0; i < bytes; i += 64) {
    const auto* line = reinterpret_cast<const __m128i*>(from + i);
    a = _mm_or_si128(a, _mm_load_si128(line));
    b = _mm_or_si128(b, _mm_load_si128(line + 1));
    c = _mm_or_si128(c, _mm_load_si128(line + 2));
    d = _mm_or_si128(d, _mm_load_si128(line + 3));
  }
  a = _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d));
  asm volatile("" : : "x"(a));
}

// x = x * factor + term on enough independent registers to hide the latency. The values stay near 500: ordinary
// numbers, because zeros would need less power and flatter the clock.
constexpr float kFactor = 0.999f, kTerm = 0.5f;

__attribute__((target("avx512f"))) void fma_avx512(int64_t rounds) {
  asm volatile(
      "vbroadcastss %[factor], %%zmm30\n"
      "vbroadcastss %[term], %%zmm31\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
      "vmovaps %%zmm31, %%zmm\\r\n"
      ".endr\n"
      "77:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
      "vfmadd213ps %%zmm31, %%zmm30, %%zmm\\r\n"
      ".endr\n"
      "decq %[rounds]\n"
      "jnz 77b\n"
      "vzeroupper\n"
      : [rounds] "+r"(rounds)
      : [factor] "m"(kFactor), [term] "m"(kTerm)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm30",
        "xmm31");
}

__attribute__((target("avx2,fma"))) void fma_avx2(int64_t rounds) {
  asm volatile(
      "vbroadcastss %[factor], %%ymm14\n"
      "vbroadcastss %[term], %%ymm15\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n"
      "vmovaps %%ymm15, %%ymm\\r\n"
      ".endr\n"
      "77:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n"
      "vfmadd213ps %%ymm15, %%ymm14, %%ymm\\r\n"
      ".endr\n"
      "decq %[rounds]\n"
      "jnz 77b\n"
      "vzeroupper\n"
      : [rounds] "+r"(rounds)
      : [factor] "m"(kFactor), [term] "m"(kTerm)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
        "xmm15");
}

void multiply_add_sse(int64_t rounds) {
  asm volatile(
      "movss %[factor], %%xmm14\n"
      "shufps $0, %%xmm14, %%xmm14\n"
      "movss %[term], %%xmm15\n"
      "shufps $0, %%xmm15, %%xmm15\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n"
      "movaps %%xmm15, %%xmm\\r\n"
      ".endr\n"
      "77:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n"
      "mulps %%xmm14, %%xmm\\r\n"
      "addps %%xmm15, %%xmm\\r\n"
      ".endr\n"
      "decq %[rounds]\n"
      "jnz 77b\n"
      : [rounds] "+r"(rounds)
      : [factor] "m"(kFactor), [term] "m"(kTerm)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
        "xmm15");
}

// Products of two bf16 (four i8) each, added to a lane of 32 bits.
#define HD_DOT_AVX512(name, instruction)                                                                              \
  __attribute__((target("avx512f"))) void name(int64_t rounds) {                                                      \
    asm volatile(                                                                                                     \
        "vbroadcastss %[factor], %%zmm30\n"                                                                           \
        "vbroadcastss %[term], %%zmm31\n"                                                                             \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"                                      \
        "vmovaps %%zmm31, %%zmm\\r\n"                                                                                 \
        ".endr\n"                                                                                                     \
        "77:\n"                                                                                                       \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n" instruction                          \
        " %%zmm31, %%zmm30, %%zmm\\r\n"                                                                               \
        ".endr\n"                                                                                                     \
        "decq %[rounds]\n"                                                                                            \
        "jnz 77b\n"                                                                                                   \
        "vzeroupper\n"                                                                                                \
        : [rounds] "+r"(rounds)                                                                                       \
        : [factor] "m"(kFactor), [term] "m"(kTerm)                                                                    \
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",     \
          "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
          "xmm30", "xmm31");                                                                                          \
  }
HD_DOT_AVX512(dot_bf16_avx512, "vdpbf16ps")
HD_DOT_AVX512(dot_i8_avx512, "vpdpbusd")
#undef HD_DOT_AVX512

struct MultiplyAdd {
  const char* name;
  void (*run)(int64_t rounds);
  int lanes, registers;  // lanes: products added by one instruction
};

const MultiplyAdd& best_multiply_add() {
  static const MultiplyAdd avx512{"AVX-512 FMA", fma_avx512, 16, 24}, avx2{"AVX2 FMA", fma_avx2, 8, 12},
      sse{"SSE multiply and add", multiply_add_sse, 4, 12};
  return has_avx512() ? avx512 : has_avx2() ? avx2 : sse;
}

// The fastest of those that take such factors: not every CPU does dots at the rate of its multiply-adds.
const MultiplyAdd& best_of_kind(Peak kind) {
  static const MultiplyAdd bf16{"AVX-512 BF16 dot", dot_bf16_avx512, 32, 24},
      i8{"AVX-512 VNNI dot", dot_i8_avx512, 64, 24};
  const MultiplyAdd& plain = best_multiply_add();
  const MultiplyAdd* dot = kind == Peak::BF16 && __builtin_cpu_supports("avx512bf16") ? &bf16
                           : kind == Peak::I8 && __builtin_cpu_supports("avx512vnni") ? &i8
                                                                                      : nullptr;
  if (!dot) return plain;
  auto rate = [](const MultiplyAdd& which) {
    double best = 1e30;
    for (int i = 0; i < 5; ++i) {
      double start = now();
      which.run(20000);
      best = std::min(best, now() - start);
    }
    return which.lanes * which.registers / best;
  };
  return rate(*dot) > rate(plain) ? *dot : plain;
}
const MultiplyAdd& best_known(Peak kind) {
  static const MultiplyAdd *bf16 = &best_of_kind(Peak::BF16), *i8 = &best_of_kind(Peak::I8);
  return kind == Peak::BF16 ? *bf16 : kind == Peak::I8 ? *i8 : best_multiply_add();
}

// Seconds from when all threads are there until the last is done: starting them does not count. Each has a core of its
// own; the calling thread keeps the first.
double time_together(int threads, const std::function<void(int)>& part) {
  std::atomic<int> arrived = 0;
  std::vector<double> begin(static_cast<size_t>(threads)), end = begin;
  on_threads(threads, [&](int i) {
    pin_thread(0, i);
    ++arrived;
    while (arrived < threads) _mm_pause();
    begin[static_cast<size_t>(i)] = now();
    part(i);
    end[static_cast<size_t>(i)] = now();
  });
  return *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
}

// Splits a range into whole blocks of 256 bytes and a rest.
uint64_t whole_blocks(uint64_t bytes) { return bytes / 256 * 256; }

}  // namespace

void copy_with_memcpy(void* to, const void* from, uint64_t bytes, int threads) {
  share_bytes(bytes, threads, [&](uint64_t begin, uint64_t size) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, size);
  });
}

void copy_streaming(void* to, const void* from, uint64_t bytes, int threads) {
  share_bytes(bytes, threads, [&](uint64_t begin, uint64_t size) {
    char* target = static_cast<char*>(to) + begin;
    const char* source = static_cast<const char*>(from) + begin;
    uint64_t blocks = whole_blocks(size);
    (has_avx512() ? stream_avx512 : stream_sse)(target, source, blocks);
    std::memcpy(target + blocks, source + blocks, size - blocks);
  });
}

void read_all(const void* from, uint64_t bytes, int threads) {
  share_bytes(bytes, threads, [&](uint64_t begin, uint64_t size) {
    (has_avx512() ? read_avx512 : read_sse)(static_cast<const char*>(from) + begin, whole_blocks(size));
  });
}

double multiply_add(int threads, double milliseconds) {
  const MultiplyAdd& kind = best_multiply_add();
  // Two instructions a cycle at 3 GHz: near enough for choosing how long to run.
  auto rounds = static_cast<int64_t>(milliseconds * 3e6 * 2 / kind.registers);
  on_threads(threads, [&](int) { kind.run(rounds); });
  return 2.0 * kind.lanes * kind.registers * static_cast<double>(rounds) * threads;
}

double peak_rate(Peak kind, int threads, double milliseconds) {
  const MultiplyAdd& which = best_known(kind);
  auto rounds = static_cast<int64_t>(milliseconds * 3e6 / which.registers) + 1;
  double seconds = time_together(threads, [&](int) { which.run(rounds); });
  return 2.0 * which.lanes * which.registers * static_cast<double>(rounds) * threads / seconds;
}

const char* peak_name(Peak kind) { return best_known(kind).name; }

double read_rate(const void* from, uint64_t bytes, int threads, double milliseconds) {
  uint64_t share = whole_blocks(bytes / static_cast<uint64_t>(threads));
  double seconds = 0;
  auto times = [&](uint64_t count) {
    seconds = time_together(threads, [&](int i) {
      const char* begin = static_cast<const char*>(from) + share * static_cast<uint64_t>(i);
      for (uint64_t k = 0; k < count; ++k) (has_avx512() ? read_avx512 : read_sse)(begin, share);
    });
    return static_cast<double>(share * static_cast<uint64_t>(threads) * count) / seconds;
  };
  double once = times(1);
  return times(static_cast<uint64_t>(std::max(1.0, milliseconds * 1e-3 * once / static_cast<double>(bytes))));
}

const char* multiply_add_name() { return best_multiply_add().name; }

}  // namespace heddle::tools
