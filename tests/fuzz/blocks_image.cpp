// Blocks: convolutions and pools.
#include "fuzz/program.h"

namespace heddle::fuzz {
namespace {

int64_t kernel_for(Builder& b, int64_t size) { return std::min<int64_t>(size, b.of<int64_t>({1, 2, 3, 3, 3, 5})); }

// Activation, norm or residual behind a convolution.
void finish(Builder& b, const Term& x, const Term& y) {
  switch (b.between(0, b.exact() ? 1 : 3)) {
    case 0: b.let("relu($)", {y}, relu(y.tensor)); break;
    case 1:
      if (x.tensor.shape() == y.tensor.shape()) b.let("$ + $", {x, y}, x.tensor + y.tensor);
      break;
    case 2: b.let("gelu($)", {y}, gelu(y.tensor)); break;
    default: b.let("group_norm($, 1)", {y}, group_norm(y.tensor, 1)); break;
  }
}

void convolution2d(Builder& b) {
  Term x = b.images(b.most_work() / 64);
  int64_t channels = x.tensor.size(1), height = x.tensor.size(2), width = x.tensor.size(3);
  ConvOptions options;
  int64_t kernel = kernel_for(b, std::min(height, width)), outputs = b.of<int64_t>({1, 2, 3, 4, 8, 16});
  bool depthwise = b.chance(0.25);
  if (depthwise) {
    options.groups = outputs = channels;
  } else if (b.chance(0.2)) {
    options.groups = b.divisor(channels);
    outputs = options.groups * b.between(1, 3);
  }
  if (b.chance(0.3)) options.stride = b.between(1, 3);
  if (b.chance(0.6)) options.padding = (kernel - 1) / 2;
  if (kernel == 3 && std::min(height, width) > 5 && b.chance(0.15)) options.dilation = 2;
  int64_t fan = channels / options.groups * kernel * kernel;
  while (outputs > options.groups && x.tensor.numel() * outputs / options.groups * kernel * kernel > b.most_work())
    outputs -= options.groups;
  if (x.tensor.numel() * kernel * kernel > b.most_work()) return;
  Term w = b.leaf({outputs, channels / options.groups, kernel, kernel}, fan);
  std::string tail = text("{.stride = ", options.stride[0], ", .padding = ", options.padding.sizes(),
                          ", .dilation = ", options.dilation[0], ", .groups = ", options.groups, "})");
  Term y;
  if (b.chance(0.5)) {
    Term bias = b.leaf({outputs});
    y = b.let("conv2d($, $, $, " + tail, {x, w, bias}, conv2d(x.tensor, w.tensor, bias.tensor, options));
  } else {
    y = b.let("conv2d($, $, {}, " + tail, {x, w}, conv2d(x.tensor, w.tensor, {}, options));
  }
  finish(b, x, y);
}

void convolution1d(Builder& b) {
  Term x = b.batch(b.most_work() / 64);
  int64_t channels = x.tensor.size(1), length = x.tensor.size(2);
  int64_t kernel = kernel_for(b, length), outputs = b.small(b.most_work() / (x.tensor.numel() * kernel));
  ConvOptions options;
  if (b.chance(0.2)) options.groups = outputs = channels;
  if (b.chance(0.3)) options.stride = 2;
  if (b.chance(0.5)) options.padding = kernel / 2;
  Term w = b.leaf({outputs, channels / options.groups, kernel}, channels / options.groups * kernel);
  Term y = b.let(text("conv1d($, $, {}, {.stride = ", options.stride[0], ", .padding = ", options.padding.sizes(),
                      ", .groups = ", options.groups, "})"),
                 {x, w}, conv1d(x.tensor, w.tensor, {}, options));
  finish(b, x, y);
}

void convolution_transposed(Builder& b) {
  Term x = b.images(b.most_work() / 128);
  int64_t channels = x.tensor.size(1), kernel = b.between(1, 3);
  int64_t outputs = b.small(std::min<int64_t>(8, b.most_work() / (x.tensor.numel() * kernel * kernel)));
  ConvTransposeOptions options;
  options.stride = b.between(1, 2);
  Term w = b.leaf({channels, outputs, kernel, kernel}, channels * kernel);
  Term y = b.let(text("conv_transpose2d($, $, {}, {.stride = ", options.stride[0], "})"), {x, w},
                 conv_transpose2d(x.tensor, w.tensor, {}, options));
  finish(b, x, y);
}

// What MobileNet and ConvNeXt are made of: depthwise, then 1x1, with norms and residuals.
void separable(Builder& b) {
  Term x = b.images(b.most_work() / 64);
  int64_t channels = x.tensor.size(1), kernel = std::min<int64_t>({3, x.tensor.size(2), x.tensor.size(3)});
  if (kernel != 3 || x.tensor.numel() * 9 > b.most_work()) return;
  Term w = b.leaf({channels, 1, 3, 3}, 9);
  Term y = b.let("conv2d($, $, {}, {.padding = 1, .groups = channels})", {x, w},
                 conv2d(x.tensor, w.tensor, {}, {.padding = 1, .groups = channels}));
  int64_t wide = channels * b.between(1, 3);
  if (x.tensor.numel() * wide > b.most_work()) return;
  if (!b.exact() && b.chance(0.5)) {  // ConvNeXt: channels last
    Term p = b.expression("permute($, {0, 2, 3, 1})", {y}, permute(y.tensor, {0, 2, 3, 1}));
    Term n = b.expression("layer_norm($)", {p}, layer_norm(p.tensor));
    Term w1 = b.leaf({channels, wide}, channels), c1 = b.leaf({wide}), w2 = b.leaf({wide, channels}, wide);
    Term h = b.expression("gelu(matmul($, $) + $)", {n, w1, c1}, gelu(matmul(n.tensor, w1.tensor) + c1.tensor));
    Term z = b.expression("permute(matmul($, $), {0, 3, 1, 2})", {h, w2},
                          permute(matmul(h.tensor, w2.tensor), {0, 3, 1, 2}));
    b.let("$ + $", {x, z}, x.tensor + z.tensor);
    return;
  }
  Term w1 = b.leaf({wide, channels, 1, 1}, channels), c1 = b.leaf({wide});
  Term h = b.let("relu(conv2d(relu($), $, $))", {y, w1, c1}, relu(conv2d(relu(y.tensor), w1.tensor, c1.tensor)));
  if (wide == channels) b.let("$ + $", {x, h}, x.tensor + h.tensor);
}

void pool(Builder& b) {
  Term x = b.images();
  int64_t smallest = std::min(x.tensor.size(2), x.tensor.size(3));
  int64_t kernel = std::min<int64_t>(smallest, b.between(1, 3)), stride = b.between(1, kernel);
  switch (b.exact() ? 0 : b.between(0, 3)) {
    case 0:
      b.let(text("max_pool2d($, ", kernel, ", {.stride = ", stride, "})"), {x},
            max_pool2d(x.tensor, kernel, {.stride = stride}));
      break;
    case 1:
      b.let(text("avg_pool2d($, ", kernel, ", {.stride = ", stride, "})"), {x},
            avg_pool2d(x.tensor, kernel, {.stride = stride}));
      break;
    case 2: {
      int64_t size = b.between(1, smallest);
      b.let(text("adaptive_avg_pool2d($, ", size, ")"), {x}, adaptive_avg_pool2d(x.tensor, size));
      break;
    }
    default: b.let("mean($, {2, 3})", {x}, mean(x.tensor, {2, 3})); break;
  }
}

// Twice as large, by repeating elements or between them by straight line.
void upsample(Builder& b) {
  Term x = b.images(b.most_elements() / 8);
  if (b.exact() || b.chance(0.5)) {
    Tensor y = repeat_interleave(repeat_interleave(x.tensor, 2, 2), 2, 3);
    b.let("repeat_interleave(repeat_interleave($, 2, 2), 2, 3)", {x}, y);
    return;
  }
  int64_t n = x.tensor.size(3);
  if (n < 2) return;
  Tensor left = slice(x.tensor, 3, 0, n - 1), right = slice(x.tensor, 3, 1, n);
  b.let("stack({x[.., :-1], (x[.., :-1] + x[.., 1:]) / 2}, 4) of $", {x},
        flatten(stack({left, (left + right) / 2}, 4), 3, 4));
}

}  // namespace

std::vector<Block> image_blocks() {
  return {{"conv2d", 4, true, convolution2d},
          {"conv1d", 2, true, convolution1d},
          {"conv_transpose2d", 1, true, convolution_transposed},
          {"separable", 2, true, separable},
          {"pool", 2, true, pool},
          {"upsample", 1, true, upsample}};
}

}  // namespace heddle::fuzz
