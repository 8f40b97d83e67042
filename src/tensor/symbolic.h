// Symbolic sizes in operators. A size that a user has named (dim.h) stands in shapes as a symbol bound to its number
// (Expr::bound). Operators record the symbol wherever they can, so that graphs for other numbers have the same plan.
// Where one must know the number it may use it: the number then becomes part of the graph, and of the plan's key.
#pragma once

#include <heddle/dim.h>
#include <heddle/tensor.h>

#include <optional>

#include "core/shape.h"
#include "graph/node.h"

namespace heddle {

struct Dim::Symbol {
  Expr size;  // Expr::symbol, or a constant if the bounds leave one value
  std::string name;
};

// The shape that a user's list means: sizes taken from Tensor::shape() are the symbols they were there.
Shape to_symbolic_shape(const char* op, const Dims& dims, DType dtype);

// The number of elements as data, of rank 0: a constant, or read from the symbols when the kernel runs.
NodeRef size_node(const Expr& size, DType dtype);

// x with the number in place of the symbol on one axis, or on all of them.
NodeRef with_number(const NodeRef& x, int axis);
NodeRef with_numbers(const NodeRef& x);

// The shape for reshape: `dims` are numbers that fit, and each is given the meaning with which plans can be shared. The
// one at `open`, if not negative, was left open by the user.
Shape reshape_sizes(const Shape& from, const Dims& dims, int open);

// Elements [begin, end) of an axis of this size by Python's rules, the missing and negative positions taken for every
// value of the symbol alike. Nothing if that depends on the value.
struct SymbolicRange {
  Expr begin, size;
};
std::optional<SymbolicRange> symbolic_range(const Expr& size, std::optional<int64_t> begin, std::optional<int64_t> end);

}  // namespace heddle
