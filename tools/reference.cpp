#include "tools/reference.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

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

struct MultiplyAdd {
  const char* name;
  void (*run)(int64_t rounds);
  int lanes, registers;
};

const MultiplyAdd& best_multiply_add() {
  static const MultiplyAdd avx512{"AVX-512 FMA", fma_avx512, 16, 24}, avx2{"AVX2 FMA", fma_avx2, 8, 12},
      sse{"SSE multiply and add", multiply_add_sse, 4, 12};
  return has_avx512() ? avx512 : has_avx2() ? avx2 : sse;
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

const char* multiply_add_name() { return best_multiply_add().name; }

}  // namespace heddle::tools
