// Gradients of elementwise ops.
#include <cmath>
#include <numbers>

#include "base/fork.h"
#include "graph/arithmetic.h"
#include "graph/gradient.h"

namespace heddle {
using namespace arithmetic;

NodeRef scaled(const NodeRef& gradient, const NodeRef& slope) {
  if (slope->op == NodeOp::Const || gradient->op == NodeOp::Const) return gradient * slope;
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto rule = std::make_shared<const GradientRule>(
      GradientRule{"scaled", [](const Node& node, const NodeRef& g, GradientRule::Wanted) -> std::vector<NodeRef> {
                     return {scaled(g, node.inputs[2]), g * node.inputs[1]};
                   }});
  NodeRef value = choose(equal(gradient, like(gradient, 0)), like(gradient, 0), gradient * slope);
  NodeRef inputs[] = {gradient, slope};
  return make_pullback(value, inputs, rule);
}

namespace {

// A slope whose own derivative is given by a formula of itself and x: at poles the derivative of how it is computed
// would be infinity times zero.
template <class F>
NodeRef with_derivative(const NodeRef& slope, const NodeRef& x, F) {
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto rule = std::make_shared<const GradientRule>(
      GradientRule{"slope", [](const Node& node, const NodeRef& g, GradientRule::Wanted) -> std::vector<NodeRef> {
                     return {scaled(g, F()(NodeRef::share(&node), node.inputs[1]))};
                   }});
  return make_pullback(slope, std::span(&x, 1), rule);
}
// Of asin.
NodeRef arc_slope(const NodeRef& x) {
  return with_derivative(1 / sqrt((1 - x) * (x + 1)), x,
                         [](const NodeRef& s, const NodeRef& at) { return at * s * s * s; });
}

// Of maximum(a, b) for a. With a constant the side of the tie does not matter to what is kept: `result` is enough, so
// that nobody has to store `a` for it.
NodeRef of_extreme(const Node& node, size_t which, const NodeRef& g) {
  const NodeRef &a = node.inputs[which], &b = node.inputs[1 - which];
  bool max = node.scalar_op == ScalarOp::maximum;
  if (b->op == NodeOp::Const) {
    NodeRef result = NodeRef::share(&node);
    return choose(max ? less(b, result) : less(result, b), g, 0);
  }
  return choose(max ? less(b, a) : less(a, b), g, choose(equal(a, b), g * 0.5, 0));
}

NodeRef of_unary(const Node& node, const NodeRef& g) {
  using std::numbers::ln10, std::numbers::ln2, std::numbers::inv_sqrtpi;
  const NodeRef& x = node.inputs[0];
  NodeRef y = NodeRef::share(&node);
  switch (node.scalar_op) {
    case ScalarOp::neg: return -g;
    case ScalarOp::abs: return choose(equal(x, like(x, 0)), like(g, 0), choose(less(x, like(x, 0)), -g, g));
    case ScalarOp::sqrt: return scaled(g, 0.5 / y);
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::trunc:
    case ScalarOp::round: return like(g, 0);
    case ScalarOp::exp: return scaled(g, y);
    case ScalarOp::exp2: return scaled(g, y * ln2);
    case ScalarOp::expm1: return scaled(g, y + 1);
    case ScalarOp::log: return scaled(g, 1 / x);
    case ScalarOp::log2: return scaled(g, 1 / ln2 / x);
    case ScalarOp::log10: return scaled(g, 1 / ln10 / x);
    case ScalarOp::log1p: return scaled(g, 1 / (x + 1));
    case ScalarOp::sin: return scaled(g, apply(ScalarOp::cos, {x}));
    case ScalarOp::cos: return scaled(g, -apply(ScalarOp::sin, {x}));
    case ScalarOp::tan: return scaled(g, y * y + 1);
    case ScalarOp::asin: return scaled(g, arc_slope(x));
    case ScalarOp::acos: return scaled(g, -arc_slope(x));
    case ScalarOp::atan: return scaled(g, 1 / (x * x + 1));
    case ScalarOp::sinh: return scaled(g, apply(ScalarOp::cosh, {x}));
    case ScalarOp::cosh: return scaled(g, apply(ScalarOp::sinh, {x}));
    case ScalarOp::tanh: return g * (1 - y * y);
    case ScalarOp::asinh: return scaled(g, 1 / sqrt(x * x + 1));
    case ScalarOp::acosh:
      return scaled(g, with_derivative(1 / sqrt((x + (-1)) * (x + 1)), x,
                                       [](const NodeRef& s, const NodeRef& at) { return -(at * s * s * s); }));
    case ScalarOp::atanh:
      return scaled(g, with_derivative(1 / ((1 - x) * (x + 1)), x,
                                       [](const NodeRef& s, const NodeRef& at) { return at * s * s * 2; }));
    case ScalarOp::erf: return scaled(g, exp(-(x * x)) * (2 * inv_sqrtpi));
    case ScalarOp::erfinv: return scaled(g, exp(y * y) * (0.5 / inv_sqrtpi));
    case ScalarOp::cbrt:
      return scaled(g, with_derivative(1 / (y * y * 3.0), x,
                                       [](const NodeRef& s, const NodeRef& at) { return s / at * (-2.0 / 3); }));
    default: return {};
  }
}

// Of pow(a, b) for the base: b * a^(b-1), and zero for b = 0 whatever a is; for the exponent: a^b log(a), where nothing
// changes at a = 0 as long as b is not negative.
NodeRef of_pow(const Node& node, size_t which, const NodeRef& g) {
  const NodeRef &a = node.inputs[0], &b = node.inputs[1];
  NodeRef zero = like(a, 0);
  if (which == 0) {
    NodeRef sized = less(1 / apply(ScalarOp::abs, {a}), like(a, INFINITY));
    NodeRef one = choose(sized, less(zero, zero), equal(b, zero));  // 0 ** 0 and NaN ** 0
    return scaled(g, choose(one, zero, b * apply(ScalarOp::pow, {a, choose(one, like(b, 1), b) + (-1)})));
  }
  NodeRef still = apply(ScalarOp::bit_and, {equal(a, zero), apply(ScalarOp::le, {zero, b})});
  return scaled(g, choose(still, like(a, 0), NodeRef::share(&node) * log(choose(still, like(a, 1), a))));
}

NodeRef of_binary(const Node& node, size_t which, const NodeRef& g) {
  const NodeRef &a = node.inputs[0], &b = node.inputs[1];
  switch (node.scalar_op) {
    case ScalarOp::add: return g;
    case ScalarOp::sub: return which == 0 ? g : -g;
    case ScalarOp::mul: return g * node.inputs[1 - which];
    case ScalarOp::div:
      // The reciprocal of a number may not fit the dtype where the quotient does.
      if (which == 0) return b->op == NodeOp::Const ? g / b : scaled(g, 1 / b);
      return scaled(g, -(NodeRef::share(&node) / b));
    case ScalarOp::floordiv: return like(g, 0);
    case ScalarOp::scale: return which == 0 ? apply(ScalarOp::scale, {g, b}) : like(g, 0);
    case ScalarOp::mod: return which == 0 ? g : scaled(g, -apply(ScalarOp::floordiv, {a, b}));
    case ScalarOp::minimum:
    case ScalarOp::maximum: return of_extreme(node, which, g);
    case ScalarOp::pow: return of_pow(node, which, g);
    case ScalarOp::atan2: return scaled(g, (which == 0 ? b : -a) / (a * a + b * b));
    default: return {};
  }
}

}  // namespace

void scalar_gradient(const Node& node, const NodeRef& g, Wanted wanted, std::span<NodeRef> result) {
  for (size_t i = 0; i < result.size(); ++i) {
    if (!wanted[i]) continue;
    if (node.scalar_op == ScalarOp::where)
      result[i] = i == 1 ? choose(node.inputs[0], g, 0) : choose(node.inputs[0], like(g, 0), g);
    else if (node.scalar_op == ScalarOp::fma)
      result[i] = i == 2 ? g : g * node.inputs[1 - i];
    else
      result[i] = result.size() == 1 ? of_unary(node, g) : of_binary(node, i, g);
  }
}

}  // namespace heddle
