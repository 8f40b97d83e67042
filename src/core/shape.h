// A tensor's shape: its dimensions, each an integer expression.
#pragma once

#include <iosfwd>
#include <string>

#include <heddle/dtype.h>
#include "base/small_vector.h"

#include "expr/expr.h"

namespace heddle {

class Shape : public SmallVector<Expr, 4> {
 public:
  using SmallVector::SmallVector;

  int rank() const { return static_cast<int>(size()); }
  bool is_static() const;        // every dimension a constant
  Expr numel() const;            // 1 for rank 0
  int64_t static_numel() const;  // of a static shape
  int64_t known_numel() const;   // of known sizes
  // Row-major strides in elements.
  SmallVector<Expr, 4> strides() const;
};

// The number that a size stands for: a constant, or an expression over bound symbols (Expr::bound). ValueError if it
// has none. Only what asks anew for each graph may use it (operators, not the compiler): plans serve other values too.
int64_t known_size(const Expr& size);
// Equal for all values of symbols; or one is a number, and the other stands for that number now.
bool same_size(const Expr& a, const Expr& b);

std::string to_string(const Shape& shape);  // "[2, 3]", "[n=37, 3]"
std::ostream& operator<<(std::ostream& out, const Shape& shape);

// Turns a possibly negative axis into 0..rank-1; throws IndexError naming `op` when out of range.
int normalize_axis(const char* op, int64_t axis, int rank);
// The shape two operands broadcast to, NumPy's rules; throws ShapeError naming `op` and both shapes. A symbol is no 1,
// whatever its value; beside its number the symbol is kept.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);
// Throws ShapeError when a dimension is negative or the number of bytes overflows int64.
void check_shape(const char* op, const Shape& shape, DType dtype);

}  // namespace heddle
