// Where the elements of one host array lie in another: what the oracles of tests and tools walk by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/node.h"

namespace heddle {

// Another array as an array of some shape sees it: from `start` on, so far along each axis.
struct Strided {
  std::vector<int64_t> steps;
  int64_t start = 0;
};

// How far apart elements along each axis are, in row-major order.
std::vector<int64_t> strides_of(std::span<const int64_t> shape);

// The operand as a node of which each element is one of the operand's sees it: all views but Reshape. attrs: the
// node's, as numbers.
Strided seen_by(NodeOp view, std::span<const int64_t> operand, std::span<const int64_t> attrs);

// The result of a reduction over `axes` as its operand, of so many axes, sees it.
Strided result_seen(std::span<const int64_t> result, size_t rank, std::span<const int64_t> axes);

// Windows of an array that has these strides; attrs: of NodeOp::Window.
Strided windows(std::span<const int64_t> strides, std::span<const int64_t> attrs);

// Calls f(position, place) for every index of shape, in row-major order: where the other array has that element.
template <class F>
void for_each_place(std::span<const int64_t> shape, const Strided& other, F f) {
  int64_t n = 1, place = other.start;
  for (int64_t dim : shape) n *= dim;
  const int64_t inner = shape.empty() ? 1 : shape.back(), step = shape.empty() ? 0 : other.steps.back();
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t position = 0; position < n;) {
    for (int64_t k = 0; k < inner; ++k) f(position++, place + k * step);
    for (size_t i = shape.empty() ? 0 : shape.size() - 1; i-- > 0;) {
      place += other.steps[i];
      if (++at[i] < shape[i]) break;
      place -= other.steps[i] * shape[i];
      at[i] = 0;
    }
  }
}

}  // namespace heddle
