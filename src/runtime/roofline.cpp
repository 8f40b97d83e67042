#include "runtime/roofline.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace heddle {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The shortest of as many launches as fit into `seconds`, after one that warms up.
double best_launch(Backend& device, const std::string& kernel, std::span<const BufferPart> buffers, double seconds) {
  std::shared_ptr<Executable> code = device.compile(kernel::parse(kernel));
  double best = 0;
  const double end = seconds_now() + seconds;
  for (int i = 0; i < 3 || seconds_now() < end; ++i) {
    double start = seconds_now();
    device.launch(*code, buffers, {});
    device.synchronize();
    double took = seconds_now() - start;
    if (i == 1 || (i > 1 && took < best)) best = took;
  }
  return best;
}

// Chains of multiply-adds that do not need each other: enough to hide their latency, few enough for 16 registers.
constexpr int kChains = 12;

// What a block is: on a SIMT machine a block of threads, each with vectors of its own.
struct Blocks {
  int64_t count;        // that keep the machine busy for a short while
  int64_t threads = 1;  // of a block
  std::string head() const { return threads > 1 ? text(" threads ", threads, " thread t") : ""; }
  std::string thread() const { return threads > 1 ? "t" : "0"; }
};

double measure_flops(Backend& device, const Blocks& machine, int lanes, bool fused) {
  constexpr int64_t kTurns = 2048;
  const int64_t blocks = machine.count;
  const std::string type = text("vec<", lanes, "xf32>");
  std::string initial, body, yielded, results, stores;
  for (int c = 0; c < kChains; ++c) {
    const char* comma = c ? ", " : "";
    initial += text(comma, "%a", c, " = %one");
    results += text(comma, "%r", c);
    yielded += text(comma, "%b", c);
    body += fused ? text("%b", c, " = fma %a", c, ", %half, %half\n")
                  : text("%m", c, " = mul %a", c, ", %half\n%b", c, " = add %m", c, ", %half\n");
    stores += text("store %y[((i * ", kChains, " + ", c, ") * ", machine.threads, " + ", machine.thread(), ") * ",
                   lanes, " + d0], %r", c, "\n");
  }
  const int64_t values = blocks * kChains * machine.threads * lanes;
  std::string kernel = text("kernel.thread @multiply_add(in %x: f32[", lanes, "], out %y: f32[", values, "])",
                            machine.head(), " {\nphase grid(i < ", blocks, ") {\n%half = load %x[d0] : ", type,
                            "\n%one = constant 1 : ", type, "\n", results, " = loop k < ", kTurns, " carry (", initial,
                            ") {\n", body, "yield ", yielded, "\n}\n", stores, "}\n}\n");
  std::vector<float> halves(static_cast<size_t>(lanes), 0.5F);
  auto in = device.allocate(halves.size() * sizeof(float));
  auto out = device.allocate(static_cast<uint64_t>(values) * sizeof(float));
  device.copy_from_host(*in, halves.data(), halves.size() * sizeof(float));
  const BufferPart buffers[] = {whole(*in), whole(*out)};
  return 2.0 * static_cast<double>(kTurns * values) / best_launch(device, kernel, buffers, 0.015);
}

// Reads `wanted` bytes, about.
double measure_bytes(Backend& device, const Blocks& machine, int lanes, int64_t wanted_bytes) {
  constexpr int64_t kLoads = 8;
  const int64_t kTurns = machine.threads > 1 ? 8 : 64, row = machine.threads * lanes;
  const int64_t per_block = kLoads * kTurns * row;
  const int64_t wanted = wanted_bytes / static_cast<int64_t>(sizeof(float));
  const int64_t blocks = wanted / per_block, values = blocks * per_block;
  const std::string type = text("vec<", lanes, "xf32>");
  std::string fill, initial, body, yielded, results, stores;
  for (int64_t c = 0; c < kLoads; ++c) {
    const char* comma = c ? ", " : "";
    const std::string address = text("i * ", per_block, " + k * ", kLoads * row, " + ", c * row, " + ",
                                     machine.thread(), " * ", lanes, " + d0");
    fill += text("store %x[", address, "], %zero\n");
    initial += text(comma, "%a", c, " = %zero");
    results += text(comma, "%r", c);
    yielded += text(comma, "%b", c);
    body += text("%v", c, " = load %x[", address, "] : ", type, "\n%b", c, " = add %a", c, ", %v", c, "\n");
    stores += text("store %y[((i * ", kLoads, " + ", c, ") * ", machine.threads, " + ", machine.thread(), ") * ", lanes,
                   " + d0], %r", c, "\n");
  }
  // Memory that was never written to is one page of zeros, in the nearest cache.
  const std::string grid = text("phase grid(i < ", blocks, ") {\n%zero = constant 0 : ", type, "\n");
  std::string filling = text("kernel.thread @fill(out %x: f32[", values, "])", machine.head(), " {\n", grid,
                             "loop k < ", kTurns, " {\n", fill, "}\n}\n}\n");
  std::string reading = text("kernel.thread @read(in %x: f32[", values, "], out %y: f32[", blocks * kLoads * row, "])",
                             machine.head(), " {\n", grid, results, " = loop k < ", kTurns, " carry (", initial,
                             ") {\n", body, "yield ", yielded, "\n}\n", stores, "}\n}\n");
  auto data = device.allocate(static_cast<uint64_t>(values) * sizeof(float));
  auto sums = device.allocate(static_cast<uint64_t>(blocks * kLoads * row) * sizeof(float));
  const BufferPart buffers[] = {whole(*data), whole(*sums)};
  device.launch(*device.compile(kernel::parse(filling)), std::span(buffers, 1), {});
  return static_cast<double>(values) * sizeof(float) / best_launch(device, reading, buffers, 0.02);
}

}  // namespace

Roofline measure_roofline(Backend& device) {
  const Target& target = device.target();
  const bool simd = target.machine == Machine::Simd;
  if (!simd && !device.records()) return {};  // a simulated device's times mean nothing
  const int lanes = target.vector_bytes / static_cast<int>(sizeof(float));
  // Short launches: one of many is not disturbed.
  const Blocks blocks = simd ? Blocks{16 * device.threads()} : Blocks{32 * target.multiprocessors, 256};
  const int64_t bytes = simd ? std::clamp<int64_t>(2 * target.l3_bytes, 64 << 20, 256 << 20) : int64_t{1} << 30;
  Roofline result;
  try {
    result.flops_per_second = measure_flops(device, blocks, simd ? lanes : 1, target.fma);
    result.bytes_per_second = measure_bytes(device, blocks, lanes, bytes);
  } catch (const OutOfMemory&) {
    // A program that has filled the memory can still be profiled.
  }
  return result;
}

}  // namespace heddle
