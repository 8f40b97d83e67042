// Work on a GPU, beside PyTorch on the same one. A sample is many calls and one wait for the device: what is compared
// is how fast calls follow each other.
#include <heddle/heddle.h>

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "runtime/device.h"
#include "tools/contest.h"
#include "tools/memory_cases.h"
#include "tools/perceptron.h"

namespace heddle::tools {
namespace {

double number(int64_t value) { return static_cast<double>(value); }

// Bytes a second that a copy, and a sum, move on this device: the better of ours and PyTorch's.
struct Bandwidth {
  double copy = 0, read = 0;
};

class GpuSuite {
 public:
  GpuSuite(Backend& gpu, double seconds, const Report& report)
      : gpu_(gpu), seconds_(seconds), report_(report), peers_(1, peers_python(), false, "cuda") {}

  void run() {
    measure_bandwidth();
    measure_memory_bound(8192, 8192, 1.1, std::nullopt);
    measure_memory_bound(32768, 32768, std::nullopt, 0.85);
    for (int64_t n : {2048, 4096, 8192}) matmul(n, n, n, kBF16, 1, 0.9);
    for (int64_t n : {512, 1024}) matmul(n, n, n, kBF16, 8, 0.9, true);
    matmul(1, 4096, 4096, kBF16, 8, std::nullopt, true);
    matmul(16, 4096, 4096, kBF16, 8, std::nullopt, true);
    matmul(4097, 4095, 4093, kBF16, 1, 2);
    matmul(8192, 768, 50257, kBF16, 1, 2);
    for (int64_t n : {1024, 2048, 4096}) matmul(n, n, n, kF32, 1, 0.85);
    for (DType dtype : {kI8, kF8E4M3}) narrow_matmul(4096, dtype);
    attention();
    perceptron();
    launches();
  }

 private:
  // So that a sample takes some milliseconds.
  static int repeats(double floor_seconds) { return static_cast<int>(std::clamp(4e-3 / floor_seconds, 1.0, 200.0)); }

  // The least time of a call, and where it comes from.
  struct Floor {
    double seconds;
    std::string name;
  };

  // `together`: calls that `ours` makes at once.
  void contest(Contest c, const Floor& floor, bool captured = false, int together = 1) {
    if (!wanted(c.name)) return;
    c.repeat = (repeats(floor.seconds) + together - 1) / together * together;
    c.floor_seconds = floor.seconds;
    c.floor_name = floor.name;
    c.row["device"] = "cuda";
    c.row["repeat"] = c.repeat;
    c.row["captured"] = captured;
    auto once = c.ours;
    c.ours = [this, once, n = c.repeat / together] {
      for (int i = 0; i < n; ++i) once();
      gpu_.synchronize();
    };
    run_contest(peers_, c, seconds_, report_);
  }

  void measure_bandwidth() {
    constexpr int64_t kSide = 32768;
    Tensor x = uniform(Dims{kSide, kSide}).realize();
    auto rate = [&](const char* name, double passes, auto&& make) {
      auto step = jit(make);
      auto ours = [&] {
        for (int i = 0; i < 4; ++i) step(x);
        gpu_.synchronize();
      };
      ours();
      nlohmann::json row{{"work", "memory"}, {"name", name},     {"dtype", "f32"}, {"rows", kSide},
                         {"columns", kSide}, {"device", "cuda"}, {"repeat", 4},    {"captured", false}};
      Peers::Result result = peers_.compare(row, std::max(seconds_, 0.5), ours);
      double best = result.ours.best();
      for (const PeerTimes& times : result.peers)
        if (times.skip.empty()) best = std::min(best, times.samples.best());
      return 4 * passes * 4 * number(kSide * kSide) / best;
    };
    bandwidth_.copy = rate("copy", 2, [](Tensor t) { return -t; });
    bandwidth_.read = rate("sum over everything", 1, [](Tensor t) { return sum(t); });
  }

  void measure_memory_bound(int64_t rows, int64_t columns, std::optional<double> bar, std::optional<double> share) {
    static constexpr const char* kNames[] = {"softmax",           "layernorm",        "gelu(2x + 1) * sigmoid(x)",
                                             "sum over rows",     "sum over columns", "transpose, copied",
                                             "cumsum along rows", "argmax over rows", "var over rows"};
    std::optional<Tensor> input;
    for (std::span<const MemoryCase> cases :
         {elementwise_cases(), row_cases(), reduce_cases(), scan_cases(), move_cases()})
      for (const MemoryCase& which : cases) {
        if (std::find_if(std::begin(kNames), std::end(kNames),
                         [&](const char* name) { return std::string_view(name) == which.name; }) == std::end(kNames))
          continue;
        Contest c{.name = text(which.name, ", ", rows, " x ", columns), .group = text("memory ", rows), .unit = "GB/s"};
        if (!wanted(c.name)) continue;
        if (!input) input = uniform(Dims{rows, columns}).realize();
        Tensor x = *input;
        c.row = {{"work", "memory"}, {"name", which.name}, {"dtype", "f32"}, {"rows", rows}, {"columns", columns}};
        c.bytes = number(static_cast<int64_t>(least_bytes(which, x, x)));
        auto step = jit([make = which.make](Tensor t) { return make(t, t); });
        c.ours = [=]() mutable { step(x); };
        c.bar = bar;
        const bool harder = which.bound == Bound::Transpose || c.row["name"] == "cumsum along rows";
        if (share) c.share_bar = harder ? 0.7 : *share;
        const bool reads = which.bound == Bound::Read;
        contest(c, {c.bytes / (reads ? bandwidth_.read : bandwidth_.copy), reads ? "reading" : "copy"});
      }
  }

  // `sets`: different factors in turn, so that they come from memory.
  void matmul(int64_t m, int64_t k, int64_t n, DType dtype, int sets, std::optional<double> bar,
              bool captured = false) {
    Contest c{
        .name = text("matmul ", dtype, " ", m, " x ", k, " x ", n), .group = text("matmul ", dtype), .unit = "TFLOP/s"};
    if (!wanted(c.name)) return;
    c.row = {{"work", "matmul"}, {"dtype", text(dtype)}, {"batch", 1},  {"m", m}, {"n", n},
             {"k", k},           {"transpose", "nn"},    {"sets", sets}};
    c.flops = 2 * number(m) * number(n) * number(k);
    c.bytes = number(m * k + k * n + m * n) * size_of(dtype);
    std::vector<Tensor> a, b;
    for (int i = 0; i < sets; ++i) {
      a.push_back(randn({m, k}).cast(dtype).realize());
      b.push_back(randn({k, n}).cast(dtype).realize());
    }
    // Captured: all sets in one program, as PyTorch has them in one graph.
    const int together = captured ? sets : 1;
    auto all = jit([](std::vector<Tensor> x, std::vector<Tensor> y) {
      std::vector<Tensor> results;
      for (size_t i = 0; i < x.size(); ++i) results.push_back(heddle::matmul(x[i], y[i]));
      return results;
    });
    auto one = jit([](Tensor x, Tensor y) { return heddle::matmul(x, y); });
    c.ours = [=, turn = size_t{0}]() mutable {
      if (captured) return void(all(a, b));
      turn = (turn + 1) % a.size();
      one(a[turn], b[turn]);
    };
    c.bar = bar;
    if (!bar) c.share_bar = 0.8;
    const double arithmetic = c.flops / (dtype == kF32 ? 67e12 : 990e12), traffic = c.bytes / bandwidth_.copy;
    Floor floor{std::max(arithmetic, traffic), "copy"};
    if (arithmetic > traffic) floor.name = dtype == kF32 ? "67 TFLOP/s of an H200" : "990 TFLOP/s of an H200";
    contest(c, floor, captured, together);
  }

  // Bytes with wide sums; both factors lie along the sum, which is the only way for the libraries. Results of f8 are
  // bf16.
  void narrow_matmul(int64_t n, DType dtype) {
    Contest c{.name = text("matmul ", dtype, " ", n, " x ", n, " x ", n, " nt"),
              .group = text("matmul ", dtype),
              .unit = "TFLOP/s"};
    if (!wanted(c.name)) return;
    c.row = {{"work", "matmul"}, {"dtype", text(dtype)}, {"batch", 1}, {"m", n}, {"n", n},
             {"k", n},           {"transpose", "nt"}};
    c.flops = 2 * number(n) * number(n) * number(n);
    c.bytes = 2 * number(n) * number(n) + number(n) * number(n) * (dtype == kI8 ? 4 : 2);
    Tensor a = (randn({n, n}) * 20).cast(dtype).realize(), b = (randn({n, n}) * 20).cast(dtype).realize();
    auto one = jit([dtype](Tensor x, Tensor y) {
      if (dtype == kI8) return heddle::matmul(x.cast(kI32), y.cast(kI32).transpose());
      return heddle::matmul(x.cast(kF32), y.cast(kF32).transpose()).cast(kBF16);
    });
    c.ours = [=]() mutable { one(a, b); };
    contest(c, {c.flops / 1979e12, "1979 TFLOP/s of an H200"});
  }

  void attention() {
    constexpr int64_t kBatch = 4, kHeads = 16, kTime = 4096, kWidth = 128;
    const std::string name = "attention bf16 4 x 16 x 4096 x 128 causal, forward";
    if (!wanted(name)) return;
    Dims dims{kBatch, kHeads, kTime, kWidth};
    auto input = [&] { return randn(dims).cast(kBF16).realize(); };
    Tensor q = input(), k = input(), v = input();
    auto step =
        jit([](Tensor x, Tensor y, Tensor z) { return scaled_dot_product_attention(x, y, z, {.causal = true}); });
    // Beside flash-2, which the bar names, and beside what PyTorch would take.
    for (const char* backend : {"flash", "any"}) {
      const bool flash = std::string_view(backend) == "flash";
      Contest c{.name = name + (flash ? ", flash" : ""), .group = "attention", .unit = "TFLOP/s"};
      c.row = {{"work", "attention"}, {"dtype", "bf16"}, {"batch", kBatch},   {"heads", kHeads},   {"time", kTime},
               {"width", kWidth},     {"causal", true},  {"backward", false}, {"backend", backend}};
      c.flops = 4 * number(kBatch * kHeads * kTime) * number(kTime) * number(kWidth) / 2;
      c.ours = [=]() mutable { step(q, k, v); };
      if (flash) c.bar = 1;
      contest(c, {c.flops / 990e12, "990 TFLOP/s of an H200"});
    }
  }

  void perceptron() {
    Contest c = perceptron_contest("us", std::make_shared<Perceptron>());
    contest(c, {60e-6, "the bar"}, true);
  }

  void launches() {
    Tensor a = randn({1024}).realize(), b = randn({1024}).realize();
    auto add = jit([](Tensor x, Tensor y) { return x + y; });
    Contest c{.name = "captured x + y of 1024", .group = "launch", .unit = "us"};
    c.row = {{"work", "add"}, {"dtype", "f32"}, {"count", 1024}};
    c.ours = [&] { add(a, b); };
    contest(c, {6e-6, "the bar"}, true);
    c.name = "(a + b) of 1024, cached";
    c.ours = [&] { (a + b).realize(); };
    contest(c, {12e-6, "the bar"});
  }

  Backend& gpu_;
  double seconds_;
  const Report& report_;
  Peers peers_;
  Bandwidth bandwidth_;
};

}  // namespace

void measure_gpu(double seconds, const Report& report) {
  Backend& chosen = device();
  if (chosen.target().machine != Machine::Simt)
    throw ValueError(
        text("bench gpu: needs a GPU, for instance HEDDLE_DEVICE=cuda; the device is ", chosen.name(), " now"));
  GpuSuite(chosen, seconds, report).run();
}

}  // namespace heddle::tools
