// An answer for every pixel: segmentation, and the noise of a diffusion model.
#include "bench/zoo/build.h"

namespace heddle::zoo {
namespace {

struct DoubleConv : nn::Module<DoubleConv> {
  nn::Conv2d first, second;
  DoubleConv(int64_t inputs, int64_t outputs)
      : first(inputs, outputs, 3, {.padding = 1}), second(outputs, outputs, 3, {.padding = 1}) {}
  Tensor operator()(const Tensor& x) const { return relu(second(relu(first(x)))); }
  template <class V>
  void visit(V& v) {
    v("first", first);
    v("second", second);
  }
};

struct UNet : nn::Module<UNet> {
  DoubleConv down, bottom, up;
  nn::ConvTranspose2d grow;
  nn::Conv2d out;
  explicit UNet(int64_t c)
      : down(1, c), bottom(c, 2 * c), up(2 * c, c), grow(2 * c, c, 2, {.stride = 2}), out(c, 3, 1) {}
  Tensor operator()(const Tensor& x) const {
    Tensor skip = down(x), low = bottom(max_pool2d(skip, 2));
    return out(up(cat({skip, grow(low)}, 1)));
  }
  template <class V>
  void visit(V& v) {
    v("down", down);
    v("bottom", bottom);
    v("up", up);
    v("grow", grow);
    v("out", out);
  }
};

// The lower level is enlarged by repeating.
struct UpsampledUNet : nn::Module<UpsampledUNet> {
  DoubleConv down, bottom, up;
  nn::Conv2d out;
  explicit UpsampledUNet(int64_t c) : down(1, c), bottom(c, 2 * c), up(3 * c, c), out(c, 3, 1) {}
  Tensor operator()(const Tensor& x) const {
    Tensor skip = down(x), low = bottom(max_pool2d(skip, 2));
    return out(up(cat({skip, repeat_interleave(repeat_interleave(low, 2, 2), 2, 3)}, 1)));
  }
  template <class V>
  void visit(V& v) {
    v("down", down);
    v("bottom", bottom);
    v("up", up);
    v("out", out);
  }
};

template <class Net>
Instance make_segmentation(Size size, DType dtype, uint64_t seed) {
  manual_seed(seed);
  int64_t side = pick(size, 8, 48), batch = pick(size, 2, 4);
  return classifier(Net(pick(size, 6, 24)), noise({batch, 1, side, side}), classes({batch, side, side}, 3), dtype);
}
Instance make_unet(Size size, DType dtype) { return make_segmentation<UNet>(size, dtype, 2); }
Instance make_unet_upsampled(Size size, DType dtype) { return make_segmentation<UpsampledUNet>(size, dtype, 3); }

// ---- diffusion ----

struct TimedBlock : nn::Module<TimedBlock> {
  nn::GroupNorm norm1, norm2;
  nn::Conv2d conv1, conv2;
  nn::Linear time;
  TimedBlock(int64_t channels, int64_t times)
      : norm1(4, channels),
        norm2(4, channels),
        conv1(channels, channels, 3, {.padding = 1}),
        conv2(channels, channels, 3, {.padding = 1}),
        time(times, channels) {}
  Tensor operator()(const Tensor& x, const Tensor& t) const {
    Tensor y = conv1(silu(norm1(x)));
    y = y + unsqueeze(time(silu(t)), {2, 3});
    return x + conv2(silu(norm2(y)));
  }
  template <class V>
  void visit(V& v) {
    v("norm1", norm1);
    v("norm2", norm2);
    v("conv1", conv1);
    v("conv2", conv2);
    v("time", time);
  }
};

struct ImageAttention : nn::Module<ImageAttention> {
  nn::GroupNorm norm;
  nn::Conv2d qkv, out;
  int64_t heads;
  ImageAttention(int64_t channels, int64_t head_count)
      : norm(4, channels), qkv(channels, 3 * channels, 1), out(channels, channels, 1), heads(head_count) {}
  Tensor operator()(const Tensor& x) const {
    int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
    std::vector<Tensor> parts = chunk(qkv(norm(x)), 3, 1);
    for (Tensor& part : parts) part = transpose(reshape(part, {n, heads, c / heads, h * w}), -2, -1);
    Tensor seen = scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return x + out(reshape(transpose(seen, -2, -1), {n, c, h, w}));
  }
  template <class V>
  void visit(V& v) {
    v("norm", norm);
    v("qkv", qkv);
    v("out", out);
    v.settings(heads);
  }
};

Tensor time_embedding(const Tensor& t, int64_t width, DType dtype) {
  Tensor rates = exp(arange(width / 2, wide(dtype)) * (-std::log(10000.0) / static_cast<double>(width / 2)));
  Tensor angles = unsqueeze(cast(t, wide(dtype)), 1) * rates;
  return cast(cat({sin(angles), cos(angles)}, 1), dtype);
}

struct Diffusion : nn::Module<Diffusion> {
  nn::Conv2d in, down, out;
  nn::Sequential time;
  TimedBlock first, middle, last;
  ImageAttention attention;
  nn::ConvTranspose2d up;
  nn::GroupNorm norm;
  int64_t width;
  explicit Diffusion(int64_t c)
      : in(3, c, 3, {.padding = 1}),
        down(c, c, 3, {.stride = 2, .padding = 1}),
        out(c, 3, 3, {.padding = 1}),
        time(nn::Linear(c, 2 * c), nn::SiLU(), nn::Linear(2 * c, 2 * c)),
        first(c, 2 * c),
        middle(c, 2 * c),
        last(c, 2 * c),
        attention(c, 2),
        up(c, c, 4, {.stride = 2, .padding = 1}),
        norm(4, c),
        width(c) {}
  Tensor operator()(const Tensor& x, const Tensor& t) const {
    Tensor embedded = time(time_embedding(t, width, x.dtype()));
    Tensor high = first(in(x), embedded);
    Tensor low = attention(middle(down(high), embedded));
    return out(silu(norm(last(up(low) + high, embedded))));
  }
  template <class V>
  void visit(V& v) {
    v("in_", in);
    v("down", down);
    v("out", out);
    v("time", time);
    v("first", first);
    v("middle", middle);
    v("last", last);
    v("attention", attention);
    v("up", up);
    v("norm", norm);
    v.settings(width);
  }
};

Instance make_diffusion(Size size, DType dtype) {
  manual_seed(9);
  int64_t c = pick(size, 8, 32), side = pick(size, 8, 24), batch = pick(size, 2, 4);
  Dims shape{batch, 3, side, side};
  return trained(
      Diffusion(c), {{"x", noise(shape, 1)}, {"t", classes({batch}, 1000)}, {"noise", noise(shape, 3)}}, dtype,
      [](const Diffusion& net, const TensorList& b) { return net(b[0], b[1]); },
      [](const Diffusion& net, const TensorList& b) {
        // How much is left of the image at time t: a squared cosine.
        Tensor angle = cast(b[1], wide(b[0].dtype())) * (std::numbers::pi / 2000);
        Tensor kept = cast(unsqueeze(cos(angle), {1, 2, 3}), b[0].dtype());
        Tensor added = cast(unsqueeze(sin(angle), {1, 2, 3}), b[0].dtype());
        return mse_loss(net(kept * b[0] + added * b[2], b[1]), b[2]);
      });
}

constexpr Entry kModels[] = {
    {"unet", "skips, transposed convolution", make_unet},
    {"unet_upsampled", "skips, repeated pixels", make_unet_upsampled},
    {"diffusion", "group norm, attention over pixels, embedded times", make_diffusion},
};

}  // namespace

std::span<const Entry> pixel_models() { return kModels; }

}  // namespace heddle::zoo
