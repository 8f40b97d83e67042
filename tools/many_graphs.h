// Graphs for benchmarks of the compiler itself.
#pragma once

#include <heddle/heddle.h>

namespace heddle::tools {

// Graphs that differ in operators, form and shape, so that no kernel fits two of them: chains, sums, softmaxes,
// transposes, maxima.
Tensor graph_number(int number, const Tensor& x, const Tensor& y);

}  // namespace heddle::tools
