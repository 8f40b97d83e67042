// Random numbers, by a counter-based generator.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// Every call takes the next key of the process's generator; the same seed gives the same numbers on every device.
void manual_seed(uint64_t seed);  // the two halves of the seed are combined into 32 bits
Tensor uniform(const Dims& shape, double low = 0, double high = 1, DType dtype = kF32);  // [low, high)
Tensor randn(const Dims& shape, DType dtype = kF32);                                     // mean 0, variance 1
// Both are made of 24 random bits per uniform number, in f64 too.

}  // namespace heddle
