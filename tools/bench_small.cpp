// Work on tensors that fit the caches, in a plan that is cached: what a call costs beyond its arithmetic.
#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"
#include "tools/memory_cases.h"
#include "tools/reference.h"

namespace heddle::tools {
namespace {

constexpr double kCallSeconds = 3e-6;

// Bytes per second that one thread copies, or reads, in the cache that holds a tensor of this size.
double one_thread_rate(bool reads, uint64_t bytes, double seconds) {
  auto from = device("cpu").allocate(bytes), to = device("cpu").allocate(bytes);
  constexpr int kTimes = 200;
  auto samples = take_turns(seconds, 3, {[&] {
                              for (int i = 0; i < kTimes; ++i) {
                                if (reads)
                                  read_all(from->address(), bytes, 1);
                                else
                                  copy_with_memcpy(to->address(), from->address(), bytes, 1);
                              }
                            }});
  return static_cast<double>(bytes) * (reads ? 1 : 2) * kTimes / samples[0].best();
}

}  // namespace

void measure_small(double seconds, const Report& report) {
  for (int64_t numel : {1024, 65536}) {
    int64_t rows = numel / 64;
    Tensor x = randn({rows, 64}).realize(), y = randn({rows, 64}).realize();
    auto size = static_cast<uint64_t>(numel) * sizeof(float);
    double copy_rate = one_thread_rate(false, size, 0.2), read_rate = one_thread_rate(true, size, 0.2);
    for (auto cases : {elementwise_cases(), row_cases(), reduce_cases(), scan_cases(), move_cases()}) {
      for (const MemoryCase& which : cases) {
        std::string name = text(which.name, ", ", numel);
        if (!wanted(name)) continue;
        constexpr int kTimes = 100;
        auto samples = take_turns(seconds / 3, 3, {[&] {
                                    for (int i = 0; i < kTimes; ++i) realize(which.make(x, y));
                                  }});
        double roofline =
            static_cast<double>(least_bytes(which, x, y)) / (which.bound == Bound::Read ? read_rate : copy_rate);
        Figure figure{.name = name, .unit = "us"};
        figure.ours = samples[0].best() / kTimes * 1e6;
        figure.median = samples[0].median() / kTimes * 1e6;
        figure.reference = (kCallSeconds + 2 * roofline) * 1e6;
        figure.reference_name = "3 us + twice the bytes at one thread's cache speed";
        figure.ratio = figure.reference / figure.ours;
        figure.bar = 1;
        report(figure);
      }
    }
  }
}

}  // namespace heddle::tools
