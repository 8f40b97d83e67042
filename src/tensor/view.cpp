#include <algorithm>

#include "base/error.h"
#include "tensor/build.h"
#include "tensor/symbolic.h"

namespace heddle {
namespace {

std::vector<int> permutation(const char* op, const Axes& axes, int rank) {
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
  int64_t total = n->shape.known_numel(), known = 1;
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
  to_shape("reshape", full, n->dtype);
  return Tensor(make_reshape(n, reshape_sizes(n->shape, full, guess)));
}

Tensor permute(const Tensor& x, const Axes& axes) {
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
    if (dims[i] == -1) full[i] = known_size(n->shape[i - extra]);
  Shape shape = to_symbolic_shape("expand", full, n->dtype);
  for (size_t i = extra; i < dims.size(); ++i)
    if (same_size(n->shape[i - extra], shape[i])) shape[i] = n->shape[i - extra];
  if (dims.size() < n->shape.size() || !(broadcast_shapes("expand", n->shape, shape) == shape))
    throw ShapeError(text("expand: ", n->shape, " cannot be expanded to ", shape));
  return Tensor(broadcast_to(n, shape));
}

Tensor flip(const Tensor& x, const Axes& axes) {
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

}  // namespace heddle
