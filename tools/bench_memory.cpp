// Work bound by memory on large tensors, against a copy, or a reading, of the same number of bytes.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"
#include "tools/memory_cases.h"
#include "tools/peers.h"
#include "tools/reference.h"

namespace heddle::tools {
namespace {

struct Bars {
  double full, transpose;
};

// Memory that the references work on: the same kind of pages as tensors have.
struct Reference {
  explicit Reference(uint64_t size)
      : bytes(size), from(device("cpu").allocate(size)), to(device("cpu").allocate(size)) {
    copy_with_memcpy(from->address(), to->address(), bytes, 1);  // touches the pages
  }
  uint64_t bytes;
  std::shared_ptr<DeviceBuffer> from, to;
};

// The value is thrown away after each turn, so that the next one finds its memory in the pool.
void run(const MemoryCase& which, const Tensor& x, const Tensor& y) { realize(which.make(x, y)); }

std::string describe_run(const MemoryCase& which, const Tensor& x, const Tensor& y, double bytes) {
  run_stats() = {};
  run(which, x, y);
  RunStats stats = run_stats();
  char line[80];
  std::snprintf(line, sizeof line, "%lu launch%s, %.2f x the bytes", static_cast<unsigned long>(stats.launches),
                stats.launches == 1 ? "" : "es", static_cast<double>(stats.bytes_read + stats.bytes_written) / bytes);
  return line;
}

// PyTorch and others on the same work, where they are asked for: after ours, because they need as much memory again.
void compare_with_peers(const MemoryCase& which, const Tensor& x, double bytes, double seconds, Figure& figure) {
  if (peers_python().empty()) return;
  static Peers peers(device("cpu").threads(), peers_python(), false);
  nlohmann::json row{{"work", "memory"},
                     {"name", which.name},
                     {"dtype", name(x.dtype())},
                     {"rows", x.size(0)},
                     {"columns", x.size(1)}};
  figure.about_peers = peers.about();
  for (const PeerTimes& times : peers.compare(row, seconds).peers) {
    PeerFigure& peer = figure.peers.emplace_back(PeerFigure{times.name});
    peer.note = times.skip;
    if (!times.skip.empty()) continue;
    peer.best = bytes / times.samples.best() * 1e-9;
    peer.median = bytes / times.samples.median() * 1e-9;
  }
}

void measure_case(const MemoryCase& which, const std::string& label, const Tensor& x, const Tensor& y,
                  const Reference& reference, Bars bars, double seconds, const Report& report) {
  std::string name = which.name + label;
  if (!wanted(name)) return;
  int threads = device("cpu").threads();
  auto bytes = static_cast<double>(least_bytes(which, x, y));
  Figure figure{.name = name, .unit = "GB/s"};
  figure.note = describe_run(which, x, y, bytes);
  void* to = reference.to->address();
  const void* from = reference.from->address();
  bool reads = which.bound == Bound::Read;
  auto samples = take_turns(seconds, 3,
                            {[&] { run(which, x, y); },
                             [&] {
                               if (reads) return read_all(from, reference.bytes, threads);
                               copy_with_memcpy(to, from, reference.bytes, threads);
                             },
                             [&] {
                               if (!reads) copy_streaming(to, from, reference.bytes, threads);
                             }});
  const double giga = 1e-9;
  figure.ours = bytes / samples[0].best() * giga;
  figure.median = bytes / samples[0].median() * giga;
  auto reference_bytes = static_cast<double>(reference.bytes);
  if (reads) {
    figure.reference = reference_bytes / samples[1].best() * giga;
    figure.reference_name = "reading";
  } else {  // a copy reads and writes
    double memcpy_rate = 2 * reference_bytes / samples[1].best() * giga;
    double stream_rate = 2 * reference_bytes / samples[2].best() * giga;
    figure.reference = std::max(memcpy_rate, stream_rate);
    figure.reference_name = memcpy_rate > stream_rate ? "memcpy" : "streaming copy";
  }
  figure.ratio = figure.ours / figure.reference;
  compare_with_peers(which, x, bytes, seconds, figure);
  figure.bar = which.bound == Bound::Transpose ? bars.transpose : bars.full;
  report(figure);
}

std::string shape_label(const Tensor& x) { return text(", ", x.size(0), " x ", x.size(1)); }

}  // namespace

void measure_memory(double seconds, const Report& report) {
  constexpr int64_t kNumel = int64_t{1} << 27;  // 512 MiB of f32
  constexpr Bars kBars{0.85, 0.6};
  Reference reference(kNumel * sizeof(float));
  auto measure = [&](std::span<const MemoryCase> cases, int64_t columns, bool say_shape) {
    bool any = std::any_of(cases.begin(), cases.end(), [](const MemoryCase& c) { return wanted(c.name); });
    if (!any) return;
    Tensor x = randn({kNumel / columns, columns}).realize(), y = randn({kNumel / columns, columns}).realize();
    for (const MemoryCase& which : cases)
      measure_case(which, say_shape ? shape_label(x) : "", x, y, reference, kBars, seconds, report);
  };
  measure(elementwise_cases(), 4096, false);
  for (int64_t columns : {64, 512, 4096, 65536}) measure(row_cases(), columns, true);
  measure(reduce_cases(), 4096, false);
  measure(scan_cases(), 4096, false);
  measure(move_cases(), 4096, false);
}

void measure_odd(double seconds, const Report& report) {
  constexpr Bars kBars{0.7, 0.5};
  constexpr int64_t kRows = 8191, kColumns = 8209;  // both prime, 67 million elements
  Reference reference(kRows * kColumns * sizeof(float));
  for (DType dtype : {kF32, kBF16, kF16, kI8}) {
    bool floats = dtype != kI8;
    Tensor source = randn({kRows, kColumns}) * (floats ? 1 : 40);
    Tensor x = source.cast(dtype).realize(), y = (source * 0.5 + 1).cast(dtype).realize();
    std::string label = text(", ", name(dtype));
    for (auto cases : {elementwise_cases(), row_cases(), reduce_cases(), scan_cases()})
      for (const MemoryCase& which : cases)
        if (floats || !which.floats_only) measure_case(which, label, x, y, reference, kBars, seconds, report);
    measure_case(move_cases()[0], label, x, y, reference, kBars, seconds, report);
  }
}

}  // namespace heddle::tools
