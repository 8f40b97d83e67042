// Attention, against other libraries and the peak of multiply-adds. Of causal attention only what is seen counts.
#include <heddle/heddle.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "runtime/device.h"
#include "tools/contest.h"

namespace heddle::tools {
namespace {

struct Shape {
  int64_t heads, time, width;
  bool causal;
};

Tensor by_hand(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  Tensor scores = matmul(q, k.transpose()) * (1 / std::sqrt(static_cast<double>(q.size(-1))));
  if (causal) scores = where(tri(q.size(-2), k.size(-2), 0, kBool), scores, -INFINITY);
  return matmul(softmax(scores, -1), v);
}

Contest contest_of(const Shape& shape, bool hand, bool backward) {
  auto [heads, time, width, causal] = shape;
  Dims dims{1, heads, time, width};
  std::vector<Tensor> inputs{randn(dims).realize(), randn(dims).realize(), randn(dims).realize(),
                             randn(dims).realize()};
  auto forward = [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return hand ? by_hand(q, k, v, causal) : scaled_dot_product_attention(q, k, v, {.causal = causal});
  };
  Contest contest{.name = text("attention ", heads, " x ", time, " x ", width, causal ? " causal" : "",
                               hand ? " by hand" : "", backward ? ", forward and backward" : ", forward"),
                  .group = backward ? "attention training" : "attention",
                  .unit = "GFLOP/s"};
  auto number = [](int64_t value) { return static_cast<double>(value); };
  // Keys that a query sees, in the mean; two products forward, five backward.
  double seen = causal ? (number(time) + 1) / 2 : number(time);
  contest.flops = (backward ? 7 : 2) * 2 * number(heads * time) * seen * number(width);
  contest.bytes = 4 * number(heads * time * width) * (backward ? 12 : 4);
  contest.row = {{"work", "attention"}, {"dtype", "f32"}, {"batch", 1},       {"heads", heads},
                 {"time", time},        {"width", width}, {"causal", causal}, {"backward", backward}};
  contest.share_bar = backward ? 0.5 : 0.6;
  if (backward) {
    auto step = jit([=](Tensor q, Tensor k, Tensor v, Tensor g) {
      std::vector<Tensor> leaves{q, k, v};
      for (Tensor& leaf : leaves) leaf.requires_grad_();
      Tensor y = forward(leaves[0], leaves[1], leaves[2]);
      std::vector<Tensor> results = grad(sum(y * g), leaves);
      results.push_back(y);
      return results;
    });
    contest.ours = [=]() mutable { step(inputs[0], inputs[1], inputs[2], inputs[3]); };
  } else {
    auto step = jit([=](Tensor q, Tensor k, Tensor v) { return forward(q, k, v); });
    contest.ours = [=]() mutable { step(inputs[0], inputs[1], inputs[2]); };
  }
  return contest;
}

// A few queries against many keys, as when a text is written word by word. `groups` heads of keys and values.
Contest few_queries(int64_t queries, int64_t heads, int64_t groups, int64_t keys) {
  constexpr int64_t kWidth = 128;
  Tensor q = randn({1, heads, queries, kWidth}).realize();
  Tensor k = randn({1, groups, keys, kWidth}).realize(), v = randn({1, groups, keys, kWidth}).realize();
  Contest contest{.name = text("attention of ", queries, queries == 1 ? " query" : " queries", ", ", heads, " heads",
                               groups < heads ? text(" for ", groups) : "", ", ", keys, " keys of ", kWidth),
                  .group = "attention of few queries",
                  .unit = "us"};
  auto number = [](int64_t value) { return static_cast<double>(value); };
  contest.flops = 2 * 2 * number(heads * queries * keys * kWidth);
  contest.bytes = 4 * number(2 * groups * keys * kWidth);
  contest.row = {{"work", "attention of few queries"}};
  auto step = jit([](Tensor a, Tensor b, Tensor c) { return scaled_dot_product_attention(a, b, c); });
  contest.ours = [=]() mutable { step(q, k, v); };
  return contest;
}

}  // namespace

void measure_attention(double seconds, const Report& report) {
  int threads = device("cpu").threads();
  Peers peers(threads, peers_python());
  auto run = [&](const Shape& shape, bool hand, bool backward) {
    Contest contest = contest_of(shape, hand, backward);
    contest.name += text(", ", threads, threads == 1 ? " thread" : " threads");
    if (wanted(contest.name)) run_contest(peers, contest, seconds, report);
  };
  for (bool backward : {false, true}) {
    run({12, 1024, 64, true}, false, backward);
    run({12, 1024, 64, true}, true, backward);
    run({12, 1024, 64, false}, false, backward);
  }
  run({12, 128, 64, true}, false, false);
  run({4, 4096, 64, true}, false, false);
  run({8, 1000, 80, true}, false, false);
  for (int64_t keys : {1024, 8192, 32768})
    for (auto [queries, heads, groups] : {std::array<int64_t, 3>{1, 32, 32}, {1, 32, 8}, {8, 32, 32}}) {
      Contest contest = few_queries(queries, heads, groups, keys);
      contest.name += text(", ", threads, threads == 1 ? " thread" : " threads");
      if (wanted(contest.name)) run_contest(peers, contest, seconds, report);
    }
}

}  // namespace heddle::tools
