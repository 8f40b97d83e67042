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
  NodeRef permuted = make_permute(x.node(), present);
  Shape shape;
  size_t next = 0;
  for (int axis : axes) shape.push_back(axis >= 0 ? permuted->shape[next++] : Expr(1));
  return Tensor(make_reshape(permuted, shape));
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

// How one axis of x is made of phases: x[q * stride + r - skip] = sum over j of w[j * stride + r - shift] * y[q + t -
// j].
struct Phases {
  int64_t stride, dilation;
  int64_t shift, skip;    // zeros in front of w; elements in front of x that nobody wants
  int64_t parts, places;  // numbers of j and of q
  int64_t t;              // y of the first element
};

// The zeros in front of x are whole strides and some rest. Either w begins with so many zeros that they are whole
// strides, or so many elements are computed and not used: whichever is less work.
Phases phases_of(const ConvForm& form, size_t i) {
  // Windows that never move may do so by steps of any length: then no two of them meet.
  const bool still = form.y_size[i] == 1 && form.dilation[i] == 1;
  const int64_t stride = still ? std::max(form.stride[i], form.kernel[i]) : form.stride[i];
  const int64_t before = form.before[i], kernel = form.kernel[i], rest = before % stride;
  const int64_t shift = rest == 0 ? 0 : stride - rest;
  Phases filled{stride,
                form.dilation[i],
                shift,
                0,
                ceil_divide(kernel + shift, stride),
                ceil_divide(form.x_size[i], stride),
                ceil_divide(before, stride)};
  Phases cut{stride,
             form.dilation[i],
             0,
             rest,
             ceil_divide(kernel, stride),
             ceil_divide(form.x_size[i] + rest, stride),
             before / stride};
  return filled.parts * filled.places <= cut.parts * cut.places ? filled : cut;
}

// w is cut into stride parts, and each remainder r is a channel of its own that is convolved with one of them. Zeros
// fill up the parts that are shorter than the first; all of a part where the stride is larger than the kernel. So it is
// an ordinary convolution of y with more filters, whose elements are then put into another order.
Tensor value_of_x(const ConvForm& form, const Tensor& w, const Tensor& y) {
  const size_t d = form.kernel.size();
  const int rank = static_cast<int>(d);
  ConvForm inner{.groups = form.groups};
  Tensor filters = grouped(w, 0, form.groups), input = y;  // g o c (j r) ...
  std::vector<int> of_w = {0}, of_x = {0, 1};              // g (r ... c) o j ... and n g c (q r) ...
  std::vector<Phases> phases;
  for (size_t i = 0; i < d; ++i) {
    Phases p = phases_of(form, i);
    if (p.stride > 1 && p.dilation > 1) {
      input = spread_out(input, static_cast<int64_t>(i) + 2, p.stride);
      ConvForm plain = form;
      plain.stride[i] = 1;
      p = phases_of(plain, i);
    }
    phases.push_back(p);
    int64_t at = static_cast<int64_t>(2 * i) + 3;
    filters = flip(unflatten(framed(filters, at, p.shift, p.parts * p.stride), at, {p.parts, p.stride}), at);
    of_w.push_back(static_cast<int>(at) + 1);
    inner.stride.push_back(1);
    inner.dilation.push_back(p.dilation);
    inner.before.push_back(p.dilation * (p.parts - 1) - p.t);
    inner.kernel.push_back(p.parts);
    inner.x_size.push_back(input.size(static_cast<int64_t>(i) + 2));
    inner.y_size.push_back(p.places);
  }
  of_w.insert(of_w.end(), {2, 1});
  for (int i = 0; i < rank; ++i) of_w.push_back(3 + 2 * i);
  const int64_t channels = w.size(1);
  filters = flatten(permute(filters, Axes(of_w.begin(), of_w.end())), 0, rank + 1);
  Tensor x = grouped(value_of_y(inner, input, filters), 1, form.groups);  // n g (r ... c) q ...
  Dims parts;
  for (const Phases& p : phases) parts.push_back(p.stride);
  parts.push_back(channels);
  x = unflatten(x, 2, parts);
  of_x.push_back(2 + rank);
  for (int i = 0; i < rank; ++i) of_x.insert(of_x.end(), {3 + rank + i, 2 + i});
  x = flatten(permute(x, Axes(of_x.begin(), of_x.end())), 1, 2);
  for (size_t i = 0; i < d; ++i) {
    int64_t axis = static_cast<int64_t>(i) + 2, skip = phases[i].skip;
    x = slice(flatten(x, axis, axis + 1), axis, skip, skip + form.x_size[i]);
  }
  return x;
}

using Gradients = std::function<TensorList(const Tensor& first, const Tensor& second, const Tensor& gradient)>;

Tensor with_gradients(const Tensor& value, const Tensor& first, const Tensor& second, Gradients gradients) {
  auto rule = std::make_shared<GradientRule>();
  rule->name = "conv";
  rule->pull = [gradients = std::move(gradients)](const Node& node, const NodeRef& g, GradientRule::Wanted) {
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
