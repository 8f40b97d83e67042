#include <algorithm>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {

Tensor matmul(const Tensor& a, const Tensor& b) {
  NodeRef x = a.node(), y = b.node();
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

}  // namespace heddle
