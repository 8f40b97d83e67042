#include "base/error.h"
#include "tensor/build.h"
#include "tensor/recording.h"

namespace heddle {
namespace {

// A size so many times; ShapeError where the largest that it may have is more than there are numbers.
Expr times_size(const char* op, const NodeRef& x, const Expr& size, int64_t count, const std::string& by) {
  int64_t most;
  if (__builtin_mul_overflow(size.hi(), count, &most))
    throw ShapeError(text(op, ": ", x->shape, " by ", by, " overflows"));
  return size * count;
}

Tensor tiled(const char* op, const Tensor& x, const Dims& counts) {
  NodeRef n = x.node();
  Shape shape = n->shape;
  Dims times = counts;
  while (shape.size() < times.size()) shape.insert(0, 1);
  while (times.size() < shape.size()) times.insert(times.begin(), 1);
  // Symbols are multiplied as such: behind their numbers they could not be told from other sizes.
  Shape apart, spread, joined;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (times[i] < 0) throw ValueError(text(op, ": ", list_text(counts), " has a negative count"));
    apart.push_back(1);
    apart.push_back(shape[i]);
    spread.push_back(times[i]);
    spread.push_back(shape[i]);
    joined.push_back(times_size(op, n, shape[i], times[i], list_text(counts)));
  }
  check_shape(op, joined, n->dtype);
  return Tensor(make_reshape(make_expand(make_reshape(n, apart), spread), joined));
}

}  // namespace

Tensor tile(const Tensor& x, const Dims& counts) { return tiled("tile", x, counts); }
Tensor repeat(const Tensor& x, const Dims& counts) {
  if (static_cast<int>(counts.size()) < x.rank())
    throw ShapeError(text("repeat: ", list_text(counts), " has no count for every axis of ", x.node()->shape));
  return tiled("repeat", x, counts);
}

Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int64_t> axis) {
  if (count < 0) throw ValueError(text("repeat_interleave: a count of ", count));
  if (!axis) return repeat_interleave(ravel(x), count, 0);
  size_t at = static_cast<size_t>(normalize_axis("repeat_interleave", *axis, x.rank()));
  NodeRef n = x.node();
  Shape joined = n->shape, apart = joined, spread = joined;
  joined[at] = times_size("repeat_interleave", n, joined[at], count, std::to_string(count));
  check_shape("repeat_interleave", joined, n->dtype);
  apart.insert(at + 1, 1);
  spread.insert(at + 1, count);
  return Tensor(make_reshape(make_expand(make_reshape(n, apart), spread), joined));
}

Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::optional<int64_t> axis) {
  refuse_in_capture("repeat_interleave() by a tensor of counts", counts);
  if (!axis) return repeat_interleave(ravel(x), counts, 0);
  int at = normalize_axis("repeat_interleave", *axis, x.rank());
  if (!is_integer(counts.dtype()))
    throw DTypeError(text("repeat_interleave: the counts must be integers, not ", counts.dtype()));
  if (counts.rank() > 1 || (counts.numel() != 1 && counts.numel() != x.size(at)))
    throw ShapeError(
        text("repeat_interleave: counts of shape ", counts.node()->shape, " for axis ", at, " of ", x.node()->shape));
  std::vector<int64_t> list = counts.to_vector<int64_t>(), positions;
  for (int64_t i = 0; i < x.size(at); ++i) {
    int64_t count = list[list.size() == 1 ? 0 : static_cast<size_t>(i)];
    if (count < 0) throw ValueError(text("repeat_interleave: a count of ", count));
    to_shape("repeat_interleave", {count, 2}, kI64);
    positions.insert(positions.end(), static_cast<size_t>(count), i);
  }
  OnDeviceOf there(x);
  return gather(x, from_vector(positions, {static_cast<int64_t>(positions.size())}), at);
}

}  // namespace heddle
