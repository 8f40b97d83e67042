// Work bound by memory, against copies of the same number of bytes.
#include <heddle/heddle.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"
#include "tools/reference.h"

namespace heddle::tools {
namespace {

constexpr int64_t kRows = 32768, kColumns = 4096;
constexpr uint64_t kBytes = uint64_t{kRows} * kColumns * sizeof(float);  // 512 MiB
constexpr double kBar = 0.7;

using Tensors = std::vector<Tensor>;

Tensors softmax_rows(const Tensor& x) { return {softmax(x, -1)}; }

// As a user would write it, without knowing how it is best computed.
Tensors layer_norm_rows(const Tensor& x) {
  Tensor centred = x - mean(x, {-1}, true);
  return {centred * rsqrt(mean(centred * centred, {-1}, true) + 1e-5)};
}

Tensors tanh_chain(const Tensor& x) { return {tanh(x * 2 + 1)}; }
Tensors exp_chain(const Tensor& x) { return {exp(x * x * -0.5) * (x + 1)}; }
Tensors mean_and_variance(const Tensor& x) { return {mean(x, {-1}), var(x, {-1})}; }

struct Case {
  const char* name;
  Tensors (*make)(const Tensor&);
  bool reads_only;  // hardly writes: compared with reading as well
};
constexpr Case kCases[] = {
    {"softmax", softmax_rows, false},
    {"layernorm, plain tensor code", layer_norm_rows, false},
    {"tanh(x * 2 + 1)", tanh_chain, false},
    {"exp(x * x * -0.5) * (x + 1)", exp_chain, false},
    {"mean and variance", mean_and_variance, true},
};

// The value is thrown away after each turn, so that the next one finds its memory in the pool.
void run(const Case& which, const Tensor& x) { realize(which.make(x)); }

// Bytes of the input and of all results.
uint64_t least_bytes(const Case& which, const Tensor& x) {
  uint64_t bytes = kBytes;
  for (const Tensor& result : which.make(x))
    bytes += static_cast<uint64_t>(result.numel()) * static_cast<uint64_t>(size_of(result.dtype()));
  return bytes;
}

std::string describe_run(const Case& which, const Tensor& x, uint64_t bytes) {
  run_stats() = {};
  run(which, x);
  RunStats stats = run_stats();
  char line[80];
  std::snprintf(line, sizeof line, "%lu launch%s, %.2f x the bytes", static_cast<unsigned long>(stats.launches),
                stats.launches == 1 ? "" : "es",
                static_cast<double>(stats.bytes_read + stats.bytes_written) / static_cast<double>(bytes));
  return line;
}

}  // namespace

void measure_memory(double seconds, const Report& report) {
  Device& cpu = device("cpu");
  int threads = cpu.threads();
  Tensor x = randn({kRows, kColumns}).realize();
  const void* from = x.data<float>().data();
  std::shared_ptr<DeviceBuffer> to = cpu.allocate(kBytes);  // the same kind of pages as tensors have

  for (const Case& which : kCases) {
    auto bytes = static_cast<double>(least_bytes(which, x));
    std::string note = describe_run(which, x, static_cast<uint64_t>(bytes));
    auto samples = take_turns(seconds, 3,
                              {[&] { run(which, x); }, [&] { copy_with_memcpy(to->address(), from, kBytes, threads); },
                               [&] { copy_streaming(to->address(), from, kBytes, threads); },
                               [&] {
                                 if (which.reads_only) read_all(from, kBytes, threads);
                               }});
    const double giga = 1e-9;
    Figure figure{.name = which.name, .unit = "GB/s"};
    figure.ours = bytes / samples[0].best() * giga;
    figure.median = bytes / samples[0].median() * giga;
    // A copy reads and writes.
    double memcpy_rate = 2.0 * kBytes / samples[1].best() * giga, stream_rate = 2.0 * kBytes / samples[2].best() * giga;
    figure.reference = std::max(memcpy_rate, stream_rate);
    figure.reference_name = memcpy_rate > stream_rate ? "memcpy of the same bytes" : "streaming copy of the same bytes";
    figure.ratio = figure.ours / figure.reference;
    figure.bar = kBar;
    figure.note = note;
    report(figure);
    if (!which.reads_only) continue;
    figure.name += ", to reading";
    figure.reference = kBytes / samples[3].best() * giga;
    figure.reference_name = "reading the input";
    figure.ratio = figure.ours / figure.reference;
    figure.bar.reset();
    figure.note.clear();
    report(figure);
  }
}

}  // namespace heddle::tools
