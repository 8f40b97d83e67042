#include "tensor/conv_form.h"

#include <heddle/grad.h>

#include <algorithm>

namespace heddle {
namespace {

constexpr int64_t kFewChannels = 16;

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What sums of products need: the axes in another order, axes of size 1 (-1 in the list) between them.
Tensor arranged(const Tensor& x, const std::vector<int>& axes) {
  std::vector<int> present;
  for (int axis : axes)
    if (axis >= 0) present.push_back(axis);
  NodeRef turned = make_permute(x.node(), present);
  Shape shape;
  size_t next = 0;
  for (int axis : axes) shape.push_back(axis >= 0 ? turned->shape[next++] : Expr(1));
  return Tensor(make_reshape(turned, shape));
}

Tensor sum_of_products(const Tensor& a, const Tensor& b, size_t reduced) {
  NodeRef product = mul(a, b).node();
  std::vector<int> axes;
  for (size_t i = product->shape.size() - reduced; i < product->shape.size(); ++i) axes.push_back(static_cast<int>(i));
  return Tensor(make_reduce(ReduceOp::Sum, product, axes));
}

// The channels by groups.
Tensor grouped(const Tensor& x, int64_t axis, int64_t groups) { return unflatten(x, axis, {groups, -1}); }

// [n, g, c, p ..., k ...]
Tensor windows_of_x(const ConvForm& form, const Tensor& x) {
  Tensor result = grouped(x, 1, form.groups);
  for (size_t i = 0; i < form.kernel.size(); ++i) {
    int64_t axis = static_cast<int64_t>(i) + 3, reach = form.dilation[i] * (form.kernel[i] - 1) + 1;
    result = framed(result, axis, form.before[i], (form.y_size[i] - 1) * form.stride[i] + reach);
    result = window(result, axis, form.kernel[i], form.stride[i], form.dilation[i]);
  }
  return result;
}

// Numbers first, first + 1, ... appended.
void append(std::vector<int>& axes, int first, size_t count) {
  for (size_t i = 0; i < count; ++i) axes.push_back(first + static_cast<int>(i));
}

Tensor value_of_y(const ConvForm& form, const Tensor& x, const Tensor& w) {
  const size_t d = form.kernel.size();
  std::vector<int> of_x = {0, 1, -1}, of_w = {-1, 0, 1};  // n g o | p ... | k ... c, or c k ...
  append(of_x, 3, d);
  of_w.insert(of_w.end(), d, -1);
  // The last axis is walked most often: that of the channels, unless they are few.
  const bool few = w.size(1) < kFewChannels;
  if (few) of_x.push_back(2), of_w.push_back(2);
  append(of_x, 3 + static_cast<int>(d), d);
  append(of_w, 3, d);
  if (!few) of_x.push_back(2), of_w.push_back(2);
  Tensor y = sum_of_products(arranged(windows_of_x(form, x), of_x), arranged(grouped(w, 0, form.groups), of_w), d + 1);
  return flatten(y, 1, 2);
}

Tensor value_of_w(const ConvForm& form, const Tensor& x, const Tensor& y) {
  const size_t d = form.kernel.size();
  const int rank = static_cast<int>(d);
  std::vector<int> of_x = {1, -1, 2}, of_y = {1, 2, -1};  // g o c | k ... | n p ...
  append(of_x, 3 + rank, d);
  of_x.push_back(0);
  append(of_x, 3, d);
  of_y.insert(of_y.end(), d, -1);
  of_y.push_back(0);
  append(of_y, 3, d);
  Tensor w = sum_of_products(arranged(windows_of_x(form, x), of_x), arranged(grouped(y, 1, form.groups), of_y), d + 1);
  return flatten(w, 0, 1);
}

// Zeros between the elements along an axis.
Tensor spread_out(const Tensor& y, int64_t axis, int64_t stride) {
  int64_t size = y.size(axis);
  Tensor cells = framed(unsqueeze(y, axis + 1), axis + 1, 0, stride);
  return slice(flatten(cells, axis, axis + 1), axis, 0, (size - 1) * stride + 1);
}

// Element q * stride + r of x meets w[j * stride + r - f] at y[q + t - j], where t strides are the zeros in front of x
// and f more. So w is cut into stride parts, and each remainder r is a channel of its own that is convolved with one of
// them: nothing is multiplied that does not count, but for the zeros that fill up the last of the parts.
Tensor value_of_x(const ConvForm& form, const Tensor& w, const Tensor& y) {
  const size_t d = form.kernel.size();
  const int rank = static_cast<int>(d);
  Tensor turned = grouped(w, 0, form.groups);             // g o c (j r) ...
  Tensor windows = grouped(y, 1, form.groups);            // n g o q ... j ...
  std::vector<int> of_y = {0, 1, -1}, of_w = {-1, 0, 2};  // n g c | (q r) ... | j ... o
  for (size_t i = 0; i < d; ++i) {
    int64_t axis = static_cast<int64_t>(i) + 3, stride = form.stride[i], dilation = form.dilation[i];
    if (stride > 1 && dilation > 1) {
      windows = spread_out(windows, axis, stride);
      stride = 1;
    }
    int64_t t = ceil_divide(form.before[i], stride), f = t * stride - form.before[i];
    int64_t parts = ceil_divide(form.kernel[i] + f, stride), places = ceil_divide(form.x_size[i], stride);
    int64_t reach = dilation * (parts - 1);
    windows = window(framed(windows, axis, reach - t, places + reach), axis, parts, 1, dilation);
    int64_t at = static_cast<int64_t>(2 * i) + 3;
    turned = flip(unflatten(framed(turned, at, f, parts * stride), at, {parts, stride}), at);
    of_y.insert(of_y.end(), {3 + static_cast<int>(i), -1});
    of_w.insert(of_w.end(), {-1, 4 + 2 * static_cast<int>(i)});
  }
  append(of_y, 3 + rank, d);
  of_y.push_back(2);
  for (int i = 0; i < rank; ++i) of_w.push_back(3 + 2 * i);
  of_w.push_back(1);
  Tensor x = flatten(sum_of_products(arranged(windows, of_y), arranged(turned, of_w), d + 1), 1, 2);
  for (size_t i = 0; i < d; ++i) {
    int64_t axis = static_cast<int64_t>(i) + 2;
    x = slice(flatten(x, axis, axis + 1), axis, 0, form.x_size[i]);
  }
  return x;
}

using Gradients = std::function<TensorList(const Tensor& first, const Tensor& second, const Tensor& gradient)>;

Tensor with_gradients(const Tensor& value, const Tensor& first, const Tensor& second, Gradients gradients) {
  auto rule = std::make_shared<GradientRule>();
  rule->name = "conv";
  rule->pull = [gradients = std::move(gradients)](const Node& node, const NodeRef& g) {
    TensorList given = gradients(Tensor(node.inputs[1]), Tensor(node.inputs[2]), Tensor(g));
    return std::vector<NodeRef>{given[0].node(), given[1].node()};
  };
  NodeRef inputs[] = {first.node(), second.node()};
  return Tensor(make_pullback(value.node(), inputs, rule));
}

}  // namespace

Tensor framed(const Tensor& x, int64_t axis, int64_t before, int64_t count, std::optional<Scalar> value) {
  int64_t size = x.size(axis), begin = std::clamp<int64_t>(-before, 0, size);
  int64_t end = std::clamp(count - before, begin, size), front = std::clamp<int64_t>(before, 0, count);
  Tensor kept = begin > 0 || end < size ? slice(x, axis, begin, end) : x;
  int64_t back = count - front - (end - begin);
  if (front == 0 && back == 0) return kept;
  SmallVector<Expr, 4> first(static_cast<size_t>(x.rank()), Expr(0)), second = first;
  first[static_cast<size_t>(axis)] = front;
  second[static_cast<size_t>(axis)] = back;
  return Tensor(make_pad(kept.node(), first, second, value.value_or(Scalar::of(x.dtype(), 0))));
}

Tensor conv_y(const ConvForm& form, const Tensor& x, const Tensor& w) {
  return with_gradients(value_of_y(form, x, w), x, w, [form](const Tensor& gx, const Tensor& gw, const Tensor& g) {
    return TensorList{conv_x(form, gw, g), conv_w(form, gx, g)};
  });
}

Tensor conv_x(const ConvForm& form, const Tensor& w, const Tensor& y) {
  return with_gradients(value_of_x(form, w, y), w, y, [form](const Tensor& gw, const Tensor& gy, const Tensor& g) {
    return TensorList{conv_w(form, g, gy), conv_y(form, g, gw)};
  });
}

Tensor conv_w(const ConvForm& form, const Tensor& x, const Tensor& y) {
  return with_gradients(value_of_w(form, x, y), x, y, [form](const Tensor& gx, const Tensor& gy, const Tensor& g) {
    return TensorList{conv_x(form, g, gy), conv_y(form, gx, g)};
  });
}

}  // namespace heddle
