// One captured function that several threads call.
#include <heddle/heddle.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.h"
#include "tools/bench.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

// Calls a second by so many threads.
template <class F>
double rate(const F& f, int threads, double seconds) {
  std::atomic<int> ready{0};
  std::atomic<bool> stop{false};
  std::atomic<int64_t> calls{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&] {
      Tensor x = randn({4, 64}).realize();
      for (int i = 0; i < 10; ++i) f(x);
      ++ready;
      while (ready <= threads) std::this_thread::yield();
      int64_t mine = 0;
      for (; !stop.load(std::memory_order_relaxed); ++mine) f(x);
      calls += mine;
    });
  while (ready < threads) std::this_thread::yield();
  double start = now();
  ++ready;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  double end = now();
  for (std::thread& thread : all) thread.join();
  return static_cast<double>(calls) / (end - start);
}

}  // namespace

// Layers so small that a call alone stays on its thread. Each thread wants a core: on a machine with other work this
// says little.
void measure_cliffs_of_threads(double seconds, const Report& report) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  Tensor w = randn({64, 64}).realize(), b = randn({64}).realize();
  auto f = jit([&](const Tensor& x) {
    Tensor h = x;
    for (int layer = 0; layer < 8; ++layer) h = tanh(matmul(h, w) + b);
    return h;
  });
  for (int threads : {2, 4}) {
    std::string name = text("8 layers of 64, jit, by ", threads, " threads");
    if (!wanted(name)) continue;
    double one = 0;
    Samples many;
    const int turns = seconds < 0 ? 1 : std::max(3, static_cast<int>(seconds / 0.1));
    for (int i = 0; i < turns; ++i) {
      one = std::max(one, rate(f, 1, 0.05));
      many.seconds.push_back(1 / rate(f, threads, 0.05));
    }
    Figure figure{.name = name, .unit = "k calls/s"};
    figure.ours = 1e-3 / many.best();
    figure.median = 1e-3 / many.median();
    figure.reference = one * 1e-3;
    figure.reference_name = "one thread";
    figure.ratio = figure.ours / figure.reference;
    if (cores >= threads) figure.bar = 0.9 * threads;
    report(figure);
  }
}

}  // namespace heddle::tools
