// ResNet. Names of tensors are torchvision's: "conv1.weight", "layer1.0.bn2.running_mean", "fc.bias".
#pragma once

#include <heddle/nn/conv.h>
#include <heddle/nn/layers.h>
#include <heddle/nn/sequential.h>

namespace heddle::models {

struct ResNetConfig {
  std::vector<int64_t> blocks = {2, 2, 2, 2};
  bool bottleneck = false;  // blocks of three convolutions
  int64_t classes = 1000, inputs = 3;
  int64_t width = 64;  // channels of the first layers
  DType dtype = kF32;
};
ResNetConfig resnet18();
ResNetConfig resnet34();
ResNetConfig resnet50();

// Two convolutions, or three with narrow ones between: relu(x + f(x)).
struct ResNetBlock : nn::Module<ResNetBlock> {
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  std::optional<nn::Conv2d> conv3;
  std::optional<nn::BatchNorm2d> bn3;
  std::optional<nn::Sequential> downsample;

  ResNetBlock(int64_t inputs, int64_t width, int64_t stride, bool bottleneck, DType dtype, Generator& generator);
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("conv1", conv1);
    v("bn1", bn1);
    v("conv2", conv2);
    v("bn2", bn2);
    v("conv3", conv3);
    v("bn3", bn3);
    v("downsample", downsample);
  }
};

//   models::ResNet net(models::resnet18());
//   net.eval();
//   Tensor logits = net(images);
struct ResNet : nn::Module<ResNet> {
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::vector<ResNetBlock> layer1, layer2, layer3, layer4;
  nn::Linear fc;

  explicit ResNet(const ResNetConfig& config, Generator& generator = default_generator());
  // Images [batch, inputs, height, width] to logits [batch, classes].
  Tensor operator()(const Tensor& images) const;
  template <class V>
  void visit(V& v) {
    v("conv1", conv1);
    v("bn1", bn1);
    v("layer1", layer1);
    v("layer2", layer2);
    v("layer3", layer3);
    v("layer4", layer4);
    v("fc", fc);
  }
};

}  // namespace heddle::models
