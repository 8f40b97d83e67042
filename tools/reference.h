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

}  // namespace heddle::tools
