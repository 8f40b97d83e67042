// Loops inside programs: an LSTM's training step, Newton's iteration, the heat equation. References are the same work
// without a loop, floors, or bars.
#include <heddle/heddle.h>

#include <cmath>

#include "base/error.h"
#include "runtime/device.h"
#include "tools/bench.h"
#include "tools/measure.h"
#include "tools/reference.h"

namespace heddle::tools {
namespace {

// Two layers of 256 units, 512 steps of 32 sequences.
constexpr int64_t kWidth = 256, kSteps = 512, kBatch = 32;

struct Lstm {
  struct Layer {
    Tensor wx, wh, b;
  };
  std::vector<Layer> layers;

  explicit Lstm() {
    for (int i = 0; i < 2; ++i) {
      const double scale = 1 / std::sqrt(static_cast<double>(kWidth));
      auto weight = [&](const Dims& shape) { return (randn(shape) * scale).realize(); };
      layers.push_back({weight({kWidth, 4 * kWidth}), weight({kWidth, 4 * kWidth}), zeros({4 * kWidth}).realize()});
    }
  }
  TensorList parameters() const {
    TensorList all;
    for (const Layer& l : layers) all.insert(all.end(), {l.wx, l.wh, l.b});
    return all;
  }
  // (h, c) of all layers -> the next ones.
  static TensorList step(const TensorList& p, const TensorList& state, const Tensor& x) {
    TensorList next;
    Tensor below = x;
    for (size_t l = 0; l < p.size() / 3; ++l) {
      const Tensor gates = matmul(below, p[3 * l]) + matmul(state[2 * l], p[3 * l + 1]) + p[3 * l + 2];
      auto gate = [&](int64_t i) { return slice(gates, 1, i * kWidth, (i + 1) * kWidth); };
      const Tensor c = sigmoid(gate(1)) * state[2 * l + 1] + sigmoid(gate(0)) * tanh(gate(2));
      below = sigmoid(gate(3)) * tanh(c);
      next.insert(next.end(), {below, c});
    }
    return next;
  }
};

Tensor lstm_loss(const TensorList& p, const Tensor& x, const Tensor& target, bool looped) {
  const TensorList begin(4, zeros({kBatch, kWidth}));
  if (looped) {
    auto body = [&](const TensorList& state, const Tensor& now) {
      TensorList next = Lstm::step(p, state, now);
      return std::pair(next, next[2]);
    };
    return mean(square(scan(body, begin, x).second - target));
  }
  TensorList state = begin, outputs;
  for (int64_t t = 0; t < kSteps; ++t) {
    state = Lstm::step(p, state, x.at({t}));
    outputs.push_back(state[2]);
  }
  return mean(square(stack(outputs) - target));
}

void measure_lstm(bool looped, double seconds, const Report& report) {
  const std::string name =
      looped ? "LSTM 2x256, 512 steps, batch 32, as a scan" : "LSTM 2x256, 512 steps, batch 32, as a plain loop";
  if (!wanted(name + ": step") && !wanted(name + ": first call")) return;
  manual_seed(1);
  Lstm net;
  const Tensor x = randn({kSteps, kBatch, kWidth}).realize(), target = randn({kSteps, kBatch, kWidth}).realize();
  TensorList p = net.parameters();
  auto step = jit([&](const Tensor& input, const Tensor& wanted_output) {
    auto [loss, g] = value_and_grad([&](const TensorList& q) { return lstm_loss(q, input, wanted_output, looped); })(p);
    for (size_t i = 0; i < p.size(); ++i) p[i] -= 0.01 * g[i];
    return loss;
  });
  const double begin = now();
  step(x, target).item<float>();
  const double first = now() - begin;
  Figure called{.name = name + ": first call", .unit = "s", .ours = first, .median = first};
  called.reference = looped ? 1.5 : 3;
  called.reference_name = "bar: at most";
  called.ratio = called.reference / first;
  called.bar = 1;
  report(called);
  step(x, target);
  auto samples = take_turns(seconds, 3, {[&] { step(x, target); }});
  // Forward, and twice as much for gradients.
  const double flops = 3.0 * 2 * 2 * kBatch * (2 * kWidth) * (4 * kWidth) * kSteps;
  Figure figure{.name = name + ": step", .unit = "ms"};
  figure.ours = samples[0].best() * 1e3;
  figure.median = samples[0].median() * 1e3;
  double peak = 0;
  for (int i = 0; i < 5; ++i) peak = std::max(peak, peak_rate(Peak::F32, device().threads(), 2));
  figure.reference = flops / peak * 1e3;
  figure.reference_name = "FMA peak";
  figure.ratio = figure.reference / figure.ours;
  figure.bar = 0.6;
  report(figure);
}

void measure_newton(double seconds, const Report& report) {
  const std::string name = "while_loop: Newton's iteration, a round of 1000";
  if (!wanted(name)) return;
  const Tensor a = tensor(2.).realize();
  auto run = jit([&](const Tensor& x) {
    return while_loop([](const TensorList& c) { return c[1] < 1000; },
                      [&](const TensorList& c) { return TensorList{(c[0] + a / c[0]) / 2, c[1] + 1}; },
                      TensorList{x, zeros({}, kI32)})[0];
  });
  const Tensor x = tensor(1.).realize();
  run(x);
  auto samples = take_turns(seconds, 3, {[&] { run(x).item<float>(); }});
  Figure figure{.name = name, .unit = "us"};
  figure.ours = samples[0].best() * 1e6 / 1000;
  figure.median = samples[0].median() * 1e6 / 1000;
  figure.reference = 0.3;
  figure.reference_name = "bar: at most";
  figure.ratio = figure.reference / figure.ours;
  figure.bar = 1;
  report(figure);
}

void measure_heat(double seconds, const Report& report) {
  const std::string name = "fori_loop: heat equation 512x512, a step of 1000";
  if (!wanted(name)) return;
  auto step = [](const Tensor& v) {
    return v + 0.1 * (roll(v, 1, 0) + roll(v, -1, 0) + roll(v, 1, 1) + roll(v, -1, 1) - 4 * v);
  };
  const Tensor u = randn({512, 512}).realize();
  auto one = jit([&](const Tensor& v) { return step(v); });
  auto many = jit(
      [&](const Tensor& v) { return fori_loop(0, 1000, [&](const Tensor&, const Tensor& w) { return step(w); }, v); });
  one(u);
  many(u);
  auto samples = take_turns(seconds, 3,
                            {[&] { many(u); },
                             [&] {
                               Tensor v = u;
                               for (int i = 0; i < 1000; ++i) v = one(v);
                             }});
  Figure figure{.name = name, .unit = "us"};
  figure.ours = samples[0].best() * 1e3;
  figure.median = samples[0].median() * 1e3;
  figure.reference = samples[1].best() * 1e3;
  figure.reference_name = "one captured step";
  figure.ratio = figure.reference / figure.ours;
  figure.bar = 0.7;
  report(figure);
}

}  // namespace

void measure_control(double seconds, const Report& report) {
  measure_newton(seconds, report);
  measure_heat(seconds, report);
  measure_lstm(true, seconds, report);
  measure_lstm(false, seconds, report);
}

}  // namespace heddle::tools
