#include "base/error.h"
#include "base/fork.h"
#include "tensor/build.h"

namespace heddle {
namespace {

// In f32 for small floats: what happens on the way must not overflow or be rounded.
template <class F>
Tensor in_wide_float(const Tensor& x, F compute) {
  return from_wide_float(compute(to_wide_float(x)), x);
}
// y * (1 - y), where 1 - y is the sigmoid of -x and neither of them is lost in the other.
std::vector<NodeRef> sigmoid_gradient(const Node& node, const NodeRef& g, GradientRule::Wanted) {
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto rule = std::make_shared<const GradientRule>(GradientRule{"sigmoid", sigmoid_gradient});
  Tensor y(NodeRef::share(&node)), negated = neg(Tensor(node.inputs[1])), e = exp(negated);
  NodeRef other = where(isinf(e), 1, mul(e, Tensor(node.inputs[0]))).node(), of = negated.node();
  return {mul(Tensor(g), mul(y, Tensor(make_pullback(other, std::span(&of, 1), rule)))).node()};
}
Tensor sigmoid_of(const Tensor& f) {
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto rule = std::make_shared<const GradientRule>(GradientRule{"sigmoid", sigmoid_gradient});
  NodeRef x = f.node();
  return Tensor(make_pullback(div(1, add(1, exp(neg(f)))).node(), std::span(&x, 1), rule));
}
// exp() of a number that is not positive neither overflows nor drowns the 1.
// Written with comparisons, which have the right derivative at zero, where maximum and abs have none.
Tensor softplus_of(const Tensor& f) {
  Tensor positive = gt(f, 0);
  return add(where(positive, f, 0), log1p(exp(where(positive, neg(f), f))));
}
Tensor hardsigmoid_of(const Tensor& f) { return mul(minimum(maximum(add(f, 3), 0), 6), 1.0 / 6); }

}  // namespace

Tensor relu(const Tensor& x) { return x.dtype() == kBool ? Tensor(x.node()) : maximum(x, 0); }
Tensor relu6(const Tensor& x) { return minimum(maximum(x, 0), 6); }
Tensor hardtanh(const Tensor& x, double low, double high) {
  if (!(low <= high)) throw ValueError(text("hardtanh: the bounds ", low, " and ", high, " are not in order"));
  return minimum(maximum(to_float(x), low), high);
}
Tensor threshold(const Tensor& given, double limit, double value) {
  Tensor x(given.node());
  return where(gt(x, limit), x, value);
}

Tensor sigmoid(const Tensor& x) { return in_wide_float(x, sigmoid_of); }
Tensor logsigmoid(const Tensor& x) {
  return in_wide_float(x, [](const Tensor& f) { return neg(softplus_of(neg(f))); });
}
Tensor leaky_relu(const Tensor& x, double slope) {
  return in_wide_float(x, [&](const Tensor& f) { return where(gt(f, 0), f, mul(f, slope)); });
}
Tensor elu(const Tensor& x, double alpha) {
  return in_wide_float(x, [&](const Tensor& f) { return where(gt(f, 0), f, mul(expm1(f), alpha)); });
}
Tensor selu(const Tensor& x) {
  constexpr double kScale = 1.0507009873554804934, kAlpha = 1.6732632423543772848;
  return in_wide_float(
      x, [&](const Tensor& f) { return where(gt(f, 0), mul(f, kScale), mul(expm1(f), kScale * kAlpha)); });
}
Tensor celu(const Tensor& x, double alpha) {
  if (alpha == 0) throw ValueError("celu: alpha must not be zero");
  return in_wide_float(x, [&](const Tensor& f) { return where(gt(f, 0), f, mul(expm1(div(f, alpha)), alpha)); });
}
Tensor gelu(const Tensor& x) { return gelu(x, "none"); }
Tensor gelu(const Tensor& x, std::string_view approximate) {
  if (approximate == "none") {
    return in_wide_float(x,
                         [](const Tensor& f) { return mul(mul(f, 0.5), add(1, erf(mul(f, 0.70710678118654752440)))); });
  }
  if (approximate != "tanh")
    throw ValueError(text("gelu: the approximation is \"none\" or \"tanh\", not \"", approximate, "\""));
  return in_wide_float(x, [](const Tensor& f) {
    Tensor inner = mul(mul(f, add(1, mul(square(f), 0.044715))), 0.79788456080286535588);
    return mul(mul(f, 0.5), add(1, tanh(inner)));
  });
}
Tensor silu(const Tensor& x) {
  return in_wide_float(x, [](const Tensor& f) { return mul(f, sigmoid_of(f)); });
}
Tensor hardsigmoid(const Tensor& x) { return in_wide_float(x, hardsigmoid_of); }
Tensor hardswish(const Tensor& x) {
  return in_wide_float(x, [](const Tensor& f) { return mul(f, hardsigmoid_of(f)); });
}
Tensor softplus(const Tensor& x, double beta) {
  if (!(beta > 0)) throw ValueError(text("softplus: beta must be positive, not ", beta));
  if (beta == 1) return in_wide_float(x, softplus_of);
  return in_wide_float(x, [&](const Tensor& f) { return div(softplus_of(mul(f, beta)), beta); });
}
Tensor softsign(const Tensor& x) {
  return in_wide_float(x, [](const Tensor& f) { return div(f, add(1, abs(f))); });
}
Tensor mish(const Tensor& x) {
  return in_wide_float(x, [](const Tensor& f) {
    // tanh(log(1 + e)) = n / (n + 2) with n = e * (e + 2); above 20 that is 1.
    Tensor e = exp(minimum(f, 20));
    Tensor n = mul(e, add(e, 2));
    return mul(f, div(n, add(n, 2)));
  });
}

Tensor glu(const Tensor& x, int64_t axis) {
  NodeRef n = x.node();
  int at = normalize_axis("glu", axis, n->shape.rank());
  int64_t size = n->shape[static_cast<size_t>(at)].value();
  if (size % 2 != 0) throw ShapeError(text("glu: axis ", at, " of ", n->shape, " cannot be halved"));
  Tensor f = to_wide_float(x);
  return from_wide_float(mul(slice(f, at, 0, size / 2), sigmoid_of(slice(f, at, size / 2, size))), x);
}

}  // namespace heddle
