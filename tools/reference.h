// What the hardware can do: the other side of every comparison. Written by hand, independent of the compiler.
#pragma once

#include <cstdint>

namespace heddle::tools {

// Each runs on `threads` threads of its own, started for the call: use them on work of many milliseconds.
void copy_with_memcpy(void* to, const void* from, uint64_t bytes, int threads);
void copy_streaming(void* to, const void* from, uint64_t bytes, int threads);  // stores bypass the caches
void read_all(const void* from, uint64_t bytes, int threads);

// Fused multiply-adds on registers alone, as wide as the CPU has them; about `milliseconds` of work on an ordinary
// core. Returns the number of f32 operations, two for each lane of each instruction.
double multiply_add(int threads, double milliseconds);
const char* multiply_add_name();  // "AVX-512 FMA"

// The most operations a second that the CPU does on registers with factors of this kind, sums in f32 or i32: by the
// fastest instruction that it has. Runs for about `milliseconds` after all threads have started.
enum class Peak { F32, BF16, I8 };
double peak_rate(Peak kind, int threads, double milliseconds);
const char* peak_name(Peak kind);  // "AVX-512 FMA", "AVX-512 BF16 dot"

// Bytes a second when the same memory is read again and again, for about `milliseconds`.
double read_rate(const void* from, uint64_t bytes, int threads, double milliseconds);

}  // namespace heddle::tools
