// What the library itself costs: recording, launching, compiling, starting. The references are the bars.
#include <heddle/heddle.h>

#include <cstdio>
#include <functional>

#include "base/error.h"
#include "runtime/kernel_cache.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"
#include "tools/process.h"

namespace heddle::tools {
namespace {

Figure time_figure(const std::string& name, const std::string& unit, double ours, double median, double most) {
  Figure figure{name, unit, ours, median, most, "bar: at most", most / ours, 1.0, ""};
  return figure;
}

Tensor numbers(const Dims& shape) { return uniform(shape, 0.5, 1.5).realize(); }

// Records `count` operators and forgets them.
void record_adds(const Tensor& start, const Tensor& y, int count) {
  Tensor x = start;
  for (int i = 0; i < count; ++i) x = x + y;
}

void record_mixture(const Tensor& start, const Tensor& y, int count) {
  Tensor x = start;
  for (int i = 0; i < count; i += 4) x = maximum(tanh(x * y + y), y);
}

void measure_recording(double seconds, const Report& report) {
  struct Case {
    const char* name;
    void (*record)(const Tensor&, const Tensor&, int);
    int count;
  };
  static constexpr Case kCases[] = {
      {"recording x = x + y", record_adds, 10'000},
      {"recording x = x + y, a million", record_adds, 1'000'000},
      {"recording max(tanh(x * y + y), y)", record_mixture, 10'000},
  };
  Tensor start = numbers({16}), y = numbers({16});
  for (const Case& which : kCases) {
    if (!wanted(which.name)) continue;
    auto samples = take_turns(seconds, 3, {[&] { which.record(start, y, which.count); }});
    Figure figure{.name = which.name, .unit = "million/s"};
    figure.ours = which.count / samples[0].best() * 1e-6;
    figure.median = which.count / samples[0].median() * 1e-6;
    figure.reference = 3;
    figure.reference_name = "bar: at least";
    figure.ratio = figure.ours / figure.reference;
    figure.bar = 1;
    figure.note = "built and destroyed";
    report(figure);
  }
}

void measure_small_add(double seconds, const Report& report) {
  constexpr int kCount = 1000;
  const char* name = "a + b on 16 floats, cached";
  if (!wanted(name)) return;
  Tensor a = numbers({16}), b = numbers({16});
  auto samples = take_turns(seconds, 3, {[&] {
                              for (int i = 0; i < kCount; ++i) (a + b).realize();
                            }});
  double micro = 1e6 / kCount;
  report(time_figure(name, "us", samples[0].best() * micro, samples[0].median() * micro, 5));
}

// The same small function, recorded at each call and captured; the bar is that of the recorded one.
void measure_replay(double seconds, const Report& report) {
  constexpr int kCount = 1000;
  const char* name = "x * w + 1 on 1024 floats, jit";
  if (!wanted(name)) return;
  Tensor x = numbers({1024}), w = numbers({1024});
  auto captured = jit([&](const Tensor& given) { return given * w + 1; });
  captured(x);
  auto samples = take_turns(seconds, 3,
                            {[&] {
                               for (int i = 0; i < kCount; ++i) captured(x);
                             },
                             [&] {
                               for (int i = 0; i < kCount; ++i) (x * w + 1).realize();
                             }});
  double micro = 1e6 / kCount;
  Figure figure{.name = name, .unit = "us"};
  figure.ours = samples[0].best() * micro;
  figure.median = samples[0].median() * micro;
  figure.reference = samples[1].best() * micro;
  figure.reference_name = "without jit";
  figure.ratio = figure.reference / figure.ours;
  figure.bar = 1;
  figure.note = "one launch, replayed";
  report(figure);
}

// Rows and columns of a matrix are made to sum up to one in turn: each kernel needs all of the one before.
void measure_dependent_kernels(double seconds, const Report& report) {
  constexpr int kKernels = 32, kCount = 50;
  for (int64_t size : {16, 96}) {
    const std::string name = text("32 dependent kernels on ", size, "x", size, ", jit");
    if (!wanted(name)) continue;
    Tensor x = numbers({size, size});
    auto captured = jit([&](const Tensor& given) {
      Tensor value = given;
      for (int i = 0; i < kKernels; ++i) value = value / sum(value, {i % 2}, true);
      return value;
    });
    captured(x);
    uint64_t launches = captured.plans()[0].launches;
    if (launches != kKernels) throw Error(text("bench: ", launches, " launches in place of ", kKernels));
    auto samples = take_turns(seconds, 3, {[&] {
                                for (int i = 0; i < kCount; ++i) captured(x);
                              }});
    double micro = 1e6 / kCount / kKernels;
    Figure figure = time_figure(name, "us per kernel", samples[0].best() * micro, samples[0].median() * micro, 1.5);
    figure.note = "the kernels' own work included";
    report(figure);
  }
}

// Small graphs that differ in operators, shape and form, so that no plan and no kernel fits two of them.
constexpr int kGraphs = 40;

Tensor small_graph(int number, const Tensor& x, const Tensor& y) {
  using Function = Tensor (*)(const Tensor&);
  static constexpr Function kFunctions[] = {tanh, exp, sqrt, sigmoid, sin, log, square, reciprocal};
  Tensor value = x;
  for (int rest = number + 1; rest > 0; rest /= 3) value = kFunctions[(rest % 3 + number) % 8](value * y) + x;
  switch (number % 4) {
    case 0: return value;
    case 1: return sum(value, {-1});
    case 2: return value / sum(value, {-1}, true);
    default: return max(value, {-1}, true) - value;
  }
}

// Every graph is compiled again and again, with empty caches; the figure is the median of the graphs' best times.
void measure_compiling(double seconds, const Report& report) {
  const char* name = "new small kernel, graph to code";
  if (!wanted(name)) return;
  std::vector<Samples> of_graph(kGraphs);
  Samples all;
  uint64_t launches = 0;
  double end = now() + seconds;
  for (int round = 0; round == 0 || now() < end; ++round) {
    clear_plan_cache();
    clear_kernel_cache();
    for (int i = -1; i < kGraphs; ++i) {
      Tensor x = numbers({17 + i, 48}), y = numbers({48});
      Tensor result = i < 0 ? x - y : small_graph(i, x, y);
      run_stats() = {};
      size_t kernels = kernel_cache_size();
      double start = now();
      result.realize();
      double took = now() - start;
      if (i < 0) continue;  // warms up
      if (run_stats().plan_misses != 1 || kernel_cache_size() <= kernels)
        throw Error(text("bench: graph ", i, " was not new to the caches"));
      if (round == 0) launches += run_stats().launches;
      of_graph[static_cast<size_t>(i)].seconds.push_back(took);
      all.seconds.push_back(took);
    }
  }
  Samples best;
  for (const Samples& samples : of_graph) best.seconds.push_back(samples.best());
  Figure figure = time_figure(name, "ms", best.median() * 1e3, all.median() * 1e3, 10);
  figure.note =
      text("median over ", kGraphs, " graphs, ", launches, " kernels, each the best of ", of_graph[0].seconds.size());
  report(figure);
}

void measure_start(double seconds, const Report& report) {
  const char* name = "process start to first result";
  if (!wanted(name)) return;
  Samples samples;
  double end = now() + seconds;
  for (int round = -1; round < 5 || now() < end; ++round) {
    double start = now(), took = -1;
    int code = run_self({"first-result"}, [&](const std::string&) {
      if (took < 0) took = now() - start;
    });
    if (code != 0 || took < 0) throw Error(text("bench: first-result ended with exit code ", code));
    if (round >= 0) samples.seconds.push_back(took);  // the first one warms up
  }
  double median = samples.median() * 1e3;
  Figure figure = time_figure(name, "ms", median, median, 80);
  figure.note = text("median of ", samples.seconds.size());
  report(figure);
}

}  // namespace

void first_result() {
  std::vector<float> values(1024);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 1024;
  Tensor x = from_vector(values, {32, 32});
  std::printf("%g\n", static_cast<double>(sum(tanh(x * 2 + 1)).item<float>()));
  std::fflush(stdout);
}

void measure_overhead(double seconds, const Report& report) {
  measure_recording(seconds, report);
  measure_small_add(seconds, report);
  measure_replay(seconds, report);
  measure_dependent_kernels(seconds, report);
  measure_compiling(seconds, report);
  measure_start(seconds, report);
  measure_disk_cache(seconds, report);
}

}  // namespace heddle::tools
