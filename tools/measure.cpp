#include "tools/measure.h"

#include <algorithm>
#include <chrono>

#include "runtime/device.h"

namespace heddle::tools {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Samples::best() const { return *std::min_element(seconds.begin(), seconds.end()); }

double Samples::median() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  size_t n = sorted.size();
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

std::vector<Samples> take_turns(double seconds, int least, std::initializer_list<std::function<void()>> actions) {
  Backend& where = device();
  for (const auto& action : actions) action();
  where.synchronize();
  std::vector<Samples> result(actions.size());
  if (seconds < 0) {
    for (Samples& samples : result) samples.seconds.push_back(1);
    return result;
  }
  double end = now() + seconds;
  for (int round = 0; round < least || now() < end; ++round) {
    auto samples = result.begin();
    for (const auto& action : actions) {
      double start = now();
      action();
      where.synchronize();
      (samples++)->seconds.push_back(now() - start);
    }
  }
  return result;
}

int calls_per_sample(const std::function<void()>& action) {
  constexpr double kSample = 50e-6;
  action();
  for (int calls = 1;; calls *= 2) {
    double start = now();
    for (int i = 0; i < calls; ++i) action();
    if (now() - start >= kSample) return calls;
  }
}

void take_segment(const std::function<void()>& action, int calls, double seconds, Samples& samples) {
  double start = now(), first = start + seconds / 10;
  // Long calls warm up by themselves, and there are few of them.
  if (samples.seconds.empty() || samples.best() < seconds / 4) do {
      action();
    } while (now() < first);
  double end = now() + seconds;
  do {
    start = now();
    for (int i = 0; i < calls; ++i) action();
    samples.seconds.push_back((now() - start) / calls);
  } while (now() < end);
}

}  // namespace heddle::tools
