// Symbolic sizes: one plan for all values, and the results of the plain tensors.
#include "helpers.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

using namespace testing;

using Function = std::function<std::vector<Tensor>(const Tensor& x)>;

// f on [size, 12] (or [12, size]) with the size as a number and as a symbol: equal results, and one plan for all sizes.
void expect_one_plan(const std::string& what, const Function& f, const std::vector<int64_t>& sizes, int64_t lo = 1,
                     int axis = 0, double tolerance = 1e-5) {
  SCOPED_TRACE(what);
  Dim n = dim("n", lo, 4096);
  bool first = true;
  for (int64_t size : sizes) {
    SCOPED_TRACE(size);
    Tensor x = noise_tensor(axis == 0 ? Dims{size, 12} : Dims{12, size}, static_cast<uint64_t>(size) + 1);
    std::vector<Tensor> want = f(x), got;
    realize(want);
    size_t before = kernel_cache_size();
    StatsSince stats;
    got = f(x.with_dim(axis, n));
    realize(got);
    if (!first) {
      EXPECT_EQ(stats->plan_misses, 0u);
      EXPECT_EQ(kernel_cache_size(), before);
    }
    first = false;
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].shape(), want[i].shape());
      EXPECT_EQ(got[i].dtype(), want[i].dtype());
      expect_close(got[i], doubles(want[i]), tolerance);
    }
  }
}

const std::vector<int64_t> kSizes = {37, 1, 40, 1000, 2, 64};

TEST(Symbolic, gradients_reach_what_was_named) {
  const Dim n = dim("n", 1, 64);
  for (int64_t rows : {5, 64}) {
    Tensor table = noise_tensor({64, 3}), w = noise_tensor({rows, 3}, 2);
    table.requires_grad_();
    w.requires_grad_();
    // A part, the whole, a parameter, and what is computed of one.
    Tensor loss = sum(square(table.slice(0, 0, rows).with_dim(0, n))) + sum(square(w.with_dim(0, n))) +
                  sum((w * 3).with_dim(0, n)) + sum(w);
    std::vector<Tensor> g = grad(loss, {table, w});
    expect_equal(g[0].slice(0, 0, rows), doubles(table.slice(0, 0, rows) * 2));
    expect_equal(g[1], doubles(w * 2 + 4));
    Tensor second = grad(sum(square(grad(sum(w.with_dim(0, n) * w.with_dim(0, n)), {w})[0])), {w})[0];
    expect_equal(second, doubles(w * 8));
  }
}

TEST(Symbolic, elementwise_operators_share_a_plan) {
  Tensor row = noise_tensor({12}, 5);
  expect_one_plan("chain", [](const Tensor& x) { return std::vector{tanh(x * 2 + 1)}; }, kSizes);
  expect_one_plan("broadcast", [&](const Tensor& x) { return std::vector{x + row, row * x}; }, kSizes);
  expect_one_plan("column", [&](const Tensor& x) { return std::vector{x - select(x, 1, 3).reshape({-1, 1})}; }, kSizes);
  expect_one_plan(
      "where", [](const Tensor& x) { return std::vector{where(x > 0, x, 0), isinf(cast(x, kI32))}; }, kSizes);
  expect_one_plan("powers", [](const Tensor& x) { return std::vector{pow(cast(x * 3, kI32), 3), pow(x, 2)}; }, kSizes);
  expect_one_plan("transposed", [](const Tensor& x) { return std::vector{x.transpose() + 1}; }, kSizes);
  expect_one_plan("inner", [](const Tensor& x) { return std::vector{exp(x)}; }, kSizes, 1, 1);
}

TEST(Symbolic, reductions_share_a_plan) {
  for (int axis : {0, 1}) {
    expect_one_plan(
        "sum", [](const Tensor& x) { return std::vector{sum(x, 0), sum(x, 1), sum(x)}; }, kSizes, 1, axis, 1e-4);
    expect_one_plan(
        "mean", [](const Tensor& x) { return std::vector{mean(x, 0), mean(x, 1), mean(x)}; }, kSizes, 1, axis);
    expect_one_plan(
        "var", [](const Tensor& x) { return std::vector{var(x, 0), var(x, 1), var(x, {}, true, 0)}; }, kSizes, 1, axis);
    expect_one_plan(
        "max", [](const Tensor& x) { return std::vector{max(x, 0), min(x, 1), prod(x * 0.1, 1)}; }, kSizes, 1, axis);
    expect_one_plan(
        "argmax", [](const Tensor& x) { return std::vector{argmax(x, 0), argmin(x, 1), argmax(x)}; }, kSizes, 1, axis);
    expect_one_plan(
        "softmax", [](const Tensor& x) { return std::vector{softmax(x, 0), log_softmax(x, 1)}; }, kSizes, 1, axis);
    expect_one_plan(
        "layer_norm", [](const Tensor& x) { return std::vector{layer_norm(x), logsumexp(x, 1)}; }, kSizes, 1, axis,
        1e-4);
  }
}

TEST(Symbolic, shape_operators_share_a_plan) {
  expect_one_plan(
      "reshape", [](const Tensor& x) { return std::vector{x.reshape({-1, 3, 4}), x.reshape({x.size(0), 2, 6})}; },
      kSizes);
  expect_one_plan(
      "flat", [](const Tensor& x) { return std::vector{flatten(x) * 2, x.reshape(-1), x.reshape(x.numel())}; }, kSizes);
  expect_one_plan(
      "split", [](const Tensor& x) { return std::vector{x.reshape({-1, 6}), flatten(x).reshape(x.shape()) + x}; },
      kSizes);
  expect_one_plan("pad", [](const Tensor& x) { return std::vector{pad(x, {{1, 2}, {3, 0}}, 7)}; }, kSizes);
  expect_one_plan("flip", [](const Tensor& x) { return std::vector{flip(x, {0, 1}), flip(x, 0) - x}; }, kSizes);
  expect_one_plan(
      "slice",
      [](const Tensor& x) {
        return std::vector{
            slice(x, 0, 1), slice(x, 0, {}, -1),    slice(x, 1, 2, 9, 3),   slice(x, 0, {}, {}, -1), x[0],
            x[-1],          slice(x, 0, {}, {}, 2), slice(x, 0, -1, {}, -3)};
      },
      kSizes);
  expect_one_plan(
      "cat", [](const Tensor& x) { return std::vector{cat({x, x * 2}), cat({x, x}, 1), stack({x, -x}, 1)}; }, kSizes);
  expect_one_plan(
      "expand", [](const Tensor& x) { return std::vector{expand(x.reshape({-1, 1, 12}), {-1, 3, 12}) + 1}; }, kSizes);
  expect_one_plan(
      "window", [](const Tensor& x) { return std::vector{window(x, 1, 3, 2), window(x, 0, 1, 2)}; }, kSizes);
  expect_one_plan(
      "windows that fit", [](const Tensor& x) { return std::vector{window(x, 0, 3, 2).sum(-1)}; }, {37, 8, 1000}, 8);
  expect_one_plan(
      "gather",
      [](const Tensor& x) {
        return std::vector{gather(x, cast(tensor({0, -1}), kI32), 0), gather(x, cast(tensor({0, -1, 5}), kI64), 1)};
      },
      kSizes);
  expect_one_plan(
      "like", [](const Tensor& x) { return std::vector{zeros(x.shape()) + x, ones(x.shape()) * 3}; }, kSizes);
}

TEST(Symbolic, matrix_products_share_a_plan) {
  Tensor w = noise_tensor({12, 20}, 9), v = noise_tensor({20, 12}, 8);
  expect_one_plan("rows", [&](const Tensor& x) { return std::vector{matmul(x, w)}; }, kSizes);
  expect_one_plan("columns", [&](const Tensor& x) { return std::vector{matmul(v, x)}; }, kSizes, 1, 1);
  expect_one_plan("inner", [&](const Tensor& x) { return std::vector{matmul(x.transpose(), x)}; }, kSizes, 1, 0, 1e-3);
  expect_one_plan("outer", [&](const Tensor& x) { return std::vector{matmul(x, x.transpose())}; }, kSizes, 1, 0, 1e-4);
  expect_one_plan(
      "layers", [&](const Tensor& x) { return std::vector{matmul(relu(matmul(x, w)), v)}; }, kSizes, 1, 0, 1e-4);
}

TEST(Symbolic, zero_is_a_size) {
  std::vector<int64_t> sizes = {3, 0, 17, 0};
  Tensor w = noise_tensor({12, 5}, 9);
  expect_one_plan("elementwise", [](const Tensor& x) { return std::vector{x + 1, x.transpose() * 2}; }, sizes, 0);
  for (int axis : {0, 1})
    expect_one_plan(
        "sums", [](const Tensor& x) { return std::vector{sum(x, 0), sum(x, 1), sum(x), mean(x)}; }, sizes, 0, axis);
  expect_one_plan(
      "views",
      [](const Tensor& x) {
        return std::vector{flatten(x) + 1, cat({x, x}), x.reshape({-1, 4}) * 2, pad(x, {{1, 0}, {0, 1}}),
                           flip(x, 0) + 1};
      },
      sizes, 0);
  expect_one_plan("product", [&](const Tensor& x) { return std::vector{matmul(x, w)}; }, sizes, 0);
  expect_one_plan("reduced", [&](const Tensor& x) { return std::vector{matmul(w.transpose(), x)}; }, sizes, 0, 1);
}

TEST(Symbolic, several_sizes_at_once) {
  Dim n = dim("n", 1, 500), m = dim("m", 1, 500);
  uint64_t misses = 0;
  for (auto [a, b] : {std::pair<int64_t, int64_t>{7, 9}, {30, 5}, {1, 1}, {64, 64}, {5, 300}}) {
    Tensor x = noise_tensor({a, b}, 3), y = noise_tensor({b, a}, 4);
    Tensor want = softmax(matmul(x, y) + mean(x, 1, true), -1);
    want.realize();
    StatsSince stats;
    Tensor s = x.with_dim(0, n).with_dim(1, m), t = y.with_dim(0, m).with_dim(1, n);
    Tensor got = softmax(matmul(s, t) + mean(s, 1, true), -1);
    expect_close(got, doubles(want), 1e-5);
    EXPECT_EQ(got.shape(), want.shape());
    EXPECT_LE(stats->plan_misses, misses == 0 ? 1u : 0u);
    misses += stats->plan_misses;
  }
  EXPECT_EQ(misses, 1u);
}

TEST(Symbolic, other_dims_of_the_same_kind_share_the_plan) {
  Tensor x = noise_tensor({31, 17});
  auto f = [](const Tensor& t) { return exp(t) / (1 + t * t * 0.125); };
  f(x.with_dim(0, dim("rows", 1, 777))).realize();
  StatsSince stats;
  f(x.with_dim(0, dim("lines", 1, 777))).realize();
  EXPECT_EQ(stats->plan_misses, 0u);
  f(x.with_dim(0, dim("lines", 1, 778))).realize();
  f(x.with_dim(0, dim("lines", 0, 777))).realize();
  f(x.with_dim(0, dim("lines", 31, 777, 31))).realize();
  EXPECT_EQ(stats->plan_misses, 3u);
}

TEST(Symbolic, results_stay_symbolic) {
  Dim n = dim("n", 1, 100);
  for (int64_t size : {5, 6, 90}) {
    Tensor x = noise_tensor({size, 3}).with_dim(0, n);
    Tensor y = (x * 2).realize();
    StatsSince stats;
    Tensor z = (y + x).realize();
    EXPECT_EQ(stats->plan_misses, size == 5 ? 1u : 0u);
    EXPECT_EQ(z.shape(), (Dims{size, 3}));
    EXPECT_EQ(z.size(0), size);
    EXPECT_EQ(z.numel(), size * 3);
  }
}

TEST(Symbolic, numbers_and_symbols_meet) {
  Dim n = dim("n", 1, 100);
  Tensor x = noise_tensor({37, 4}), other = noise_tensor({37, 4}, 2);
  Tensor s = x.with_dim(0, n);
  expect_equal(s + other, doubles(x + other));
  expect_equal(other - s, doubles(other - x));
  expect_equal(cat({s, other}, 1), doubles(cat({x, other}, 1)));
  expect_equal(s.reshape({4, 37}), doubles(x.reshape({4, 37})));
  expect_close(matmul(s.transpose(), other), doubles(matmul(x.transpose(), other)));
  expect_equal(s + cast(arange(37), kF32).reshape({37, 1}), doubles(x + cast(arange(37), kF32).reshape({37, 1})));
  Tensor t = noise_tensor({37, 4}, 3);
  t.assign(s);
  expect_equal(t, doubles(x));
  // A number that the next value of n cannot have makes another plan, not a wrong result.
  Tensor y = noise_tensor({38, 4}), z = noise_tensor({38, 4}, 2);
  expect_equal(y.with_dim(0, n) + z, doubles(y + z));
}

TEST(Symbolic, operators_that_need_the_number_use_it) {
  Dim n = dim("n", 0, 100);
  for (int64_t size : {12, 37}) {
    Tensor x = noise_tensor({size, 4}), s = x.with_dim(0, n), y = noise_tensor({7}, 5);
    auto expect_same = [&](const std::function<Tensor(const Tensor&)>& f) { expect_equal(f(s), doubles(f(x))); };
    expect_same([](const Tensor& t) { return sort(t, 0).values; });
    expect_same([](const Tensor& t) { return argsort(t, 1); });
    expect_same([](const Tensor& t) { return topk(t, 3, 0).indices; });
    expect_same([](const Tensor& t) { return median(t, 0); });
    expect_same([&](const Tensor& t) { return searchsorted(sort(select(t, 1, 0), 0).values, y); });
    expect_same([](const Tensor& t) { return slice(t, 0, 3, 9, 2); });
    expect_same([](const Tensor& t) { return slice(t, 0, -5, {}, -1); });
    expect_same([](const Tensor& t) { return t[5]; });
    expect_same([](const Tensor& t) { return window(t, 0, 3, 2, 2); });
    expect_same([](const Tensor& t) { return unwindow(window(t, 0, 3, 2), 0, 3, 2, 1, t.size(0)); });
    expect_same([](const Tensor& t) { return gather(t, cast(tensor({1, -1}), kI32), 0); });
    expect_same([](const Tensor& t) { return shrink(t, {{2, 11}, {0, 4}}) + shrink(t, {{1, 10}, {0, 4}}); });
    expect_same([](const Tensor& t) { return t * cast(arange(t.numel()), kF32).reshape(t.shape()); });
    EXPECT_EQ((s + uniform(s.shape())).shape(), x.shape());
  }
}

TEST(Symbolic, a_size_that_is_one_does_not_broadcast) {
  Dim n = dim("n", 1, 100);
  Tensor x = noise_tensor({1, 4}).with_dim(0, n);
  expect_error<ShapeError>([&] { x + noise_tensor({5, 4}); }, {"add", "[n=1, 4]", "[5, 4]"});
  expect_error<ShapeError>([&] { squeeze(x, 0); }, {"squeeze", "[n=1, 4]"});
  EXPECT_EQ(squeeze(x).shape(), (Dims{1, 4}));
  EXPECT_EQ((x + noise_tensor({1, 4})).shape(), (Dims{1, 4}));
}

TEST(Symbolic, mistakes_are_named_at_the_call) {
  Dim n = dim("n", 2, 100, 2), m = dim("m", 1, 100);
  Tensor x = noise_tensor({38, 4}), y = noise_tensor({40, 4});
  expect_error<ValueError>([&] { x.with_dim(1, dim("k", 5, 9)); }, {"with_dim", "axis 1", "[38, 4]", "'k'", "[5, 9]"});
  expect_error<ValueError>([&] { noise_tensor({37, 4}).with_dim(0, n); }, {"with_dim", "37", "multiple of 2"});
  expect_error<IndexError>([&] { x.with_dim(2, n); }, {"with_dim", "axis 2"});
  expect_error<ShapeError>([&] { x.with_dim(0, n) + y.with_dim(0, n); }, {"add", "n=38", "n=40"});
  expect_error<ShapeError>([&] { x.with_dim(0, n) + x.with_dim(0, m); }, {"add", "n=38", "m=38"});
  expect_error<ShapeError>([&] { matmul(x.with_dim(0, n).transpose(), y.with_dim(0, n)); }, {"matmul", "n=38", "n=40"});
  expect_error<ShapeError>([&] { x.with_dim(0, n).reshape({3, 5}); }, {"reshape", "n=38", "[3, 5]"});
  expect_error<ValueError>([&] { max(noise_tensor({0, 4}).with_dim(0, dim("z", 0, 9)), 0); }, {"max", "z=0", "empty"});
  expect_error<ValueError>([] { dim("two words", 1, 2); }, {"two words"});
  expect_error<ValueError>([] { dim("n", 3, 2); }, {"'n'", "[3, 2]"});
  expect_error<ValueError>([] { dim("n", -1, 2); }, {"'n'", "[-1, 2]"});
  expect_error<ValueError>([] { dim("n", 1, 2, 0); }, {"'n'", "multiple of 0"});
  expect_error<ValueError>([] { dim("n", 5, 6, 7); }, {"'n'", "multiple of 7"});
}

TEST(Symbolic, different_sizes_of_one_name_live_in_one_graph) {
  Dim n = dim("n", 1, 100);
  Tensor x = noise_tensor({5, 1}), y = noise_tensor({1, 8}, 2);
  Tensor a = x.with_dim(0, n), b = y.with_dim(1, n);
  expect_equal(a * b, doubles(x * y));
  expect_equal(cat({flatten(a), flatten(b)}), doubles(cat({flatten(x), flatten(y)})));
  Tensor p = a + 1, q = b + 2;
  realize({p, q});
  expect_equal(p, doubles(x + 1));
  expect_equal(q, doubles(y + 2));
}

TEST(Symbolic, bounds_with_one_value_are_a_number) {
  Tensor x = noise_tensor({8, 4});
  Tensor s = x.with_dim(0, dim("n", 8, 15, 8));
  StatsSince stats;
  (x * 3 - 2).realize();
  (s * 3 - 2).realize();
  EXPECT_EQ(stats->plan_misses, 1u);
}

TEST(Symbolic, updates_in_place_take_over_the_memory) {
  Dim n = dim("n", 1, 5000);
  for (int64_t size : {3000, 100, 4999}) {
    Tensor x = (noise_tensor({size, 8}).with_dim(0, n) + 0).realize();
    const float* before = x.data<float>().data();
    std::vector<double> values = doubles(x);
    x += 1;
    x.realize();
    EXPECT_EQ(x.data<float>().data(), before) << size;
    EXPECT_NEAR(doubles(x)[7], values[7] + 1, 1e-6);
  }
}

TEST(Symbolic, memory_follows_the_size_and_not_the_bound) {
  Dim n = dim("n", 1, int64_t{1} << 24);
  Tensor x = noise_tensor({50, 64}).with_dim(0, n);
  StatsSince stats;
  Tensor y = softmax(matmul(x, x.transpose()), 0) + sum(x);
  expect_close(y,
               doubles(softmax(matmul(noise_tensor({50, 64}), noise_tensor({50, 64}).transpose()), 0) +
                       sum(noise_tensor({50, 64}))),
               1e-4);
  EXPECT_LT(stats->arena_bytes, uint64_t{1} << 24);
}

TEST(Symbolic, indices_beyond_the_end_are_not_checked) {
  Dim n = dim("n", 1, 1000000);
  Tensor zero = zeros({1}, kI64).clone().realize();
  for (int64_t size : {5, 1003}) {
    Tensor x = noise_tensor({size});
    Tensor positions = arange(size).with_dim(0, n) + zero;
    expect_close(gather(x.with_dim(0, n), positions, 0), doubles(x), 0);
    expect_close(sum(gather(x.with_dim(0, n), positions, 0)), doubles(sum(x)), 1e-4);
    EXPECT_THROW(gather(x.with_dim(0, n), positions + 1, 0).realize(), IndexError);
  }
}

TEST(Symbolic, scans_where_sizes_depend_on_each_other) {
  Dim m = dim("m", 1, 4);
  Tensor v = noise_tensor({4}), x = v.with_dim(0, m);
  auto grid = [](const Tensor& a) { return a.slice(0, 1).reshape({3, 1}) + a.reshape({1, 4}); };
  expect_close(cumsum(grid(x), 0), doubles(cumsum(grid(v), 0)), 1e-6);
}

TEST(Symbolic, scatters_take_updates_of_any_size) {
  Dim m = dim("m", 1, 40);
  Tensor index = tensor({0, 1, 1, 2, 0}, kI64).realize().with_dim(0, m), updates = ones({5, 2}).with_dim(0, m);
  expect_close(index_add(zeros({3, 2}), 0, index, updates), {2, 2, 2, 2, 1, 1}, 0);
  expect_close(index_put(zeros({3, 2}), {index}, updates, true), {2, 2, 2, 2, 1, 1}, 0);
}

TEST(Symbolic, tensors_print_their_numbers) {
  Tensor x = cast(arange(3), kF32).realize().with_dim(0, dim("n", 1, 100));
  EXPECT_EQ(to_string(x), to_string(cast(arange(3), kF32)));
  EXPECT_NE(print_graph({x + 1}).find("n=3"), std::string::npos) << print_graph({x + 1});
}

}  // namespace
}  // namespace heddle
