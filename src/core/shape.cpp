#include "core/shape.h"

#include <ostream>

#include "base/error.h"

namespace heddle {

bool Shape::is_static() const {
  for (const Expr& dim : *this)
    if (!dim.is_const()) return false;
  return true;
}

Expr Shape::numel() const {
  Expr product = 1;
  for (const Expr& dim : *this) product = product * dim;
  return product;
}

int64_t Shape::static_numel() const {
  HD_ASSERT(is_static(), "shape ", to_string(*this));
  int64_t product = 1;
  for (const Expr& dim : *this) product *= dim.value();
  return product;
}

int64_t Shape::known_numel() const {
  int64_t product = 1;
  for (const Expr& dim : *this) product *= known_size(dim);
  return product;
}

int64_t known_size(const Expr& size) {
  if (size.is_const()) return size.value();
  std::optional<int64_t> value = known_value(size);
  if (!value) throw ValueError(text("the size ", size, " has no value"));
  return *value;
}

bool same_size(const Expr& a, const Expr& b) {
  if (a == b || provably_equal(a, b)) return true;
  return a.is_const() != b.is_const() && known_value(a) && known_value(a) == known_value(b);
}

SmallVector<Expr, 4> Shape::strides() const {
  SmallVector<Expr, 4> strides(size(), Expr(1));
  for (size_t axis = size(); axis-- > 1;) strides[axis - 1] = strides[axis] * (*this)[axis];
  return strides;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (const Expr& dim : shape) {
    out += (out.size() > 1 ? ", " : "") + to_string(dim);
    if (std::optional<int64_t> value = known_value(dim); value && !dim.is_const()) out += text("=", *value);
  }
  return out + "]";
}
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

int normalize_axis(const char* op, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) throw IndexError(text(op, ": axis ", axis, " is out of range for rank ", rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  size_t offset = longer.size() - shorter.size();
  for (size_t axis = 0; axis < shorter.size(); ++axis) {
    Expr& dim = result[offset + axis];
    const Expr& other = shorter[axis];
    if (other.is_const(1) || dim == other) continue;
    if (dim.is_const(1)) {
      dim = other;
    } else if (!same_size(dim, other)) {
      throw ShapeError(text(op, ": shapes ", a, " and ", b, " do not broadcast: ", dim, " against ", other));
    } else if (dim.is_const()) {
      dim = other;
    }
  }
  return result;
}

void check_shape(const char* op, const Shape& shape, DType dtype) {
  bool empty = false;
  for (const Expr& dim : shape) {
    if (dim.hi() < 0) throw ShapeError(text(op, ": negative dimension in shape ", shape));
    empty = empty || dim.hi() == 0;
  }
  if (empty) return;  // whatever the other dimensions say
  int64_t bytes = size_of(dtype);
  for (const Expr& dim : shape)
    if (__builtin_mul_overflow(bytes, dim.hi(), &bytes))
      throw ShapeError(text(op, ": a tensor of shape ", shape, " and dtype ", dtype, " exceeds 2^63 bytes"));
}

}  // namespace heddle
