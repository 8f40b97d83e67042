// Models: names, shapes, what they compute, how many kernels they take.
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(GPT2, has_the_published_names_and_sizes) {
  models::GPT2 net(models::gpt2_tiny());
  TensorMap state = net.state();
  for (const char* name : {"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias", "h.1.attn.c_attn.bias",
                           "h.1.attn.c_proj.weight", "h.0.ln_2.weight", "h.0.mlp.c_fc.bias", "ln_f.bias"})
    EXPECT_TRUE(state.contains(name)) << name;
  EXPECT_EQ(state.at("h.0.attn.c_attn.weight").shape(), (Dims{64, 192}));
  EXPECT_EQ(state.at("h.0.mlp.c_proj.weight").shape(), (Dims{256, 64}));
  EXPECT_EQ(state.size(), 4u + 2 * 12);
  // The formula that gives 124,439,808 for the small one.
  auto count = [](const models::GPT2Config& c) {
    return c.vocabulary * c.width + c.context * c.width + c.layers * (12 * c.width * c.width + 13 * c.width) +
           2 * c.width;
  };
  EXPECT_EQ(net.parameter_count(), count(models::gpt2_tiny()));
  EXPECT_EQ(count(models::gpt2_small()), 124'439'808);
  EXPECT_EQ(count(models::gpt2_medium()), 354'823'168);
  EXPECT_EQ(count(models::gpt2_large()), 774'030'080);
  EXPECT_EQ(count(models::gpt2_xl()), 1'557'611'200);
}

TEST(GPT2, no_place_sees_a_later_one) {
  manual_seed(1);
  models::GPT2 net(models::gpt2_tiny());
  Tensor ids = (arange(2 * 9) * 37 % 256).reshape(2, 9).realize();
  Tensor logits = net(ids);
  EXPECT_EQ(logits.shape(), (Dims{2, 9, 256}));
  Tensor shorter = net(slice(ids, 1, 0, 5));
  expect_close(slice(logits, 1, 0, 5), doubles(shorter), 1e-5);
  // At first nothing is known: the loss is about that of guessing.
  EXPECT_NEAR(net.loss(ids, (ids + 100) % 256).item<float>(), std::log(256.0), 0.5);
  expect_error<ShapeError>([&] { net(zeros({1, 65}, kI64)); }, {"GPT2", "[1, 65]", "64 places"});
}

TEST(GPT2, learns_a_sequence_in_a_captured_step) {
  manual_seed(2);
  models::GPT2 net(models::gpt2_tiny());
  optim::AdamW opt(net.parameters(), {.lr = 3e-3});
  Tensor ids = (arange(4 * 17) * 7 % 31).reshape(4, 17).realize();
  Tensor x = slice(ids, 1, 0, 16).clone().realize(), t = slice(ids, 1, 1).clone().realize();
  auto step = jit([&](const Tensor& in, const Tensor& target) {
    Tensor loss = net.loss(in, target);
    opt.step(grad(loss, net.parameters()));
    return loss;
  });
  double first = step(x, t).item<float>(), last = first;
  for (int i = 0; i < 40; ++i) last = step(x, t).item<float>();
  EXPECT_LT(last, 0.3 * first);
}

TEST(GPT2, in_bf16_is_near) {
  manual_seed(4);
  models::GPT2 net(models::gpt2_tiny());
  Tensor ids = (arange(8) * 11 % 256).reshape(1, 8).realize();
  std::vector<double> want = doubles(net(ids));
  models::GPT2 small = net.copy();
  small.to(kBF16);
  Tensor got = small(ids);
  EXPECT_EQ(got.dtype(), kBF16);
  std::vector<double> values = doubles(got);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], 0.05);
}

TEST(ResNet, has_torchvisions_names_and_sizes) {
  models::ResNet net(models::resnet18());
  EXPECT_EQ(net.parameter_count(), 11'689'512);
  TensorMap state = net.state();
  EXPECT_EQ(state.size(), 122u);
  EXPECT_EQ(state.at("layer2.0.downsample.0.weight").shape(), (Dims{128, 64, 1, 1}));
  EXPECT_EQ(state.at("layer4.1.bn2.running_var").shape(), (Dims{512}));
  EXPECT_EQ(state.at("conv1.weight").shape(), (Dims{64, 3, 7, 7}));
}

TEST(ResNet, narrow_ones_of_both_kinds_give_logits_and_gradients) {
  for (bool bottleneck : {false, true}) {
    manual_seed(5);
    models::ResNet net({.blocks = {1, 2, 1, 1}, .bottleneck = bottleneck, .classes = 7, .width = 4});
    Tensor x = noise_tensor({2, 3, 32, 32}), t = tensor({1, 5}, kI64);
    EXPECT_EQ(net(x).shape(), (Dims{2, 7}));
    Tensor loss = cross_entropy(net(x), t);
    std::vector<Tensor> gradients = grad(loss, net.parameters());
    realize(gradients);
    for (const Tensor& g : gradients)
      for (double v : doubles(g)) ASSERT_TRUE(std::isfinite(v));
    net.eval();
    Tensor together = net(x);
    expect_close(net(slice(x, 0, 0, 1)), doubles(slice(together, 0, 0, 1)), 1e-4);
  }
}

TEST(ResNet, larger_ones_have_the_known_number_of_parameters) {
  EXPECT_EQ(models::ResNet(models::resnet34()).parameter_count(), 21'797'672);
  EXPECT_EQ(models::ResNet(models::resnet50()).parameter_count(), 25'557'032);
}

// Every convolution is a kernel that normalises, adds and clips what it computes.
TEST(ResNet, normalisation_is_part_of_the_convolutions) {
  if (packs_in_kernels()) GTEST_SKIP() << "a GPU packs the factors of small images in kernels of their own";
  models::ResNet net({.blocks = {1, 1, 1, 1}, .classes = 10, .width = 8});
  net.eval();
  Tensor x = noise_tensor({2, 3, 64, 64});
  Tensor y = net(x);
  StatsSince stats;
  y.realize();
  // 12 convolutions, pooling twice, and the last layer.
  EXPECT_LE(stats->launches, 15u);
}

}  // namespace
}  // namespace heddle
