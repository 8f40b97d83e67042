// Models that make images: two optimisers in turn, transposed convolutions, a penalty on a gradient.
#include "bench/zoo/build.h"

namespace heddle::zoo {
namespace {

constexpr int64_t kLatent = 16;
optim::AdamOptions adam() { return {.lr = 0.002, .beta1 = 0.5, .epsilon = 1e-3}; }

struct Generator2d : nn::Module<Generator2d> {
  nn::Sequential layers;
  explicit Generator2d(int64_t c, int64_t latent)
      : layers(nn::ConvTranspose2d(latent, 4 * c, 4, {.bias = false}), nn::BatchNorm2d(4 * c), nn::ReLU(),
               nn::ConvTranspose2d(4 * c, 2 * c, 4, {.stride = 2, .padding = 1, .bias = false}), nn::BatchNorm2d(2 * c),
               nn::ReLU(), nn::ConvTranspose2d(2 * c, c, 4, {.stride = 2, .padding = 1, .bias = false}),
               nn::BatchNorm2d(c), nn::ReLU(), nn::ConvTranspose2d(c, 3, 4, {.stride = 2, .padding = 1, .bias = false}),
               nn::Tanh()) {}
  Tensor operator()(const Tensor& z) const { return layers(z); }
  template <class V>
  void visit(V& v) {
    v("layers", layers);
  }
};

struct LeakyReLU : nn::Module<LeakyReLU> {
  Tensor operator()(const Tensor& x) const { return leaky_relu(x, 0.2); }
  template <class V>
  void visit(V&) {}
};

struct Discriminator : nn::Module<Discriminator> {
  nn::Sequential layers;
  explicit Discriminator(int64_t c)
      : layers(nn::Conv2d(3, c, 4, {.stride = 2, .padding = 1, .bias = false}), LeakyReLU(),
               nn::Conv2d(c, 2 * c, 4, {.stride = 2, .padding = 1, .bias = false}), nn::BatchNorm2d(2 * c), LeakyReLU(),
               nn::Conv2d(2 * c, 4 * c, 4, {.stride = 2, .padding = 1, .bias = false}), nn::BatchNorm2d(4 * c),
               LeakyReLU(), nn::Conv2d(4 * c, 1, 4, {.bias = false}), nn::Flatten(0)) {}
  Tensor operator()(const Tensor& x) const { return layers(x); }
  template <class V>
  void visit(V& v) {
    v("layers", layers);
  }
};

// Two nets, each with an optimiser of its own.
template <class First, class Second>
struct Pair : nn::Module<Pair<First, Second>> {
  First generator;
  Second discriminator;
  std::optional<optim::Adam> generator_opt, discriminator_opt;
  Pair(const First& first, const Second& second, DType dtype) : generator(first), discriminator(second) {
    generator.to(dtype);
    discriminator.to(dtype);
    generator_opt.emplace(generator, adam());
    discriminator_opt.emplace(discriminator, adam());
  }
  template <class V>
  void visit(V& v) {
    v("generator", generator);
    v("discriminator", discriminator);
  }
};

template <class Nets, class Step>
Instance adversaries(Nets given, const NamedTensors& data, DType dtype, Step step) {
  auto nets = std::make_shared<Nets>(std::move(given));
  Instance result;
  result.state = nets->state();
  result.data = in_dtype(data, dtype);
  result.forward = [nets](const TensorList& batch) { return TensorList{nets->generator(batch[0])}; };
  result.step = [nets, step](const TensorList& batch) { return step(*nets, batch); };
  result.train = [nets](bool on) { nets->train(on); };
  return result;
}

Instance make_dcgan(Size size, DType dtype) {
  manual_seed(10);
  int64_t c = pick(size, 2, 16), batch = pick(size, 2, 16), latent = pick(size, kLatent, 64);
  using Nets = Pair<Generator2d, Discriminator>;
  return adversaries(Nets(Generator2d(c, latent), Discriminator(c), dtype),
                     {{"z", noise({batch, latent, 1, 1})}, {"images", tanh(noise({batch, 3, 32, 32}, 3)).realize()}},
                     dtype, [](Nets& nets, const TensorList& b) {
                       Tensor made = nets.generator(b[0]);
                       Tensor real = nets.discriminator(b[1]), fake = nets.discriminator(detach(made));
                       Tensor d_loss = bce_with_logits(real, ones_like(real)) + bce_with_logits(fake, zeros_like(fake));
                       nets.discriminator_opt->step(grad(d_loss, nets.discriminator.parameters()));
                       Tensor judged = nets.discriminator(made);
                       Tensor g_loss = bce_with_logits(judged, ones_like(judged));
                       nets.generator_opt->step(grad(g_loss, nets.generator.parameters()));
                       return TensorList{d_loss, g_loss};
                     });
}

// Wasserstein with a penalty on the critic's gradient: second derivatives.
struct Mlp : nn::Module<Mlp> {
  nn::Sequential layers;
  Mlp(int64_t inputs, int64_t hidden, int64_t outputs)
      : layers(nn::Linear(inputs, hidden), LeakyReLU(), nn::Linear(hidden, hidden), LeakyReLU(),
               nn::Linear(hidden, outputs)) {}
  Tensor operator()(const Tensor& x) const { return layers(x); }
  template <class V>
  void visit(V& v) {
    v("layers", layers);
  }
};

Instance make_wgan_gp(Size size, DType dtype) {
  manual_seed(11);
  int64_t hidden = pick(size, 24, 256), width = pick(size, 8, 128), batch = pick(size, 6, 64);
  using Nets = Pair<Mlp, Mlp>;
  Generator random(4);
  return adversaries(Nets(Mlp(kLatent, hidden, width), Mlp(width, hidden, 1), dtype),
                     {{"z", noise({batch, kLatent})},
                      {"real", noise({batch, width}, 3)},
                      {"mix", uniform({batch, 1}, 0, 1, kF32, random).realize()}},
                     dtype, [](Nets& nets, const TensorList& b) {
                       const Mlp& critic = nets.discriminator;
                       Tensor made = nets.generator(b[0]), fake = detach(made);
                       Tensor between = (b[2] * b[1] + (1 - b[2]) * fake).requires_grad_();
                       Tensor slope = grad(critic(between).sum(), between);
                       Tensor penalty = square(norm(slope, 2, 1) - 1).mean();
                       Tensor c_loss = critic(fake).mean() - critic(b[1]).mean() + 10 * penalty;
                       nets.discriminator_opt->step(grad(c_loss, critic.parameters()));
                       Tensor g_loss = -critic(made).mean();
                       nets.generator_opt->step(grad(g_loss, nets.generator.parameters()));
                       return TensorList{c_loss, g_loss};
                     });
}

struct VAE : nn::Module<VAE> {
  nn::Sequential encoder, decoder;
  nn::Linear mean, log_variance, grow;
  int64_t channels, side;
  VAE(int64_t c, int64_t image, int64_t latent)
      : encoder(nn::Conv2d(1, c, 3, {.stride = 2, .padding = 1}), nn::ReLU(),
                nn::Conv2d(c, 2 * c, 3, {.stride = 2, .padding = 1}), nn::ReLU(), nn::Flatten()),
        decoder(nn::ConvTranspose2d(2 * c, c, 3, {.stride = 2, .padding = 1, .output_padding = 1}), nn::ReLU(),
                nn::ConvTranspose2d(c, 1, 3, {.stride = 2, .padding = 1, .output_padding = 1})),
        mean(2 * c * image * image / 16, latent),
        log_variance(2 * c * image * image / 16, latent),
        grow(latent, 2 * c * image * image / 16),
        channels(2 * c),
        side(image / 4) {}
  struct Result {
    Tensor image, mean, log_variance;
  };
  Result operator()(const Tensor& x, const Tensor& noise) const {
    Tensor seen = encoder(x), m = mean(seen), v = log_variance(seen);
    Tensor z = m + exp(v * 0.5) * noise;
    return {decoder(reshape(relu(grow(z)), {x.size(0), channels, side, side})), m, v};
  }
  template <class V>
  void visit(V& v) {
    v("encoder", encoder);
    v("decoder", decoder);
    v("mean", mean);
    v("log_variance", log_variance);
    v("grow", grow);
    v.settings(channels, side);
  }
};

Instance make_vae(Size size, DType dtype) {
  manual_seed(12);
  int64_t c = pick(size, 4, 32), side = pick(size, 8, 28), batch = pick(size, 4, 32);
  return trained(
      VAE(c, side, kLatent),
      {{"x", sigmoid(noise({batch, 1, side, side})).realize()}, {"noise", noise({batch, kLatent}, 3)}}, dtype,
      [](const VAE& net, const TensorList& b) { return net(b[0], b[1]).image; },
      [](const VAE& net, const TensorList& b) {
        auto [image, mean, log_variance] = net(b[0], b[1]);
        Tensor kl = (exp(log_variance) + square(mean) - 1 - log_variance).sum() * 0.5;
        Tensor lost = bce_with_logits(image, b[0], {.reduction = Reduction::Sum});
        return (lost + kl) / static_cast<double>(b[0].numel());
      });
}

constexpr Entry kModels[] = {
    {"dcgan", "two optimisers in turn, transposed convolutions", make_dcgan},
    {"wgan_gp", "two optimisers in turn, second derivatives", make_wgan_gp},
    {"vae", "transposed convolutions, a sampled code", make_vae},
};

}  // namespace

std::span<const Entry> generative_models() { return kModels; }

}  // namespace heddle::zoo
