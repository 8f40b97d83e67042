#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/build.h"
#include "tensor/symbolic.h"

namespace heddle {
namespace {

// Inside a DeviceScope a constant belongs to the scope's device.
Tensor pinned(const NodeRef& constant) { return Tensor(make_to(constant, pinning_device())); }

// What `make` gives for the dtype of the options, on their device.
template <class Make>
Tensor made_with(const TensorOptions& options, DType otherwise, Make make) {
  std::optional<DeviceScope> scope;
  if (options.device) scope.emplace(*options.device);
  return make(options.dtype.value_or(otherwise));
}

Tensor filled(const char* op, const Dims& dims, const Operand& value, DType dtype) {
  if (value.kind() == Operand::Kind::Tensor) throw ValueError(text(op, ": the value must be a number"));
  return pinned(number_node(op, value, dtype, to_symbolic_shape(op, dims, dtype)));
}
Tensor filled_like(const char* op, const Tensor& x, const Operand& value, std::optional<DType> dtype) {
  if (value.kind() == Operand::Kind::Tensor) throw ValueError(text(op, ": the value must be a number"));
  NodeRef n = x.node();
  DType to = dtype.value_or(n->dtype);
  check_shape(op, n->shape, to);
  NodeRef made = number_node(op, value, to, n->shape);
  return n->device == kAnywhere ? pinned(made) : Tensor(placed_at(made, n->device));
}

// The shape of nested lists, taken from the first of each.
Dims nested_shape(const Numbers& values) {
  Dims shape;
  for (const Numbers* at = &values; at->is_list(); at = &at->list()[0]) {
    shape.push_back(static_cast<int64_t>(at->list().size()));
    if (at->list().empty()) break;
  }
  return shape;
}
void collect(const Numbers& values, std::span<const int64_t> shape, std::vector<const Operand*>& out) {
  bool fits =
      values.is_list() ? !shape.empty() && static_cast<int64_t>(values.list().size()) == shape[0] : shape.empty();
  if (!fits) throw ShapeError("tensor: the nested lists have different lengths or depths");
  if (!values.is_list()) return out.push_back(&values.number());
  for (const Numbers& part : values.list()) collect(part, shape.subspan(1), out);
}

}  // namespace

Tensor full(const Dims& dims, const Operand& value, DType dtype) { return filled("full", dims, value, dtype); }
Tensor scalar(const Operand& value, DType dtype) { return filled("scalar", {}, value, dtype); }
Tensor zeros(const Dims& dims, DType dtype) { return filled("zeros", dims, 0, dtype); }
Tensor ones(const Dims& dims, DType dtype) { return filled("ones", dims, 1, dtype); }
Tensor empty(const Dims& dims, DType dtype) { return filled("empty", dims, 0, dtype); }
Tensor full_like(const Tensor& x, const Operand& value, std::optional<DType> dtype) {
  return filled_like("full_like", x, value, dtype);
}
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype) { return filled_like("zeros_like", x, 0, dtype); }
Tensor ones_like(const Tensor& x, std::optional<DType> dtype) { return filled_like("ones_like", x, 1, dtype); }
Tensor empty_like(const Tensor& x, std::optional<DType> dtype) { return filled_like("empty_like", x, 0, dtype); }

Tensor tensor(const Numbers& values, DType dtype) {
  Dims shape = nested_shape(values);
  std::vector<const Operand*> numbers;
  collect(values, shape, numbers);
  Shape static_shape = to_shape("tensor", shape, dtype);
  std::vector<std::byte> bytes(numbers.size() * static_cast<size_t>(size_of(dtype)) + 1);
  for (size_t i = 0; i < numbers.size(); ++i)
    store_scalar(bytes.data(), static_cast<int64_t>(i), number_scalar("tensor", *numbers[i], dtype));
  return Tensor(buffer_node(bytes.data(), dtype, static_shape));
}

namespace {

// A sequence whose first and last value are these; integers do not wrap, and truth values are no numbers.
void check_ends(const char* op, double first, double last, DType dtype) {
  if (dtype == kBool) throw DTypeError(text(op, ": numbers in steps, not bool; compare them or cast them"));
  if (is_float(dtype)) return;
  int digits = precision(dtype);
  double above = std::ldexp(1.0, digits), below = is_signed(dtype) ? -above : 0;
  for (double value : {first, last})
    if (!(std::trunc(value) >= below && std::trunc(value) < above))
      throw ValueError(text(op, ": ", value, " does not fit a tensor of dtype ", dtype));
}

// begin + i * step for i < count, computed in i64 or f64.
Tensor progression(int64_t count, const Operand& begin, const Operand& step, DType dtype) {
  Tensor positions(make_iota(kI64, Shape{count}, 0));
  bool whole = begin.kind() != Operand::Kind::Float && step.kind() != Operand::Kind::Float;
  if (!whole) positions = cast(positions, kF64);
  if (!(step.kind() == Operand::Kind::Integer && step.integer() == 1)) positions = mul(positions, step);
  if (begin.real() != 0) positions = add(positions, begin);
  return cast(positions, dtype);
}

}  // namespace

Tensor arange(const Operand& end, std::optional<DType> dtype) { return arange(0, end, 1, dtype); }

Tensor arange(const Operand& begin, const Operand& end, const Operand& step, std::optional<DType> dtype) {
  bool whole = true;
  for (const Operand* number : {&begin, &end, &step}) {
    if (number->kind() == Operand::Kind::Tensor) throw ValueError("arange: the bounds and the step must be numbers");
    whole = whole && number->kind() != Operand::Kind::Float;
  }
  auto fail = [&] {
    throw ValueError(text("arange: from ", begin.real(), " to ", end.real(), " by ", step.real(), " has no count"));
  };
  int64_t count = 0;
  if (whole) {
    Int128 distance = static_cast<Int128>(end.integer()) - begin.integer(), by = step.integer();
    if (by == 0) fail();
    Int128 steps = by > 0 ? (distance + by - 1) / by : (distance + by + 1) / by;
    if (distance == 0 || (distance > 0) != (by > 0)) steps = 0;
    if (steps > INT64_MAX) fail();
    count = static_cast<int64_t>(steps);
  } else {
    double steps = std::ceil((end.real() - begin.real()) / step.real());
    if (!(std::abs(steps) < 9e15)) fail();
    count = static_cast<int64_t>(std::max(steps, 0.0));
  }
  DType to = dtype.value_or(whole ? kI64 : kF32);
  to_shape("arange", {count}, to);
  double last = begin.real() + static_cast<double>(std::max<int64_t>(count - 1, 0)) * step.real();
  // Of i64 both ends are numbers of that dtype; a double might round the last one up.
  bool exact = whole && to == kI64;
  check_ends("arange", exact || count == 0 ? 0 : begin.real(), exact || count == 0 ? 0 : last, to);
  return pinned(progression(count, begin, step, to).node());
}

Tensor linspace(double begin, double end, int64_t count, bool endpoint, DType dtype) {
  if (count < 0) throw ValueError(text("linspace: a count of ", count));
  to_shape("linspace", {count}, dtype);
  int64_t parts = endpoint ? count - 1 : count;
  check_ends("linspace", count > 0 ? begin : 0, count > 1 && endpoint ? end : count > 0 ? begin : 0, dtype);
  Tensor position(make_iota(kI64, Shape{count}, 0)), at = cast(position, kF64);
  // From whichever end is nearer, so that both ends are exact.
  double step = parts > 0 ? (end - begin) / static_cast<double>(parts) : 0;
  if (!endpoint || parts == 0) return pinned(cast(add(mul(at, step), begin), dtype).node());
  Tensor from_end = sub(end, mul(sub(static_cast<double>(parts), at), step));
  return pinned(cast(where(lt(position, (parts + 1) / 2), add(mul(at, step), begin), from_end), dtype).node());
}

Tensor logspace(double begin, double end, int64_t count, bool endpoint, double base, DType dtype) {
  if (count < 0) throw ValueError(text("logspace: a count of ", count));
  double first = std::pow(base, begin), last = std::pow(base, endpoint ? end : begin);
  check_ends("logspace", count > 0 ? first : 0, count > 1 ? last : 0, dtype);
  return cast(pow(base, linspace(begin, end, count, endpoint, kF64)), dtype);
}

namespace {

// Row and column of every element of a matrix.
struct Positions {
  Tensor row, column;
};
Positions positions(const char* op, int64_t n, int64_t m, DType dtype) {
  Shape shape = to_shape(op, {n, m}, dtype);
  return {Tensor(make_iota(kI64, shape, 0)), Tensor(make_iota(kI64, shape, 1))};
}

}  // namespace

Tensor eye(int64_t n, DType dtype) { return eye(n, n, 0, dtype); }
Tensor eye(int64_t n, int64_t m, int64_t k, DType dtype) {
  Positions at = positions("eye", n, m, dtype);
  k = std::clamp(k, -n, m);  // beyond the corners all diagonals are alike
  return pinned(cast(eq(k == 0 ? at.row : add(at.row, k), at.column), dtype).node());
}
Tensor tri(int64_t n, int64_t m, int64_t k, DType dtype) {
  Positions at = positions("tri", n, m, dtype);
  k = std::clamp(k, -n, m);
  return pinned(cast(ge(k == 0 ? at.row : add(at.row, k), at.column), dtype).node());
}

Tensor full(const Dims& dims, const Operand& value, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return full(dims, value, dtype); });
}
Tensor scalar(const Operand& value, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return scalar(value, dtype); });
}
Tensor zeros(const Dims& dims, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return zeros(dims, dtype); });
}
Tensor ones(const Dims& dims, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return ones(dims, dtype); });
}
Tensor empty(const Dims& dims, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return empty(dims, dtype); });
}
Tensor tensor(const Numbers& values, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return tensor(values, dtype); });
}
Tensor arange(const Operand& end, const TensorOptions& options) { return arange(0, end, 1, options); }
Tensor arange(const Operand& begin, const Operand& end, const Operand& step, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType) { return arange(begin, end, step, options.dtype); });
}
Tensor linspace(double begin, double end, int64_t count, bool endpoint, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return linspace(begin, end, count, endpoint, dtype); });
}
Tensor logspace(double begin, double end, int64_t count, bool endpoint, double base, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return logspace(begin, end, count, endpoint, base, dtype); });
}
Tensor eye(int64_t n, int64_t m, int64_t k, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return eye(n, m, k, dtype); });
}
Tensor tri(int64_t n, int64_t m, int64_t k, const TensorOptions& options) {
  return made_with(options, kF32, [&](DType dtype) { return tri(n, m, k, dtype); });
}

}  // namespace heddle
