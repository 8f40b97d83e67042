// Work bound by memory: the expressions that the suites memory, odd and small measure.
#pragma once

#include <heddle/heddle.h>

#include <span>
#include <string>
#include <vector>

namespace heddle::tools {

using Tensors = std::vector<Tensor>;

enum class Bound { Copy, Read, Transpose };  // what it is compared with, and how close it must come

struct MemoryCase {
  const char* name;
  Tensors (*make)(const Tensor& x, const Tensor& y);
  Bound bound = Bound::Copy;
  bool two_inputs = false;  // reads y as well
  bool floats_only = false;
};

// On x and y of one shape (rows, columns).
std::span<const MemoryCase> elementwise_cases();
std::span<const MemoryCase> row_cases();     // normalisations along rows
std::span<const MemoryCase> reduce_cases();  // over rows, columns, everything
std::span<const MemoryCase> scan_cases();
std::span<const MemoryCase> move_cases();

// Bytes that must at least be moved: of the inputs and of all results.
uint64_t least_bytes(const MemoryCase& which, const Tensor& x, const Tensor& y);

}  // namespace heddle::tools
