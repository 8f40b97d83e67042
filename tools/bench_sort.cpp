// Sorting and selection, against the standard library.
#include <heddle/heddle.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "runtime/device.h"
#include "tools/bench.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

constexpr int64_t kTop = 50;
constexpr double kBar = 2;

struct Case {
  const char* name;
  void (*ours)(const Tensor& x);
  // Sorts `row` (a copy) in place, or `order`, which begins as 0, 1, 2, ...
  void (*reference)(std::span<const float> row, std::vector<float>& copy, std::vector<int64_t>& order);
  const char* reference_name;
};

void sort_copy(std::span<const float> row, std::vector<float>& copy, std::vector<int64_t>&) {
  copy.assign(row.begin(), row.end());
  std::sort(copy.begin(), copy.end());
}
void sort_order(std::span<const float> row, std::vector<float>&, std::vector<int64_t>& order) {
  order.resize(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return row[a] < row[b]; });
}
void select_top(std::span<const float> row, std::vector<float>& copy, std::vector<int64_t>&) {
  copy.assign(row.begin(), row.end());
  std::partial_sort(copy.begin(), copy.begin() + kTop, copy.end(), std::greater<>());
}

const Case kCases[] = {
    {"sort", [](const Tensor& x) { sort(x).values.realize(); }, sort_copy, "std::sort"},
    {"argsort", [](const Tensor& x) { argsort(x).realize(); }, sort_order, "std::sort of indices"},
    {"topk 50",
     [](const Tensor& x) {
       ValuesIndices top = topk(x, kTop);
       realize({top.values, top.indices});
     },
     select_top, "std::partial_sort of a copy"},
};

}  // namespace

void measure_sort(double seconds, const Report& report) {
  int threads = device("cpu").threads();
  const Dims shapes[] = {{int64_t{1} << 24}, {4096, 4096}};
  for (const Dims& shape : shapes) {
    Tensor x = randn(shape).realize();
    std::span<const float> data = x.data<float>();
    size_t row = static_cast<size_t>(shape.back());
    std::vector<float> copy;
    std::vector<int64_t> order;
    for (const Case& which : kCases) {
      std::string name = text(which.name, shape.size() == 1 ? " f32 2^24, " : " f32 rows of 4096, ", threads,
                              threads == 1 ? " thread" : " threads");
      if (!wanted(name)) continue;
      auto samples = take_turns(seconds, 2,
                                {[&] { which.ours(x); },
                                 [&] {
                                   for (size_t at = 0; at < data.size(); at += row)
                                     which.reference(data.subspan(at, row), copy, order);
                                 }});
      auto elements = static_cast<double>(data.size());
      Figure figure{.name = name};
      figure.unit = "M/s";
      figure.ours = elements / samples[0].best() * 1e-6;
      figure.median = elements / samples[0].median() * 1e-6;
      figure.reference = elements / samples[1].best() * 1e-6;
      figure.reference_name = text(which.reference_name, ", 1 thread");
      figure.ratio = figure.ours / figure.reference;
      if (threads == 1) figure.bar = kBar;
      report(figure);
    }
  }
}

}  // namespace heddle::tools
