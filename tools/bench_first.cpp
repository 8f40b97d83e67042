// The first call of a captured training step, nothing cached: recording, planning, compiling, running once. Whole
// models of today's kinds in bf16, at sizes where the rules for large kernels apply.
#include <heddle/heddle.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

// Turns pairs of features by an angle that grows with the position. x [n, heads, time, width].
Tensor rotary(const Tensor& x) {
  int64_t half = x.size(-1) / 2;
  Tensor rates = exp(arange(half, kF32) * (-std::log(10000.0) / static_cast<double>(half)));
  Tensor angles = unsqueeze(arange(x.size(2), kF32), 1) * rates;
  Tensor c = cast(cos(angles), x.dtype()), s = cast(sin(angles), x.dtype());
  Tensor a = slice(x, -1, 0, half), b = slice(x, -1, half);
  return cat({a * c - b * s, a * s + b * c}, -1);
}

// A block of a language model: grouped heads behind rotary positions, then a gated layer, or eight of which each token
// chooses two.
struct Block : nn::Module<Block> {
  int64_t heads, groups;
  nn::RMSNorm norm1, norm2;
  nn::Linear q, k, v, out, router;
  Tensor gate, up, down;  // [experts, inputs, outputs]
  Block(int64_t width, int64_t hidden, int64_t experts)
      : heads(width / 128),
        groups(heads / 4),
        norm1(width),
        norm2(width),
        q(width, width, false),
        k(width, groups * 128, false),
        v(width, groups * 128, false),
        out(width, width, false),
        router(width, experts, false),
        gate(nn::init::xavier_uniform({experts, width, hidden})),
        up(nn::init::xavier_uniform({experts, width, hidden})),
        down(nn::init::xavier_uniform({experts, hidden, width})) {}
  static Tensor split(const Tensor& x, int64_t count) { return transpose(unflatten(x, 2, {count, -1}), 1, 2); }
  Tensor attend(const Tensor& x) const {
    Tensor seen = scaled_dot_product_attention(rotary(split(q(x), heads)), rotary(split(k(x), groups)),
                                               split(v(x), groups), {.causal = true});
    return out(flatten(transpose(seen, 1, 2), 2));
  }
  Tensor feed(const Tensor& x) const {
    if (gate.size(0) == 1) {
      auto of = [](const Tensor& w) { return squeeze(w, 0); };
      return matmul(silu(matmul(x, of(gate))) * matmul(x, of(up)), of(down));
    }
    Tensor tokens = flatten(x, 0, 1);
    auto [best, which] = topk(softmax(router(tokens), -1), 2);
    Tensor share = best / best.sum(-1, true);
    Tensor weights = (unsqueeze(share, 2) * one_hot(which, gate.size(0), share.dtype())).sum(1);
    Tensor hidden = silu(einsum("td,edh->eth", {tokens, gate})) * einsum("td,edh->eth", {tokens, up});
    Tensor result = einsum("eth,ehd->etd", {hidden, down});
    return reshape((result * unsqueeze(transpose(weights), 2)).sum(0), x.shape());
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x + attend(norm1(x));
    return y + feed(norm2(y));
  }
  template <class V>
  void visit(V& visitor) {
    visitor("norm1", norm1);
    visitor("norm2", norm2);
    visitor("q", q);
    visitor("k", k);
    visitor("v", v);
    visitor("out", out);
    visitor("router", router);
    visitor("gate", gate);
    visitor("up", up);
    visitor("down", down);
    visitor.settings(heads, groups);
  }
};

void wait_for(const Tensor& loss) { loss.item<float>(); }

void measure(const char* name, double seconds, const Report& report, const auto& make_step) {
  if (!wanted(name)) return;
  auto step = make_step();
  clear_plan_cache();
  clear_kernel_cache();
  double start = now();
  wait_for(step());
  double first = now() - start;
  if (seconds < 0) return;
  start = now();
  wait_for(step());
  double second = now() - start;
  Figure figure{.name = name, .unit = "s"};
  figure.ours = figure.median = first;
  figure.reference = 8;
  figure.reference_name = "bar: at most";
  figure.ratio = figure.reference / figure.ours;
  if (device().target().machine == Machine::Simt) figure.bar = 1;  // elsewhere it is arithmetic that takes long
  figure.note = text(step.plans()[0].launches, " launches, ", kernel_cache_size(), " kernels; the second call ",
                     static_cast<int>(second * 1e3), " ms");
  report(figure);
}

// A step on random activations: what a block of a large model is given.
auto block_step(int64_t tokens, int64_t width, int64_t hidden, int64_t experts) {
  auto net = std::make_shared<Block>(width, hidden, experts);
  net->to(kBF16);
  if (experts == 1) net->freeze("router");
  auto opt = std::make_shared<optim::AdamW>(*net, optim::AdamWOptions{.lr = 1e-4});
  Tensor x = cast(randn({2, tokens / 2, width}), kBF16).realize(),
         y = cast(randn({2, tokens / 2, width}), kBF16).realize();
  for (const Tensor& weight : net->parameters()) weight.realize();
  return jit([net, opt, x, y] {
    Tensor loss = mse_loss(cast((*net)(x), kF32), cast(y, kF32));
    opt->step(grad(loss, net->parameters()));
    return loss;
  });
}

auto gpt2_step() {
  models::GPT2Config config = models::gpt2_small();
  config.dtype = kBF16;
  auto net = std::make_shared<models::GPT2>(config);
  auto opt = std::make_shared<optim::AdamW>(net->parameters(), optim::AdamWOptions{.lr = 1e-4});
  Tensor ids = randint({1, 1024}, 0, config.vocabulary).realize(),
         targets = randint({1, 1024}, 0, config.vocabulary).realize();
  for (const Tensor& weight : net->parameters()) weight.realize();
  return jit([net, opt, ids, targets] {
    Tensor loss = net->loss(ids, targets);
    opt->step(grad(loss, net->parameters()));
    return loss;
  });
}

}  // namespace

void measure_first(double seconds, const Report& report) {
  setenv("CUDA_CACHE_DISABLE", "1", 0);  // a driver keeps what it has assembled
  measure("GPT-2 124M bf16, 1024 tokens, first step", seconds, report, [] { return gpt2_step(); });
  measure("Llama block bf16 2048, 2048 tokens, first step", seconds, report,
          [] { return block_step(2048, 2048, 5632, 1); });
  measure("mixture of 8 experts bf16 1024, 1024 tokens, first step", seconds, report,
          [] { return block_step(1024, 1024, 1408, 8); });
}

}  // namespace heddle::tools
