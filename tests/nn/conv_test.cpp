// Layers with convolutions and statistics; what PyTorch makes of the same tensors is compared in tests/torch.
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

std::vector<std::string> names(const NamedTensors& list) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

TEST(ConvLayers, shapes_and_names) {
  nn::Conv2d conv(6, 8, {3, 1}, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2});
  EXPECT_EQ(conv.weight.shape(), (Dims{8, 3, 3, 1}));
  EXPECT_EQ(conv(zeros({2, 6, 9, 5})).shape(), (Dims{2, 8, 5, 5}));
  EXPECT_EQ(names(conv.named_parameters()), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_FALSE(nn::Conv1d(2, 3, 3, {.bias = false}).bias.has_value());
  EXPECT_EQ(nn::Conv1d(2, 3, 3, {.padding = "same"})(zeros({1, 2, 9})).shape(), (Dims{1, 3, 9}));
  EXPECT_EQ(nn::Conv3d(2, 3, 2)(zeros({1, 2, 4, 4, 4})).shape(), (Dims{1, 3, 3, 3, 3}));
  nn::ConvTranspose2d up(6, 4, 2, {.stride = 2, .groups = 2});
  EXPECT_EQ(up.weight.shape(), (Dims{6, 2, 2, 2}));
  EXPECT_EQ(up(zeros({1, 6, 5, 5})).shape(), (Dims{1, 4, 10, 10}));
  double bound = 1 / std::sqrt(9.0);
  for (double w : doubles(conv.weight)) EXPECT_LE(std::fabs(w), bound);
}

TEST(ConvLayers, bad_arguments) {
  expect_error<ValueError>([] { nn::Conv2d(4, 6, 3, {.groups = 4}); }, {"Conv2d(4, 6)", "4 groups"});
  expect_error<ValueError>([] { nn::Conv2d(4, 6, {1, 2, 3}); }, {"Conv2d", "[1, 2, 3]", "2 axes"});
  expect_error<ValueError>([] { nn::Conv2d(4, 0, 3); }, {"Conv2d", "[0, 4, 3, 3]"});
  expect_error<ShapeError>([] { nn::Conv2d(4, 6, 3)(zeros({1, 3, 5, 5})); }, {"conv2d", "[1, 3, 5, 5]"});
  expect_error<ShapeError>([] { nn::BatchNorm2d(4)(zeros({2, 3, 5, 5})); }, {"BatchNorm2d(4)", "[2, 3, 5, 5]"});
  expect_error<ShapeError>([] { nn::BatchNorm1d(4)(zeros({2, 4, 5, 5})); }, {"BatchNorm1d(4)", "2 axes or 3"});
  expect_error<ValueError>([] { nn::BatchNorm1d(4)(zeros({1, 4})); }, {"BatchNorm1d(4)", "[1, 4]"});
  expect_error<ValueError>([] { nn::GroupNorm(3, 4); }, {"GroupNorm", "3 groups"});
  expect_error<ShapeError>([] { nn::GroupNorm(2, 4)(zeros({1, 3})); }, {"GroupNorm(2, 4)", "[1, 3]"});
  expect_error<ShapeError>([] { batch_norm(zeros({1, 3}), zeros(2), ones(3)); }, {"batch_norm", "mean", "[2]"});
}

// The statistics of one channel.
struct Statistics {
  double mean = 0, variance = 0;
};
std::vector<Statistics> statistics(const Tensor& x) {
  std::vector<double> values = doubles(x.transpose(0, 1).clone());
  size_t channels = static_cast<size_t>(x.size(1)), count = values.size() / channels;
  std::vector<Statistics> result(channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < count; ++i) result[c].mean += values[c * count + i] / static_cast<double>(count);
    for (size_t i = 0; i < count; ++i)
      result[c].variance += std::pow(values[c * count + i] - result[c].mean, 2) / static_cast<double>(count);
  }
  return result;
}

TEST(BatchNorm, normalises_with_the_batch_and_keeps_running_statistics) {
  nn::BatchNorm2d norm(3, {.momentum = 0.25});
  Tensor x = noise_tensor({4, 3, 5, 6}) * 3 + tensor({1, -5, 10}).reshape(3, 1, 1);
  std::vector<Statistics> want = statistics(x);
  for (const Statistics& s : statistics(norm(x))) {
    EXPECT_NEAR(s.mean, 0, 1e-5);
    EXPECT_NEAR(s.variance, 1, 1e-4);
  }
  norm(x).realize();
  std::vector<double> mean = doubles(norm.running_mean), variance = doubles(norm.running_var);
  double kept = 0.75 * 0.75;
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(mean[c], (1 - kept) * want[c].mean, 1e-4);
    EXPECT_NEAR(variance[c], kept + (1 - kept) * want[c].variance * 120 / 119, 1e-3);
  }
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 2);
  // Then nothing moves any more.
  norm.eval();
  std::vector<double> values = doubles(x), got = doubles(norm(x));
  for (size_t i = 0; i < values.size(); ++i) {
    size_t c = i / 30 % 3;
    EXPECT_NEAR(got[i], (values[i] - mean[c]) / std::sqrt(variance[c] + 1e-5), 1e-4);
  }
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 2);
  expect_equal(norm.running_mean, mean);
}

TEST(BatchNorm, statistics_are_state_and_no_parameters) {
  nn::Sequential net(nn::Conv2d(2, 4, 3), nn::BatchNorm2d(4), nn::ReLU());
  EXPECT_EQ(names(net.named_parameters()), (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias"}));
  EXPECT_EQ(net.state().size(), 7u);
  EXPECT_TRUE(net.state().contains("1.num_batches_tracked"));
  EXPECT_EQ(net.parameter_count(), 2 * 4 * 9 + 4 + 8);
  // Whatever is frozen, and no longer: they never are trained.
  net.freeze();
  EXPECT_TRUE(net.parameters().empty());
  net.unfreeze();
  EXPECT_EQ(net.parameters().size(), 4u);
  EXPECT_FALSE(net.at<nn::BatchNorm2d>(1).running_mean.requires_grad());
  EXPECT_NE(net.summary().find("running_var"), std::string::npos);
  // A copy has statistics of its own.
  nn::Sequential other = net.copy();
  other(noise_tensor({2, 2, 5, 5})).realize();
  realize({other.at<nn::BatchNorm2d>(1).running_mean});
  expect_equal(net.at<nn::BatchNorm2d>(1).running_mean, {0, 0, 0, 0});
  EXPECT_NE(doubles(other.at<nn::BatchNorm2d>(1).running_mean)[0], 0);
  net.load_state(other.state());
  expect_equal(net.at<nn::BatchNorm2d>(1).running_mean, doubles(other.at<nn::BatchNorm2d>(1).running_mean));
  // to() converts them with the rest, but for the count.
  net.to(kBF16);
  EXPECT_EQ(net.at<nn::BatchNorm2d>(1).running_var.dtype(), kBF16);
  EXPECT_EQ(net.at<nn::BatchNorm2d>(1).num_batches_tracked.dtype(), kI64);
  EXPECT_EQ(net(noise_tensor({2, 2, 5, 5}).cast(kBF16)).dtype(), kBF16);
}

TEST(BatchNorm, in_a_captured_training_step) {
  auto run = [](bool captured) {
    manual_seed(3);
    nn::Sequential net(nn::Conv2d(1, 4, 3, {.padding = 1}), nn::BatchNorm2d(4), nn::ReLU(), nn::MaxPool2d(2),
                       nn::Flatten(), nn::Linear(4 * 16, 3));
    optim::SGD opt(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    Tensor x = noise_tensor({6, 1, 8, 8}), t = tensor({0, 1, 2, 0, 1, 2}, kI64);
    auto body = [&](const Tensor& in, const Tensor& target) {
      Tensor loss = cross_entropy(net(in), target);
      opt.step(grad(loss, net.parameters()));
      return loss;
    };
    auto step = jit(body);
    std::vector<double> losses;
    for (int i = 0; i < 12; ++i) losses.push_back((captured ? step(x, t) : body(x, t)).item<float>());
    for (double v : doubles(net.at<nn::BatchNorm2d>(1).running_mean)) losses.push_back(v);
    for (double v : doubles(net.at<nn::BatchNorm2d>(1).running_var)) losses.push_back(v);
    losses.push_back(net.at<nn::BatchNorm2d>(1).num_batches_tracked.item<double>());
    return losses;
  };
  std::vector<double> plain = run(false), fast = run(true);
  ASSERT_EQ(plain.size(), fast.size());
  EXPECT_LT(plain[11], 0.5 * plain[0]);
  EXPECT_EQ(fast.back(), 12);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], fast[i], 1e-3) << i;
}

TEST(GroupNorm, normalises_parts_of_the_channels) {
  Tensor x = noise_tensor({3, 6, 4, 2}) * 2 + 1;
  nn::GroupNorm norm(2, 6);
  Tensor groups = norm(x).reshape(6, 1, 24).transpose(0, 1);
  for (const Statistics& s : statistics(groups)) {
    EXPECT_NEAR(s.mean, 0, 1e-5);
    EXPECT_NEAR(s.variance, 1, 1e-4);
  }
  norm.weight->assign(counting({6}));
  norm.bias->assign(counting({6}) + 1);
  expect_close(norm(x)[0][0], std::vector<double>(8, 1));
  EXPECT_EQ(nn::GroupNorm(3, 6, 1e-5, false).parameters().size(), 0u);
}

TEST(Pools, as_layers) {
  nn::Sequential net(nn::MaxPool2d(3, {.stride = 2, .padding = 1}), nn::AvgPool2d(2), nn::AdaptiveAvgPool2d(1),
                     nn::Flatten());
  EXPECT_EQ(net(zeros({2, 5, 16, 16})).shape(), (Dims{2, 5}));
  expect_error<ShapeError>([&] { net(zeros({5})); }, {"layer 0", "MaxPool2d", "[5]"});
}

TEST(BatchNorm, as_a_function_does_what_the_layer_does) {
  Tensor x = randn({6, 3, 4});
  nn::BatchNorm1d layer(3);
  Tensor mean = zeros(3), var = ones(3), batches = zeros({}, kI64);
  Tensor y = nn::batch_norm_training(x, mean, var, batches, layer.weight, layer.bias);
  EXPECT_TRUE(equal(layer(x), y));
  EXPECT_TRUE(equal(layer.running_mean, mean));
  EXPECT_TRUE(equal(layer.running_var, var));
  EXPECT_EQ(batches.item<int>(), 1);
  EXPECT_THROW(nn::batch_norm_training(x, zeros(4), ones(4), batches), ShapeError);
  EXPECT_THROW(nn::batch_norm_training(ones({1, 3}), mean, var, batches), ValueError);
}

}  // namespace
}  // namespace heddle
