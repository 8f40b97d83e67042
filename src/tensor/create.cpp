#include <cmath>

#include "base/error.h"
#include "tensor/build.h"
#include "tensor/symbolic.h"

namespace heddle {

Tensor full(const Dims& dims, const Operand& value, DType dtype) {
  if (value.kind() == Operand::Kind::Tensor) throw ValueError("full: the value must be a number");
  return Tensor(number_node("full", value, dtype, to_symbolic_shape("full", dims, dtype)));
}
Tensor scalar(const Operand& value, DType dtype) { return full({}, value, dtype); }
Tensor zeros(const Dims& dims, DType dtype) { return full(dims, 0, dtype); }
Tensor ones(const Dims& dims, DType dtype) { return full(dims, 1, dtype); }

Tensor tensor(std::initializer_list<double> values, DType dtype) {
  return cast(from_vector(std::vector<double>(values), {static_cast<int64_t>(values.size())}), dtype);
}

Tensor arange(int64_t end, DType dtype) {
  Shape shape = to_shape("arange", {std::max<int64_t>(end, 0)}, dtype);
  return cast(Tensor(make_iota(kI64, shape, 0)), dtype);
}

Tensor arange(double begin, double end, double step, DType dtype) {
  double count = std::ceil((end - begin) / step);
  if (!(std::abs(count) < 9e15))
    throw ValueError(text("arange: from ", begin, " to ", end, " by ", step, " has no count"));
  Tensor positions = arange(static_cast<int64_t>(std::max(count, 0.0)));
  // In double, so that every element is the correctly rounded begin + i * step.
  return cast(add(mul(cast(positions, kF64), step), begin), dtype);
}

Tensor eye(int64_t n, DType dtype) {
  Shape shape = to_shape("eye", {n, n}, dtype);
  Tensor rows(make_iota(kI64, shape, 0)), columns(make_iota(kI64, shape, 1));
  return cast(eq(rows, columns), dtype);
}

}  // namespace heddle
