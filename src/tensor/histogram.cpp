// How often numbers occur, or fall into bins: ones, added up where each element belongs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "tensor/build.h"
#include "tensor/recording.h"

namespace heddle {
namespace {

// How many elements of `places`, which lie in [0, count), have each of the values.
Tensor count_places(const Tensor& places, int64_t count) { return scatter_add(zeros({count}, kI64), 0, places, 1); }

// `bins` equal parts of [low, high], computed in f64, for elements of a dtype: edges are rounded to it once.
class Bins {
 public:
  Bins(double low, double high, int64_t bins, DType dtype)
      : low_(low), high_(high), step_((high - low) / static_cast<double>(bins)), bins_(bins), dtype_(dtype) {}

  Tensor edges() const {
    // The last edge exactly, or the largest element may lie behind it.
    return cat({edge(arange(bins_)), full({1}, high_, dtype_)});
  }

  // The bin of each element of x; bins_ for those that are in none.
  Tensor places(const Tensor& x) const {
    const Tensor inside = logical_and(ge(x, low_), le(x, high_));
    return where(inside, are_wide() ? by_arithmetic(x) : by_search(x), full({}, bins_, kI32));
  }

 private:
  Tensor edge(const Tensor& bin) const { return cast(add(mul(cast(bin, kF64), step_), low_), dtype_); }

  // Whether bins are so much wider than the numbers at the limits are apart that the rounding of edges, and that of a
  // quotient, each come to less than half a bin. The number of bins is then less than 2^21 in f32.
  bool are_wide() const {
    const bool wide = dtype_ == kF64;
    const double epsilon = wide ? 0x1p-52 : 0x1p-23, least = wide ? 0x1p-1000 : 0x1p-120,
                 most = wide ? 0x1p1000 : 0x1p120;
    const double largest = std::max(std::abs(low_), std::abs(high_));
    return step_ > 8 * epsilon * largest && step_ > least && largest < most && bins_ < int64_t{1} << 30;
  }

  // A quotient is at most one bin off: the edges decide.
  Tensor by_arithmetic(const Tensor& x) const {
    const Tensor guess = minimum(cast(mul(sub(x, low_), 1 / step_), kI32), bins_ - 1);
    const Tensor below = lt(x, edge(guess));
    const Tensor above = logical_and(ge(x, edge(add(guess, 1))), lt(guess, bins_ - 1));
    return sub(add(guess, cast(above, kI32)), cast(below, kI32));
  }

  Tensor by_search(const Tensor& x) const {
    const Tensor before = cast(searchsorted(edges(), x, true), kI32);
    return minimum(sub(before, 1), bins_ - 1);
  }

  double low_, high_, step_;
  int64_t bins_;
  DType dtype_;
};

}  // namespace

Tensor bincount(const Tensor& x, int64_t minlength) {
  refuse_in_capture("bincount()", x);
  OnDeviceOf there(x);
  if (x.rank() != 1 || !is_integer(x.dtype()))
    throw ValueError(text("bincount: takes integers along one axis, not ", x.dtype(), x.node()->shape));
  if (minlength < 0) throw ValueError(text("bincount: minlength ", minlength, " is negative"));
  if (x.numel() == 0) return zeros({minlength}, kI64);
  Tensor numbers = x;
  numbers.realize();
  const auto least = amin(numbers).item<int64_t>(), most = amax(numbers).item<int64_t>();
  if (least < 0 || most < 0 || most == INT64_MAX)
    throw ValueError(text("bincount: the elements lie between ", least, " and ", most, ", which cannot be counted"));
  return count_places(numbers, std::max(most + 1, minlength));
}

Histogram histogram(const Tensor& x, int64_t bins, std::optional<std::pair<double, double>> limits) {
  if (!limits) refuse_in_capture("histogram() without limits", x);
  OnDeviceOf there(x);
  if (bins < 1) throw ValueError(text("histogram: needs at least one bin, not ", bins));
  to_shape("histogram", {bins}, kI64);
  DType dtype = x.dtype() == kF64 ? kF64 : kF32;
  Tensor numbers = flatten(cast(x, dtype));
  double low = 0, high = 1;
  if (limits) {
    std::tie(low, high) = *limits;
  } else if (numbers.numel() > 0) {
    numbers.realize();
    low = amin(numbers).item<double>();
    high = amax(numbers).item<double>();
  }
  if (!std::isfinite(low) || !std::isfinite(high) || low > high)
    throw ValueError(text("histogram: the limits ", low, " and ", high, " are not an interval"));
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  const Bins parts(low, high, bins, dtype);
  return {slice(count_places(parts.places(numbers), bins + 1), 0, 0, bins), parts.edges()};
}

}  // namespace heddle
