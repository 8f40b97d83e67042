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

namespace {

// The shape with its -1 worked out; `open` says where that was.
Dims complete(const char* op, const Shape& from, const Dims& dims, int64_t total, int& open) {
  int64_t known = 1;
  int guess = -1;
  Dims result = dims;
  auto fail = [&](const char* why) {
    throw ShapeError(text(op, ": ", from, " (", total, " elements) to ", list_text(dims), ": ", why));
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
    result[static_cast<size_t>(guess)] = total / known;
    known = total;
  }
  if (known != total) fail("the numbers of elements differ");
  open = guess;
  return result;
}

Tensor reshaped(const char* op, const Tensor& x, const Dims& dims) {
  NodeRef n = x.node();
  int open = -1;
  Dims full = complete(op, n->shape, dims, n->shape.known_numel(), open);
  to_shape(op, full, n->dtype);
  return Tensor(make_reshape(n, reshape_sizes(n->shape, full, open)));
}

Tensor exchanged(const char* op, const Tensor& x, int64_t axis0, int64_t axis1) {
  std::vector<int> axes(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
  std::swap(axes[static_cast<size_t>(normalize_axis(op, axis0, x.rank()))],
            axes[static_cast<size_t>(normalize_axis(op, axis1, x.rank()))]);
  return Tensor(make_permute(x.node(), axes));
}

}  // namespace

Tensor reshape(const Tensor& x, const Dims& dims) { return reshaped("reshape", x, dims); }
Tensor view(const Tensor& x, const Dims& dims) { return reshaped("view", x, dims); }

Tensor unflatten(const Tensor& x, int64_t axis, const Dims& sizes) {
  NodeRef n = x.node();
  size_t at = static_cast<size_t>(normalize_axis("unflatten", axis, n->shape.rank()));
  if (sizes.empty()) throw ShapeError("unflatten: no sizes are given");
  int open = -1;
  Dims parts = complete("unflatten", Shape{n->shape[at]}, sizes, known_size(n->shape[at]), open);
  Shape shape;
  for (size_t i = 0; i < n->shape.size(); ++i) {
    if (i != at) shape.push_back(n->shape[i]);
    if (i == at)
      for (const Expr& size : reshape_sizes(Shape{n->shape[at]}, parts, open)) shape.push_back(size);
  }
  return Tensor(make_reshape(n, shape));
}

Tensor permute(const Tensor& x, const Axes& axes) {
  return Tensor(make_permute(x.node(), permutation("permute", axes, x.rank())));
}

Tensor transpose(const Tensor& x, int64_t axis0, int64_t axis1) { return exchanged("transpose", x, axis0, axis1); }
Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1) { return exchanged("swapaxes", x, axis0, axis1); }
Tensor t(const Tensor& x) {
  if (x.rank() > 2) throw ShapeError(text("t: ", x.node()->shape, " has more than two axes; use transpose or permute"));
  return x.rank() == 2 ? exchanged("t", x, 0, 1) : Tensor(x.node());
}

Tensor moveaxis(const Tensor& x, const Axes& from, const Axes& to) {
  if (from.size() != to.size())
    throw ValueError(text("moveaxis: from ", list_text(from), " to ", list_text(to), ": the numbers of axes differ"));
  size_t rank = static_cast<size_t>(x.rank());
  to_axes("moveaxis", from, x.rank(), false);  // checks
  to_axes("moveaxis", to, x.rank(), false);
  std::vector<int> order(rank, -1);
  std::vector<bool> moved(rank, false);
  for (size_t i = 0; i < from.size(); ++i) {
    int source = normalize_axis("moveaxis", from[i], x.rank());
    order[static_cast<size_t>(normalize_axis("moveaxis", to[i], x.rank()))] = source;
    moved[static_cast<size_t>(source)] = true;
  }
  size_t next = 0;
  for (int& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = static_cast<int>(next++);
  }
  return Tensor(make_permute(x.node(), order));
}

namespace {

Tensor expanded(const char* op, const Tensor& x, const Dims& dims) {
  NodeRef n = x.node();
  // -1 keeps a dimension.
  Dims full = dims;
  size_t extra = dims.size() >= n->shape.size() ? dims.size() - n->shape.size() : 0;
  for (size_t i = extra; i < dims.size(); ++i)
    if (dims[i] == -1) full[i] = known_size(n->shape[i - extra]);
  Shape shape = to_symbolic_shape(op, full, n->dtype);
  for (size_t i = extra; i < dims.size(); ++i)
    if (same_size(n->shape[i - extra], shape[i])) shape[i] = n->shape[i - extra];
  if (dims.size() < n->shape.size() || !(broadcast_shapes(op, n->shape, shape) == shape))
    throw ShapeError(text(op, ": ", n->shape, " cannot be expanded to ", shape));
  return Tensor(broadcast_to(n, shape));
}

}  // namespace

Tensor expand(const Tensor& x, const Dims& dims) { return expanded("expand", x, dims); }
Tensor broadcast_to(const Tensor& x, const Dims& dims) { return expanded("broadcast_to", x, dims); }

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Shape shape;
  for (const Tensor& x : tensors) shape = broadcast_shapes("broadcast_tensors", shape, x.node()->shape);
  std::vector<Tensor> result;
  for (const Tensor& x : tensors) {
    check_shape("broadcast_tensors", shape, x.dtype());
    result.emplace_back(broadcast_to(x.node(), shape));
  }
  return result;
}

Tensor flip(const Tensor& x, const Axes& axes) {
  return Tensor(make_flip(x.node(), to_axes("flip", axes, x.rank(), false)));
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  NodeRef n = x.node();
  std::vector<int> list = to_axes("squeeze", axes, n->shape.rank(), false);
  for (int axis : list)
    if (!n->shape[static_cast<size_t>(axis)].is_const(1))
      throw ShapeError(text("squeeze: axis ", axis, " of ", n->shape, " does not have size 1"));
  Shape shape;
  for (int i = 0; i < n->shape.rank(); ++i) {
    const Expr& size = n->shape[static_cast<size_t>(i)];
    bool goes = axes.empty() && !axes.is_none() ? size.is_const(1) : std::binary_search(list.begin(), list.end(), i);
    if (!goes) shape.push_back(size);
  }
  return Tensor(make_reshape(n, shape));
}

Tensor unsqueeze(const Tensor& x, const Axes& axes) {
  NodeRef n = x.node();
  Shape shape = n->shape;
  for (int axis : to_axes("unsqueeze", axes, n->shape.rank() + static_cast<int>(axes.size()), false))
    shape.insert(static_cast<size_t>(axis), 1);
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

Tensor ravel(const Tensor& x) {
  NodeRef n = x.node();
  return Tensor(make_reshape(n, Shape{n->shape.numel()}));
}

Tensor clone(const Tensor& x) { return Tensor(x.node()); }
Tensor contiguous(const Tensor& x) { return Tensor(x.node()); }

Tensor fliplr(const Tensor& x) {
  if (x.rank() < 2) throw ShapeError(text("fliplr: ", x.node()->shape, " has no axis 1"));
  return flip(x, 1);
}
Tensor flipud(const Tensor& x) {
  if (x.rank() < 1) throw ShapeError("flipud: a scalar has no axis 0");
  return flip(x, 0);
}

Tensor rot90(const Tensor& x, int64_t times, const Axes& plane) {
  if (plane.size() != 2) throw ValueError(text("rot90: ", list_text(plane), " are not two axes"));
  int first = normalize_axis("rot90", plane[0], x.rank()), second = normalize_axis("rot90", plane[1], x.rank());
  if (first == second) throw ValueError(text("rot90: ", list_text(plane), " names axis ", first, " twice"));
  switch (((times % 4) + 4) % 4) {
    case 1: return exchanged("rot90", flip(x, second), first, second);
    case 2: return flip(x, {first, second});
    case 3: return flip(exchanged("rot90", x, first, second), second);
    default: return Tensor(x.node());
  }
}

Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes) {
  if (axes.is_none()) return Tensor(x.node());
  if (axes.empty()) {
    if (shifts.size() != 1) throw ValueError(text("roll: ", shifts.size(), " shifts, but no axes"));
    return Tensor(make_reshape(roll(ravel(x), shifts, 0).node(), x.node()->shape));
  }
  if (shifts.size() != axes.size() && shifts.size() != 1)
    throw ValueError(text("roll: shifts ", list_text(shifts), " for the axes ", list_text(axes)));
  Tensor result(x.node());
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = normalize_axis("roll", axes[i], x.rank()), size = x.size(axis);
    if (size == 0) continue;
    int64_t by = ((shifts[shifts.size() == 1 ? 0 : i] % size) + size) % size;
    // A part of two copies: where it begins is all that depends on the shift.
    if (by != 0) result = slice(cat({result, result}, axis), axis, size - by, 2 * size - by);
  }
  return result;
}

Tensor as_strided(const Tensor& x, const Dims& dims, const Dims& strides, int64_t offset) {
  NodeRef n = with_numbers(x.node());  // positions are numbers
  Shape shape = to_shape("as_strided", dims, n->dtype);
  if (dims.size() != strides.size())
    throw ShapeError(
        text("as_strided: the shape ", list_text(dims), " and the strides ", list_text(strides), " differ in length"));
  int64_t total = n->shape.static_numel();
  Int128 first = offset, last = offset;
  for (size_t i = 0; i < dims.size(); ++i) {
    Int128 reach = static_cast<Int128>(dims[i] - 1) * strides[i];
    (reach < 0 ? first : last) += reach;
  }
  bool nothing = shape.static_numel() == 0;
  if (!nothing && (first < 0 || last >= total))
    throw IndexError(text("as_strided: shape ", list_text(dims), " with strides ", list_text(strides), " from ", offset,
                          " leaves the ", total, " elements of ", n->shape));
  if (nothing) return Tensor(make_unmoved(make_const(Scalar::of(n->dtype, 0), shape), std::span(&n, 1)));
  Tensor position(make_const(Scalar::of(kI64, offset), shape));
  for (size_t i = 0; i < dims.size(); ++i)
    position = add(position, mul(Tensor(make_iota(kI64, shape, static_cast<int>(i))), strides[i]));
  return Tensor(make_gather(ravel(Tensor(n)).node(), position.node(), 0));
}

}  // namespace heddle
