// A program of a hundred different kernels in a new process: with an empty disk cache, and with what that left behind.
#include <heddle/heddle.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/many_graphs.h"
#include "tools/measure.h"
#include "tools/process.h"

namespace heddle::tools {
namespace {

constexpr int kKernels = 100;

// Kernels like those of a training step: now and then a product with something around it.
Tensor kernel_number(int number, const Tensor& x, const Tensor& y, const Tensor& w) {
  return number % 6 == 4 ? tanh(matmul(x, w) + y) : graph_number(number, x, y);
}

struct Ready {
  double seconds = 0;
  int64_t kernels = 0;
};

Ready run_program() {
  Ready ready;
  int code = run_self({"first-program"}, [&](const std::string& line) {
    std::sscanf(line.c_str(), "%ld %lf", &ready.kernels, &ready.seconds);
  });
  if (code != 0 || ready.kernels < kKernels) throw Error(text("bench: first-program ended with exit code ", code));
  return ready;
}

}  // namespace

void first_program() {
  std::vector<Tensor> results;
  for (int i = 0; i < kKernels; ++i) {
    Tensor x = full({100 + i % 13, 140 + i}, 0.75).realize(), y = full({140 + i}, 1.25).realize();
    Tensor w = i % 6 == 4 ? full({140 + i, 140 + i}, 0.5).realize() : y;
    results.push_back(kernel_number(i, x, y, w));
  }
  run_stats() = {};
  double start = now();
  realize(results);
  std::printf("%ld %.6f\n", static_cast<long>(run_stats().launches), now() - start);
}

void measure_disk_cache(double seconds, const Report& report) {
  const char *cold_name = "100 kernels ready, cold disk cache", *warm_name = "100 kernels ready, warm disk cache";
  const bool cold_wanted = wanted(cold_name), warm_wanted = wanted(warm_name);
  if (!cold_wanted && !warm_wanted) return;
  std::string folder = (std::filesystem::temp_directory_path() / "heddle-bench-XXXXXX").string();
  if (!mkdtemp(folder.data())) throw Error(text("cannot make a folder ", folder));
  const char* before = std::getenv("HEDDLE_CACHE");
  std::string restored = before ? before : "";
  setenv("HEDDLE_CACHE", (folder + "/cache.sqlite").c_str(), 1);
  struct Figures {
    Samples samples;
    int64_t kernels = 0;
  } cold, warm;
  double end = now() + 2 * seconds;
  for (int round = 0; round < 3 || now() < end; ++round) {
    // Each cold start is followed by a warm one.
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator(folder)) std::filesystem::remove(file.path(), ignored);
    for (Figures* which : {&cold, &warm}) {
      Ready ready = run_program();
      which->samples.seconds.push_back(ready.seconds / static_cast<double>(ready.kernels) * 1e3);
      which->kernels = ready.kernels;
    }
  }
  std::filesystem::remove_all(folder);
  if (before)
    setenv("HEDDLE_CACHE", restored.c_str(), 1);
  else
    unsetenv("HEDDLE_CACHE");
  for (const auto& [name, which, most, asked] :
       {std::tuple{cold_name, &cold, 80.0, cold_wanted}, {warm_name, &warm, 15.0, warm_wanted}}) {
    if (!asked) continue;
    Figure figure{.name = name, .unit = "ms per kernel"};
    figure.ours = which->samples.best();
    figure.median = which->samples.median();
    figure.reference = most;
    figure.reference_name = "bar: at most";
    figure.ratio = most / figure.ours;
    figure.bar = 1;
    figure.note = text(which->kernels, " kernels in one graph, planned and compiled on all cores, and run once");
    report(figure);
  }
}

}  // namespace heddle::tools
