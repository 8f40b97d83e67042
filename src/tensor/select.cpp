// Operators whose results' sizes depend on the data: they count first, and wait for the number.
#include <algorithm>

#include "base/error.h"
#include "tensor/build.h"
#include "tensor/recording.h"
#include "tensor/symbolic.h"

namespace heddle {
namespace {

// Positions of the true elements of a mask with one axis, in order: a stable sort brings them to the front.
Tensor positions(const NodeRef& named) {
  Tensor mask(with_numbers(named));
  mask.realize();
  int64_t count = sum(mask).item<int64_t>();
  return Tensor(make_get(make_sort(mask.node(), true, count), 1));
}

}  // namespace

Tensor nonzero(const Tensor& x) {
  refuse_in_capture("nonzero() or an index by a mask", x);
  OnDeviceOf there(x);
  Tensor at = positions(flatten(cast(x, kBool)).node());
  // The position of each element along every axis.
  std::vector<Tensor> columns(static_cast<size_t>(x.rank()), at);
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    columns[static_cast<size_t>(axis)] = axis == 0 ? at : mod(at, x.size(axis));
    at = floordiv(at, std::max<int64_t>(1, x.size(axis)));
  }
  return columns.empty() ? zeros({at.numel(), 0}, kI64) : stack(columns, 1);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  refuse_in_capture("masked_select()", mask);
  if (mask.dtype() != kBool)
    throw DTypeError(text("masked_select: the mask must be bool, not ", mask.dtype(), mask.node()->shape));
  NodeRef from = with_numbers(x.node()), chosen = with_numbers(mask.node());
  Shape shape = broadcast_shapes("masked_select", from->shape, chosen->shape);
  Tensor at = positions(flatten(Tensor(broadcast_to(chosen, shape))).node());
  Tensor elements = flatten(Tensor(broadcast_to(from, shape)));
  if (at.numel() == 0) return slice(elements, 0, 0, 0);
  return Tensor(make_gather(elements.node(), at.node(), 0));
}

UniqueResult unique(const Tensor& x, bool return_inverse, bool return_counts) {
  refuse_in_capture("unique()", x);
  OnDeviceOf there(x);
  Tensor sorted = sort(flatten(x)).values.realize();
  int64_t n = sorted.numel();
  UniqueResult result;
  Tensor starts = zeros({0}, kI64);
  if (n > 0) {
    // The first of each run of equal elements.
    Tensor before = slice(sorted, 0, 0, n - 1), here = slice(sorted, 0, 1);
    Tensor differs = ne(here, before);
    if (is_float(x.dtype())) differs = logical_and(differs, logical_not(logical_and(isnan(here), isnan(before))));
    starts = positions(cat({full({1}, true, kBool), differs}).node());
    if (return_counts) starts.realize();  // for both results
  }
  result.values = n > 0 ? Tensor(make_gather(sorted.node(), starts.node(), 0)) : sorted;
  if (return_counts) {
    Tensor ends = starts;
    if (n > 0) ends = cat({slice(starts, 0, 1), full({1}, n, kI64)});
    result.counts = sub(ends, starts);
  }
  if (return_inverse) result.inverse = searchsorted(result.values.realize(), x);
  return result;
}

}  // namespace heddle
