#include <algorithm>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

using Widths = std::vector<std::pair<int64_t, int64_t>>;

void check_widths(const NodeRef& n, const Widths& before_after) {
  if (before_after.size() != n->shape.size())
    throw ShapeError(text("pad: ", before_after.size(), " pairs for the ", n->shape.size(), " axes of ", n->shape));
  Dims grown;
  for (size_t i = 0; i < before_after.size(); ++i) {
    auto [b, a] = before_after[i];
    if (b < 0 || a < 0) throw ValueError(text("pad: axis ", i, " by ", b, " and ", a, "; use shrink to cut"));
    int64_t size = n->shape[i].hi();
    if (__builtin_add_overflow(size, b, &size) || __builtin_add_overflow(size, a, &size))
      throw ShapeError(text("pad: axis ", i, " of ", n->shape, " by ", b, " and ", a, " overflows"));
    grown.push_back(size);
  }
  to_shape("pad", grown, n->dtype);
}

// One position along an axis, `count` times.
Tensor repeated(const Tensor& x, int64_t axis, int64_t position, int64_t count) {
  Dims shape = x.shape();
  shape[static_cast<size_t>(axis)] = count;
  return expand(slice(x, axis, position, position + 1), shape);
}

// What follows the elements beyond an edge, over and over: from the first element on, in reading direction.
Tensor period_of(const Tensor& x, int64_t axis, PadMode mode) {
  int64_t size = x.size(axis);
  if (mode == PadMode::Circular) return x;
  if (mode == PadMode::Symmetric) return cat({x, flip(x, axis)}, axis);
  if (size <= 2) return x;  // 1 2 1 2 ...
  return cat({x, flip(slice(x, axis, 1, size - 1), axis)}, axis);
}

Tensor pad_axis(const Tensor& x, int64_t axis, int64_t before, int64_t after, PadMode mode) {
  if (before == 0 && after == 0) return x;
  int64_t size = x.size(axis);
  if (size == 0)
    throw ValueError(text("pad: axis ", axis, " of ", x.node()->shape, " is empty, so there is nothing to repeat"));
  if (mode == PadMode::Replicate || (mode == PadMode::Reflect && size == 1))
    return cat({repeated(x, axis, 0, before), x, repeated(x, axis, size - 1, after)}, axis);
  // Within one length of the edge: pieces of the tensor itself.
  int64_t reach = mode == PadMode::Reflect ? size - 1 : size;
  if (before <= reach && after <= reach) {
    Tensor front, back;
    if (mode == PadMode::Circular) {
      front = slice(x, axis, size - before);
      back = slice(x, axis, 0, after);
    } else {
      int64_t edge = mode == PadMode::Reflect ? 1 : 0;
      front = flip(slice(x, axis, edge, edge + before), axis);
      back = flip(slice(x, axis, size - edge - after, size - edge), axis);
    }
    return cat({front, x, back}, axis);
  }
  // Further out: whole periods, cut to size.
  Tensor period = period_of(x, axis, mode);
  int64_t length = period.size(axis), lead = (before + length - 1) / length * length;
  Dims counts(static_cast<size_t>(x.rank()), 1);
  counts[static_cast<size_t>(axis)] = (lead + size + after + length - 1) / length;
  return slice(tile(period, counts), axis, lead - before, lead + size + after);
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& before_after, const Operand& value) {
  NodeRef n = x.node();
  if (value.kind() == Operand::Kind::Tensor) throw ValueError("pad: the fill value must be a number");
  check_widths(n, before_after);
  std::vector<Expr> before, after;
  for (auto [b, a] : before_after) {
    before.push_back(b);
    after.push_back(a);
  }
  Scalar fill = number_scalar("pad", value, n->dtype);
  return Tensor(make_pad(n, before, after, fill));
}

Tensor pad(const Tensor& x, const Widths& before_after, PadMode mode) {
  if (mode == PadMode::Constant) return pad(x, before_after, 0);
  check_widths(x.node(), before_after);
  Tensor result(x.node());
  for (size_t i = 0; i < before_after.size(); ++i)
    result = pad_axis(result, static_cast<int64_t>(i), before_after[i].first, before_after[i].second, mode);
  return result;
}

}  // namespace heddle
