// Classifiers of images.
#include "bench/zoo/build.h"

namespace heddle::zoo {
namespace {

Instance make_vgg(Size size, DType dtype) {
  manual_seed(1);
  int64_t c = pick(size, 8, 32), side = pick(size, 8, 32), batch = pick(size, 8, 16);
  nn::Sequential net(nn::Conv2d(3, c, 3, {.padding = 1}), nn::ReLU(), nn::Conv2d(c, c, 3, {.padding = 1}), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Conv2d(c, 2 * c, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2),
                     nn::Flatten(), nn::Linear(2 * c * side * side / 16, 64), nn::ReLU(), nn::Linear(64, 10));
  return classifier(net, noise({batch, 3, side, side}), classes({batch}, 10), dtype);
}

struct Residual : nn::Module<Residual> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  std::optional<nn::Sequential> downsample;
  Residual(int64_t inputs, int64_t outputs, int64_t stride)
      : conv1(inputs, outputs, 3, {.stride = stride, .padding = 1, .bias = false}),
        conv2(outputs, outputs, 3, {.padding = 1, .bias = false}),
        bn1(outputs),
        bn2(outputs) {
    if (stride != 1 || inputs != outputs)
      downsample =
          nn::Sequential(nn::Conv2d(inputs, outputs, 1, {.stride = stride, .bias = false}), nn::BatchNorm2d(outputs));
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + (downsample ? (*downsample)(x) : x));
  }
  template <class V>
  void visit(V& v) {
    v("conv1", conv1);
    v("conv2", conv2);
    v("bn1", bn1);
    v("bn2", bn2);
    v("downsample", downsample);
  }
};

Instance make_resnet(Size size, DType dtype) {
  manual_seed(2);
  int64_t c = pick(size, 8, 32), side = pick(size, 8, 32), batch = pick(size, 4, 16);
  nn::Sequential net(nn::Conv2d(3, c, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(c), nn::ReLU(),
                     Residual(c, c, 1), Residual(c, 2 * c, 2), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                     nn::Linear(2 * c, 10));
  net.to(kBF16);  // the model's own dtype
  return classifier(net, cast(noise({batch, 3, side, side}), kBF16), classes({batch}, 10), dtype);
}

struct Separable : nn::Module<Separable> {
  nn::Conv2d depthwise, pointwise;
  nn::BatchNorm2d first, second;
  Separable(int64_t inputs, int64_t outputs, int64_t stride)
      : depthwise(inputs, inputs, 3, {.stride = stride, .padding = 1, .groups = inputs, .bias = false}),
        pointwise(inputs, outputs, 1, {.bias = false}),
        first(inputs),
        second(outputs) {}
  Tensor operator()(const Tensor& x) const { return relu6(second(pointwise(relu6(first(depthwise(x)))))); }
  template <class V>
  void visit(V& v) {
    v("depthwise", depthwise);
    v("pointwise", pointwise);
    v("first", first);
    v("second", second);
  }
};

Instance make_mobilenet(Size size, DType dtype) {
  manual_seed(4);
  int64_t c = pick(size, 8, 32), side = pick(size, 10, 64), batch = 8;
  nn::Sequential net(nn::Conv2d(3, c, 3, {.stride = 2, .padding = 1, .bias = false}), nn::BatchNorm2d(c), nn::ReLU(),
                     Separable(c, 2 * c, 1), Separable(2 * c, 4 * c, 2), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                     nn::Linear(4 * c, 48), nn::SiLU(), nn::Linear(48, 10));
  return classifier(net, noise({batch, 3, side, side}), classes({batch}, 10), dtype);
}

// ResNeXt: the middle convolution in groups.
struct Grouped : nn::Module<Grouped> {
  nn::Conv2d reduce, grouped, expand;
  nn::BatchNorm2d bn1, bn2, bn3;
  Grouped(int64_t channels, int64_t width, int64_t groups)
      : reduce(channels, width, 1, {.bias = false}),
        grouped(width, width, 3, {.padding = 1, .groups = groups, .bias = false}),
        expand(width, channels, 1, {.bias = false}),
        bn1(width),
        bn2(width),
        bn3(channels) {}
  Tensor operator()(const Tensor& x) const { return relu(x + bn3(expand(relu(bn2(grouped(relu(bn1(reduce(x))))))))); }
  template <class V>
  void visit(V& v) {
    v("reduce", reduce);
    v("grouped", grouped);
    v("expand", expand);
    v("bn1", bn1);
    v("bn2", bn2);
    v("bn3", bn3);
  }
};

Instance make_resnext(Size size, DType dtype) {
  manual_seed(3);
  int64_t c = pick(size, 16, 128), side = pick(size, 8, 28), batch = pick(size, 2, 8), groups = pick(size, 4, 16);
  nn::Sequential net(nn::Conv2d(3, c, 3, {.stride = 2, .padding = 1, .bias = false}), nn::BatchNorm2d(c), nn::ReLU(),
                     Grouped(c, c / 2, groups), Grouped(c, c / 2, groups), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                     nn::Linear(c, 10));
  return classifier(net, noise({batch, 3, 2 * side, 2 * side}), classes({batch}, 10), dtype);
}

struct ConvNeXtBlock : nn::Module<ConvNeXtBlock> {
  nn::Conv2d depthwise;
  nn::LayerNorm norm;
  nn::Linear wide, narrow;
  explicit ConvNeXtBlock(int64_t channels)
      : depthwise(channels, channels, 7, {.padding = 3, .groups = channels}),
        norm(channels),
        wide(channels, 4 * channels),
        narrow(4 * channels, channels) {}
  Tensor operator()(const Tensor& x) const {
    Tensor y = norm(permute(depthwise(x), {0, 2, 3, 1}));
    return x + permute(narrow(gelu(wide(y))), {0, 3, 1, 2});
  }
  template <class V>
  void visit(V& v) {
    v("depthwise", depthwise);
    v("norm", norm);
    v("wide", wide);
    v("narrow", narrow);
  }
};

Instance make_convnext(Size size, DType dtype) {
  manual_seed(5);
  int64_t c = pick(size, 16, 64), side = pick(size, 6, 24), batch = pick(size, 4, 8);
  nn::Sequential net(nn::Conv2d(3, c, 2, {.stride = 2}), ConvNeXtBlock(c), ConvNeXtBlock(c), nn::AdaptiveAvgPool2d(1),
                     nn::Flatten(), nn::Linear(c, 10));
  return classifier(net, noise({batch, 3, 2 * side, 2 * side}), classes({batch}, 10), dtype);
}

// A vision transformer: patches, a token for the class, learned positions.
struct ViT : nn::Module<ViT> {
  struct Block : nn::Module<Block> {
    nn::LayerNorm norm1, norm2;
    nn::MultiHeadAttention attention;
    nn::Linear up, down;
    Block(int64_t width, int64_t heads)
        : norm1(width), norm2(width), attention(width, heads), up(width, 4 * width), down(4 * width, width) {}
    Tensor operator()(const Tensor& x) const {
      Tensor y = x + attention(norm1(x));
      return y + down(gelu(up(norm2(y))));
    }
    template <class V>
    void visit(V& v) {
      v("norm1", norm1);
      v("norm2", norm2);
      v("attention", attention);
      v("up", up);
      v("down", down);
    }
  };
  nn::Conv2d patches;
  Tensor token, positions;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  ViT(int64_t width, int64_t heads, int64_t layers, int64_t count)
      : patches(3, width, 4, {.stride = 4}),
        token(randn({1, 1, width}).realize()),
        positions((randn({1, count + 1, width}) * 0.02).realize()),
        norm(width),
        head(width, 10) {
    for (int64_t i = 0; i < layers; ++i) blocks.emplace_back(width, heads);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = transpose(flatten(patches(x), 2), 1, 2);
    y = cat({expand(token, {x.size(0), 1, y.size(2)}), y}, 1) + positions;
    for (const Block& block : blocks) y = block(y);
    return head(select(norm(y), 1, 0));
  }
  template <class V>
  void visit(V& v) {
    v("patches", patches);
    v("token", token);
    v("positions", positions);
    v("blocks", blocks);
    v("norm", norm);
    v("head", head);
  }
};

Instance make_vit(Size size, DType dtype) {
  manual_seed(8);
  int64_t side = pick(size, 12, 32), batch = pick(size, 2, 8), width = pick(size, 16, 128);
  ViT net(width, pick(size, 2, 4), 2, side * side / 16);
  return classifier(net, noise({batch, 3, side, side}), classes({batch}, 10), dtype);
}

constexpr Entry kModels[] = {
    {"vgg", "3x3 convolutions and pooling", make_vgg},
    {"resnet", "residual blocks, batch norm in bf16", make_resnet, kBF16},
    {"mobilenet", "depthwise convolutions, relu6", make_mobilenet},
    {"resnext", "grouped convolutions", make_resnext},
    {"convnext", "7x7 depthwise convolutions, layer norm over channels", make_convnext},
    {"vit", "patches, class token", make_vit},
};

}  // namespace

std::span<const Entry> image_models() { return kModels; }

}  // namespace heddle::zoo
