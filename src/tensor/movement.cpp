#include <algorithm>
#include <limits>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

std::string list_text(std::span<const int64_t> list) {
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) out += text(i ? ", " : "", list[i]);
  return out + "]";
}

std::vector<int> permutation(const char* op, const std::vector<int64_t>& axes, int rank) {
  std::vector<int> result;
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t axis : axes) {
    result.push_back(normalize_axis(op, axis, rank));
    if (seen[static_cast<size_t>(result.back())])
      throw ValueError(text(op, ": ", list_text(axes), " names axis ", axis, " twice"));
    seen[static_cast<size_t>(result.back())] = true;
  }
  if (static_cast<int>(axes.size()) != rank)
    throw ShapeError(text(op, ": ", list_text(axes), " does not list the ", rank, " axes of the tensor"));
  return result;
}

}  // namespace

Tensor reshape(const Tensor& x, const Dims& dims) {
  NodeRef n = x.node();
  int64_t total = n->shape.static_numel(), known = 1;
  int guess = -1;
  Dims full = dims;
  auto fail = [&](const char* why) {
    throw ShapeError(text("reshape: ", n->shape, " (", total, " elements) to ", list_text(dims), ": ", why));
  };
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) {
      if (guess >= 0) fail("only one -1 can be worked out");
      guess = static_cast<int>(i);
    } else if (dims[i] < 0) {
      fail("a dimension is negative");
    } else if (__builtin_mul_overflow(known, dims[i], &known)) {
      fail("the number of elements overflows");
    }
  }
  if (guess >= 0) {
    if (known == 0 || total % known != 0) fail("the rest does not divide the number of elements");
    full[static_cast<size_t>(guess)] = total / known;
    known = total;
  }
  if (known != total) fail("the numbers of elements differ");
  return Tensor(make_reshape(n, to_shape("reshape", full, n->dtype)));
}

Tensor permute(const Tensor& x, const std::vector<int64_t>& axes) {
  return Tensor(make_permute(x.node(), permutation("permute", axes, x.rank())));
}

Tensor transpose(const Tensor& x, int64_t axis0, int64_t axis1) {
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  std::swap(axes[static_cast<size_t>(normalize_axis("transpose", axis0, x.rank()))],
            axes[static_cast<size_t>(normalize_axis("transpose", axis1, x.rank()))]);
  return permute(x, axes);
}

Tensor expand(const Tensor& x, const Dims& dims) {
  NodeRef n = x.node();
  // -1 keeps a dimension.
  Dims full = dims;
  size_t extra = dims.size() >= n->shape.size() ? dims.size() - n->shape.size() : 0;
  for (size_t i = extra; i < dims.size(); ++i)
    if (dims[i] == -1) full[i] = n->shape[i - extra].value();
  Shape shape = to_shape("expand", full, n->dtype);
  if (dims.size() < n->shape.size() || !(broadcast_shapes("expand", n->shape, shape) == shape))
    throw ShapeError(text("expand: ", n->shape, " cannot be expanded to ", shape));
  return Tensor(broadcast_to(n, shape));
}

Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& before_after, const Operand& value) {
  NodeRef n = x.node();
  if (before_after.size() != n->shape.size())
    throw ShapeError(text("pad: ", before_after.size(), " pairs for the ", n->shape.size(), " axes of ", n->shape));
  if (value.kind() == Operand::Kind::Tensor) throw ValueError("pad: the fill value must be a number");
  std::vector<Expr> before, after;
  Dims grown;
  for (size_t i = 0; i < before_after.size(); ++i) {
    auto [b, a] = before_after[i];
    if (b < 0 || a < 0) throw ValueError(text("pad: axis ", i, " by ", b, " and ", a, "; use shrink to cut"));
    before.push_back(b);
    after.push_back(a);
    int64_t size = n->shape[i].value();
    if (__builtin_add_overflow(size, b, &size) || __builtin_add_overflow(size, a, &size))
      throw ShapeError(text("pad: axis ", i, " of ", n->shape, " by ", b, " and ", a, " overflows"));
    grown.push_back(size);
  }
  to_shape("pad", grown, n->dtype);
  Scalar fill = number_scalar("pad", value, n->dtype);
  return Tensor(make_pad(n, before, after, fill));
}

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

Tensor select(const Tensor& x, int64_t axis, int64_t index) {
  NodeRef n = x.node();
  size_t at = static_cast<size_t>(normalize_axis("select", axis, n->shape.rank()));
  int64_t size = n->shape[at].value();
  if (index < -size || index >= size)
    throw IndexError(text("select: position ", index, " of axis ", at, " of ", n->shape, " does not exist"));
  int64_t i = index < 0 ? index + size : index;
  return squeeze(slice(x, static_cast<int64_t>(at), i, i + 1), static_cast<int64_t>(at));
}

Tensor flip(const Tensor& x, const std::vector<int64_t>& axes) {
  return Tensor(make_flip(x.node(), to_axes("flip", axes, x.rank(), false)));
}

Tensor squeeze(const Tensor& x, std::optional<int64_t> axis) {
  NodeRef n = x.node();
  Shape shape;
  int at = axis ? normalize_axis("squeeze", *axis, n->shape.rank()) : -1;
  if (axis && !n->shape[static_cast<size_t>(at)].is_const(1))
    throw ShapeError(text("squeeze: axis ", at, " of ", n->shape, " does not have size 1"));
  for (size_t i = 0; i < n->shape.size(); ++i)
    if (axis ? static_cast<int>(i) != at : !n->shape[i].is_const(1)) shape.push_back(n->shape[i]);
  return Tensor(make_reshape(n, shape));
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  NodeRef n = x.node();
  size_t at = static_cast<size_t>(normalize_axis("unsqueeze", axis, n->shape.rank() + 1));
  Shape shape = n->shape;
  shape.insert(at, 1);
  return Tensor(make_reshape(n, shape));
}

Tensor flatten(const Tensor& x, int64_t begin, int64_t end) {
  NodeRef n = x.node();
  if (n->shape.rank() == 0) return Tensor(make_reshape(n, Shape{1}));
  int first = normalize_axis("flatten", begin, n->shape.rank()), last = normalize_axis("flatten", end, n->shape.rank());
  if (first > last) throw ValueError(text("flatten: axis ", begin, " comes after axis ", end));
  Shape shape;
  Expr merged = 1;
  for (int i = 0; i < n->shape.rank(); ++i) {
    const Expr& d = n->shape[static_cast<size_t>(i)];
    if (i < first || i > last) {
      shape.push_back(d);
      continue;
    }
    merged = merged * d;
    if (i == last) shape.push_back(merged);
  }
  return Tensor(make_reshape(n, shape));
}

Tensor window(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  return Tensor(make_window(x.node(), normalize_axis("window", axis, x.rank()), size, stride, dilation));
}

Tensor unwindow(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation, int64_t n) {
  return Tensor(make_unwindow(x.node(), normalize_axis("unwindow", axis, x.rank() - 1), size, stride, dilation, n));
}

Tensor cat(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw ValueError("cat: nothing to join");
  DType dtype = parts[0].dtype();
  for (const Tensor& p : parts) dtype = promote(dtype, p.dtype());
  std::vector<NodeRef> nodes;
  for (const Tensor& p : parts) nodes.push_back(make_cast(p.node(), dtype));
  return Tensor(make_cat(nodes, normalize_axis("cat", axis, parts[0].rank())));
}

Tensor stack(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw ValueError("stack: nothing to join");
  int at = normalize_axis("stack", axis, parts[0].rank() + 1);
  std::vector<Tensor> grown;
  for (const Tensor& p : parts) {
    if (p.shape() != parts[0].shape())
      throw ShapeError(text("stack: shapes ", parts[0].node()->shape, " and ", p.node()->shape, " differ"));
    grown.push_back(unsqueeze(p, at));
  }
  return cat(grown, at);
}

Tensor gather(const Tensor& x, const Tensor& index, int64_t axis) {
  int at = normalize_axis("gather", axis, x.rank());
  NodeRef n = x.node(), i = index.node();
  if (!is_integer(i->dtype)) throw DTypeError(text("gather: the index must hold integers, not ", i->dtype));
  int64_t size = n->shape[static_cast<size_t>(at)].value();
  if (size == 0 && index.numel() > 0)
    throw IndexError(text("gather: axis ", at, " of ", n->shape, " has no elements to choose from"));
  Tensor positions = index;
  if (is_signed(i->dtype)) {
    positions = cast(index, kI64);  // a narrow index could not hold its position counted from the front
    positions = where(lt(positions, 0), add(positions, size), positions);
  }
  return Tensor(make_gather(n, positions.node(), at));
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  NodeRef x = a.node(), y = b.node();
  if (x->shape.rank() == 0 || y->shape.rank() == 0)
    throw ShapeError(text("matmul: ", x->shape, " and ", y->shape, ": a scalar has no matrix product; use *"));
  bool row = x->shape.rank() == 1, column = y->shape.rank() == 1;
  DType dtype = promote(x->dtype, y->dtype);
  if (dtype == kBool) throw DTypeError("matmul: not defined on bool; cast first");
  Tensor left = cast(row ? unsqueeze(a, 0) : a, dtype), right = cast(column ? unsqueeze(b, 1) : b, dtype);
  Shape l = left.node()->shape, r = right.node()->shape;
  if (!(l.back() == r[r.size() - 2]))
    throw ShapeError(text("matmul: ", x->shape, " and ", y->shape, ": inner dimensions ", l.back(), " and ",
                          r[r.size() - 2], " differ"));
  for (size_t back = 3; back <= std::min(l.size(), r.size()); ++back) {
    const Expr &p = l[l.size() - back], &q = r[r.size() - back];
    if (!(p == q) && !p.is_const(1) && !q.is_const(1))
      throw ShapeError(
          text("matmul: ", x->shape, " and ", y->shape, ": the batches ", p, " and ", q, " do not broadcast"));
  }
  // [..., m, 1, k] * [..., 1, n, k], summed over k.
  Tensor products = mul(unsqueeze(left, -2), unsqueeze(transpose(right), -3));
  Tensor result(make_reduce(ReduceOp::Sum, products.node(), std::vector<int>{products.rank() - 1}));
  if (column) result = squeeze(result, -1);
  if (row) result = squeeze(result, column ? -1 : -2);
  return result;
}

}  // namespace heddle
