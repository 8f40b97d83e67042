#include <heddle/models/resnet.h>
#include <heddle/nn/init.h>
#include <heddle/ops.h>

#include <cmath>

#include "base/error.h"

namespace heddle::models {
namespace {

constexpr int64_t kExpansion = 4;  // outputs of a bottleneck, in widths

// Without bias, which the normalisation behind it has; variance 2 / outputs of an input.
nn::Conv2d conv(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride, DType dtype, Generator& generator) {
  nn::Conv2d layer(inputs, outputs, kernel, {.stride = stride, .padding = kernel / 2, .bias = false, .dtype = dtype},
                   generator);
  double deviation = std::sqrt(2.0 / static_cast<double>(outputs * kernel * kernel));
  layer.weight.assign(normal(layer.weight.shape(), 0, deviation, dtype, generator));
  layer.weight.realize();
  return layer;
}

nn::BatchNorm2d norm(int64_t channels, DType dtype) { return nn::BatchNorm2d(channels, {.dtype = dtype}); }

int64_t outputs_of(int64_t width, bool bottleneck) { return bottleneck ? kExpansion * width : width; }

std::vector<ResNetBlock> stage(int64_t count, int64_t inputs, int64_t width, int64_t stride, const ResNetConfig& config,
                               Generator& generator) {
  std::vector<ResNetBlock> blocks;
  for (int64_t i = 0; i < count; ++i)
    blocks.emplace_back(i == 0 ? inputs : outputs_of(width, config.bottleneck), width, i == 0 ? stride : 1,
                        config.bottleneck, config.dtype, generator);
  return blocks;
}

}  // namespace

ResNetConfig resnet18() { return {}; }
ResNetConfig resnet34() { return {.blocks = {3, 4, 6, 3}}; }
ResNetConfig resnet50() { return {.blocks = {3, 4, 6, 3}, .bottleneck = true}; }

ResNetBlock::ResNetBlock(int64_t inputs, int64_t width, int64_t stride, bool bottleneck, DType dtype,
                         Generator& generator)
    : conv1(conv(inputs, width, bottleneck ? 1 : 3, bottleneck ? 1 : stride, dtype, generator)),
      bn1(norm(width, dtype)),
      conv2(conv(width, width, 3, bottleneck ? stride : 1, dtype, generator)),
      bn2(norm(width, dtype)) {
  int64_t outputs = outputs_of(width, bottleneck);
  if (bottleneck) {
    conv3 = conv(width, outputs, 1, 1, dtype, generator);
    bn3 = norm(outputs, dtype);
  }
  if (stride != 1 || inputs != outputs)
    downsample = nn::Sequential(conv(inputs, outputs, 1, stride, dtype, generator), norm(outputs, dtype));
}

Tensor ResNetBlock::operator()(const Tensor& x) const {
  Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
  if (conv3) y = (*bn3)((*conv3)(relu(y)));
  return relu(y + (downsample ? (*downsample)(x) : x));
}

ResNet::ResNet(const ResNetConfig& config, Generator& generator)
    : conv1(conv(config.inputs, config.width, 7, 2, config.dtype, generator)),
      bn1(norm(config.width, config.dtype)),
      fc(outputs_of(8 * config.width, config.bottleneck), config.classes, true, config.dtype, generator) {
  if (config.blocks.size() != 4)
    throw ValueError(text("ResNet: ", config.blocks.size(), " numbers of blocks; there are four stages"));
  std::vector<ResNetBlock>* stages[] = {&layer1, &layer2, &layer3, &layer4};
  int64_t width = config.width, inputs = width;
  for (size_t i = 0; i < 4; ++i, width *= 2) {
    *stages[i] = stage(config.blocks[i], inputs, width, i == 0 ? 1 : 2, config, generator);
    inputs = outputs_of(width, config.bottleneck);
  }
}

Tensor ResNet::operator()(const Tensor& images) const {
  Tensor x = max_pool2d(relu(bn1(conv1(images))), 3, {.stride = 2, .padding = 1});
  for (const std::vector<ResNetBlock>* blocks : {&layer1, &layer2, &layer3, &layer4})
    for (const ResNetBlock& block : *blocks) x = block(x);
  return fc(mean(x, {2, 3}));
}

}  // namespace heddle::models
