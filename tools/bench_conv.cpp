// Convolutions: the distinct layers of ResNet-18 at a batch of 8, against other libraries and the peak of
// multiply-adds.
#include <heddle/heddle.h>

#include "base/error.h"
#include "runtime/device.h"
#include "tools/contest.h"

namespace heddle::tools {
namespace {

struct Layer {
  int64_t channels, size, filters, kernel, stride;
};

Contest contest_of(const Layer& layer) {
  constexpr int64_t kBatch = 8;
  auto [channels, size, filters, kernel, stride] = layer;
  int64_t padding = kernel / 2, places = (size + 2 * padding - kernel) / stride + 1;
  Tensor x = randn({kBatch, channels, size, size}).realize();
  Tensor w = randn({filters, channels, kernel, kernel}).realize();
  auto convolve = jit([=](const Tensor& image, const Tensor& weight) {
    return conv2d(image, weight, {}, {.stride = stride, .padding = padding});
  });
  Contest contest{.name = text("conv ", kernel, "x", kernel, stride > 1 ? text("/", stride) : "", " ", channels, "-",
                               filters, " of ", size, "x", size),
                  .group = kernel == 3 && stride == 1 ? "conv 3x3" : "conv others",
                  .unit = "GFLOP/s"};
  contest.row = {{"work", "conv"},   {"dtype", "f32"},     {"batch", kBatch},    {"channels", channels},
                 {"height", size},   {"width", size},      {"filters", filters}, {"kernel", kernel},
                 {"stride", stride}, {"padding", padding}, {"groups", 1},        {"layout", "any"}};
  auto number = [](int64_t value) { return static_cast<double>(value); };
  double results = number(kBatch * filters * places * places);
  contest.flops = 2 * results * number(channels * kernel * kernel);
  contest.bytes = 4 * (results + number(x.numel() + w.numel()));
  contest.ours = [=]() mutable { convolve(x, w); };
  if (kernel == 3 && stride == 1) contest.share_bar = 0.85;
  return contest;
}

}  // namespace

void measure_conv(double seconds, const Report& report) {
  int threads = device("cpu").threads();
  Peers peers(threads, peers_python());
  for (const Layer& layer : {Layer{3, 224, 64, 7, 2},
                             {64, 56, 64, 3, 1},
                             {64, 56, 128, 3, 2},
                             {64, 56, 128, 1, 2},
                             {128, 28, 128, 3, 1},
                             {128, 28, 256, 3, 2},
                             {128, 28, 256, 1, 2},
                             {256, 14, 256, 3, 1},
                             {256, 14, 512, 3, 2},
                             {256, 14, 512, 1, 2},
                             {512, 7, 512, 3, 1}}) {
    Contest contest = contest_of(layer);
    contest.name += text(", ", threads, threads == 1 ? " thread" : " threads");
    contest.bar = 0.9;
    run_contest(peers, contest, seconds, report);
  }
}

}  // namespace heddle::tools
