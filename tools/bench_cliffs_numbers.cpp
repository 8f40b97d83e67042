// Programs in which a number or a size is another one at each call: what a call takes when nothing is compiled for it.
#include <heddle/heddle.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

// Calls f with one number after the other. The first few may compile, the others not.
void measure_calls(const std::string& name, double most, const std::function<void(int64_t)>& f, double seconds,
                   const Report& report) {
  if (!wanted(name)) return;
  constexpr int kFirst = 5, kCount = 1000;
  int64_t number = 2;
  for (int i = 0; i < kFirst; ++i) f(number++);
  run_stats() = {};
  auto samples = take_turns(seconds, 3, {[&] {
                              for (int i = 0; i < kCount; ++i) f(number++);
                            }});
  Figure figure{.name = name, .unit = "us"};
  figure.ours = samples[0].best() * 1e6 / kCount;
  figure.median = samples[0].median() * 1e6 / kCount;
  figure.reference = most;
  figure.reference_name = "bar: at most";
  figure.ratio = figure.reference / figure.ours;
  figure.bar = 1;
  figure.note = text(run_stats().plan_misses, " plans after the first ", kFirst, " calls");
  report(figure);
}

void measure_numbers(double seconds, const Report& report) {
  Tensor x = uniform({1024}, 0.5, 1.5).realize(), labels = arange(1024, kI64).realize();
  auto scaled = jit([x](const Tensor& by) { return x * by; });
  auto summed = jit([](const Tensor& part) { return sum(part * 2); });
  measure_calls("f(scalar(p)), new p", 5, [&](int64_t p) { scaled(scalar(p)); }, seconds, report);
  measure_calls("f(full({}, p)), new p", 5, [&](int64_t p) { scaled(full({}, p)); }, seconds, report);
  measure_calls(
      "f(x.slice(0, 64 i, 64 (i + 1))), new i", 5,
      [&](int64_t p) { summed(x.slice(0, p % 16 * 64, (p % 16 + 1) * 64)); }, seconds, report);
  measure_calls("labels == i, new i", 5, [&](int64_t p) { (labels == p).realize(); }, seconds, report);
  measure_calls("roll(x, i), new i", 5, [&](int64_t p) { roll(x, {p % 1023 + 1}, {0}).realize(); }, seconds, report);
}

// A decoder of two layers that keeps keys and values in tensors of 512 rows and looks at those that are there.
struct CachedLayer {
  Tensor query, key, value, out, keys, values;
};

constexpr int64_t kWidth = 128, kTokens = 512;

Tensor decode(std::vector<CachedLayer>& layers, const Tensor& token, int64_t at, const Dim& n) {
  Tensor h = token;
  std::vector<Tensor> all;
  for (CachedLayer& layer : layers) {
    layer.keys.set({Slice(at, at + 1)}, matmul(h, layer.key));
    layer.values.set({Slice(at, at + 1)}, matmul(h, layer.value));
    Tensor keys = layer.keys.slice(0, 0, at + 1).with_dim(0, n),
           values = layer.values.slice(0, 0, at + 1).with_dim(0, n);
    Tensor scores = matmul(matmul(h, layer.query), transpose(keys)) / std::sqrt(static_cast<double>(kWidth));
    h = h + matmul(matmul(softmax(scores, -1), values), layer.out);
    all.push_back(layer.keys);
    all.push_back(layer.values);
  }
  all.push_back(h);
  realize(all);
  return h;
}

void measure_cache(double seconds, const Report& report) {
  const std::string name = "key-value cache by slices, 2 layers of 128, to 512 tokens";
  if (!wanted(name)) return;
  auto weights = [] { return (randn({kWidth, kWidth}) * 0.1).realize(); };
  std::vector<CachedLayer> layers;
  for (int i = 0; i < 2; ++i)
    layers.push_back({weights(), weights(), weights(), weights(), zeros({kTokens, kWidth}).realize(),
                      zeros({kTokens, kWidth}).realize()});
  Dim n = dim("n", 1, kTokens);
  Tensor token = randn({1, kWidth}).realize();
  auto text_of_all = [&] {
    for (int64_t at = 0; at < kTokens; ++at) decode(layers, token, at, n);
  };
  text_of_all();
  run_stats() = {};
  auto samples = take_turns(seconds, 3, {text_of_all});
  Figure figure{.name = name, .unit = "ms a token"};
  figure.ours = samples[0].best() * 1e3 / kTokens;
  figure.median = samples[0].median() * 1e3 / kTokens;
  figure.reference = 0.3;
  figure.reference_name = "bar: at most";
  figure.ratio = figure.reference / figure.ours;
  figure.bar = 1;
  figure.note = text(run_stats().plan_misses, " plans after the first text");
  report(figure);
}

}  // namespace

void measure_cliffs_of_numbers(double seconds, const Report& report) {
  measure_numbers(seconds, report);
  measure_cache(seconds, report);
}

}  // namespace heddle::tools
