// Matrix products, against the peak of multiply-adds.
#include <heddle/heddle.h>

#include "base/error.h"
#include "runtime/device.h"
#include "tools/bench.h"
#include "tools/measure.h"
#include "tools/reference.h"

namespace heddle::tools {

void measure_matmul(double seconds, const Report& report) {
  int threads = device("cpu").threads();
  for (int64_t n : {1024, 2048}) {
    Tensor a = randn({n, n}).realize(), b = randn({n, n}).realize();
    double peak_operations = 0;
    auto samples =
        take_turns(seconds, 3, {[&] { matmul(a, b).realize(); }, [&] { peak_operations = multiply_add(threads, 20); }});
    auto side = static_cast<double>(n);
    double operations = 2 * side * side * side;
    Figure figure{.name = text("matmul f32 ", n, ", ", threads, threads == 1 ? " thread" : " threads")};
    figure.unit = "GFLOP/s";
    figure.ours = operations / samples[0].best() * 1e-9;
    figure.median = operations / samples[0].median() * 1e-9;
    figure.reference = peak_operations / samples[1].best() * 1e-9;
    figure.reference_name = text(multiply_add_name(), " on registers");
    figure.ratio = figure.ours / figure.reference;
    if (threads == 1) figure.bar = 0.5;
    report(figure);
  }
}

}  // namespace heddle::tools
