// Derivatives of first and second order where operands meet, vanish or have poles, and with a number in place of a
// tensor. The numbers are worked out by hand where docs/guide.md makes a choice, or where others give NaN; elsewhere
// they agree with PyTorch's.
#include <heddle/heddle.h>

#include <limits>
#include <numeric>

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
using Values = std::vector<double>;
using Lists = std::vector<Values>;

struct Case {
  const char* name;
  Lists points;
  Lists first;   // of the sum of f, for each operand
  Lists second;  // of each of these, its elements times 1, 2, ...: for each operand
  Tensor (*f)(const TensorList&);
};

#define HD_F(...) [](const TensorList& x) -> Tensor { return __VA_ARGS__; }

const Case kCases[] = {
    // zeros, ties and poles of one operand
    {"abs", {{-1, 0, 2}}, {{-1, 0, 1}}, {{0, 0, 0}}, HD_F(abs(x[0]))},
    {"square", {{0, -2}}, {{0, -4}}, {{2, 4}}, HD_F(square(x[0]))},
    {"sqrt", {{0, 4}}, {{kInf, 0.25}}, {{-kInf, -0.0625}}, HD_F(sqrt(x[0]))},
    {"rsqrt", {{0, 4}}, {{-kInf, -0.0625}}, {{kInf, 0.046875}}, HD_F(rsqrt(x[0]))},
    {"cbrt", {{0, 8}}, {{kInf, 0.08333333333333333}}, {{-kInf, -0.013888888888888888}}, HD_F(cbrt(x[0]))},
    {"reciprocal", {{0, 2}}, {{-kInf, -0.25}}, {{kInf, 0.5}}, HD_F(reciprocal(x[0]))},
    {"exp", {{0, -kInf}}, {{1, 0}}, {{1, 0}}, HD_F(exp(x[0]))},
    {"exp2", {{0}}, {{0.6931471805599453}}, {{0.4804530139182014}}, HD_F(exp2(x[0]))},
    {"expm1", {{0}}, {{1}}, {{1}}, HD_F(expm1(x[0]))},
    {"log", {{0, 1}}, {{kInf, 1}}, {{-kInf, -2}}, HD_F(log(x[0]))},
    {"log2", {{0, 1}}, {{kInf, 1.4426950408889634}}, {{-kInf, -2.8853900817779268}}, HD_F(log2(x[0]))},
    {"log10", {{0, 1}}, {{kInf, 0.43429448190325176}}, {{-kInf, -0.8685889638065035}}, HD_F(log10(x[0]))},
    {"log1p", {{-1, 0}}, {{kInf, 1}}, {{-kInf, -2}}, HD_F(log1p(x[0]))},
    {"sin", {{0}}, {{1}}, {{0}}, HD_F(sin(x[0]))},
    {"cos", {{0}}, {{0}}, {{-1}}, HD_F(cos(x[0]))},
    {"tan", {{0, 1}}, {{1, 3.42551882081476}}, {{0, 21.339717889950638}}, HD_F(tan(x[0]))},
    {"asin", {{0, 1, -1}}, {{1, kInf, kInf}}, {{0, kInf, -kInf}}, HD_F(asin(x[0]))},
    {"acos", {{0, 1, -1}}, {{-1, -kInf, -kInf}}, {{0, -kInf, kInf}}, HD_F(acos(x[0]))},
    {"atan", {{0}}, {{1}}, {{0}}, HD_F(atan(x[0]))},
    {"sinh", {{0}}, {{1}}, {{0}}, HD_F(sinh(x[0]))},
    {"cosh", {{0}}, {{0}}, {{1}}, HD_F(cosh(x[0]))},
    {"tanh", {{0}}, {{1}}, {{0}}, HD_F(tanh(x[0]))},
    {"asinh", {{0}}, {{1}}, {{0}}, HD_F(asinh(x[0]))},
    {"acosh", {{1, 2}}, {{kInf, 0.5773502691896258}}, {{-kInf, -0.7698003589195014}}, HD_F(acosh(x[0]))},
    {"atanh", {{0, 1, -1}}, {{1, kInf, kInf}}, {{0, kInf, -kInf}}, HD_F(atanh(x[0]))},
    {"erf", {{0}}, {{1.1283791670955126}}, {{0}}, HD_F(erf(x[0]))},
    {"erfinv", {{0, 1, -1}}, {{0.8862269254527579, kInf, kInf}}, {{0, kInf, -kInf}}, HD_F(erfinv(x[0]))},
    {"sinc",
     {{0, 0.01, 0.03, 0.04, 1}},
     {{0, -0.032895434481703324, -0.09860840363600673, -0.1313870364506394, -1}},
     {{-3.289868133696453, -6.5777882000253864, -9.843317849115476, -13.097189291499234, 9.999999999999998}},
     HD_F(sinc(x[0]))},
    {"floor", {{0, 1.5}}, {{0, 0}}, {{0, 0}}, HD_F(floor(x[0]))},
    {"ceil", {{0, 1.5}}, {{0, 0}}, {{0, 0}}, HD_F(ceil(x[0]))},
    {"trunc", {{0, 1.5}}, {{0, 0}}, {{0, 0}}, HD_F(trunc(x[0]))},
    {"round", {{0, 1.5}}, {{0, 0}}, {{0, 0}}, HD_F(round(x[0]))},
    {"frac", {{0, 1.5}}, {{1, 1}}, {{0, 0}}, HD_F(frac(x[0]))},
    {"sign", {{-1, 0, 1}}, {{0, 0, 0}}, {{0, 0, 0}}, HD_F(sign(x[0]))},
    {"nan_to_num", {{kNaN, kInf, 0}}, {{0, 0, 1}}, {{0, 0, 0}}, HD_F(nan_to_num(x[0]))},
    {"relu", {{-1, 0, 1}}, {{0, 0, 1}}, {{0, 0, 0}}, HD_F(relu(x[0]))},
    {"relu6", {{0, 6, 3}}, {{0, 0, 1}}, {{0, 0, 0}}, HD_F(relu6(x[0]))},
    {"hardtanh", {{-1, 0, 1}}, {{0, 1, 0}}, {{0, 0, 0}}, HD_F(hardtanh(x[0]))},
    {"threshold", {{1, 2}}, {{0, 1}}, {{0, 0}}, HD_F(threshold(x[0], 1, 5))},
    {"clamp", {{-1, 0, 1, 2, 3}}, {{0, 1, 1, 1, 0}}, {{0, 0, 0, 0, 0}}, HD_F(clamp(x[0], 0, 2))},
    {"sigmoid", {{0, -kInf, kInf}}, {{0.25, 0, 0}}, {{0, 0, 0}}, HD_F(sigmoid(x[0]))},
    {"logsigmoid", {{0, -800, 800}}, {{0.5, 1, 0}}, {{-0.25, 0, 0}}, HD_F(logsigmoid(x[0]))},
    {"leaky_relu", {{0, 1}}, {{0.01, 1}}, {{0, 0}}, HD_F(leaky_relu(x[0]))},
    {"elu", {{0, 1, -1}}, {{1, 1, 0.36787944117144233}}, {{1, 0, 1.103638323514327}}, HD_F(elu(x[0]))},
    {"elu 2", {{0}}, {{2}}, {{2}}, HD_F(elu(x[0], 2))},
    {"selu", {{0}}, {{1.7580993408473766}}, {{1.7580993408473766}}, HD_F(selu(x[0]))},
    {"celu", {{0, 1}}, {{1, 1}}, {{0.5, 0}}, HD_F(celu(x[0], 2))},
    {"gelu", {{0}}, {{0.5}}, {{0.7978845608028654}}, HD_F(gelu(x[0]))},
    {"gelu tanh", {{0}}, {{0.5}}, {{0.7978845608028654}}, HD_F(gelu(x[0], "tanh"))},
    {"silu", {{0}}, {{0.5}}, {{0.5}}, HD_F(silu(x[0]))},
    {"hardsigmoid", {{-3, 0, 3}}, {{0, 0.16666666666666666, 0}}, {{0, 0, 0}}, HD_F(hardsigmoid(x[0]))},
    {"hardswish", {{-3, 0, 3}}, {{0, 0.5, 1}}, {{0, 0.6666666666666666, 0}}, HD_F(hardswish(x[0]))},
    {"softplus", {{0, -800, 800}}, {{0.5, 0, 1}}, {{0.25, 0, 0}}, HD_F(softplus(x[0]))},
    {"softsign", {{0, 1}}, {{1, 0.25}}, {{0, -0.5}}, HD_F(softsign(x[0]))},
    {"mish", {{0, 25}}, {{0.6, 1}}, {{0.64, 0}}, HD_F(mish(x[0]))},
    // two operands that meet, vanish or have poles
    {"mul", {{0, 0}, {0, 3}}, {{0, 3}, {0, 0}}, {{0, 0}, {1, 2}, {1, 2}, {0, 0}}, HD_F(x[0] * x[1])},
    {"div",
     {{0, 1}, {2, 0}},
     {{0.5, kInf}, {0, -kInf}},
     {{0, 0}, {-0.25, -kInf}, {-0.25, -kInf}, {0, kInf}},
     HD_F(x[0] / x[1])},
    {"div by number", {{0}}, {{0.25}}, {{0}}, HD_F(x[0] / 4.)},
    {"number div", {{0, 2}}, {{-kInf, -0.25}}, {{kInf, 0.5}}, HD_F(1. / x[0])},
    {"pow",
     {{0, 0, 0, 0, 0, 2, -2}, {0, 1, 2, 3, -2, 0, 2}},
     {{0, 1, 0, 0, -kInf, 0, -4}, {0, 0, 0, 0, -kInf, 0.6931471805599453, kNaN}},
     {{0, 0, 6, 0, kInf, 0, 14},
      {0, 2, 0, 0, kInf, 3, kNaN},
      {0, 0, 0, 0, kInf, 3, kNaN},
      {0, 0, 0, 0, kInf, 2.882718083509208, kNaN}},
     HD_F(pow(x[0], x[1]))},
    {"pow 0", {{0, 2}}, {{0, 0}}, {{0, 0}}, HD_F(pow(x[0], 0))},
    {"pow 1", {{0, 2}}, {{1, 1}}, {{0, 0}}, HD_F(pow(x[0], 1))},
    {"pow 2", {{0, 2}}, {{0, 4}}, {{2, 4}}, HD_F(pow(x[0], 2))},
    {"pow 3", {{0, 2}}, {{0, 12}}, {{0, 24}}, HD_F(pow(x[0], 3))},
    {"pow -2", {{0, 2}}, {{-kInf, -0.25}}, {{kInf, 0.75}}, HD_F(pow(x[0], -2))},
    {"pow 0.5", {{0, 4}}, {{kInf, 0.25}}, {{-kInf, -0.0625}}, HD_F(pow(x[0], 0.5))},
    {"0 pow", {{0, 2, -2}}, {{0, 0, -kInf}}, {{0, 0, kInf}}, HD_F(pow(0., x[0]))},
    {"2 pow",
     {{0, 1}},
     {{0.6931471805599453, 1.3862943611198906}},
     {{0.4804530139182014, 1.9218120556728056}},
     HD_F(pow(2., x[0]))},
    {"maximum",
     {{1, 1, 2}, {1, 2, 1}},
     {{0.5, 0, 1}, {0.5, 1, 0}},
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     HD_F(maximum(x[0], x[1]))},
    {"minimum",
     {{1, 1, 2}, {1, 2, 1}},
     {{0.5, 1, 0}, {0.5, 0, 1}},
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     HD_F(minimum(x[0], x[1]))},
    {"maximum number", {{0, 1, 2}}, {{0, 0, 1}}, {{0, 0, 0}}, HD_F(maximum(x[0], 1.))},
    {"minimum number", {{0, 1, 2}}, {{1, 0, 0}}, {{0, 0, 0}}, HD_F(minimum(x[0], 1.))},
    {"fmax",
     {{1, kNaN, 1}, {1, 1, kNaN}},
     {{0.5, 0, 1}, {0.5, 1, 0}},
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     HD_F(fmax(x[0], x[1]))},
    {"fmin",
     {{1, kNaN, 1}, {1, 1, kNaN}},
     {{0.5, 0, 1}, {0.5, 1, 0}},
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     HD_F(fmin(x[0], x[1]))},
    {"atan2",
     {{0, 1, 0}, {1, 0, -1}},
     {{1, 0, -1}, {0, -1, 0}},
     {{0, 0, 0}, {-1, 2, -3}, {-1, 2, -3}, {0, 0, 0}},
     HD_F(atan2(x[0], x[1]))},
    {"atan2 number", {{0}}, {{1}}, {{0}}, HD_F(atan2(x[0], 1.))},
    {"hypot",
     {{0, 3, 1, 1}, {1, 0, 1, 2}},
     {{0, 1, 0.7071067811865475, 0.4472135954999579}, {1, 0, 0.7071067811865475, 0.8944271909999159}},
     {{1, 0, 1.0606601717798214, 1.4310835055998654},
      {0, 0, -1.060660171779821, -0.7155417527999326},
      {0, 0, -1.060660171779821, -0.7155417527999326},
      {0, 0.6666666666666666, 1.0606601717798214, 0.3577708763999665}},
     HD_F(hypot(x[0], x[1]))},
    {"hypot at the origin", {{0}, {0}}, {{0}, {0}}, {{0}, {0}, {0}, {0}}, HD_F(hypot(x[0], x[1]))},
    {"hypot number",
     {{0, 1, -1}},
     {{0, 0.7071067811865475, -0.7071067811865475}},
     {{1, 0.7071067811865476, 1.0606601717798214}},
     HD_F(hypot(x[0], 1.))},
    {"logaddexp",
     {{0, 1, 2}, {0, 1, -1}},
     {{0.5, 0.5, 0.9525741268224334}, {0.5, 0.5, 0.04742587317756678}},
     {{0.25, 0.5, 0.13552997919273643},
      {-0.25, -0.5, -0.13552997919273643},
      {-0.25, -0.5, -0.13552997919273638},
      {0.25, 0.5, 0.13552997919273638}},
     HD_F(logaddexp(x[0], x[1]))},
    {"logaddexp number", {{0, 2}}, {{0.5, 0.8807970779778823}}, {{0.25, 0.209987170807013}}, HD_F(logaddexp(x[0], 0.))},
    {"logaddexp infinite",
     {{-kInf, 0, kInf}, {0, -kInf, 0}},
     {{0, 1, 1}, {1, 0, 0}},
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     HD_F(logaddexp(x[0], x[1]))},
    {"logaddexp equal infinities",
     {{-kInf, kInf}, {-kInf, kInf}},
     {{0.5, 0.5}, {0.5, 0.5}},
     {{0, 0}, {0, 0}, {0, 0}, {0, 0}},
     HD_F(logaddexp(x[0], x[1]))},
    {"logaddexp2",
     {{0, 1, 2}, {0, 1, -1}},
     {{0.5, 0.5, 0.8888888888888888}, {0.5, 0.5, 0.1111111111111111}},
     {{0.17328679513998632, 0.34657359027997264, 0.20537694238813192},
      {-0.17328679513998632, -0.34657359027997264, -0.20537694238813192},
      {-0.17328679513998632, -0.34657359027997264, -0.20537694238813192},
      {0.17328679513998632, 0.34657359027997264, 0.20537694238813192}},
     HD_F(logaddexp2(x[0], x[1]))},
    {"logaddexp2 number",
     {{0, 2}},
     {{0.5, 0.8}},
     {{0.17328679513998632, 0.2218070977791825}},
     HD_F(logaddexp2(x[0], 0.))},
    {"xlogy",
     {{0, 2}, {3, 3}},
     {{1.0986122886681098, 1.0986122886681098}, {0, 0.6666666666666666}},
     {{0, 0},
      {0.3333333333333333, 0.6666666666666666},
      {0.3333333333333333, 0.6666666666666666},
      {0, -0.4444444444444444}},
     HD_F(xlogy(x[0], x[1]))},
    {"xlogy at 0", {{0}, {0}}, {{0}, {0}}, {{0}, {0}, {0}, {0}}, HD_F(xlogy(x[0], x[1]))},
    {"xlogy number", {{0, 2}}, {{1.0986122886681098, 1.0986122886681098}}, {{0, 0}}, HD_F(xlogy(x[0], 3.))},
    {"number xlogy", {{2}}, {{0}}, {{0}}, HD_F(xlogy(0., x[0]))},
    {"fmod",
     {{0, 5, -5, 4}, {3, 3, 3, 2}},
     {{1, 1, 1, 1}, {0, -1, 1, -2}},
     {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}},
     HD_F(fmod(x[0], x[1]))},
    {"fmod number", {{0, 3, 5}}, {{1, 1, 1}}, {{0, 0, 0}}, HD_F(fmod(x[0], 3.))},
    {"number fmod", {{3, -3}}, {{-1, 1}}, {{0, 0}}, HD_F(fmod(5., x[0]))},
    {"remainder",
     {{0, 5, -5, 4}, {3, 3, 3, 2}},
     {{1, 1, 1, 1}, {0, -1, 2, -2}},
     {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}},
     HD_F(remainder(x[0], x[1]))},
    {"remainder number", {{0, 3, 5}}, {{1, 1, 1}}, {{0, 0, 0}}, HD_F(remainder(x[0], 3.))},
    {"copysign", {{1, -2}, {-3, 3}}, {{-1, -1}, {0, 0}}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}, HD_F(copysign(x[0], x[1]))},
    {"copysign at 0", {{0}, {1}}, {{0}, {0}}, {{0}, {0}, {0}, {0}}, HD_F(copysign(x[0], x[1]))},
    {"copysign number", {{1, -2}}, {{-1, 1}}, {{0, 0}}, HD_F(copysign(x[0], -1.))},
    {"lerp", {{1, 0}, {1, 2}}, {{0.5, 0.5}, {0.5, 0.5}}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}, HD_F(lerp(x[0], x[1], 0.5))},
    {"lerp tensor",
     {{1, 0, 3}, {1, 2, 5}, {0, 0.5, 1}},
     {{1, 0.5, 0}, {0, 0.5, 1}, {0, 2, 2}},
     {{0, 0, 0}, {0, 0, 0}, {-1, -2, -3}, {0, 0, 0}, {0, 0, 0}, {1, 2, 3}, {-1, -2, -3}, {1, 2, 3}, {0, 0, 0}},
     HD_F(lerp(x[0], x[1], x[2]))},
    {"fma",
     {{0, 1}, {0, 2}, {0, 3}},
     {{0, 2}, {0, 1}, {1, 1}},
     {{0, 0}, {1, 2}, {0, 0}, {1, 2}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}},
     HD_F(fma(x[0], x[1], x[2]))},
    {"where",
     {{1, 2}, {1, 0}},
     {{0, 4}, {1, 0}},
     {{0, 4}, {0, 0}, {0, 0}, {0, 0}},
     HD_F(where(gt(x[0], x[1]), x[0] * x[0], x[1]))},
    // reductions and scans
    {"prod one zero", {{0, 2, 3}}, {{6, 0, 0}}, {{12, 3, 2}}, HD_F(prod(x[0]))},
    {"prod two zeros", {{0, 0, 3}}, {{0, 0, 0}}, {{6, 3, 0}}, HD_F(prod(x[0]))},
    {"mean", {{0, 0}}, {{0, 0}}, {{1.5, 1.5}}, HD_F(square(mean(x[0])))},
    {"var of equals", {{2, 2, 2}}, {{0, 0, 0}}, {{-1, 0, 1}}, HD_F(var(x[0]))},
    {"var", {{0, 1, 5}}, {{-2, -1, 3}}, {{-1, 0, 1}}, HD_F(var(x[0]))},
    {"std", {{0, 1, 2}}, {{-0.5, 0, 0.5}}, {{0, 0, 0}}, HD_F(std(x[0]))},
    {"norm", {{0, 3, 4}}, {{0, 0.6, 0.8}}, {{0.2, -0.03199999999999997, 0.02400000000000002}}, HD_F(norm(x[0]))},
    {"norm of zeros", {{0, 0}}, {{0, 0}}, {{0, 0}}, HD_F(norm(x[0]))},
    {"unit vector",
     {{0, 3, 4}},
     {{0.2, -0.03199999999999997, 0.02400000000000002}},
     {{-0.28800000000000003, 0.021119999999999917, -0.06784000000000012}},
     HD_F((x[0] / norm(x[0])) * tensor({1., 2., 3.}).cast(x[0].dtype()))},
    {"norm 0", {{0, 3}}, {{0, 0}}, {{0, 0}}, HD_F(norm(x[0], 0))},
    {"norm 1", {{0, 3, -4}}, {{0, 1, -1}}, {{0, 0, 0}}, HD_F(norm(x[0], 1))},
    {"norm 3",
     {{0, 3, -4}},
     {{0, 0.4448513517305356, -0.7908468475209521}},
     {{0, 0.886443719199309, 0.6648327893994816}},
     HD_F(norm(x[0], 3))},
    {"norm inf", {{0, 3, -4}}, {{0, 0, -1}}, {{0, 0, 0}}, HD_F(norm(x[0], INFINITY))},
    {"logsumexp ties", {{0, 0}}, {{0.5, 0.5}}, {{-0.25, 0.25}}, HD_F(logsumexp(x[0]))},
    {"logsumexp infinite", {{-kInf, 0}}, {{0, 1}}, {{0, 0}}, HD_F(logsumexp(x[0]))},
    {"cumsum", {{0, 1}}, {{2, 2}}, {{8, 6}}, HD_F(square(cumsum(x[0], 0)))},
    {"cumprod no zero", {{2, 3, 4}}, {{16, 10, 6}}, {{19, 11, 7}}, HD_F(cumprod(x[0], 0))},
    {"cumprod one zero", {{2, 0, 3}}, {{1, 8, 0}}, {{8, 10, 4}}, HD_F(cumprod(x[0], 0))},
    {"cumprod two zeros", {{2, 0, 3, 0, 5}}, {{1, 8, 0, 0, 0}}, {{8, 154, 4, 72, 0}}, HD_F(cumprod(x[0], 0))},
    {"cumprod zeros", {{0, 0, 0}}, {{1, 0, 0}}, {{2, 1, 0}}, HD_F(cumprod(x[0], 0))},
    {"cummax ties", {{1, 1, 0, 2}}, {{1, 2, 0, 1}}, {{0, 0, 0, 0}}, HD_F(cummax(x[0], 0))},
    {"softmax ties", {{0, 0}}, {{-0.25, 0.25}}, {{0, 0}}, HD_F(softmax(x[0], 0) * tensor({1., 2.}).cast(x[0].dtype()))},
    {"log_softmax ties",
     {{0, 0}},
     {{-0.5, 0.5}},
     {{0.75, -0.75}},
     HD_F(log_softmax(x[0], 0) * tensor({1., 2.}).cast(x[0].dtype()))},
    {"max ties", {{1, 2, 2}}, {{0, 1, 0}}, {{0, 0, 0}}, HD_F(max(x[0]))},
    {"min ties", {{2, 1, 1}}, {{0, 1, 0}}, {{0, 0, 0}}, HD_F(min(x[0]))},
    {"median ties", {{1, 2, 2}}, {{0, 1, 0}}, {{0, 0, 0}}, HD_F(median(x[0]))},
    {"sort ties",
     {{2, 1, 1}},
     {{3, 1, 2}},
     {{0, 0, 0}},
     HD_F(sort(x[0], 0).values* tensor({1., 2., 3.}).cast(x[0].dtype()))},
    {"nansum", {{kNaN, 0, 2}}, {{0, 4, 4}}, {{0, 10, 10}}, HD_F(square(nansum(x[0])))},
    {"nanmean", {{kNaN, 0, 2}}, {{0, 1, 1}}, {{0, 2.5, 2.5}}, HD_F(square(nanmean(x[0])))},
    {"layer_norm",
     {{0, 1}},
     {{-3.999760011996756e-05, 3.999760011996756e-05}},
     {{0.00011998800084023209, -0.00011998800084023209}},
     HD_F(layer_norm(x[0], 1) * tensor({1., 2.}).cast(x[0].dtype()))},
    {"scatter_reduce prod with zeros",
     {{2, 3}, {0, 5, 0, 7}},
     {{0, 7}, {0, 0, 0, 3}},
     {{0, 0}, {0, 0, 0, 2}, {0, 4}, {30, 0, 10, 0}},
     HD_F(scatter_reduce(x[0], 0, tensor({0, 0, 0, 1}, kI64), x[1], "prod"))},
    // losses
    {"mse_loss", {{1, 2}, {1, 0}}, {{0, 2}, {0, -2}}, {{1, 2}, {-1, -2}, {-1, -2}, {1, 2}}, HD_F(mse_loss(x[0], x[1]))},
    {"l1_loss", {{1, 2}, {1, 0}}, {{0, 0.5}, {0, -0.5}}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}, HD_F(l1_loss(x[0], x[1]))},
    {"smooth_l1_loss",
     {{1, 2, 1}, {1, 0, 0}},
     {{0, 0.3333333333333333, 0.3333333333333333}, {0, -0.3333333333333333, -0.3333333333333333}},
     {{0.3333333333333333, 0, 0}, {-0.3333333333333333, 0, 0}, {-0.3333333333333333, 0, 0}, {0.3333333333333333, 0, 0}},
     HD_F(smooth_l1_loss(x[0], x[1]))},
    {"huber_loss",
     {{1, 2, 1}, {1, 0, 0}},
     {{0, 0.3333333333333333, 0.3333333333333333}, {0, -0.3333333333333333, -0.3333333333333333}},
     {{0.3333333333333333, 0, 1},
      {-0.3333333333333333, 0, -1},
      {-0.3333333333333333, 0, -1},
      {0.3333333333333333, 0, 1}},
     HD_F(huber_loss(x[0], x[1]))},
    {"bce_with_logits",
     {{0, 1}, {0, 1}},
     {{0.25, -0.13447071068499755}, {0, -0.5}},
     {{0.125, 0.19661193324148185}, {-0.5, -1}, {-0.5, -1}, {0, 0}},
     HD_F(bce_with_logits(x[0], x[1]))},
    {"bce_loss",
     {{0.5, 0.25}},
     {{0, 0}},
     {{1.9999999999840004, 5.333333333276444}},
     HD_F(bce_loss(x[0], tensor({0.5, 0.25}).cast(x[0].dtype())))},
    {"kl_div",
     {{0.5, 0.5}, {0.25, 0.75}},
     {{-0.5, -1.5}, {0.3068528194400547, 1.4054651081081644}},
     {{1, 6}, {-2, -4}, {-2, -4}, {4, 2.6666666666666665}},
     HD_F(kl_div(log(x[0]), x[1], Reduction::Sum))},
};

// In double, by the evaluator; or by the kernels.
Values values_of(const Tensor& x, bool evaluated) {
  if (!evaluated) return testing::doubles(x);
  NodeRef node = x.node();
  return evaluate(std::span(&node, 1))[0].floats;
}

void check(const std::string& what, const Tensor& x, const Values& want, double tolerance, bool evaluated) {
  Values got = values_of(x, evaluated);
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << what << ", element " << i << " is " << got[i] << " instead of nan";
    else if (std::isinf(want[i]))
      EXPECT_EQ(got[i], want[i]) << what << ", element " << i;
    else
      EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::fabs(want[i]))) << what << ", element " << i;
  }
}

void check_all(DType dtype, double tolerance, bool evaluated) {
  for (const Case& c : kCases) {
    TensorList x;
    for (const Values& point : c.points)
      x.push_back(from_vector(point, Dims(static_cast<int64_t>(point.size()))).cast(dtype).realize().requires_grad_());
    TensorList first = grad(sum(c.f(x)), x);
    for (size_t i = 0; i < x.size(); ++i) {
      std::string what = text(c.name, " in ", name(dtype), ", operand ", i);
      check(what, first[i], c.first[i], tolerance, evaluated);
      Tensor weights = cast(arange(x[i].numel()) + 1, dtype);
      TensorList second = first[i].requires_grad() ? grad(sum(first[i] * weights), x, {.allow_unused = true})
                                                   : TensorList(x.size(), zeros_like(x[i]));
      for (size_t j = 0; j < x.size(); ++j)
        check(text(what, ", then ", j), second[j], c.second[i * x.size() + j], tolerance, evaluated);
    }
  }
}

TEST(GradientPoints, of_all_rules_in_f64) { check_all(kF64, 1e-9, true); }
TEST(GradientPoints, of_all_rules_in_f32) { check_all(kF32, 2e-5, true); }
TEST(GradientPoints, of_all_rules_in_kernels) { check_all(kF64, 1e-9, false); }

}  // namespace
}  // namespace heddle
