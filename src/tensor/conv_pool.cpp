// Pooling: reductions of windows.
#include <heddle/ops/conv.h>

#include <algorithm>

#include "base/error.h"
#include "tensor/conv_common.h"
#include "tensor/conv_form.h"

namespace heddle {
namespace {

struct Pool {
  Dims kernel, stride, padding, dilation;
  std::vector<int64_t> size, positions;  // of the input, of the result
};

// Operators on [batch, channels, ...] or [channels, ...].
Pool pool_of(const char* op, size_t axes, const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding,
             const Dims& dilation, bool ceil_mode) {
  Pool p;
  p.kernel = per_axis(op, "kernel", kernel, axes, 1);
  p.stride = stride.empty() ? p.kernel : per_axis(op, "stride", stride, axes, 1);
  p.padding = per_axis(op, "padding", padding, axes, 0);
  p.dilation = per_axis(op, "dilation", dilation, axes, 1);
  for (size_t i = 0; i < axes; ++i) {
    Int128 reach = static_cast<Int128>(p.dilation[i]) * (p.kernel[i] - 1) + 1;
    if (2 * Int128{p.padding[i]} > reach)
      throw ValueError(
          text(op, ": a padding of ", list_text(p.padding), " is more than half of the kernel, ", list_text(p.kernel)));
    // In ceil_mode a window may reach beyond the end, as long as it begins before that.
    int64_t n = x.size(static_cast<int64_t>(i) + 2);
    Int128 all = n + 2 * Int128{p.padding[i]}, step = p.stride[i], rest = all - reach + (ceil_mode ? step - 1 : 0);
    Int128 count = rest < 0 ? 0 : rest / step + 1;
    if (ceil_mode && count > 0 && (count - 1) * step >= n + Int128{p.padding[i]}) --count;
    if (n < 1 || count < 1)
      throw ShapeError(text(op, ": a kernel of ", list_text(p.kernel), " does not fit into an input of shape ",
                            x.shape(), " with a padding of ", list_text(p.padding)));
    checked_extent(op, all + reach);
    p.size.push_back(n);
    p.positions.push_back(static_cast<int64_t>(count));
  }
  return p;
}

// [batch, channels, positions ..., kernel ...]; `outside` stands where x, which begins at -before, has nothing.
Tensor windows(const Pool& p, const Tensor& x, const Dims& before, Scalar outside) {
  Tensor result = x;
  for (size_t i = 0; i < p.kernel.size(); ++i) {
    int64_t axis = static_cast<int64_t>(i) + 2;
    int64_t count = (p.positions[i] - 1) * p.stride[i] + p.dilation[i] * (p.kernel[i] - 1) + 1;
    result = window(framed(result, axis, before[i], count, outside), axis, p.kernel[i], p.stride[i], p.dilation[i]);
  }
  return result;
}

Axes last_axes(size_t count) {
  Axes axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(-1 - static_cast<int64_t>(i));
  return axes;
}

void check_numbers(const char* op, const Tensor& x) {
  if (x.dtype() == kBool) throw DTypeError(text(op, ": not defined on bool; cast first"));
}

Tensor max_pool(const char* op, size_t axes, const Tensor& given, const Dims& kernel, const MaxPoolOptions& options) {
  check_numbers(op, given);
  bool alone = false;
  Tensor x = with_batch(op, given, axes, alone);
  Pool p = pool_of(op, axes, x, kernel, options.stride, options.padding, options.dilation, options.ceil_mode);
  Tensor y = max(windows(p, x, p.padding, reduce_identity(ReduceOp::Max, x.dtype())), last_axes(axes));
  return alone ? squeeze(y, 0) : y;
}

// How many elements of each window count, for one example of one channel.
Tensor counts(const Pool& p, bool with_padding) {
  Dims shape = {1, 1}, before(p.size.size(), 0);
  for (size_t i = 0; i < p.size.size(); ++i) shape.push_back(p.size[i] + (with_padding ? 2 * p.padding[i] : 0));
  return sum(windows(p, Tensor(make_const(Scalar::of(kF32, 1), to_shape("avg_pool", shape, kF32))),
                     with_padding ? before : p.padding, Scalar::of(kF32, 0)),
             last_axes(p.size.size()));
}

Tensor avg_pool(const char* op, size_t axes, const Tensor& given, const Dims& kernel, const AvgPoolOptions& options) {
  check_numbers(op, given);
  bool alone = false;
  Tensor x = with_batch(op, given, axes, alone), wide = to_wide_float(x);
  Pool p = pool_of(op, axes, x, kernel, options.stride, options.padding, 1, options.ceil_mode);
  Tensor total = sum(windows(p, wide, p.padding, Scalar::of(wide.dtype(), 0)), last_axes(axes));
  bool all_whole = true;
  double elements = 1;
  for (size_t i = 0; i < axes; ++i) {
    int64_t end = (p.positions[i] - 1) * p.stride[i] + p.kernel[i];
    all_whole &= end <= p.size[i] + 2 * p.padding[i] && (options.count_include_pad || p.padding[i] == 0);
    elements *= static_cast<double>(p.kernel[i]);
  }
  Tensor mean = all_whole ? div(total, elements) : div(total, cast(counts(p, options.count_include_pad), wide.dtype()));
  mean = from_wide_float(mean, x);
  return alone ? squeeze(mean, 0) : mean;
}

// ---- windows of different sizes ----

// [..., size, width, ...] in place of an axis: window i, and its elements; `outside` behind its end.
Tensor uneven_windows(const Tensor& x, int64_t axis, int64_t size, Scalar outside) {
  OnDeviceOf there(x);
  int64_t n = x.size(axis), width = 0;
  std::vector<int64_t> begin, end, index;
  for (int64_t i = 0; i < size; ++i) {
    begin.push_back(i * n / size);
    end.push_back(((i + 1) * n + size - 1) / size);
    width = std::max(width, end.back() - begin.back());
  }
  std::vector<bool> inside;
  for (size_t i = 0; i < begin.size(); ++i)
    for (int64_t k = 0; k < width; ++k) {
      inside.push_back(begin[i] + k < end[i]);
      index.push_back(std::min(begin[i] + k, n - 1));
    }
  Tensor chosen = unflatten(index_select(x, axis, from_vector(index, Dims(size * width))), axis, {size, width});
  std::vector<uint8_t> counts_there(inside.begin(), inside.end());
  Dims shape(static_cast<size_t>(chosen.rank()), 1);
  shape[static_cast<size_t>(axis)] = size;
  shape[static_cast<size_t>(axis) + 1] = width;
  Tensor mask = from_vector(counts_there, shape);
  return where(ne(mask, 0), chosen, Tensor(make_const(outside)));
}

// Windows of one size are cut along all axes at once. `even` reduces several axes, `uneven` the one behind `axis`.
template <class Even, class Uneven>
Tensor adaptive_pool(const char* op, size_t axes, const Tensor& given, const Dims& size, const Even& even,
                     const Uneven& uneven) {
  bool alone = false;
  Tensor y = with_batch(op, given, axes, alone);
  Dims wanted = per_axis(op, "size", size, axes, -1);
  Axes inner;
  for (size_t i = axes; i-- > 0;) {
    int64_t axis = static_cast<int64_t>(i) + 2, n = y.size(axis);
    if (wanted[i] == 0 || n == 0)
      throw ShapeError(text(op, ": ", wanted[i], " windows of an input of shape ", given.shape()));
    if (wanted[i] == -1 || wanted[i] == n) continue;
    if (n % wanted[i] != 0) {
      if (wanted[i] > INT32_MAX)  // the host makes a list of them
        throw ShapeError(text(op, ": ", wanted[i], " windows of an input of shape ", given.shape()));
      // Later axes first: of equal elements the first in order of rows then wins, as in windows of one size.
      if (!inner.empty()) y = even(y, inner);
      inner.clear();
      y = uneven(y, axis, wanted[i]);
      continue;
    }
    y = unflatten(y, axis, {wanted[i], -1});
    for (int64_t& later : inner) ++later;
    inner.push_back(axis + 1);
  }
  if (!inner.empty()) y = even(y, inner);
  return alone ? squeeze(y, 0) : y;
}

Tensor adaptive_max_pool(const char* op, size_t axes, const Tensor& x, const Dims& size) {
  check_numbers(op, x);
  Scalar lowest = reduce_identity(ReduceOp::Max, x.dtype());
  return adaptive_pool(
      op, axes, x, size, [](const Tensor& w, const Axes& inner) { return max(w, inner); },
      [&](const Tensor& y, int64_t axis, int64_t count) {
        return max(uneven_windows(y, axis, count, lowest), axis + 1);
      });
}

Tensor adaptive_avg_pool(const char* op, size_t axes, const Tensor& x, const Dims& size) {
  check_numbers(op, x);
  Tensor wide = to_wide_float(x);
  auto uneven_mean = [&](const Tensor& y, int64_t axis, int64_t count) {
    OnDeviceOf there(y);
    int64_t n = y.size(axis);
    std::vector<double> lengths;
    for (int64_t i = 0; i < count; ++i)
      lengths.push_back(static_cast<double>(((i + 1) * n + count - 1) / count - i * n / count));
    Dims shape(static_cast<size_t>(y.rank()), 1);
    shape[static_cast<size_t>(axis)] = count;
    Tensor total = sum(uneven_windows(y, axis, count, Scalar::of(y.dtype(), 0)), axis + 1);
    return div(total, cast(from_vector(lengths, shape), y.dtype()));
  };
  Tensor y = adaptive_pool(
      op, axes, wide, size, [](const Tensor& w, const Axes& inner) { return mean(w, inner); }, uneven_mean);
  return from_wide_float(y, x);
}

}  // namespace

#define HD_POOL(axes)                                                                            \
  Tensor max_pool##axes##d(const Tensor& x, const Dims& kernel, const MaxPoolOptions& options) { \
    return max_pool("max_pool" #axes "d", axes, x, kernel, options);                             \
  }                                                                                              \
  Tensor avg_pool##axes##d(const Tensor& x, const Dims& kernel, const AvgPoolOptions& options) { \
    return avg_pool("avg_pool" #axes "d", axes, x, kernel, options);                             \
  }                                                                                              \
  Tensor adaptive_avg_pool##axes##d(const Tensor& x, const Dims& size) {                         \
    return adaptive_avg_pool("adaptive_avg_pool" #axes "d", axes, x, size);                      \
  }                                                                                              \
  Tensor adaptive_max_pool##axes##d(const Tensor& x, const Dims& size) {                         \
    return adaptive_max_pool("adaptive_max_pool" #axes "d", axes, x, size);                      \
  }
HD_POOL(1)
HD_POOL(2)
HD_POOL(3)
#undef HD_POOL

}  // namespace heddle
