// Ordinary programs that a rule of the compiler may make very slow: each against what the same bytes, or fewer of the
// same steps, take in the same run.
#include <heddle/heddle.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "base/error.h"
#include "runtime/kernel_cache.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

struct Cliff {
  std::string name;
  double bar;      // the least ratio
  double allowed;  // the reference counts so many times
  std::function<void()> ours, than;
  std::string than_name;
};

void measure(const Cliff& which, double seconds, const Report& report) {
  if (!wanted(which.name)) return;
  run_stats() = {};
  which.ours();
  uint64_t launches = run_stats().launches;
  auto samples = take_turns(seconds, 3, {which.ours, which.than});
  Figure figure{.name = which.name, .unit = "ms"};
  figure.ours = samples[0].best() * 1e3;
  figure.median = samples[0].median() * 1e3;
  figure.reference = samples[1].best() * which.allowed * 1e3;
  figure.reference_name = which.than_name;
  figure.ratio = figure.reference / figure.ours;
  figure.bar = which.bar;
  figure.note = text(launches, launches == 1 ? " launch" : " launches");
  report(figure);
}

// The first call of a function that no cache knows.
void measure_first(const std::string& name, const std::function<Tensor()>& make, double most, const Report& report) {
  if (!wanted(name)) return;
  Samples samples;
  for (int i = 0; i < 3; ++i) {
    clear_plan_cache();
    clear_kernel_cache();
    Tensor result = make();
    double start = now();
    result.realize();
    samples.seconds.push_back(now() - start);
  }
  Figure figure{.name = name, .unit = "ms"};
  figure.ours = samples.best() * 1e3;
  figure.median = samples.median() * 1e3;
  figure.reference = most;
  figure.reference_name = "bar: at most";
  figure.ratio = figure.reference / figure.ours;
  figure.bar = 1;
  report(figure);
}

Tensor heat_step(const Tensor& u) {
  Tensor around = roll(u, {1}, {0}) + roll(u, {-1}, {0}) + roll(u, {1}, {1}) + roll(u, {-1}, {1});
  return u + 0.1f * (around - 4 * u);
}

// Rolls and paddings of an image against `x * 2` of it: as many bytes.
void measure_moves(double seconds, const Report& report) {
  Tensor x = randn({1080, 1920}).realize();
  auto twice = [x] { (x * 2).realize(); };
  auto against_copy = [&](const std::string& name, std::function<Tensor()> make) {
    measure({name, 0.5, 1, [make] { make().realize(); }, twice, "x * 2"}, seconds, report);
  };
  against_copy("roll(x, {3, 5}, {0, 1}), 1080x1920", [x] { return roll(x, {3, 5}, {0, 1}); });
  against_copy("reflect padding by 3, 1080x1920", [x] { return pad(x, {{3, 3}, {3, 3}}, PadMode::Reflect); });
  against_copy("circular padding by 3, 1080x1920", [x] { return pad(x, {{3, 3}, {3, 3}}, PadMode::Circular); });
  against_copy("zero padding by 3, 1080x1920", [x] { return pad(x, {{3, 3}, {3, 3}}); });
  against_copy("cat of flips, 1080x1920", [x] { return cat({flip(slice(x, 1, 0, 700), {1}), slice(x, 1, 700)}, 1); });
  auto one = jit([](const Tensor& u) { return heat_step(u); });
  auto two = jit([](const Tensor& u) { return heat_step(heat_step(u)); });
  measure({"heat step of rolls, 1080x1920", 0.5, 1, [&] { one(x); }, twice, "x * 2"}, seconds, report);
  measure({"two heat steps, 1080x1920", 1, 2.2, [&] { two(x); }, [&] { one(x); }, "2.2 x one step"}, seconds, report);
}

// Results below the normal numbers, and where a mask excludes: as long as ordinary ones.
void measure_underflow(double seconds, const Report& report) {
  Tensor ordinary = randn({256, 256}).realize(), tiny = (ordinary - 95).realize(), large = (ordinary + 95).realize();
  auto against = [&](const std::string& name, std::function<Tensor(const Tensor&)> function, const Tensor& x) {
    auto captured = jit([function](const Tensor& given) { return function(given); });
    auto calls = [captured](const Tensor& given) mutable {
      for (int i = 0; i < 10; ++i) captured(given);
    };
    measure({name, 0.5, 1, [=]() mutable { calls(x); }, [=]() mutable { calls(ordinary); }, "of ordinary numbers"},
            seconds, report);
  };
  against("exp of -95, 256x256", [](const Tensor& x) { return exp(x); }, tiny);
  against(
      "exp of -inf, 256x256", [](const Tensor& x) { return exp(x); },
      full({256, 256}, -std::numeric_limits<double>::infinity()).realize());
  against("sigmoid of 95, 256x256", [](const Tensor& x) { return sigmoid(x); }, large);
  against("pow(2, -140), 256x256", [](const Tensor& x) { return pow(2., x); }, (ordinary - 140).realize());
  Tensor mask = tril(ones({256, 256}, kBool)).realize();
  against(
      "softmax under a causal mask, 256x256", [](const Tensor& x) { return softmax(x, -1); },
      where(mask, ordinary, -std::numeric_limits<double>::infinity()).realize());
}

void measure_stacks(double seconds, const Report& report) {
  auto rows = std::make_shared<std::vector<Tensor>>();
  for (int i = 0; i < 1000; ++i) rows->push_back(randn({1000}).realize());
  Tensor same = randn({1000, 1000}).realize();
  auto copy = [same] { (same * 2).realize(); };
  auto make = [rows] { return stack(*rows); };
  auto captured = jit([](const std::vector<Tensor>& parts) { return stack(parts); });
  measure({"stack of 1000 rows of 1000, jit", 0.5, 1, [&] { captured(*rows); }, copy, "x * 2"}, seconds, report);
  measure_first("stack of 1000 rows of 1000, first call", make, 200, report);
  auto scaled = jit([](const std::vector<Tensor>& parts) {
    std::vector<Tensor> all;
    for (const Tensor& part : parts) all.push_back(part * 2 + 1);
    return stack(all, 1);
  });
  measure({"columns of 1000 rows * 2 + 1, jit", 0, 1, [&] { scaled(*rows); }, copy, "x * 2"}, seconds, report);
}

// Gradients of an LSTM that is written as a loop over its inputs.
struct Lstm {
  Tensor input, recurrent, bias;

  Tensor loss(const Tensor& x) const {
    const int64_t batch = x.size(0), steps = x.size(1), width = recurrent.size(0);
    Tensor h = zeros({batch, width}), c = zeros({batch, width});
    std::vector<Tensor> all;
    for (int64_t t = 0; t < steps; ++t) {
      Tensor gates = matmul(select(x, 1, t), input) + matmul(h, recurrent) + bias;
      auto gate = [&](int64_t i) { return slice(gates, 1, i * width, (i + 1) * width); };
      c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * tanh(gate(2));
      h = sigmoid(gate(3)) * tanh(c);
      all.push_back(h);
    }
    return mean(square(stack(all, 1)));
  }
};

void measure_lstm(double seconds, const Report& report) {
  constexpr int64_t kBatch = 16, kWidth = 64;
  Lstm cell{(randn({kWidth, 4 * kWidth}) * 0.1).realize(), (randn({kWidth, 4 * kWidth}) * 0.1).realize(),
            zeros({4 * kWidth}).realize()};
  auto step_of = [&](int64_t steps) {
    Tensor x = randn({kBatch, steps, kWidth}).realize();
    auto step = jit([](const Tensor& given, const Tensor& input, const Tensor& recurrent, const Tensor& bias) {
      std::vector<Tensor> weights{input, recurrent, bias, given};
      return grad([](const std::vector<Tensor>& w) { return Lstm{w[0], w[1], w[2]}.loss(w[3]); })(weights);
    });
    return std::function<void()>([=]() mutable { step(x, cell.input, cell.recurrent, cell.bias); });
  };
  for (int64_t steps : {16, 32, 64}) {
    std::string name = text("gradients of an unrolled LSTM, T = ", steps);
    if (!wanted(name)) continue;
    double times = static_cast<double>(steps) / 8 * 1.25;
    measure({name, 1, times, step_of(steps), step_of(8), text(times, " x T = 8")}, seconds, report);
  }
}

}  // namespace

void measure_cliffs(double seconds, const Report& report) {
  measure_moves(seconds, report);
  measure_underflow(seconds, report);
  measure_stacks(seconds, report);
  measure_lstm(seconds, report);
  measure_cliffs_of_numbers(seconds, report);
  measure_cliffs_of_threads(seconds, report);
}

}  // namespace heddle::tools
