// Attention through the public interface: values, gradients, launches and bytes.
#include "graph/graph.h"
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

struct Inputs {
  Tensor q, k, v;
  Inputs(const Dims& q_shape, const Dims& k_shape, const Dims& v_shape)
      : q(noise_tensor(q_shape, 1)), k(noise_tensor(k_shape, 2)), v(noise_tensor(v_shape, 3)) {}
};

// The same numbers as the evaluator's, which computes node by node in double precision.
void expect_evaluated(const std::vector<Tensor>& tensors, double tolerance) {
  std::vector<NodeRef> roots;
  for (const Tensor& t : tensors) roots.push_back(t.node());
  std::vector<HostArray> want = evaluate(roots);
  for (size_t i = 0; i < tensors.size(); ++i) {
    SCOPED_TRACE(i);
    expect_close(tensors[i], want[i].floats, tolerance);
  }
}

Tensor by_hand(const Inputs& in, bool causal) {
  double scale = 1 / std::sqrt(static_cast<double>(in.q.size(-1)));
  Tensor scores = matmul(in.q, transpose(in.k, -2, -1)) * scale;
  if (causal) scores = where(tri(in.q.size(-2), in.k.size(-2), 0, kBool), scores, -INFINITY);
  return matmul(softmax(scores, -1), in.v);
}

TEST(Attention, agrees_with_the_evaluator_for_odd_sizes) {
  struct Row {
    int64_t queries, keys, width, columns;
  };
  for (Row r : {Row{1, 1, 1, 1}, Row{70, 70, 16, 16}, Row{33, 101, 7, 19}, Row{129, 65, 64, 64}, Row{5, 300, 40, 80},
                Row{64, 1, 8, 8}, Row{200, 17, 130, 3}})
    for (bool causal : {false, true}) {
      SCOPED_TRACE(::testing::Message() << r.queries << " " << r.keys << " " << r.width << " " << causal);
      Inputs in({2, 3, r.queries, r.width}, {2, 3, r.keys, r.width}, {2, 3, r.keys, r.columns});
      expect_evaluated({scaled_dot_product_attention(in.q, in.k, in.v, {.causal = causal})}, 2e-5);
    }
}

TEST(Attention, is_one_kernel_that_moves_its_inputs_and_its_result) {
  constexpr int64_t kHeads = 4, kTime = 300, kWidth = 64, kEach = kHeads * kTime * kWidth;
  for (bool causal : {false, true}) {
    Inputs in({kHeads, kTime, kWidth}, {kHeads, kTime, kWidth}, {kHeads, kTime, kWidth});
    for (const Tensor& y : {scaled_dot_product_attention(in.q, in.k, in.v, {.causal = causal}), by_hand(in, causal)}) {
      StatsSince stats;
      y.realize();
      EXPECT_EQ(stats->launches, 1u);
      EXPECT_EQ(stats.bytes(), 4u * 4 * kEach);
    }
  }
}

// The result is part of its own gradient, and what follows it reads it more than once: still no scores in memory.
TEST(Attention, backward_of_what_is_used_in_several_places) {
  constexpr int64_t kHeads = 4, kTime = 300, kWidth = 32;
  for (DType dtype : {kF32, kBF16}) {
    std::vector<Tensor> in;
    for (uint64_t i = 0; i < 3; ++i) {
      in.push_back(noise_tensor({kHeads, kTime, kWidth}, i).cast(dtype).realize());
      in.back().requires_grad_();
    }
    Tensor w = noise_tensor({kWidth, kWidth}, 9).cast(dtype).realize();
    w.requires_grad_();
    Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
    std::vector<Tensor> squares = grad(sum(square(y)).cast(kF32), in);
    squares.push_back(y);
    Tensor z = scaled_dot_product_attention(in[0], in[1], in[2]);
    std::vector<Tensor> linear = grad(sum(square(matmul(z, w))).cast(kF32), {in[0], in[1], in[2], w});
    for (const std::vector<Tensor>& all : {squares, linear}) {
      StatsSince stats;
      realize(all);
      EXPECT_LE(stats->arena_bytes, 4u * kHeads * kTime * (6 * kWidth + 8)) << dtype;
      expect_evaluated(all, dtype == kF32 ? 1e-3 : 0.5);
    }
  }
}

// Queries and keys that are turned pair by pair: several kernels compute the scores, and read what was turned. Nothing
// is as large as the products of queries and keys, nor as the scores.
TEST(Attention, turned_queries_and_keys_are_in_memory_and_not_their_products) {
  constexpr int64_t kHeads = 4, kTime = 200, kWidth = 32;
  Inputs in({kHeads, kTime, kWidth}, {kHeads, kTime, kWidth}, {kHeads, kTime, kWidth});
  for (Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
  Tensor angles = unsqueeze(arange(kTime, kF32), 1) * exp(arange(kWidth / 2, kF32) * -0.5);
  auto turned = [&](const Tensor& x) {
    Tensor a = slice(x, -1, 0, kWidth / 2), b = slice(x, -1, kWidth / 2);
    return cat({a * cos(angles) - b * sin(angles), a * sin(angles) + b * cos(angles)}, -1);
  };
  Tensor y = scaled_dot_product_attention(turned(in.q), turned(in.k), in.v, {.causal = true});
  std::vector<Tensor> all = grad(sum(square(y)), {in.q, in.k, in.v});
  all.push_back(y);
  StatsSince stats;
  realize(all);
  EXPECT_LT(stats->arena_bytes, 4u * kHeads * kTime * kTime);
  expect_evaluated(all, 1e-3);
}

TEST(Attention, backward_is_two_kernels_and_nothing_is_as_large_as_the_scores) {
  constexpr int64_t kHeads = 4, kTime = 600, kWidth = 32, kEach = kHeads * kTime * kWidth, kRows = kHeads * kTime;
  for (bool causal : {false, true}) {
    Inputs in({kHeads, kTime, kWidth}, {kHeads, kTime, kWidth}, {kHeads, kTime, kWidth});
    for (Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
    Tensor g = noise_tensor({kHeads, kTime, kWidth}, 4);
    for (bool hand : {false, true}) {
      Tensor y = hand ? by_hand(in, causal) : scaled_dot_product_attention(in.q, in.k, in.v, {.causal = causal});
      std::vector<Tensor> all = grad(sum(y * g), {in.q, in.k, in.v});
      all.push_back(y);
      StatsSince stats;
      realize(all);
      EXPECT_EQ(stats->launches, 3u);
      // Each of the forward and the two backward kernels reads at most six arrays of the inputs' size and a few numbers
      // per row; one matrix of scores alone would be 4 * 600 * 600 = 18.75 such arrays.
      EXPECT_LE(stats.bytes(), 4u * (24 * kEach + 16 * kRows));
      EXPECT_LE(stats->arena_bytes, 4u * 8 * kRows);
    }
  }
}

TEST(Attention, gradients_agree_with_the_evaluator) {
  for (bool causal : {false, true}) {
    Inputs in({2, 70, 16}, {2, 90, 16}, {2, 90, 24});
    for (Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
    Tensor g = noise_tensor({2, 70, 24}, 4);
    Tensor y = scaled_dot_product_attention(in.q, in.k, in.v, {.causal = causal});
    expect_evaluated(grad(sum(y * g), {in.q, in.k, in.v}), 5e-5);
  }
}

TEST(Attention, a_mask_chooses_or_adds) {
  Inputs in({2, 3, 40, 8}, {2, 3, 50, 8}, {2, 3, 50, 8});
  Tensor bias = noise_tensor({3, 40, 50}, 5), mask = noise_tensor({40, 50}, 6) > -1.0;
  Tensor scores = matmul(in.q, transpose(in.k, -2, -1)) * 0.5;
  auto plain = [&](const Tensor& s) { return doubles(matmul(softmax(s, -1).realize(), in.v)); };
  expect_close(scaled_dot_product_attention(in.q, in.k, in.v, {.mask = bias, .scale = 0.5}), plain(scores + bias),
               1e-5);
  expect_close(scaled_dot_product_attention(in.q, in.k, in.v, {.mask = mask, .scale = 0.5}),
               plain(where(mask, scores, -INFINITY)), 1e-5);
  StatsSince stats;
  scaled_dot_product_attention(in.q, in.k, in.v, {.mask = bias}).realize();
  EXPECT_EQ(stats->launches, 1u);
}

TEST(Attention, heads_of_keys_may_serve_several_of_queries) {
  Inputs in({2, 6, 33, 8}, {2, 2, 40, 8}, {2, 2, 40, 8});
  auto repeated = [](const Tensor& x) { return repeat_interleave(x, 3, 1); };
  for (bool causal : {false, true}) {
    Inputs each = in;
    each.k = repeated(in.k);
    each.v = repeated(in.v);
    Tensor want = by_hand(each, causal);
    StatsSince stats;
    Tensor got = scaled_dot_product_attention(in.q, in.k, in.v, {.causal = causal}).realize();
    EXPECT_EQ(stats->launches, 1u);
    expect_close(got, doubles(want), 1e-5);
  }
}

// Far below zero, where the exponential of the way down from 0 is infinite.
TEST(Attention, scores_may_be_very_negative) {
  struct Row {
    int64_t queries, keys;
  };
  for (Row r : {Row{1, 64}, Row{1, 2500}, Row{4, 9000}, Row{70, 300}}) {
    SCOPED_TRACE(::testing::Message() << r.queries << " " << r.keys);
    Inputs in({1, r.queries, 4}, {1, r.keys, 4}, {1, r.keys, 4});
    for (double low : {-100.0, -1e9}) {
      Tensor all = full({1, r.keys}, low), some = where(arange(r.keys) < r.keys * 2 / 3, low, 0.0).reshape(1, r.keys);
      for (const Tensor& mask : {all, some})
        expect_evaluated({scaled_dot_product_attention(in.q, in.k, in.v, {.mask = mask})}, low < -1e8 ? 2 : 1e-3);
    }
    Tensor q = full({1, r.queries, 64}, 4), k = full({1, r.keys, 64}, -4);
    expect_evaluated({scaled_dot_product_attention(q, k, in.v)}, 1e-4);
  }
}

// What is subtracted is not the maximum of what it is subtracted from: that must not be rescaled block by block.
TEST(Attention, another_maximum_is_only_a_number) {
  constexpr int64_t kKeys = 3000;
  Tensor s1 = where(arange(kKeys) == kKeys - 1, 300.0, 0.0), s2 = where(arange(kKeys) == 0, 200.0, 0.0);
  Tensor e = exp(s2 - max(s1)).reshape(1, kKeys);
  expect_evaluated({matmul(e, ones({kKeys, 2})) / sum(e)}, 1e-4);
}

TEST(Attention, a_mask_may_have_more_batches_than_the_queries) {
  for (int64_t queries : {1, 100}) {
    Inputs in({1, 4, queries, 8}, {1, 2, 30, 8}, {1, 2, 30, 8});
    Tensor y = scaled_dot_product_attention(in.q, in.k, in.v, {.mask = noise_tensor({3, 1, 1, 30}, 5)});
    EXPECT_EQ(y.shape(), (Dims{3, 4, queries, 8}));
    expect_evaluated({y}, 2e-5);
  }
}

TEST(Attention, a_query_without_keys_is_not_a_number) {
  Inputs in({2, 66, 8}, {2, 50, 8}, {2, 50, 8});
  Tensor seen = ones({66, 50}, kBool);
  seen = where(arange(66).reshape(66, 1) < 40, seen, zeros({66, 50}, kBool));
  Tensor y = scaled_dot_product_attention(in.q, in.k, in.v, {.mask = seen});
  EXPECT_TRUE(all(isnan(slice(y, 1, 40))).item<bool>());
  EXPECT_FALSE(any(isnan(slice(y, 1, 0, 40))).item<bool>());
  expect_evaluated({scaled_dot_product_attention(in.q, in.k, in.v, {.mask = seen})}, 2e-5);
}

TEST(Attention, sizes_may_be_zero) {
  EXPECT_EQ(scaled_dot_product_attention(zeros({2, 0, 4}), zeros({2, 3, 4}), zeros({2, 3, 5})).shape(),
            (Dims{2, 0, 5}));
  expect_equal(scaled_dot_product_attention(ones({2, 4}), zeros({0, 4}), zeros({0, 3})), std::vector<double>(6, 0.0));
  // Without a width all scores are 0, whatever they are divided by.
  expect_close(scaled_dot_product_attention(zeros({1, 0}), zeros({2, 0}), tensor({{1.0}, {3.0}}), {.scale = 1.0}), {2});
}

TEST(Attention, small_floats_are_computed_in_f32) {
  Inputs in({2, 100, 32}, {2, 100, 32}, {2, 100, 32});
  for (DType dtype : {kF16, kBF16}) {
    Tensor q = in.q.cast(dtype).realize(), k = in.k.cast(dtype).realize(), v = in.v.cast(dtype).realize();
    StatsSince stats;
    Tensor y = scaled_dot_product_attention(q, k, v).realize();
    EXPECT_EQ(stats->launches, 1u);
    EXPECT_EQ(y.dtype(), dtype);
    Tensor want = scaled_dot_product_attention(q.cast(kF32), k.cast(kF32), v.cast(kF32)).cast(dtype);
    expect_close(y, doubles(want), 0.01);
  }
}

// Sizes that matrix units take, and such that end inside their tiles.
TEST(Attention, small_floats_of_wide_heads) {
  struct Row {
    int64_t queries, keys, width;
  };
  for (Row r : {Row{256, 256, 64}, Row{130, 200, 128}, Row{70, 333, 64}, Row{33, 40, 96}, Row{300, 300, 256}})
    for (DType dtype : {kF16, kBF16})
      for (bool causal : {false, true}) {
        SCOPED_TRACE(::testing::Message() << r.queries << " " << r.keys << " " << r.width << " " << causal);
        Inputs in({2, 3, r.queries, r.width}, {2, 3, r.keys, r.width}, {2, 3, r.keys, r.width});
        Tensor q = in.q.cast(dtype).realize(), k = in.k.cast(dtype).realize(), v = in.v.cast(dtype).realize();
        Tensor want = scaled_dot_product_attention(q.cast(kF32), k.cast(kF32), v.cast(kF32), {.causal = causal});
        expect_close(scaled_dot_product_attention(q, k, v, {.causal = causal}), doubles(want), 0.01);
      }
}

TEST(Attention, positions_left_out_are_not_looked_at) {
  // A key that nobody sees may hold anything.
  Inputs in({60, 8}, {60, 8}, {60, 8});
  Tensor later = arange(60).reshape(60, 1) >= 50;
  Tensor k = where(later, NAN, in.k).realize(), v = where(later, NAN, in.v).realize();
  Tensor y = scaled_dot_product_attention(in.q, k, v, {.causal = true});
  Tensor want = by_hand(in, true);
  expect_close(slice(y, 0, 0, 48), doubles(slice(want, 0, 0, 48)), 1e-5);
}

TEST(Attention, errors_name_the_shapes) {
  expect_error<ShapeError>([] { scaled_dot_product_attention(zeros({2, 3}), zeros({4, 5}), zeros({4, 3})); },
                           {"scaled_dot_product_attention", "[2, 3]", "[4, 5]", "width"});
  expect_error<ShapeError>([] { scaled_dot_product_attention(zeros({2, 3}), zeros({4, 3}), zeros({5, 3})); },
                           {"scaled_dot_product_attention", "[4, 3]", "[5, 3]", "positions"});
  expect_error<ShapeError>([] { scaled_dot_product_attention(zeros(3), zeros({4, 3}), zeros({4, 3})); }, {"two axes"});
  expect_error<ShapeError>([] { scaled_dot_product_attention(zeros({5, 2, 3}), zeros({2, 4, 3}), zeros({2, 4, 3})); },
                           {"5 heads", "2"});
  expect_error<ShapeError>(
      [] { scaled_dot_product_attention(zeros({2, 3}), zeros({4, 3}), zeros({4, 3}), {.mask = ones({5, 5}, kBool)}); },
      {"scaled_dot_product_attention", "mask", "[5, 5]", "[2, 4]"});
  expect_error<DTypeError>([] { scaled_dot_product_attention(zeros({2, 3}, kI32), zeros({4, 3}), zeros({4, 3})); },
                           {"i32"});
  expect_error<DTypeError>(
      [] { scaled_dot_product_attention(zeros({2, 3}), zeros({4, 3}), zeros({4, 3}), {.mask = ones({2, 4}, kI64)}); },
      {"scaled_dot_product_attention", "mask", "i64", "bool", "float"});
}

// Kernels that would need each other are made again, whatever others have stored by then.
TEST(Attention, has_gradients_of_gradients) {
  for (int axis : {0, 1}) {
    SCOPED_TRACE(axis);
    TensorList in;
    for (uint64_t seed : {1, 2, 3}) in.push_back(noise_tensor({128, 8}, seed).cast(kF64).realize());
    auto loss = [&](const TensorList& x) {
      return square(matmul(softmax(matmul(x[0], transpose(x[1])), axis), x[2])).sum();
    };
    Tensor all = zeros({}, kF64);
    for (Tensor& x : in) x.requires_grad_();
    for (const Tensor& g : grad(loss(in), in)) all = all + square(g).sum();
    expect_evaluated(grad(all, in), 1e-9);
  }
}

}  // namespace
}  // namespace heddle
