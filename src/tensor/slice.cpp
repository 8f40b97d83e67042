#include <algorithm>
#include <limits>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {

Tensor shrink(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& begin_end) {
  NodeRef n = x.node();
  if (begin_end.size() != n->shape.size())
    throw ShapeError(text("shrink: ", begin_end.size(), " ranges for the ", n->shape.size(), " axes of ", n->shape));
  std::vector<Expr> begin, size;
  for (size_t i = 0; i < begin_end.size(); ++i) {
    auto [b, e] = begin_end[i];
    if (b < 0 || e < b || e > n->shape[i].value())
      throw IndexError(text("shrink: [", b, ", ", e, ") is not a range of axis ", i, " of ", n->shape));
    begin.push_back(b);
    size.push_back(e - b);
  }
  return Tensor(make_shrink(n, begin, size));
}

Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step) {
  NodeRef n = x.node();
  size_t at = static_cast<size_t>(normalize_axis("slice", axis, n->shape.rank()));
  if (step == 0) throw ValueError("slice: a step of zero");
  if (step == std::numeric_limits<int64_t>::min()) step = -std::numeric_limits<int64_t>::max();
  int64_t size = n->shape[at].value();
  // Python's rules for clipping.
  auto clip = [&](int64_t i, int64_t low, int64_t high) { return std::clamp(i < 0 ? i + size : i, low, high); };
  int64_t first, last;  // first element, and one past the last in walking direction
  if (step > 0) {
    first = clip(begin.value_or(0), 0, size);
    last = end ? clip(*end, 0, size) : size;
  } else {
    first = begin ? clip(*begin, -1, size - 1) : size - 1;
    last = end ? clip(*end, -1, size - 1) : -1;
  }
  // As a range walked forwards.
  int64_t low = step > 0 ? first : last + 1, high = step > 0 ? last : first + 1;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const Expr& d : n->shape) ranges.emplace_back(0, d.value());
  ranges[at] = {low, std::max(low, high)};
  Tensor part = shrink(x, ranges);
  if (step < 0) part = flip(part, {static_cast<int64_t>(at)});
  int64_t stride = std::abs(step);
  if (stride == 1 || part.size(static_cast<int64_t>(at)) == 0) return part;
  Tensor every = window(part, static_cast<int64_t>(at), 1, std::min(stride, part.size(static_cast<int64_t>(at))));
  return squeeze(every, -1);
}

namespace {

Tensor selected(const char* op, const Tensor& x, int64_t axis, int64_t index) {
  NodeRef n = x.node();
  size_t at = static_cast<size_t>(normalize_axis(op, axis, n->shape.rank()));
  int64_t size = n->shape[at].value();
  if (index < -size || index >= size)
    throw IndexError(text(op, ": position ", index, " of axis ", at, " of ", n->shape, " does not exist"));
  int64_t i = index < 0 ? index + size : index;
  return squeeze(slice(x, static_cast<int64_t>(at), i, i + 1), static_cast<int64_t>(at));
}

}  // namespace

Tensor select(const Tensor& x, int64_t axis, int64_t index) { return selected("select", x, axis, index); }
Tensor Tensor::operator[](int64_t index) const { return selected("operator[]", *this, 0, index); }

Tensor window(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  return Tensor(make_window(x.node(), normalize_axis("window", axis, x.rank()), size, stride, dilation));
}

Tensor unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step) {
  int at = normalize_axis("unfold", axis, x.rank());
  if (size < 1 || step < 1 || size > x.size(at))
    throw ShapeError(
        text("unfold: windows of ", size, " every ", step, " do not fit axis ", at, " of ", x.node()->shape));
  return Tensor(make_window(x.node(), at, size, step, 1));
}

Tensor unwindow(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation, int64_t n) {
  return Tensor(make_unwindow(x.node(), normalize_axis("unwindow", axis, x.rank() - 1), size, stride, dilation, n));
}

}  // namespace heddle
