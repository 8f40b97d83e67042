// Attention, called and written by hand, forward and backward, against the evaluator.
#include "base/error.h"
#include "near_evaluator.h"
#include "runtime/plan.h"

namespace heddle {
namespace {

using namespace testing;

enum class Mask { None, Causal, Chosen, Added, Blocked, Window };
constexpr Mask kMasks[] = {Mask::None, Mask::Causal, Mask::Chosen, Mask::Added, Mask::Blocked, Mask::Window};
const char* name(Mask mask) {
  static const char* const kNames[] = {"no mask", "causal", "boolean", "added", "rows of -inf", "window"};
  return kNames[static_cast<size_t>(mask)];
}

struct Sizes {
  int64_t batch, heads, groups, queries, keys, width, columns;
};
std::string describe(const Sizes& s) {
  return text(s.batch, "x", s.heads, "/", s.groups, ", ", s.queries, " queries, ", s.keys, " keys, ", s.width, "x",
              s.columns);
}

struct Inputs {
  Inputs(const Sizes& sizes, DType dtype)
      : s(sizes),
        q(noise({s.batch, s.heads, s.queries, s.width}, 1, dtype)),
        k(noise({s.batch, s.groups, s.keys, s.width}, 2, dtype)),
        v(noise({s.batch, s.groups, s.keys, s.columns}, 3, dtype)),
        g(noise({s.batch, s.heads, s.queries, s.columns}, 4, dtype)) {}
  Sizes s;
  Tensor q, k, v, g;
};

// Whether a query looks at a key, or what is added to their score.
Tensor mask_of(const Sizes& s, Mask mask) {
  Tensor query = arange(s.queries).reshape({s.queries, 1}), key = arange(s.keys);
  switch (mask) {
    case Mask::Chosen: return ((noise({s.batch, 1, s.queries, s.keys}, 5) > -0.5) | (key == 0)).realize();
    case Mask::Added: return noise({s.heads, s.queries, s.keys}, 6);
    // Every fifth query sees nothing at all, every third key is seen by none.
    case Mask::Blocked:
      return where((query % 5 == 2) | (key % 3 == 1), -INFINITY, noise({s.queries, s.keys}, 7)).realize();
    case Mask::Window: return (key <= query + 2) & (query - key < 9);
    default: return key <= query;
  }
}

Tensor called(const Inputs& in, Mask mask) {
  AttentionOptions options;
  options.causal = mask == Mask::Causal;
  if (mask != Mask::None && mask != Mask::Causal) options.mask = mask_of(in.s, mask);
  return scaled_dot_product_attention(in.q, in.k, in.v, options);
}

// As somebody who does not know the function would write it.
Tensor by_hand(const Inputs& in, Mask mask) {
  const int64_t each = in.s.heads / in.s.groups;
  auto heads = [&](const Tensor& x) { return (each == 1 ? x : repeat_interleave(x, each, 1)).cast(kF32); };
  Tensor scores = matmul(in.q.cast(kF32), heads(in.k).transpose(-2, -1)) / std::sqrt(static_cast<double>(in.s.width));
  if (mask != Mask::None) {
    Tensor m = mask_of(in.s, mask);
    scores = m.dtype() == kBool ? where(m, scores, -INFINITY) : scores + m;
  }
  Tensor e = exp(scores - max(scores, {-1}, true));
  return matmul(e / sum(e, {-1}, true), heads(in.v)).cast(in.q.dtype());
}

// Scores are sums of `width` products, weights add up to one; a gradient goes through both and adds up rows.
double forward_length(const Sizes& s) { return static_cast<double>(s.width + s.keys) + 8; }
double backward_length(const Sizes& s) {
  return static_cast<double>(s.heads / s.groups * (s.queries + s.keys) + s.width + s.columns) + 8;
}

// Odd sizes, more and fewer keys than queries, several blocks of each; in the end few queries.
constexpr Sizes kSizes[] = {
    {1, 1, 1, 1, 1, 1, 1},     {2, 2, 2, 70, 50, 16, 24}, {1, 2, 2, 33, 101, 7, 19},
    {1, 4, 2, 48, 64, 16, 16}, {1, 3, 1, 65, 130, 9, 8},  {1, 1, 1, 101, 35, 64, 40},
    {1, 2, 1, 150, 17, 33, 3}, {1, 4, 1, 1, 300, 16, 16}, {2, 4, 2, 5, 140, 8, 12},
};

// Both ways to write it are the same to the evaluator but for the last bits of a double.
TEST(Attention, forward) {
  size_t turn = 0;
  for (const Sizes& s : kSizes) {
    Inputs in(s, kF32);
    ++turn;
    for (Mask mask : kMasks) {
      if (++turn % 2 == 0) continue;  // the compiler takes most of the time
      SCOPED_TRACE(text(describe(s), ", ", name(mask)));
      Tensor y = called(in, mask);
      std::vector<HostArray> want = evaluated({y});
      expect_near({y}, want, forward_length(s));
      expect_near({by_hand(in, mask)}, want, forward_length(s));
    }
  }
}

TEST(Attention, backward) {
  for (const Sizes& s : {kSizes[2], kSizes[4]}) {
    Inputs in(s, kF32);
    for (Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
    for (Mask mask : kMasks) {
      SCOPED_TRACE(text(describe(s), ", ", name(mask)));
      // What a window leaves out counts as nothing, even for queries that see nothing and are not numbers.
      if (mask == Mask::Window && s.queries > s.keys + 8) continue;
      std::vector<HostArray> want;
      for (bool hand : {false, true}) {
        Tensor y = hand ? by_hand(in, mask) : called(in, mask);
        Tensors all = grad(sum(y * in.g), {in.q, in.k, in.v});
        all.push_back(y);
        if (!hand) want = evaluated(all);
        expect_near(all, want, backward_length(s));
      }
    }
  }
}

TEST(Attention, small_floats) {
  for (DType dtype : {kBF16, kF16})
    for (const Sizes& s : {kSizes[3], kSizes[8]}) {
      Inputs in(s, dtype);
      for (Mask mask : {Mask::Causal, Mask::Blocked}) {
        SCOPED_TRACE(text(dtype, ", ", describe(s), ", ", name(mask)));
        expect_near_evaluator({called(in, mask)}, forward_length(s));
        expect_near_evaluator({by_hand(in, mask)}, forward_length(s));
      }
      for (Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
      SCOPED_TRACE(text(dtype, ", ", describe(s), ", gradients"));
      Tensors slopes = grad(sum(called(in, Mask::Causal).cast(kF32) * in.g.cast(kF32)), {in.q, in.k, in.v});
      expect_near_evaluator(slopes, backward_length(s));
    }
}

// One kernel for all numbers of positions.
TEST(Attention, symbolic_sizes) {
  Dim time = dim("t", 1, 400), past = dim("p", 1, 600);
  for (Mask mask : {Mask::None, Mask::Causal})
    for (auto [queries, keys] : {std::pair<int64_t, int64_t>{37, 37}, {1, 200}, {100, 3}, {5, 131}}) {
      Sizes s{2, 4, 2, queries, keys, 16, 24};
      SCOPED_TRACE(text(describe(s), ", ", name(mask)));
      Inputs in(s, kF32);
      in.q = in.q.with_dim(2, time);
      in.k = in.k.with_dim(2, past);
      in.v = in.v.with_dim(2, past);
      in.g = in.g.with_dim(2, time);
      expect_near_evaluator({called(in, mask)}, forward_length(s));
      for (Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
      Tensors slopes = grad(sum(called(in, mask) * in.g), {in.q, in.k, in.v});
      expect_near_evaluator(slopes, backward_length(s));
    }
}

// The keys in chunks, with maxima that grow from chunk to chunk, and in parts for several cores.
TEST(Attention, long_rows) {
  const Sizes sizes[] = {
      {1, 3, 3, 1, 2500, 8, 12}, {1, 4, 2, 3, 2100, 5, 8}, {1, 1, 1, 1, 40000, 4, 4}, {1, 1, 1, 50, 3000, 4, 6}};
  size_t turn = 0;
  for (const Sizes& s : sizes) {
    Inputs in(s, kF32);
    in.k = (in.k * (arange(s.keys).reshape({s.keys, 1}) / 500.0)).cast(kF32).realize();
    Mask mask = kMasks[turn++ % 5];
    SCOPED_TRACE(text(describe(s), ", ", name(mask)));
    Tensor y = called(in, mask);
    const uint64_t before = run_stats().launches;
    y.realize();
    // Heads that share keys are rows of one product; they are put in their places afterwards.
    if (device().target().machine == Machine::Simd) {  // others do not take the keys in chunks
      EXPECT_EQ(run_stats().launches - before, s.heads == s.groups ? 1u : 2u);
    }
    std::vector<HostArray> want = evaluated({called(in, mask)});
    expect_near({y}, want, 80 * static_cast<double>(s.width) + static_cast<double>(s.keys));
    expect_near({by_hand(in, mask)}, want, 80 * static_cast<double>(s.width) + static_cast<double>(s.keys));
  }
  // A number of keys that is known only when it runs.
  Dim past = dim("p", 1, 50000);
  for (int64_t keys : {1, 700, 1024, 3001}) {
    Sizes s{1, 4, 2, 1, keys, 8, 8};
    SCOPED_TRACE(describe(s));
    Inputs in(s, kF32);
    in.k = in.k.with_dim(2, past);
    in.v = in.v.with_dim(2, past);
    expect_near_evaluator({called(in, Mask::None)}, forward_length(s));
  }
}

TEST(Attention, dropout_of_weights) {
  Sizes s{1, 2, 2, 40, 33, 8, 8};
  Inputs in(s, kF32);
  for (Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
  Tensor weights = softmax(matmul(in.q, in.k.transpose(-2, -1)) * 0.3, -1);
  Tensor y = matmul(dropout(weights, 0.25), in.v);
  Tensors all = grad(sum(y * in.g), {in.q, in.k, in.v});
  all.push_back(y);
  expect_near_evaluator(all, 2 * backward_length(s));
}

TEST(Attention, many_examples_at_once) {
  Inputs in({3, 2, 2, 40, 30, 8, 8}, kF32);
  auto one = [](const Tensor& q, const Tensor& k, const Tensor& v) { return scaled_dot_product_attention(q, k, v); };
  expect_near_evaluator({vmap(one)(in.q, in.k, in.v)}, forward_length(in.s));
}

}  // namespace
}  // namespace heddle
