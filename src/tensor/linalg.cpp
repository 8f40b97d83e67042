#include <algorithm>

#include "base/error.h"
#include "tensor/contract.h"

namespace heddle {

Tensor matmul(const Tensor& a, const Tensor& b) {
  NodeRef x = a.node(), y = b.node();
  check_same_device("matmul", x->device, y->device);
  if (x->shape.rank() == 0 || y->shape.rank() == 0)
    throw ShapeError(text("matmul: ", x->shape, " and ", y->shape, ": a scalar has no matrix product; use *"));
  bool row = x->shape.rank() == 1, column = y->shape.rank() == 1;
  DType dtype = promote(x->dtype, y->dtype);
  if (dtype == kBool) throw DTypeError("matmul: not defined on bool; cast first");
  Tensor left = cast(row ? unsqueeze(a, 0) : a, dtype), right = cast(column ? unsqueeze(b, 1) : b, dtype);
  Shape l = left.node()->shape, r = right.node()->shape;
  if (!same_size(l.back(), r[r.size() - 2]))
    throw ShapeError(text("matmul: ", x->shape, " and ", y->shape, ": inner dimensions ", l.back(), " and ",
                          r[r.size() - 2], " differ"));
  for (size_t back = 3; back <= std::min(l.size(), r.size()); ++back) {
    const Expr &p = l[l.size() - back], &q = r[r.size() - back];
    if (!same_size(p, q) && !p.is_const(1) && !q.is_const(1))
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

namespace {

// Sums over pairs of axes; the result has the other axes of a, then those of b.
Tensor sum_over_pairs(const char* op, const Tensor& a, const Tensor& b, const std::vector<int>& axes_a,
                      const std::vector<int>& axes_b) {
  NodeRef x = a.node(), y = b.node();
  Labels left, right, wanted;
  for (int i = 0; i < a.rank(); ++i) left.push_back(i);
  for (int i = 0; i < b.rank(); ++i) right.push_back(a.rank() + i);
  for (size_t i = 0; i < axes_a.size(); ++i) {
    size_t p = static_cast<size_t>(axes_a[i]), q = static_cast<size_t>(axes_b[i]);
    if (!same_size(x->shape[p], y->shape[q]))
      throw ShapeError(text(op, ": ", x->shape, " and ", y->shape, ": axis ", p, " of size ", x->shape[p], " and axis ",
                            q, " of size ", y->shape[q], " differ"));
    right[q] = left[p];
  }
  for (int label : left)
    if (std::find(right.begin(), right.end(), label) == right.end()) wanted.push_back(label);
  for (int label : right)
    if (label >= a.rank()) wanted.push_back(label);
  std::vector<Tensor> operands = product_operands(op, {a, b});
  return in_order(contract({operands[0], left}, {operands[1], right}, wanted), wanted);
}

std::vector<int> in_given_order(const char* op, const Axes& axes, int rank) {
  to_axes(op, axes, rank, false);  // refuses repeated ones
  std::vector<int> result;
  for (int64_t axis : axes) result.push_back(normalize_axis(op, axis, rank));
  return result;
}

}  // namespace

Tensor bmm(const Tensor& a, const Tensor& b) {
  Shape x = a.node()->shape, y = b.node()->shape;
  if (x.rank() != 3 || y.rank() != 3 || !same_size(x[0], y[0]) || !same_size(x[2], y[1]))
    throw ShapeError(text("bmm: ", x, " and ", y, " are not batches [n, i, k] and [n, k, j] of matrices"));
  return matmul(a, b);
}
Tensor dot(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0) {
    std::vector<Tensor> operands = product_operands("dot", {a, b});
    return mul(operands[0], operands[1]);
  }
  return sum_over_pairs("dot", a, b, {a.rank() - 1}, {std::max(b.rank() - 2, 0)});
}
Tensor vdot(const Tensor& a, const Tensor& b) {
  if (a.numel() != b.numel())
    throw ShapeError(text("vdot: ", a.node()->shape, " and ", b.node()->shape, " have different numbers of elements"));
  return sum_over_pairs("vdot", ravel(a), ravel(b), {0}, {0});
}
Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0) {
    std::vector<Tensor> operands = product_operands("inner", {a, b});
    return mul(operands[0], operands[1]);
  }
  return sum_over_pairs("inner", a, b, {a.rank() - 1}, {b.rank() - 1});
}
Tensor outer(const Tensor& a, const Tensor& b) { return sum_over_pairs("outer", ravel(a), ravel(b), {}, {}); }
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t count) {
  if (count < 0 || count > std::min(a.rank(), b.rank()))
    throw ShapeError(text("tensordot: over ", count, " axes of ", a.node()->shape, " and ", b.node()->shape));
  std::vector<int> last, first;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    last.push_back(a.rank() - static_cast<int>(count) + i);
    first.push_back(i);
  }
  return sum_over_pairs("tensordot", a, b, last, first);
}
Tensor tensordot(const Tensor& a, const Tensor& b, const Axes& axes_a, const Axes& axes_b) {
  if (axes_a.size() != axes_b.size())
    throw ValueError(text("tensordot: axes ", list_text(axes_a), " and ", list_text(axes_b), " differ in number"));
  return sum_over_pairs("tensordot", a, b, in_given_order("tensordot", axes_a, a.rank()),
                        in_given_order("tensordot", axes_b, b.rank()));
}

Tensor kron(const Tensor& a, const Tensor& b) {
  std::vector<Tensor> operands = product_operands("kron", {a, b});
  Dims x = a.shape(), y = b.shape(), left, right, joined;
  x.insert(x.begin(), std::max(x.size(), y.size()) - x.size(), 1);
  y.insert(y.begin(), x.size() - y.size(), 1);
  for (size_t i = 0; i < x.size(); ++i) {
    left.insert(left.end(), {x[i], 1});
    right.insert(right.end(), {1, y[i]});
    int64_t size;
    if (__builtin_mul_overflow(x[i], y[i], &size))
      throw ShapeError(text("kron: ", a.node()->shape, " and ", b.node()->shape, " overflow"));
    joined.push_back(size);
  }
  to_shape("kron", joined, operands[0].dtype());
  return reshape(mul(reshape(operands[0], left), reshape(operands[1], right)), joined);
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t axis) {
  int at_a = normalize_axis("cross", axis, a.rank()), at_b = normalize_axis("cross", axis, b.rank());
  if (a.size(at_a) != 3 || b.size(at_b) != 3)
    throw ShapeError(
        text("cross: axis ", axis, " of ", a.node()->shape, " and ", b.node()->shape, " must have size 3"));
  std::vector<Tensor> operands = product_operands("cross", {a, b});
  broadcast_shapes("cross", a.node()->shape, b.node()->shape);
  auto x = [&](int64_t i) { return select(operands[0], at_a, i); };
  auto y = [&](int64_t i) { return select(operands[1], at_b, i); };
  auto part = [&](int64_t i, int64_t k) { return sub(mul(x(i), y(k)), mul(x(k), y(i))); };
  std::vector<Tensor> parts{part(1, 2), part(2, 0), part(0, 1)};
  int rank = parts[0].rank() + 1;
  return stack(parts, axis < 0 ? axis : rank - std::max(a.rank(), b.rank()) + axis);
}

Tensor diff(const Tensor& x, int64_t n, int64_t axis) {
  if (n < 0) throw ValueError(text("diff: ", n, " times"));
  int at = normalize_axis("diff", axis, x.rank());
  Tensor result(x.node());
  bool truth = x.dtype() == kBool;
  for (int64_t i = 0; i < n && result.size(at) > 0; ++i) {
    Tensor after = slice(result, at, 1), before = slice(result, at, 0, std::max<int64_t>(result.size(at) - 1, 0));
    result = truth ? logical_xor(after, before) : sub(after, before);
  }
  return result;
}

}  // namespace heddle
