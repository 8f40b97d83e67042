// Order: compositions of the graph's sort.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tensor/build.h"
#include "tensor/symbolic.h"

namespace heddle {
namespace {

// x with the axis moved to the end; and the way back.
Tensor axis_last(const Tensor& x, int axis) {
  Axes order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  return permute(x, order);
}
Tensor axis_back(const Tensor& x, int axis) {
  Axes order;
  for (int i = 0; i + 1 < x.rank(); ++i) order.push_back(i);
  order.insert(order.begin() + axis, x.rank() - 1);
  return permute(x, order);
}

ValuesIndices first_of(const Tensor& x, int axis, bool descending, int64_t count) {
  if (x.rank() == 0) {  // a vector of one element
    ValuesIndices one = first_of(unsqueeze(x, 0), 0, descending, count);
    return count == 1 ? ValuesIndices{squeeze(one.values, 0), squeeze(one.indices, 0)} : one;
  }
  // Networks are made for one number of elements.
  NodeRef sorted = make_sort(with_numbers(axis_last(x, axis).node()), descending, count);
  return {axis_back(Tensor(make_get(sorted, 0)), axis), axis_back(Tensor(make_get(sorted, 1)), axis)};
}

int64_t size_along(const Tensor& x, int axis) { return x.rank() == 0 ? 1 : x.size(axis); }

Tensor without_axis(const Tensor& x, int axis, int64_t at, bool keepdim) {
  if (x.rank() == 0) return x;
  Tensor result = select(x, axis, at);
  return keepdim ? unsqueeze(result, axis) : result;
}

}  // namespace

ValuesIndices sort(const Tensor& x, int64_t axis, bool descending) {
  int at = axis_along("sort", axis, x.rank());
  return first_of(x, at, descending, size_along(x, at));
}

Tensor argsort(const Tensor& x, int64_t axis, bool descending) {
  int at = axis_along("argsort", axis, x.rank());
  return first_of(x, at, descending, size_along(x, at)).indices;
}

ValuesIndices topk(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  int at = axis_along("topk", axis, x.rank());
  if (k < 0 || k > size_along(x, at))
    throw ValueError(text("topk: cannot take ", k, " elements of axis ", at, " of ", x.dtype(), x.node()->shape));
  return first_of(x, at, largest, k);
}

ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t axis, bool keepdim) {
  int at = axis_along("kthvalue", axis, x.rank());
  if (k < 1 || k > size_along(x, at))
    throw ValueError(text("kthvalue: axis ", at, " of ", x.dtype(), x.node()->shape, " has no element number ", k));
  ValuesIndices sorted = first_of(x, at, false, k);
  return {without_axis(sorted.values, at, k - 1, keepdim), without_axis(sorted.indices, at, k - 1, keepdim)};
}

namespace {

Tensor quantile_of(const char* name, const Tensor& x, double q, std::optional<int64_t> axis, bool keepdim) {
  if (!(q >= 0 && q <= 1)) throw ValueError(text(name, ": q must lie between 0 and 1, not ", q));
  Tensor f = to_float(x);
  int at = axis ? axis_along(name, *axis, x.rank()) : 0;
  if (x.rank() == 0) axis.reset();
  Tensor rows = axis ? f : flatten(f);
  int64_t n = rows.size(at);
  if (n == 0) throw ValueError(text(name, ": axis ", at, " of ", x.dtype(), x.node()->shape, " is empty"));
  double place = q * static_cast<double>(n - 1);
  auto below = static_cast<int64_t>(std::floor(place));
  int64_t above = std::min(below + 1, n - 1);
  Tensor sorted = first_of(rows, at, false, above + 1).values;
  Tensor low = without_axis(sorted, at, below, true), high = without_axis(sorted, at, above, true);
  // Not low + part * (high - low) where both are the same infinity, or where nothing is to be added.
  double part = place - static_cast<double>(below);
  Tensor between = low;
  if (part > 0) {
    Tensor wide = to_wide_float(low), step = sub(to_wide_float(high), wide);
    between = where(eq(low, high), low, from_wide_float(add(wide, mul(step, part)), low));
  }
  Tensor result = where(any(isnan(rows), {at}, true), std::numeric_limits<double>::quiet_NaN(), between);
  if (!keepdim) return select(result, at, 0);
  return axis ? result : reshape(result, Dims(static_cast<size_t>(x.rank()), 1));
}

}  // namespace

Tensor quantile(const Tensor& x, double q, std::optional<int64_t> axis, bool keepdim) {
  return quantile_of("quantile", x, q, axis, keepdim);
}

Tensor median(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return quantile_of("median", x, 0.5, axis, keepdim);
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  DType dtype = promote(sorted.dtype(), values.dtype());
  Tensor table(with_numbers(cast(sorted, dtype).node())), wanted = cast(values, dtype);
  bool rows = sorted.rank() > 1;
  if (rows) wanted = Tensor(with_numbers(wanted.node()));
  Shape have = table.node()->shape, want = wanted.node()->shape;
  bool fits = sorted.rank() == 1 || (rows && have.size() == want.size());
  for (size_t i = 0; fits && i + 1 < have.size(); ++i) fits = have[i] == want[i];
  if (!fits)
    throw ShapeError(text("searchsorted: the sorted elements ", have,
                          " have one axis, or the values as many and the same sizes but on the last, not ", want));
  int64_t n = sorted.size(-1);
  // How many elements come before: power by power, largest first, as long as they do.
  OnDeviceOf there(sorted.node()->device != kAnywhere ? sorted : values);
  DType counter = sorted.numel() < int64_t{1} << 30 ? kI32 : kI64;
  Tensor count = full(wanted.shape(), 0, counter), begin;
  if (n == 0 || wanted.numel() == 0) return cast(count, kI64);
  if (rows) {
    Dims heads = wanted.shape();
    heads.back() = 1;
    begin = reshape(mul(arange(sorted.numel() / n, counter), n), heads);
    table = flatten(table);
  }
  int64_t step = 1;
  while (step <= n / 2) step *= 2;
  for (; step > 0; step /= 2) {
    Tensor next = add(count, step);
    Tensor place = minimum(sub(next, 1), n - 1);
    Tensor element(make_gather(table.node(), (rows ? add(place, begin) : place).node(), 0));
    Tensor before = right ? le(element, wanted) : lt(element, wanted);
    if (is_float(dtype)) {
      Tensor nan = isnan(wanted);
      before = logical_or(before, right ? nan : logical_and(nan, logical_not(isnan(element))));
    }
    count = where(logical_and(le(next, n), before), next, count);
  }
  return cast(count, kI64);
}

}  // namespace heddle
