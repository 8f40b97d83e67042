#include <algorithm>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

Tensor diagonal_of(const char* op, const Tensor& x, int64_t offset, int64_t axis0, int64_t axis1) {
  NodeRef node = x.node();
  int first = normalize_axis(op, axis0, x.rank()), second = normalize_axis(op, axis1, x.rank());
  if (first == second) throw ValueError(text(op, ": the axes ", axis0, " and ", axis1, " are the same"));
  // The two axes last and as one: there the diagonal is every (m + 1)-th element.
  Tensor flat = flatten(moveaxis(x, {first, second}, {-2, -1}), -2, -1);
  int64_t n = x.size(first), m = x.size(second);
  offset = std::clamp(offset, -n, m);  // beyond the corners there is nothing either
  int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  int64_t count = row >= n || column >= m ? 0 : std::min(n - row, m - column);
  if (count == 0) return slice(flat, -1, 0, 0);
  int64_t begin = row * m + column;
  return slice(flat, -1, begin, begin + (count - 1) * (m + 1) + 1, m + 1);
}

Tensor embedded(const char* op, const Tensor& x, int64_t offset, int64_t axis0, int64_t axis1) {
  if (x.rank() == 0) throw ShapeError(text(op, ": a scalar is no diagonal"));
  int first = normalize_axis(op, axis0, x.rank() + 1), second = normalize_axis(op, axis1, x.rank() + 1);
  if (first == second) throw ValueError(text(op, ": the axes ", axis0, " and ", axis1, " are the same"));
  int64_t size = x.size(-1);
  if (offset == INT64_MIN) throw ShapeError(text(op, ": the offset ", offset, " overflows"));
  int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  if (__builtin_add_overflow(size, std::max(row, column), &size))
    throw ShapeError(text(op, ": the offset ", offset, " overflows"));
  Dims shape = x.shape();
  shape.back() = size;
  shape.push_back(size);
  Shape whole = to_shape(op, shape, x.dtype());
  // Element i of the diagonal lies in row i + row: it is repeated over that row, and one place is kept.
  std::vector<std::pair<int64_t, int64_t>> widths(static_cast<size_t>(x.rank()), {0, 0});
  widths.back() = {row, column};
  Tensor rows(make_iota(kI64, whole, x.rank() - 1)), columns(make_iota(kI64, whole, x.rank()));
  Tensor result = where(eq(columns, add(rows, offset)), unsqueeze(pad(x, widths), -1),
                        Tensor(make_const(Scalar::of(x.dtype(), 0))));
  return moveaxis(result, {-2, -1}, {first, second});
}

Tensor triangle(const char* op, const Tensor& x, int64_t k, bool upper) {
  if (x.rank() < 2) throw ShapeError(text(op, ": ", x.node()->shape, " is no matrix"));
  Shape shape = x.node()->shape;
  Tensor rows(make_iota(kI64, shape, x.rank() - 2)), columns(make_iota(kI64, shape, x.rank() - 1));
  // Beyond the corners all diagonals are alike.
  k = std::clamp(k, -shape[shape.size() - 2].hi(), shape[shape.size() - 1].hi());
  Tensor edge = k == 0 ? rows : add(rows, k);
  return where(upper ? ge(columns, edge) : le(columns, edge), x, Tensor(make_const(Scalar::of(x.dtype(), 0))));
}

}  // namespace

Tensor diagonal(const Tensor& x, int64_t offset, int64_t axis0, int64_t axis1) {
  return diagonal_of("diagonal", x, offset, axis0, axis1);
}
Tensor diag(const Tensor& x, int64_t k) {
  if (x.rank() == 1) return embedded("diag", x, k, 0, 1);
  if (x.rank() == 2) return diagonal_of("diag", x, k, 0, 1);
  throw ShapeError(text("diag: ", x.node()->shape, " is neither a vector nor a matrix"));
}
Tensor diag_embed(const Tensor& x, int64_t offset, int64_t axis0, int64_t axis1) {
  return embedded("diag_embed", x, offset, axis0, axis1);
}
Tensor trace(const Tensor& x, int64_t offset, int64_t axis0, int64_t axis1) {
  return sum(diagonal_of("trace", x, offset, axis0, axis1), -1);
}
Tensor tril(const Tensor& x, int64_t k) { return triangle("tril", x, k, false); }
Tensor triu(const Tensor& x, int64_t k) { return triangle("triu", x, k, true); }

}  // namespace heddle
