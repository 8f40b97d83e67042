// Every operator that takes a symbolic axis, where its size is 0, 1 and more: the values, shapes and messages of the
// same operator on plain sizes, and one plan for all of them unless the table says otherwise.
#include <map>
#include <optional>

#include "base/error.h"
#include "graph/graph.h"
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

// How many plans there are: one; one where the size is never 0; or perhaps one for each number.
enum class Plans { One, OneAboveZero, Each };
using Function = std::function<Tensor(const Tensor& x, int64_t axis)>;  // the symbolic axis

struct Case {
  const char* name;
  Dims shape;  // with -1 for the symbolic size
  Plans plans, gradient_plans;
  Function f;
};

Tensor positions(std::initializer_list<int64_t> values) {
  return from_vector(std::vector<int64_t>(values), Dims(static_cast<int64_t>(values.size())));
}

#define HD_CASE(name, plans, gradient_plans, shape, ...)  \
  {name, Dims shape, Plans::plans, Plans::gradient_plans, \
   [](const Tensor& x, [[maybe_unused]] int64_t axis) -> Tensor { return __VA_ARGS__; }}
#define HD_ROWS ({-1, 4})
#define HD_COLUMNS ({4, -1})
#define HD_LINE ({-1})
#define HD_SIGNAL ({2, 4, -1})
#define HD_BATCH ({-1, 4, 9})
#define HD_IMAGE ({2, 4, -1, 6})
// The same along the first and along the last axis.
#define HD_BOTH(name, plans, gradient_plans, ...)                        \
  HD_CASE(name " of rows", plans, gradient_plans, HD_ROWS, __VA_ARGS__), \
      HD_CASE(name " of columns", plans, gradient_plans, HD_COLUMNS, __VA_ARGS__)

std::vector<std::pair<int64_t, int64_t>> widths(int64_t axis, int64_t before, int64_t after) {
  std::vector<std::pair<int64_t, int64_t>> result(2, {0, 0});
  result[static_cast<size_t>(axis)] = {before, after};
  return result;
}
Dims along(int64_t axis, int64_t count) {
  Dims result = {1, 1};
  result[static_cast<size_t>(axis)] = count;
  return result;
}
Tensor weight(const Dims& shape) { return noise_tensor(shape, 77); }

const Case kCases[] = {
    // views
    HD_BOTH("elementwise", One, One, tanh(x * 2 + 1)),
    HD_BOTH("transpose", One, One, transpose(x) + 1),
    HD_BOTH("flip", One, One, flip(x, axis) - x),
    HD_BOTH("unsqueeze", One, One, unsqueeze(x, axis) * 2),
    HD_BOTH("squeeze", One, One, squeeze(unsqueeze(x, axis), axis) * 2),
    HD_BOTH("flatten", One, One, flatten(x) * 2),
    HD_BOTH("ravel and back", One, One, reshape(ravel(x) * 3, x.shape())),
    HD_CASE("reshape of rows", One, One, HD_ROWS, reshape(x, {-1, 2}) * 2),
    HD_CASE("reshape of columns", One, One, ({15, -1}), reshape(x, {3, 5, -1}) * 2),
    HD_BOTH("expand", One, One, expand(unsqueeze(x, 0), {3, -1, -1}) * 2),
    HD_BOTH("broadcast", One, One, x* sum(x, axis, true) + sum(x, 1 - axis, true)),
    HD_BOTH("rot90", One, One, rot90(x) * 2),
    HD_BOTH("unflatten", One, One, unflatten(x, 1 - axis, {2, 2}) + 1),
    HD_BOTH("tril", One, One, tril(x) + triu(x, 1)),
    HD_BOTH("diagonal", Each, Each, diagonal(x) * 2),
    HD_BOTH("trace", Each, Each, trace(x)),
    HD_CASE("diag_embed", Each, Each, HD_LINE, diag_embed(x)),
    HD_BOTH("as_strided", Each, Each, as_strided(x, {1, 2}, {1, 1})),
    // pads
    HD_BOTH("pad", One, One, pad(x, widths(axis, 1, 2), 7)),
    HD_BOTH("pad of the other axis", One, One, pad(x, widths(1 - axis, 3, 1))),
    HD_BOTH("pad replicate", Each, Each, pad(x, widths(axis, 1, 2), PadMode::Replicate)),
    HD_BOTH("pad reflect", Each, Each, pad(x, widths(axis, 1, 2), PadMode::Reflect)),
    HD_BOTH("pad symmetric", Each, Each, pad(x, widths(axis, 2, 1), PadMode::Symmetric)),
    HD_BOTH("pad circular", Each, Each, pad(x, widths(axis, 1, 1), PadMode::Circular)),
    HD_BOTH("pad reflect far", Each, Each, pad(x, widths(axis, 5, 9), PadMode::Reflect)),
    HD_BOTH("pad symmetric far", Each, Each, pad(x, widths(axis, 5, 9), PadMode::Symmetric)),
    HD_BOTH("pad circular far", Each, Each, pad(x, widths(axis, 5, 9), PadMode::Circular)),
    HD_BOTH("pad reflect of the other axis", One, One, pad(x, widths(1 - axis, 2, 3), PadMode::Reflect)),
    HD_BOTH("pad circular of the other axis", One, One, pad(x, widths(1 - axis, 6, 3), PadMode::Circular)),
    // rolls and repetitions
    HD_BOTH("roll", Each, Each, roll(x, 1, axis)),
    HD_BOTH("roll back", Each, Each, roll(x, -3, axis)),
    HD_BOTH("roll of the other axis", One, One, roll(x, 1, 1 - axis)),
    HD_BOTH("roll of all", Each, Each, roll(x, 5)),
    HD_BOTH("tile", One, One, tile(x, along(axis, 3))),
    HD_BOTH("tile of the other axis", One, One, tile(x, along(1 - axis, 2))),
    HD_BOTH("tile in front", One, One, tile(x, {2, 1, 1})),
    HD_BOTH("tile by zero", One, One, tile(x, along(axis, 0))),
    HD_BOTH("tile by one", One, One, tile(x, {1, 1}) * 2),
    HD_BOTH("repeat", One, One, repeat(x, {2, 3})),
    HD_BOTH("repeat_interleave", One, One, repeat_interleave(x, 3, axis)),
    HD_BOTH("repeat_interleave of the other axis", One, One, repeat_interleave(x, 3, 1 - axis)),
    HD_BOTH("repeat_interleave of all", One, One, repeat_interleave(x, 2)),
    HD_BOTH("repeat_interleave by zero", One, One, repeat_interleave(x, 0, axis)),
    // slices and windows
    HD_BOTH("slice", One, One, slice(x, axis, {}, {}) * 2),
    HD_BOTH("slice from 1", OneAboveZero, OneAboveZero, slice(x, axis, 1)),
    HD_BOTH("slice without the last", OneAboveZero, OneAboveZero, slice(x, axis, {}, -1)),
    HD_BOTH("slice inside", Each, Each, slice(x, axis, 1, 5)),
    HD_BOTH("slice backwards", One, One, slice(x, axis, {}, {}, -1)),
    HD_BOTH("slice by 2", OneAboveZero, OneAboveZero, slice(x, axis, {}, {}, 2)),
    HD_BOTH("slice by -3", OneAboveZero, OneAboveZero, slice(x, axis, {}, {}, -3)),
    HD_BOTH("slice far", OneAboveZero, OneAboveZero, slice(x, axis, {}, {}, 100)),
    HD_BOTH("slice of the other axis", One, One, slice(x, 1 - axis, 1, {}, 2)),
    HD_BOTH("select", OneAboveZero, OneAboveZero, select(x, axis, 0) + select(x, axis, -1)),
    HD_BOTH("brackets", One, One, axis == 0 ? x(Slice(), 1) : x(1, Slice())),
    HD_BOTH("brackets by 2", OneAboveZero, OneAboveZero,
            axis == 0 ? x(Slice({}, {}, 2)) : x(Ellipsis, Slice({}, {}, 2))),
    HD_BOTH("shrink", Each, Each, shrink(x, axis == 0 ? widths(0, 0, x.size(0) / 2) : widths(1, 0, x.size(1) / 2))),
    HD_BOTH("window of 1", OneAboveZero, OneAboveZero, window(x, axis, 1, 2)),
    HD_BOTH("window", Each, Each, window(x, axis, 2, 1)),
    HD_BOTH("window of the other axis", One, One, window(x, 1 - axis, 3, 1)),
    HD_BOTH("unfold", Each, Each, unfold(x, axis, 2, 1)),
    HD_BOTH("unwindow", Each, Each, unwindow(window(x, axis, 2, 1), axis, 2, 1, 1, x.size(axis))),
    HD_BOTH("diff", Each, Each, diff(x, 1, axis)),
    // convolutions and pools
    HD_CASE("conv1d", Each, Each, HD_SIGNAL, conv1d(x, weight({6, 4, 3}))),
    HD_CASE("conv1d padded", OneAboveZero, Each, HD_SIGNAL, conv1d(x, weight({6, 4, 3}), {}, {.padding = 1})),
    HD_CASE("conv1d same", One, One, HD_SIGNAL, conv1d(x, weight({6, 4, 3}), {}, {.padding = "same"})),
    HD_CASE("conv1d stride", Each, Each, HD_SIGNAL, conv1d(x, weight({6, 4, 3}), {}, {.stride = 2, .padding = 2})),
    HD_CASE("conv1d pointwise", OneAboveZero, Each, HD_SIGNAL, conv1d(x, weight({6, 4, 1}), weight({6}))),
    HD_CASE("conv1d pointwise stride", Each, Each, HD_SIGNAL, conv1d(x, weight({6, 4, 1}), {}, {.stride = 2})),
    HD_CASE("conv1d groups", OneAboveZero, Each, HD_SIGNAL,
            conv1d(x, weight({4, 1, 3}), {}, {.padding = 1, .groups = 4})),
    HD_CASE("conv1d dilated", OneAboveZero, Each, HD_SIGNAL,
            conv1d(x, weight({6, 4, 3}), {}, {.padding = 2, .dilation = 2})),
    HD_CASE("conv1d of a batch", One, One, HD_BATCH, conv1d(x, weight({6, 4, 3}), weight({6}), {.padding = 1})),
    HD_CASE("conv2d", OneAboveZero, Each, HD_IMAGE, conv2d(x, weight({3, 4, 3, 3}), {}, {.padding = 1})),
    HD_CASE("conv2d of a batch", One, One, ({-1, 2, 5, 6}), conv2d(x, weight({3, 2, 3, 3}), {}, {.stride = 2})),
    HD_CASE("weight", Each, Each, ({6, 4, -1}), conv1d(weight({2, 4, 64}), x)),
    HD_CASE("conv_transpose1d", Each, Each, HD_SIGNAL, conv_transpose1d(x, weight({4, 6, 3}))),
    HD_CASE("conv_transpose1d stride", Each, Each, HD_SIGNAL,
            conv_transpose1d(x, weight({4, 6, 3}), {}, {.stride = 2, .padding = 1})),
    HD_CASE("conv_transpose1d of a batch", One, One, HD_BATCH, conv_transpose1d(x, weight({4, 6, 3}))),
    HD_CASE("max_pool1d", Each, Each, HD_SIGNAL, max_pool1d(x, 2)),
    HD_CASE("max_pool1d padded", OneAboveZero, OneAboveZero, HD_SIGNAL, max_pool1d(x, 3, {.stride = 1, .padding = 1})),
    HD_CASE("max_pool1d of a batch", One, One, HD_BATCH, max_pool1d(x, 2)),
    HD_CASE("avg_pool1d", Each, Each, HD_SIGNAL, avg_pool1d(x, 2)),
    HD_CASE("avg_pool1d padded", OneAboveZero, OneAboveZero, HD_SIGNAL, avg_pool1d(x, 3, {.stride = 1, .padding = 1})),
    HD_CASE("avg_pool1d without the padding", Each, Each, HD_SIGNAL,
            avg_pool1d(x, 3, {.stride = 1, .padding = 1, .count_include_pad = false})),
    HD_CASE("avg_pool1d of a batch", One, One, HD_BATCH, avg_pool1d(x, 2)),
    HD_CASE("max_pool2d", Each, Each, HD_IMAGE, max_pool2d(x, 2, {.ceil_mode = true})),
    HD_CASE("adaptive_avg_pool1d", One, Each, HD_SIGNAL, adaptive_avg_pool1d(x, 1)),
    HD_CASE("adaptive_max_pool1d", Each, Each, HD_SIGNAL, adaptive_max_pool1d(x, 3)),
    HD_CASE("adaptive_avg_pool1d of a batch", One, One, HD_BATCH, adaptive_avg_pool1d(x, 2)),
    // scans and sorts
    HD_BOTH("cumsum", One, One, cumsum(x, axis)),
    HD_BOTH("cumsum of the other axis", One, One, cumsum(x, 1 - axis)),
    HD_BOTH("cumsum of all", One, One, cumsum(x)),
    HD_BOTH("cumprod", One, One, cumprod(x * 0.5, axis)),
    HD_BOTH("cummax", One, One, cummax(x, axis)),
    HD_BOTH("cummin with indices", One, One, cummin_with_indices(x, axis).second),
    HD_BOTH("sort", Each, Each, sort(x, axis).values),
    HD_BOTH("sort of the other axis", Each, Each, sort(x, 1 - axis, true).values),
    HD_BOTH("argsort", Each, Each, argsort(x, axis)),
    HD_BOTH("topk", Each, Each, topk(x, 1, axis).values),
    HD_BOTH("topk of the other axis", Each, Each, topk(x, 2, 1 - axis).values),
    HD_BOTH("kthvalue", Each, Each, kthvalue(x, 1, axis).values),
    HD_BOTH("median", Each, Each, median(x, axis)),
    HD_BOTH("quantile", Each, Each, quantile(x, 0.25, axis)),
    HD_BOTH("median of the other axis", Each, Each, median(x, 1 - axis)),
    HD_CASE("searchsorted", Each, Each, HD_LINE, searchsorted(x* x, weight({5}))),
    HD_CASE("searchsorted values", OneAboveZero, OneAboveZero, HD_LINE, searchsorted(tensor({-1., 0., 1.}), x)),
    // reductions
    HD_BOTH("sum", One, One, sum(x, axis)),
    HD_BOTH("sum of the other axis", One, One, sum(x, 1 - axis)),
    HD_BOTH("sum of all", One, One, sum(x)),
    HD_BOTH("prod", One, One, prod(x * 0.5, axis)),
    HD_BOTH("mean", One, One, mean(x, axis)),
    HD_BOTH("mean of all", One, One, mean(x)),
    HD_BOTH("var", One, One, var(x, axis)),
    HD_BOTH("var without correction", One, One, var(x, axis, true, 0)),
    HD_BOTH("std", One, One, std(x, axis)),
    HD_BOTH("max", One, One, max(x, axis)),
    HD_BOTH("max of the other axis", One, One, max(x, 1 - axis)),
    HD_BOTH("min of all", One, One, min(x)),
    HD_BOTH("argmax", One, One, argmax(x, axis)),
    HD_BOTH("argmin of the other axis", One, One, argmin(x, 1 - axis)),
    HD_BOTH("argmax of all", One, One, argmax(x)),
    HD_BOTH("logsumexp", One, One, logsumexp(x, axis)),
    HD_BOTH("norm", One, One, norm(x, 2, axis)),
    HD_BOTH("norm of order 3", One, One, norm(x, 3, axis)),
    HD_BOTH("norm of order infinity", One, One, norm(x, INFINITY, axis)),
    HD_BOTH("any", One, One, any(x > 0, axis)),
    HD_BOTH("all", One, One, all(x > 0, axis)),
    HD_BOTH("count_nonzero", One, One, count_nonzero(x > 0, axis)),
    HD_BOTH("ptp", One, One, ptp(x, axis)),
    HD_BOTH("nanmean", One, One, nanmean(x, axis)),
    HD_BOTH("average", One, One, average(x, x* x + 1, axis)),
    // gathers and scatters
    HD_BOTH("gather", OneAboveZero, OneAboveZero, gather(x, positions({0, -1}), axis)),
    HD_BOTH("gather of the other axis", One, One, gather(x, positions({3, -1, 0}), 1 - axis)),
    HD_BOTH("gather by none", OneAboveZero, OneAboveZero, gather(x, positions({}), axis)),
    HD_CASE("gather with symbolic positions", One, One, HD_LINE, gather(weight({5, 2}), cast(floor(x + 2), kI32), 0)),
    HD_CASE("embedding", One, One, HD_LINE, embedding(weight({5, 2}), cast(floor(x + 2), kI64))),
    HD_CASE("one_hot", One, One, HD_LINE, one_hot(cast(floor(x + 2), kI64), 4)),
    HD_BOTH("take", OneAboveZero, OneAboveZero, take(x, positions({0, 0}))),
    HD_BOTH("index_select", OneAboveZero, OneAboveZero, index_select(x, axis, positions({0}))),
    HD_BOTH("take_along_axis", Each, Each, take_along_axis(x, argsort(x, axis), axis)),
    HD_BOTH("index", Each, Each, index(x, {positions({0}), positions({-1})})),
    HD_BOTH("brackets with positions", OneAboveZero, OneAboveZero,
            axis == 0 ? x(positions({0, -1})) : x(Slice(), positions({0, -1}))),
    HD_BOTH("dynamic_slice", Each, Each, dynamic_slice(x, positions({0, 0}), {1, 1})),
    HD_BOTH("scatter", Each, Each, scatter(x, axis, zeros({1, 1}, kI64), 3)),
    HD_BOTH("scatter_add", Each, Each, scatter_add(x, axis, cast(x * 0, kI64), x)),
    HD_BOTH("scatter_reduce", Each, Each, scatter_reduce(x, axis, cast(x * 0, kI64), x, "amax")),
    HD_BOTH("index_add", Each, Each, index_add(x, axis, positions({0}), axis == 0 ? weight({1, 4}) : weight({4, 1}))),
    HD_CASE("index_add of symbolic updates", Each, Each, HD_ROWS,
            index_add(weight({5, 4}), 0, cast(floor(select(x, 1, 0) + 2), kI64), x)),
    HD_BOTH("index_copy", Each, Each, index_copy(x, axis, positions({0}), axis == 0 ? weight({1, 4}) : weight({4, 1}))),
    HD_BOTH("index_put", Each, Each, index_put(x, {positions({0})}, 5, true)),
    HD_BOTH("update_slice", OneAboveZero, OneAboveZero, update_slice(x, weight({1, 1}), {0, 0})),
    HD_BOTH("masked_fill", One, One, masked_fill(x, x > 0, 9)),
    HD_BOTH("set_at", One, One, axis == 0 ? set_at(x, {Slice(), 1}, 5) : set_at(x, {1, Slice()}, 5)),
    HD_BOTH("set_at by 2", Each, Each,
            axis == 0 ? set_at(x, {Slice({}, {}, 2)}, 5) : set_at(x, {Slice(), Slice({}, {}, 2)}, 5)),
    // joins
    HD_BOTH("cat", One, One, cat({x, x * 2}, axis)),
    HD_BOTH("cat with numbers", One, One, cat({x, axis == 0 ? weight({3, 4}) : weight({4, 3})}, axis)),
    HD_BOTH("cat of the other axis", One, One, cat({x, x * 2}, 1 - axis)),
    HD_BOTH("stack", One, One, stack({x, x * 2}, axis)),
    HD_BOTH("vstack", One, One, vstack({x, x * 2})),
    HD_BOTH("hstack", One, One, hstack({x, x * 2})),
    HD_BOTH("split", Each, Each, sum(split(x, 3, axis)[0], axis)),
    HD_BOTH("split of the other axis", One, One, split(x, 3, 1 - axis)[0] * 2),
    HD_BOTH("chunk", Each, Each, sum(chunk(x, 2, axis)[0], axis)),
    HD_BOTH("array_split", Each, Each, sum(array_split(x, 2, axis)[1], axis)),
    HD_CASE("meshgrid", One, One, HD_LINE, meshgrid({x, weight({3})})[0] * 2),
    // products
    HD_BOTH("matmul", One, One, axis == 0 ? matmul(x, weight({4, 5})) : matmul(weight({5, 4}), x)),
    HD_BOTH("matmul inner", One, One, axis == 0 ? matmul(transpose(x), x) : matmul(x, transpose(x))),
    HD_BOTH("matmul outer", One, One, axis == 0 ? matmul(x, transpose(x)) : matmul(transpose(x), x)),
    HD_CASE("batched matmul", One, One, HD_BATCH, matmul(x, weight({9, 5}))),
    HD_CASE("matrix by vector", One, One, HD_LINE, matmul(unsqueeze(x, 1), weight({1, 3}))),
    HD_CASE("dot", One, One, HD_LINE, dot(x, x)),
    HD_CASE("outer", One, One, HD_LINE, outer(x, weight({3}))),
    HD_CASE("outer of both", One, One, HD_LINE, outer(x, x)),
    HD_CASE("kron", One, One, HD_LINE, kron(x, weight({3}))),
    HD_BOTH("einsum", One, One, einsum("ij,ik->jk", {x, x})),
    HD_BOTH("tensordot", One, One, tensordot(x, x, Axes(axis), Axes(axis))),
    HD_CASE("cross", One, One, ({-1, 3}), cross(x, x + 1)),
    // softmax and norms
    HD_BOTH("softmax", One, One, softmax(x, axis)),
    HD_BOTH("softmax of the other axis", One, One, softmax(x, 1 - axis)),
    HD_BOTH("log_softmax", One, One, log_softmax(x, axis)),
    HD_BOTH("layer_norm", One, One, layer_norm(x)),
    HD_BOTH("rms_norm", One, One, rms_norm(x)),
    HD_CASE("group_norm", One, One, HD_SIGNAL, group_norm(x, 2)),
    HD_CASE("group_norm of a batch", One, One, HD_BATCH, group_norm(x, 2)),
    HD_CASE("batch_norm", One, One, HD_SIGNAL, batch_norm(x, weight({4}), weight({4}) + 3)),
    HD_CASE("glu", One, One, HD_ROWS, glu(x)),
    // attention
    HD_CASE("attention of symbolic queries", One, One, HD_ROWS,
            scaled_dot_product_attention(x, weight({5, 4}), weight({5, 3}))),
    HD_CASE("attention of symbolic keys", One, One, HD_ROWS, scaled_dot_product_attention(weight({5, 4}), x, x)),
    HD_CASE("attention of symbolic keys, written out", One, One, HD_ROWS,
            matmul(softmax(matmul(weight({5, 4}), transpose(x)) * 0.5, -1), x)),
    HD_CASE("attention to itself", One, One, HD_ROWS, scaled_dot_product_attention(x, x, x)),
    HD_CASE("causal attention", One, One, HD_ROWS, scaled_dot_product_attention(x, x, x, {.causal = true})),
    HD_CASE("attention of heads", One, One, ({2, -1, 4}), scaled_dot_product_attention(x, x, x, {.causal = true})),
    HD_CASE("attention of a batch", One, One, ({-1, 3, 4}), scaled_dot_product_attention(x, x, x)),
    // losses
    HD_BOTH("mse_loss", One, One, mse_loss(x, x * 2)),
    HD_BOTH("huber_loss", One, One, huber_loss(x, x * 3, 1, Reduction::Sum)),
    HD_CASE("cross_entropy", One, One, HD_ROWS, cross_entropy(x, cast(floor(select(x, 1, 0) + 2), kI64))),
    HD_CASE("kl_div", One, One, HD_ROWS, kl_div(log_softmax(x), softmax(x * 2), Reduction::BatchMean)),
};

struct Outcome {
  std::string error;  // what was thrown
  Dims shape;
  DType dtype = kF32;
  std::vector<double> values;
  uint64_t plans = 0;
};

// A message with the numbers that symbols have: "[n=7, n * 4=28]" is "[7, 28]".
std::string without_names(const std::string& message) {
  std::string result;
  for (size_t i = 0; i < message.size(); ++i) {
    const char next = i + 1 < message.size() ? message[i + 1] : ' ';
    const size_t begin = result.find_last_of("[],=");
    if (message[i] != '=' || !(next == '-' || (next >= '0' && next <= '9')) || begin == std::string::npos)
      result += message[i];
    else if (result[begin] == '[')
      result.resize(begin + 1);
    else if (result[begin] == ',' && result.compare(begin, 2, ", ") == 0)
      result.resize(begin + 2);
    else
      result += message[i];
  }
  return result;
}

Outcome outcome(const std::function<Tensor()>& f, bool compiled) {
  Outcome result;
  try {
    Tensor y = f();
    result.shape = y.shape();
    result.dtype = y.dtype();
    if (compiled) {
      StatsSince stats;
      y.realize();
      result.plans = stats->plan_misses;
      result.values = doubles(y);
      return result;
    }
    NodeRef node = y.node();
    int64_t bad_indices = 0;
    HostArray array = evaluate(std::span(&node, 1), {}, {}, &bad_indices)[0];
    if (bad_indices > 0) y.realize();  // throws
    result.values = array.floats;
    for (uint64_t bits : array.integers) result.values.push_back(static_cast<double>(static_cast<int64_t>(bits)));
  } catch (const Error& error) {
    result.error = without_names(error.what());
  }
  return result;
}

void expect_same_outcome(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.error, want.error);
  if (!got.error.empty() || !want.error.empty()) return;
  EXPECT_EQ(got.shape, want.shape);
  EXPECT_EQ(got.dtype, want.dtype);
  ASSERT_EQ(got.values.size(), want.values.size());
  for (size_t i = 0; i < want.values.size(); ++i) {
    if (std::isnan(want.values[i])) {
      EXPECT_TRUE(std::isnan(got.values[i])) << "element " << i << " is " << got.values[i] << " instead of nan";
    } else if (got.values[i] != want.values[i]) {
      ASSERT_NEAR(got.values[i], want.values[i], 2e-4 * std::max(1.0, std::fabs(want.values[i]))) << "element " << i;
    }
  }
}

Tensor sample(const Dims& shape, int64_t size) {
  Dims full = shape;
  for (int64_t& d : full)
    if (d == -1) d = size;
  return noise_tensor(full, static_cast<uint64_t>(size) + 1);
}

// f at every size, with the number and with the symbol.
void expect_as_plain(const Case& c, const Function& f, Plans plans) {
  const int64_t axis = std::find(c.shape.begin(), c.shape.end(), -1) - c.shape.begin();
  std::map<int64_t, Outcome> want;
  for (int64_t lo : {0, 1}) {
    Dim n = dim("n", lo, 64);
    uint64_t made = 0;
    for (int64_t size : {7, 2, 64, 1, 0}) {
      if (size < lo) continue;
      SCOPED_TRACE(text(c.name, ", n = ", size, " of [", lo, ", 64]"));
      Tensor x = sample(c.shape, size);
      if (!want.contains(size)) want[size] = outcome([&] { return f(x, axis); }, false);
      Outcome got = outcome([&] { return f(x.with_dim(axis, n), axis); }, true);
      expect_same_outcome(got, want[size]);
      made += got.plans;
    }
    if (plans != Plans::Each && lo >= (plans == Plans::One ? 0 : 1)) {
      EXPECT_LE(made, 1u) << c.name << ": plans for n in [" << lo << ", 64]";
    }
    if (plans == Plans::One) break;  // nothing is easier with larger sizes alone
  }
}

TEST(SymbolicTable, operators_do_at_every_size_what_they_do_with_numbers) {
  for (const Case& c : kCases) expect_as_plain(c, c.f, c.plans);
}

TEST(SymbolicTable, gradients_at_every_size_are_those_with_numbers) {
  for (const Case& c : kCases) {
    auto gradient = [&](const Tensor& x, int64_t axis) {
      Tensor leaf = (x * 1).realize().requires_grad_();
      Tensor y = c.f(leaf, axis);
      if (!is_float(y.dtype())) return y;
      return grad(sum(square(y) * 0.5), leaf, {.allow_unused = true});
    };
    expect_as_plain(c, gradient, c.gradient_plans);
  }
}

}  // namespace
}  // namespace heddle
