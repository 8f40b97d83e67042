#include "base/error.h"
#include "tensor/build.h"
#include "tensor/capture.h"

namespace heddle {
namespace {

Tensor tiled(const char* op, const Tensor& x, const Dims& counts) {
  Dims shape = x.shape(), times = counts;
  while (shape.size() < times.size()) shape.insert(shape.begin(), 1);
  while (times.size() < shape.size()) times.insert(times.begin(), 1);
  Dims apart, spread, joined;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (times[i] < 0) throw ValueError(text(op, ": ", list_text(counts), " has a negative count"));
    apart.insert(apart.end(), {1, shape[i]});
    spread.insert(spread.end(), {times[i], shape[i]});
    int64_t size;
    if (__builtin_mul_overflow(times[i], shape[i], &size))
      throw ShapeError(text(op, ": ", x.node()->shape, " by ", list_text(counts), " overflows"));
    joined.push_back(size);
  }
  to_shape(op, joined, x.dtype());
  return reshape(expand(reshape(x, apart), spread), joined);
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
  Dims joined = x.shape(), spread = joined;
  if (__builtin_mul_overflow(joined[at], count, &joined[at]))
    throw ShapeError(text("repeat_interleave: ", x.node()->shape, " times ", count, " overflows"));
  to_shape("repeat_interleave", joined, x.dtype());
  spread.insert(spread.begin() + static_cast<int64_t>(at) + 1, count);
  return reshape(expand(unsqueeze(x, static_cast<int64_t>(at) + 1), spread), joined);
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
  return gather(x, from_vector(positions, {static_cast<int64_t>(positions.size())}), at);
}

}  // namespace heddle
