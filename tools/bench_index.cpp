// Rows chosen by an index, and rows added to where an index says, against a copy of the same number of bytes.
#include <heddle/heddle.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "runtime/device.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"
#include "tools/reference.h"

namespace heddle::tools {
namespace {

Tensor random_index(int64_t count, int64_t below) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> places(0, below - 1);
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t& v : values) v = places(random);
  return from_vector(values, {count});
}

struct IndexCase {
  const char* name;
  double bar;
  std::function<Tensor()> make;
};

}  // namespace

void measure_index(double seconds, const Report& report) {
  constexpr int64_t kRows = 1 << 20, kWidth = 64;
  constexpr uint64_t kBytes = kRows * kWidth * sizeof(float);
  Backend& cpu = device("cpu");
  auto from = cpu.allocate(kBytes), to = cpu.allocate(kBytes);
  copy_with_memcpy(from->address(), to->address(), kBytes, 1);  // touches the pages
  Tensor x = randn({kRows, kWidth}).realize(), rows = random_index(kRows, kRows), ids = random_index(kRows, 50000);
  Tensor table = randn({50000, kWidth}).realize();
  Tensor line = randn({kRows * 16}).realize(), places = random_index(kRows * 16, kRows * 16);
  const IndexCase cases[] = {
      {"gather, 1M rows x 64", 0.5, [&] { return gather(x, rows); }},
      {"embedding, 1M ids, 50000 rows x 64", 0.5, [&] { return embedding(table, ids); }},
      {"scatter_add, 1M rows x 64", 0.25, [&] { return index_add(zeros({kRows, kWidth}), 0, rows, x); }},
      {"scatter, 1M rows x 64", 0.25, [&] { return index_copy(zeros({kRows, kWidth}), 0, rows, x); }},
      {"gather, 16M single elements", 0, [&] { return gather(line, places); }},
      {"scatter_add, 16M single elements", 0, [&] { return index_add(zeros({kRows * 16}), 0, places, line); }},
  };
  for (const IndexCase& which : cases) {
    if (!wanted(which.name)) continue;
    Figure figure{.name = which.name, .unit = "GB/s"};
    run_stats() = {};
    double bytes = static_cast<double>(which.make().realize().numel()) * 2 * sizeof(float);
    char note[60];
    std::snprintf(note, sizeof note, "%lu launch%s", static_cast<unsigned long>(run_stats().launches),
                  run_stats().launches == 1 ? "" : "es");
    figure.note = note;
    auto half = static_cast<uint64_t>(bytes / 2);
    auto samples = take_turns(seconds, 3,
                              {[&] { which.make().realize(); },
                               [&] { copy_with_memcpy(to->address(), from->address(), half, cpu.threads()); },
                               [&] { copy_streaming(to->address(), from->address(), half, cpu.threads()); }});
    const double giga = 1e-9;
    figure.ours = bytes / samples[0].best() * giga;
    figure.median = bytes / samples[0].median() * giga;
    double copied = bytes / samples[1].best() * giga, streamed = bytes / samples[2].best() * giga;
    figure.reference = std::max(copied, streamed);
    figure.reference_name = copied > streamed ? "memcpy" : "streaming copy";
    figure.ratio = figure.ours / figure.reference;
    if (which.bar > 0) figure.bar = which.bar;
    report(figure);
  }
}

}  // namespace heddle::tools
