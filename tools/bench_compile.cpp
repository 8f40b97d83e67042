// Thousands of new kernels in one process: time for each, and what stays behind.
#include <heddle/heddle.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "runtime/kernel_cache.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/many_graphs.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

struct Footprint {
  double mappings = 0, resident_mb = 0;
};

Footprint footprint() {
  Footprint result;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++result.mappings;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) result.resident_mb = std::stod(line.substr(6)) / 1024;
  return result;
}

Figure at_most(const std::string& name, const std::string& unit, double ours, double most) {
  return {name, unit, ours, ours, most, "bar: at most", most / ours, 1.0, ""};
}

}  // namespace

void measure_compile(double, const Report& report) {
  // All three are measured together.
  static constexpr const char *kMean = "new kernel, mean", *kMappings = "memory mappings added",
                              *kResident = "resident memory added";
  const bool mean_wanted = wanted(kMean), mappings_wanted = wanted(kMappings), resident_wanted = wanted(kResident);
  if (!mean_wanted && !mappings_wanted && !resident_wanted) return;
  constexpr int kKernels = 2000;
  Footprint before{};
  uint64_t launches = 0;
  Samples samples;
  for (int i = -20; i < kKernels; ++i) {
    int number = i < 0 ? 5000 + i : i;  // the first few warm up
    Tensor x = uniform({16 + number % 13, 48 + number % 7}, 0.5, 1.5).realize(),
           y = uniform({48 + number % 7}).realize();
    Tensor result = graph_number(number, x, y);
    if (i == 0) before = footprint();
    run_stats() = {};
    double start = now();
    result.realize();
    double took = now() - start;
    if (i < 0) continue;
    if (run_stats().plan_misses != 1) throw Error(text("bench: graph ", i, " was not new to the caches"));
    launches += run_stats().launches;
    samples.seconds.push_back(took);
  }
  Footprint after = footprint();
  double total = 0;
  for (double s : samples.seconds) total += s;
  Figure mean = at_most(kMean, "ms", total / static_cast<double>(launches) * 1e3, 8);
  mean.median = samples.median() * 1e3;
  mean.note = text(kKernels, " graphs, ", launches, " kernels");
  if (mean_wanted) report(mean);
  if (mappings_wanted) report(at_most(kMappings, "count", after.mappings - before.mappings + 1e-9, 200));
  if (resident_wanted) report(at_most(kResident, "MB", after.resident_mb - before.resident_mb, 400));
}

}  // namespace heddle::tools
