#include <algorithm>
#include <limits>

#include "base/error.h"
#include "tensor/build.h"
#include "tensor/symbolic.h"

namespace heddle {

Tensor shrink(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& begin_end) {
  NodeRef n = x.node();
  if (begin_end.size() != n->shape.size())
    throw ShapeError(text("shrink: ", begin_end.size(), " ranges for the ", n->shape.size(), " axes of ", n->shape));
  std::vector<Expr> begin, size;
  for (size_t i = 0; i < begin_end.size(); ++i) {
    auto [b, e] = begin_end[i];
    int64_t whole = known_size(n->shape[i]);
    if (b < 0 || e < b || e > whole)
      throw IndexError(text("shrink: [", b, ", ", e, ") is not a range of axis ", i, " of ", n->shape));
    if (!n->shape[i].is_const()) {
      // Up to the end stays up to the end.
      auto range = symbolic_range(n->shape[i], b, e == whole ? std::nullopt : std::optional(e));
      if (range && known_size(range->size) == e - b) {
        begin.push_back(range->begin);
        size.push_back(range->size);
        continue;
      }
    }
    begin.push_back(b);
    size.push_back(e - b);
  }
  return Tensor(make_shrink(n, begin, size));
}

namespace {

// Elements [begin, begin + size) of one axis.
NodeRef cut(const NodeRef& x, size_t axis, const Expr& begin, const Expr& size) {
  std::vector<Expr> first(x->shape.size(), Expr(0)), count(x->shape.begin(), x->shape.end());
  first[axis] = begin;
  count[axis] = size;
  return make_shrink(x, first, count);
}

// The range that Python's begin:end:step covers, walked forwards.
SymbolicRange static_range(int64_t size, std::optional<int64_t> begin, std::optional<int64_t> end, bool backwards) {
  // Python's rules for clipping.
  auto clip = [&](int64_t i, int64_t low, int64_t high) { return std::clamp(i < 0 ? i + size : i, low, high); };
  int64_t first, last;  // first element, and one past the last in walking direction
  if (!backwards) {
    first = clip(begin.value_or(0), 0, size);
    last = end ? clip(*end, 0, size) : size;
  } else {
    first = begin ? clip(*begin, -1, size - 1) : size - 1;
    last = end ? clip(*end, -1, size - 1) : -1;
  }
  int64_t low = backwards ? last + 1 : first, high = backwards ? first + 1 : last;
  return {low, std::max<int64_t>(high - low, 0)};
}

// The same for every value of a symbolic size; nothing if the values differ.
std::optional<SymbolicRange> range_of_all(const Expr& size, std::optional<int64_t> begin, std::optional<int64_t> end,
                                          bool backwards) {
  if (!backwards) return symbolic_range(size, begin, end);
  // One past a position; the last position is followed by the end.
  auto next = [](std::optional<int64_t> i, int64_t otherwise) {
    return !i ? otherwise : *i == -1 || *i == INT64_MAX ? INT64_MAX : *i + 1;
  };
  return symbolic_range(size, next(end, 0), next(begin, INT64_MAX));
}

}  // namespace

Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step) {
  NodeRef n = x.node();
  size_t at = static_cast<size_t>(normalize_axis("slice", axis, n->shape.rank()));
  if (step == 0) throw ValueError("slice: a step of zero");
  if (step == std::numeric_limits<int64_t>::min()) step = -std::numeric_limits<int64_t>::max();
  const Expr& extent = n->shape[at];
  std::optional<SymbolicRange> range;
  if (!extent.is_const()) range = range_of_all(extent, begin, end, step < 0);
  if (!range) {
    const int64_t whole = known_size(extent);
    range = static_range(whole, begin, end, step < 0);
    // All of it is all of it. One element may be meant to repeat, which a symbol does not.
    if (whole > 1 && range->size.is_const(whole)) range->size = extent;
  }
  n = cut(n, at, range->begin, range->size);
  int axes[] = {static_cast<int>(at)};
  if (step < 0) n = make_flip(n, axes);
  int64_t stride = std::min(std::abs(step), std::max<int64_t>(n->shape[at].hi(), 1));
  if (stride == 1 || known_size(n->shape[at]) == 0) return Tensor(n);
  return squeeze(window(Tensor(n), static_cast<int64_t>(at), 1, stride), -1);
}

namespace {

Tensor selected(const char* op, const Tensor& x, int64_t axis, int64_t index) {
  NodeRef n = x.node();
  size_t at = static_cast<size_t>(normalize_axis(op, axis, n->shape.rank()));
  int64_t size = known_size(n->shape[at]);
  if (index < -size || index >= size)
    throw IndexError(text(op, ": position ", index, " of axis ", at, " of ", n->shape, " does not exist"));
  std::optional<int64_t> end;
  if (index != -1) end = index + 1;
  return squeeze(slice(x, static_cast<int64_t>(at), index, end), static_cast<int64_t>(at));
}

}  // namespace

Tensor select(const Tensor& x, int64_t axis, int64_t index) { return selected("select", x, axis, index); }
Tensor Tensor::operator[](int64_t index) const { return selected("operator[]", *this, 0, index); }

Tensor window(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  NodeRef n = x.node();
  int at = normalize_axis("window", axis, n->shape.rank());
  const Expr& extent = n->shape[static_cast<size_t>(at)];
  // A symbol that may be too small for a window has no number of windows for all of its values.
  bool fits = extent.lo() > 0 && size > 0 && (size - 1) <= (extent.lo() - 1) / std::max<int64_t>(dilation, 1);
  if (!extent.is_const() && !fits) n = with_number(n, at);
  return Tensor(make_window(n, at, size, stride, dilation));
}

Tensor unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step) {
  int at = normalize_axis("unfold", axis, x.rank());
  if (size < 1 || step < 1 || size > x.size(at))
    throw ShapeError(
        text("unfold: windows of ", size, " every ", step, " do not fit axis ", at, " of ", x.node()->shape));
  return window(x, at, size, step);
}

Tensor unwindow(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation, int64_t n) {
  NodeRef node = x.node();
  int at = normalize_axis("unwindow", axis, node->shape.rank() - 1);
  if (!node->shape[static_cast<size_t>(at)].is_const()) node = with_number(node, at);  // `n` is a number
  if (!node->shape.back().is_const()) node = with_number(node, node->shape.rank() - 1);
  return Tensor(make_unwindow(node, at, size, stride, dilation, n));
}

}  // namespace heddle
