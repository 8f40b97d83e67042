// Derivatives of first and second order of every operator that has them, against differences.
#include <heddle/heddle.h>

#include "graph/gradient_check.h"

namespace heddle {
namespace {

using testing::check_gradients;
using testing::random_point;
using Shapes = std::vector<std::vector<int64_t>>;
using Function = std::function<Tensor(const TensorList&)>;

struct Case {
  const char* name;
  Shapes shapes;
  double low, high;
  Function f;
};

Tensor whole(std::initializer_list<int64_t> values) {
  return from_vector(std::vector<int64_t>(values), Dims(static_cast<int64_t>(values.size())));
}
#define HD_UNARY(name, low, high) {#name, {{2, 3}}, low, high, [](const TensorList& x) { return name(x[0]); }}
#define HD_BINARY(name, low, high) \
  {#name, {{2, 1, 3}, {4, 1}}, low, high, [](const TensorList& x) { return name(x[0], x[1]); }}
#define HD_CASE(name, shapes, low, high, ...) \
  {#name, shapes, low, high, [](const TensorList& x) { return __VA_ARGS__; }}
#define HD_SHAPES(...) \
  Shapes { __VA_ARGS__ }

const Case kCases[] = {
    // one operand
    HD_UNARY(neg, -2, 2),
    HD_UNARY(abs, 0.2, 2),
    HD_UNARY(exp, -2, 2),
    HD_UNARY(exp2, -2, 2),
    HD_UNARY(expm1, -2, 2),
    HD_UNARY(log, 0.4, 2),
    HD_UNARY(log2, 0.4, 2),
    HD_UNARY(log10, 0.4, 2),
    HD_UNARY(log1p, -0.5, 2),
    HD_UNARY(sqrt, 0.4, 2),
    HD_UNARY(cbrt, 0.4, 2),
    HD_UNARY(sin, -2, 2),
    HD_UNARY(cos, -2, 2),
    HD_UNARY(tan, -1, 1),
    HD_UNARY(asin, -0.7, 0.7),
    HD_UNARY(acos, -0.7, 0.7),
    HD_UNARY(atan, -2, 2),
    HD_UNARY(sinh, -2, 2),
    HD_UNARY(cosh, -2, 2),
    HD_UNARY(tanh, -2, 2),
    HD_UNARY(asinh, -2, 2),
    HD_UNARY(acosh, 1.4, 3),
    HD_UNARY(atanh, -0.7, 0.7),
    HD_UNARY(erf, -2, 2),
    HD_UNARY(erfinv, -0.7, 0.7),
    HD_UNARY(floor, 1.2, 1.8),
    HD_UNARY(deg2rad, -2, 2),
    HD_UNARY(square, -2, 2),
    HD_UNARY(rsqrt, 0.4, 2),
    HD_UNARY(reciprocal, 0.4, 2),
    HD_UNARY(frac, 1.2, 1.8),
    HD_UNARY(sinc, 0.2, 0.9),
    HD_CASE(sinc_near_zero, HD_SHAPES({6}), -0.05, 0.05, sinc(x[0])),
    HD_UNARY(rad2deg, -2, 2),
    HD_UNARY(relu, 0.2, 2),
    HD_UNARY(relu6, 0.5, 5),
    HD_UNARY(sigmoid, -3, 3),
    HD_UNARY(logsigmoid, -3, 3),
    HD_UNARY(leaky_relu, -2, -0.1),
    HD_UNARY(elu, -2, -0.1),
    HD_UNARY(selu, -2, 2),
    HD_UNARY(celu, -2, -0.1),
    HD_UNARY(gelu, -2, 2),
    HD_UNARY(silu, -3, 3),
    HD_UNARY(hardsigmoid, -2, 2),
    HD_UNARY(hardswish, -2, 2),
    HD_UNARY(softplus, 0.1, 3),
    HD_UNARY(softsign, 0.1, 2),
    HD_UNARY(mish, -3, 3),
    HD_UNARY(sign, 0.2, 2),
    HD_UNARY(nan_to_num, -2, 2),
    HD_CASE(gelu_tanh, HD_SHAPES({6}), -2, 2, gelu(x[0], "tanh")),
    HD_CASE(clamp, HD_SHAPES({6}), -0.9, 0.9, clamp(x[0], -1, 1)),
    HD_CASE(hardtanh, HD_SHAPES({6}), -0.9, 0.9, hardtanh(x[0])),
    HD_CASE(glu, HD_SHAPES({2, 4}), -2, 2, glu(x[0], 1)),
    HD_CASE(pow_number, HD_SHAPES({6}), 0.4, 2, pow(x[0], 2.5)),
    HD_CASE(pow_negative_base, HD_SHAPES({6}), -2, -0.4, pow(x[0], 3)),
    HD_CASE(number_pow, HD_SHAPES({6}), -1, 2, pow(1.7, x[0])),
    // two and three operands, broadcast
    HD_BINARY(add, -2, 2),
    HD_BINARY(sub, -2, 2),
    HD_BINARY(mul, -2, 2),
    HD_BINARY(div, 0.4, 2),
    HD_BINARY(pow, 0.4, 2),
    HD_BINARY(maximum, -2, 2),
    HD_BINARY(minimum, -2, 2),
    HD_BINARY(fmax, -2, 2),
    HD_BINARY(fmin, -2, 2),
    HD_BINARY(atan2, 0.4, 2),
    HD_BINARY(hypot, 0.4, 2),
    HD_BINARY(logaddexp, -2, 2),
    HD_BINARY(logaddexp2, -2, 2),
    HD_BINARY(xlogy, 0.4, 2),
    HD_BINARY(copysign, 0.4, 2),
    HD_CASE(fmod, HD_SHAPES({6}), 2.1, 2.9, fmod(x[0], 1.5)),
    HD_CASE(fmod_both, HD_SHAPES({6}, {6}), 2.1, 2.9, fmod(x[0] * x[0], x[1])),
    HD_CASE(threshold, HD_SHAPES({6}), 0.6, 2, threshold(x[0], 0.5, 3)),
    HD_CASE(remainder, HD_SHAPES({6}), 2.1, 2.9, remainder(x[0], 1.5)),
    HD_CASE(lerp, HD_SHAPES({2, 3}, {3}, {2, 1}), -2, 2, lerp(x[0], x[1], x[2])),
    HD_CASE(fma, HD_SHAPES({2, 3}, {3}, {2, 1}), -2, 2, fma(x[0], x[1], x[2])),
    HD_CASE(where, HD_SHAPES({2, 3}, {3}), -2, 2, where(gt(x[0], x[1]), x[0] * x[1], x[1])),
    // reductions and scans
    HD_CASE(sum, HD_SHAPES({2, 3, 2}), -2, 2, square(sum(x[0], {0, 2}))),
    HD_CASE(prod, HD_SHAPES({2, 3, 2}), 0.4, 2, prod(x[0], {0, 2})),
    HD_CASE(max, HD_SHAPES({2, 3, 2}), -2, 2, square(max(x[0], {0, 2}))),
    HD_CASE(min, HD_SHAPES({2, 3, 2}), -2, 2, square(min(x[0], {0, 2}))),
    HD_CASE(amax, HD_SHAPES({2, 5}), -2, 2, square(amax(x[0], 1))),
    HD_CASE(ptp, HD_SHAPES({2, 5}), -2, 2, square(ptp(x[0], 1))),
    HD_CASE(mean, HD_SHAPES({2, 3, 2}), -2, 2, square(mean(x[0], 1))),
    HD_CASE(average, HD_SHAPES({2, 3}, {3}), 0.4, 2, average(x[0], x[1], 1)),
    HD_CASE(var, HD_SHAPES({2, 5}), -2, 2, var(x[0], 1)),
    HD_CASE(std, HD_SHAPES({2, 5}), -2, 2, std(x[0], 1)),
    HD_CASE(nanmean, HD_SHAPES({2, 5}), -2, 2, square(nanmean(x[0], 1))),
    HD_CASE(nansum, HD_SHAPES({2, 5}), -2, 2, square(nansum(x[0], 1))),
    HD_CASE(nanprod, HD_SHAPES({2, 5}), 0.4, 2, nanprod(x[0], 1)),
    HD_CASE(nanmax, HD_SHAPES({2, 5}), -2, 2, square(nanmax(x[0], 1))),
    HD_CASE(nanstd, HD_SHAPES({2, 5}), -2, 2, nanstd(x[0], 1)),
    HD_CASE(nanvar, HD_SHAPES({2, 5}), -2, 2, nanvar(x[0], 1)),
    HD_CASE(norm, HD_SHAPES({2, 5}), 0.3, 2, norm(x[0], 2, 1)),
    HD_CASE(norm_1, HD_SHAPES({2, 5}), 0.3, 2, square(norm(x[0], 1, 1))),
    HD_CASE(norm_3, HD_SHAPES({2, 5}), 0.3, 2, norm(x[0], 3, 1)),
    HD_CASE(norm_inf, HD_SHAPES({2, 5}), 0.3, 2, square(norm(x[0], INFINITY, 1))),
    HD_CASE(logsumexp, HD_SHAPES({2, 5}), -2, 2, logsumexp(x[0], 1)),
    HD_CASE(cumsum, HD_SHAPES({2, 5}), -2, 2, square(cumsum(x[0], 1))),
    HD_CASE(cumprod, HD_SHAPES({2, 5}), 0.4, 2, cumprod(x[0], 1)),
    HD_CASE(cummax, HD_SHAPES({2, 5}), -2, 2, square(cummax(x[0], 1))),
    HD_CASE(cumprod_beside_zeros, HD_SHAPES({6}), -2, 2,
            cumprod(x[0] * tensor({1., 0., 1., 0., 1., 1.}).cast(kF64), 0)),
    HD_CASE(cummin, HD_SHAPES({2, 5}), -2, 2, square(cummin(x[0], 1))),
    HD_CASE(softmax, HD_SHAPES({2, 4}), -2, 2, softmax(x[0], 1)),
    HD_CASE(softmin, HD_SHAPES({2, 4}), -2, 2, softmin(x[0], 0)),
    HD_CASE(log_softmax, HD_SHAPES({2, 4}), -2, 2, log_softmax(x[0], 1)),
    HD_CASE(layer_norm, HD_SHAPES({2, 4}, {4}, {4}), -2, 2, layer_norm(x[0], x[1], x[2])),
    HD_CASE(rms_norm, HD_SHAPES({2, 4}, {4}), -2, 2, rms_norm(x[0], x[1])),
    HD_CASE(group_norm, HD_SHAPES({2, 4, 3}, {4}, {4}), -2, 2, group_norm(x[0], 2, x[1], x[2])),
    HD_CASE(batch_norm, HD_SHAPES({3, 2}, {2}, {2}, {2}), 0.4, 2, batch_norm(x[0], mean(x[0], 0), x[1], x[2], x[3])),
    // movement
    HD_CASE(pad_reflect, HD_SHAPES({2, 4}), -2, 2, square(pad(x[0], {{0, 0}, {2, 3}}, PadMode::Reflect))),
    HD_CASE(pad_replicate, HD_SHAPES({2, 4}), -2, 2, square(pad(x[0], {{1, 0}, {2, 3}}, PadMode::Replicate))),
    HD_CASE(pad_circular, HD_SHAPES({2, 4}), -2, 2, square(pad(x[0], {{0, 0}, {2, 3}}, PadMode::Circular))),
    HD_CASE(roll, HD_SHAPES({2, 4}), -2, 2, square(roll(x[0], 1, 1))),
    HD_CASE(tile, HD_SHAPES({2, 2}), -2, 2, square(tile(x[0], {2, 3}))),
    HD_CASE(repeat_interleave, HD_SHAPES({2, 2}), -2, 2, square(repeat_interleave(x[0], 2, 1))),
    HD_CASE(stack, HD_SHAPES({2, 2}, {2, 2}), -2, 2, square(stack({x[0], x[1], x[0]}, 1))),
    HD_CASE(split, HD_SHAPES({5, 2}), -2, 2, split(x[0], 2)[1] * split(x[0], 2)[0]),
    HD_CASE(unfold, HD_SHAPES({2, 7}), -2, 2, square(unfold(x[0], 1, 3, 2))),
    HD_CASE(diagonal, HD_SHAPES({3, 4}), -2, 2, square(diagonal(x[0], 1))),
    HD_CASE(diag_embed, HD_SHAPES({2, 3}), -2, 2, square(diag_embed(x[0]))),
    HD_CASE(trace, HD_SHAPES({3, 3}), -2, 2, square(trace(x[0]))),
    HD_CASE(tril, HD_SHAPES({3, 3}), -2, 2, square(tril(x[0]))),
    HD_CASE(rot90, HD_SHAPES({2, 3}), -2, 2, square(rot90(x[0]))),
    HD_CASE(diff, HD_SHAPES({2, 5}), -2, 2, square(diff(x[0], 2, 1))),
    HD_CASE(slice, HD_SHAPES({3, 6}), -2, 2, square(x[0](Slice(), Slice(5, 0, -2)))),
    HD_CASE(cat, HD_SHAPES({2, 2}, {2, 3}), -2, 2, square(cat({x[0], x[1], x[0]}, 1))),
    HD_CASE(permute, HD_SHAPES({2, 3, 2}), -2, 2, x[0] * permute(x[0], {2, 1, 0})),
    HD_CASE(expand, HD_SHAPES({2, 1}), -2, 2, square(expand(x[0], {3, 2, 4}))),
    HD_CASE(flip, HD_SHAPES({2, 3}), -2, 2, x[0] * flip(x[0], 1)),
    HD_CASE(window, HD_SHAPES({7}), -2, 2, square(window(x[0], 0, 3, 2))),
    HD_CASE(unwindow, HD_SHAPES({3, 3}), -2, 2, square(unwindow(x[0], 0, 3, 2, 1, 7))),
    HD_CASE(as_strided, HD_SHAPES({6}), -2, 2, square(as_strided(x[0], {3, 2}, {1, 2}))),
    // indexing and order
    HD_CASE(embedding, HD_SHAPES({4, 3}), -2, 2, square(embedding(x[0], whole({3, 0, 3})))),
    HD_CASE(take_along_axis, HD_SHAPES({3, 4}), -2, 2, square(take_along_axis(x[0], argsort(detach(x[0]), 1), 1))),
    HD_CASE(index_add, HD_SHAPES({4, 2}, {3, 2}), -2, 2, square(index_add(x[0], 0, whole({1, 3, 1}), x[1]))),
    HD_CASE(index_copy, HD_SHAPES({4, 2}, {3, 2}), -2, 2, square(index_copy(x[0], 0, whole({1, 3, 1}), x[1]))),
    HD_CASE(gather, HD_SHAPES({4, 3}), -2, 2, square(gather(x[0], whole({2, 0, 2}), 0))),
    HD_CASE(index, HD_SHAPES({4, 3}), -2, 2, square(index(x[0], {whole({2, 0}), whole({1, 1})}))),
    HD_CASE(dynamic_slice, HD_SHAPES({4, 3}), -2, 2, square(dynamic_slice(x[0], whole({1, 0}), {2, 2}))),
    HD_CASE(scatter, HD_SHAPES({4}, {3}), -2, 2, square(scatter(x[0], 0, whole({1, 3, 1}), x[1]))),
    HD_CASE(scatter_add, HD_SHAPES({4}, {3}), -2, 2, square(scatter_add(x[0], 0, whole({1, 3, 1}), x[1]))),
    HD_CASE(scatter_prod, HD_SHAPES({4}, {3}), 0.4, 2, scatter_reduce(x[0], 0, whole({1, 3, 1}), x[1], "prod")),
    HD_CASE(scatter_amax, HD_SHAPES({4}, {3}), -2, 2, square(scatter_reduce(x[0], 0, whole({1, 3, 1}), x[1], "amax"))),
    HD_CASE(scatter_mean, HD_SHAPES({4}, {3}), -2, 2, square(scatter_reduce(x[0], 0, whole({1, 3, 1}), x[1], "mean"))),
    HD_CASE(index_put, HD_SHAPES({4, 2}, {3}), -2, 2,
            square(index_put(x[0], {whole({1, 3, 1}), whole({0, 1, 0})}, x[1], true))),
    HD_CASE(update_slice, HD_SHAPES({4, 3}, {2, 2}), -2, 2, square(update_slice(x[0], x[1], {1, 0}))),
    HD_CASE(masked_fill, HD_SHAPES({2, 3}), -2, 2, square(masked_fill(x[0], gt(x[0], 0), 2))),
    HD_CASE(sort, HD_SHAPES({2, 5}), -2, 2, square(sort(x[0], 1).values)),
    HD_CASE(topk, HD_SHAPES({2, 5}), -2, 2, square(topk(x[0], 2).values)),
    HD_CASE(median, HD_SHAPES({2, 5}), -2, 2, square(median(x[0], 1))),
    HD_CASE(quantile, HD_SHAPES({2, 5}), -2, 2, square(quantile(x[0], 0.3, 1))),
    // linear algebra
    HD_CASE(matmul, HD_SHAPES({2, 3, 2}, {2, 3}), -2, 2, matmul(x[0], x[1])),
    HD_CASE(dot, HD_SHAPES({5}, {5}), -2, 2, dot(x[0], x[1])),
    HD_CASE(outer, HD_SHAPES({3}, {2}), -2, 2, outer(x[0], x[1])),
    HD_CASE(einsum, HD_SHAPES({2, 3}, {3, 2}, {2}), -2, 2, einsum("ij,jk,k->i", {x[0], x[1], x[2]})),
    HD_CASE(kron, HD_SHAPES({2, 2}, {2, 1}), -2, 2, kron(x[0], x[1])),
    HD_CASE(cross, HD_SHAPES({2, 3}, {2, 3}), -2, 2, cross(x[0], x[1])),
    HD_CASE(bmm, HD_SHAPES({2, 2, 3}, {2, 3, 2}), -2, 2, bmm(x[0], x[1])),
    HD_CASE(tensordot, HD_SHAPES({2, 3}, {3, 2}), -2, 2, tensordot(x[0], x[1], 1)),
    HD_CASE(attention, HD_SHAPES({1, 3, 2}, {1, 4, 2}, {1, 4, 2}), -2, 2,
            scaled_dot_product_attention(x[0], x[1], x[2])),
    HD_CASE(conv1d, HD_SHAPES({2, 2, 7}, {3, 2, 3}, {3}), -2, 2, conv1d(x[0], x[1], x[2], {.stride = 2, .padding = 1})),
    HD_CASE(conv2d, HD_SHAPES({1, 2, 4, 5}, {2, 1, 2, 3}), -2, 2, conv2d(x[0], x[1], {}, {.dilation = 1, .groups = 2})),
    HD_CASE(conv_transpose1d, HD_SHAPES({1, 2, 4}, {2, 2, 3}), -2, 2,
            conv_transpose1d(x[0], x[1], {}, {.stride = 2, .padding = 1})),
    HD_CASE(max_pool1d, HD_SHAPES({1, 2, 7}), -2, 2, square(max_pool1d(x[0], 3, {.stride = 2, .ceil_mode = true}))),
    HD_CASE(avg_pool2d, HD_SHAPES({1, 1, 4, 5}), -2, 2, square(avg_pool2d(x[0], 2, {.padding = 1}))),
    HD_CASE(adaptive_max_pool2d, HD_SHAPES({1, 1, 4, 5}), -2, 2, square(adaptive_max_pool2d(x[0], {2, 2}))),
    HD_CASE(adaptive_avg_pool1d, HD_SHAPES({1, 1, 5}), -2, 2, square(adaptive_avg_pool1d(x[0], 3))),
    // losses
    HD_CASE(rss_loss, HD_SHAPES({2, 3}, {2, 3}), -2, 2, rss_loss(x[0], x[1])),
    HD_CASE(smooth_l1_loss, HD_SHAPES({2, 3}, {2, 3}), -2, 2, smooth_l1_loss(x[0], x[1])),
    HD_CASE(nll_loss, HD_SHAPES({3, 4}), -2, 2, square(nll_loss(x[0], whole({1, 3, 0})))),
    HD_CASE(bce_loss, HD_SHAPES({3}), 0.1, 0.9, bce_loss(x[0], tensor({0., 1., 0.3}).cast(kF64))),
    HD_CASE(mse_loss, HD_SHAPES({2, 3}, {2, 3}), -2, 2, mse_loss(x[0], x[1])),
    HD_CASE(l1_loss, HD_SHAPES({2, 3}, {2, 3}), -2, 2, square(l1_loss(x[0], x[1]))),
    HD_CASE(huber_loss, HD_SHAPES({2, 3}, {2, 3}), -2, 2, huber_loss(x[0], x[1])),
    HD_CASE(cross_entropy, HD_SHAPES({3, 4}), -2, 2, cross_entropy(x[0], whole({1, 3, 0}))),
    HD_CASE(bce_with_logits, HD_SHAPES({4}), -2, 2, bce_with_logits(x[0], tensor({0., 1., 0.3, 0.8}).cast(kF64))),
    HD_CASE(kl_div, HD_SHAPES({2, 3}), 0.1, 0.9,
            kl_div(log(x[0]), tensor({{0.2, 0.3, 0.5}, {0.1, 0.1, 0.8}}).cast(kF64))),
};

TEST(GradientTable, agrees_with_differences) {
  uint64_t seed = 100;
  for (const Case& c : kCases) {
    auto f = [&](const std::vector<NodeRef>& nodes) {
      TensorList x;
      for (const NodeRef& node : nodes) x.push_back(Tensor(node));
      return c.f(x).node();
    };
    check_gradients(c.name, random_point(c.shapes, c.low, c.high, ++seed), f);
  }
}

}  // namespace
}  // namespace heddle
