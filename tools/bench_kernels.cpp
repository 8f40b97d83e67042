// The kernels of examples/kernels.h beside what the compiler makes itself for the same computations.
#include <cmath>

#include "examples/kernels.h"
#include "tools/bench.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

constexpr double kBar = 0.9;

void compare(const std::string& name, double seconds, const Report& report, const std::function<Tensor()>& written,
             const std::function<Tensor()>& compiled) {
  if (!wanted(name)) return;
  const std::vector<Samples> samples =
      take_turns(seconds, 5, {[&] { written().realize(); }, [&] { compiled().realize(); }});
  if (seconds < 0) return;
  Figure figure{.name = name,
                .unit = "ms",
                .ours = samples[0].best() * 1e3,
                .median = samples[0].median() * 1e3,
                .reference = samples[1].best() * 1e3,
                .reference_name = "by the compiler",
                .bar = kBar};
  figure.ratio = figure.reference / figure.ours;
  report(figure);
}

Tensor draw(const Dims& shape) { return randn(shape).realize(); }

}  // namespace

void measure_kernels(double seconds, const Report& report) {
  for (int64_t n : {int64_t{1} << 20, int64_t{1} << 25}) {
    const Kernel add = examples::add();
    const Tensor x = draw({n}), y = draw({n});
    compare("add " + std::to_string(n), seconds, report, [&] { return add({x, y})[0]; }, [&] { return x + y; });
  }
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{256, 1000}, {4096, 4096}}) {
    const Kernel soft = examples::softmax();
    const Tensor x = draw({rows, n});
    compare(
        "softmax " + std::to_string(rows) + "x" + std::to_string(n), seconds, report, [&] { return soft({x})[0]; },
        [&] { return softmax(x, -1); });
  }
  for (int64_t n : {256, 512, 1024}) {
    const Kernel product = examples::matmul();
    const Tensor a = draw({n, n}), b = draw({n, n}), bias = draw({n});
    compare(
        "relu(matmul + bias) " + std::to_string(n), seconds, report, [&] { return product({a, b, bias})[0]; },
        [&] { return relu(matmul(a, b) + bias); });
  }
  for (int64_t tokens : {256, 1024}) {
    const Kernel attention = examples::attention();
    const Tensor q = draw({8, tokens, 64}), k = draw({8, tokens, 64}), v = draw({8, tokens, 64});
    compare(
        "attention 8x" + std::to_string(tokens) + "x64", seconds, report, [&] { return attention({q, k, v})[0]; },
        [&] { return matmul(softmax(matmul(q, k.transpose(1, 2)) * 0.125, -1), v); });
  }
}

}  // namespace heddle::tools
