// State that changes a little at each call: a row of a key-value cache of 1 GB. What is written is counted.
#include <heddle/heddle.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "runtime/plan.h"
#include "tools/bench.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

constexpr int64_t kHeads = 32, kPlaces = 1 << 16, kWidth = 128;
constexpr double kMicroseconds = 20;  // the bar

struct UpdateCase {
  const char* name;
  std::function<void()> call;
  bool barred;
  int count = 200;  // calls of a sample
};

}  // namespace

void measure_update(double seconds, const Report& report) {
  Tensor keys = zeros({kHeads, kPlaces, kWidth}).realize();
  Tensor row = randn({kHeads, 1, kWidth}).realize(), thin = row.reshape(kHeads, kWidth).realize();
  Tensor at = zeros({}, kI64).realize();
  int64_t next = 0;
  auto by_tensor = jit([&](const Tensor& value) {
    keys.assign(update_slice(keys, value, at));
    at.assign((at + 1) % kPlaces);
  });
  auto by_index = jit([&](const Tensor& value) {
    keys.set({Slice(), at}, value);
    at.assign((at + 1) % kPlaces);
  });
  auto by_number = jit([&](const Tensor& value, int64_t place) { keys.set({Slice(), place}, value); });
  auto fixed = jit([&](const Tensor& value) { keys.set({Slice(), 77}, value); });
  const UpdateCase cases[] = {
      {"a row of a 1 GB cache, where a tensor says", [&] { by_tensor(row); }, true},
      {"a row of a 1 GB cache, set by an index tensor", [&] { by_index(thin); }, true},
      {"a row of a 1 GB cache, always the same", [&] { fixed(thin); }, true},
      {"a row of a 1 GB cache, one of 32 numbers", [&] { by_number(thin, next++ % 32); }, true},
      {"a row of a 1 GB cache, without capture",
       [&] {
         keys.set({Slice(), next++ % kPlaces}, thin);
         keys.realize();
       },
       false},
      {"a row of a 1 GB cache, the old value held",
       [&] {
         Tensor held(keys.node());
         fixed(thin);
       },
       false, 1},
  };
  for (const UpdateCase& which : cases) {
    if (!wanted(which.name)) continue;
    for (int i = 0; i < std::min(which.count, 100); ++i) which.call();
    run_stats() = {};
    which.call();
    char note[80];
    std::snprintf(note, sizeof note, "%lu launches, %lu bytes written",
                  static_cast<unsigned long>(run_stats().launches),
                  static_cast<unsigned long>(run_stats().bytes_written));
    auto samples = take_turns(seconds, 3, {[&] {
                                for (int i = 0; i < which.count; ++i) which.call();
                              }});
    const double micro = 1e6 / which.count;
    Figure figure{.name = which.name, .unit = "us"};
    figure.ours = samples[0].best() * micro;
    figure.median = samples[0].median() * micro;
    figure.reference = kMicroseconds;
    figure.reference_name = "bar: at most";
    figure.ratio = kMicroseconds / figure.ours;
    if (which.barred) figure.bar = 1;
    figure.note = note;
    report(figure);
  }
}

}  // namespace heddle::tools
