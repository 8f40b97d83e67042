// Layers against plain loops, their first values, and their complaints.
#include <heddle/nn.h>

#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Linear, multiplies_and_adds) {
  nn::Linear layer(3, 2);
  layer.weight.assign(tensor({{1, 2, 3}, {4, 5, 6}}));
  layer.bias->assign(tensor({10, 20}));
  expect_equal(layer(tensor({1, 1, 1})), {16, 35});
  EXPECT_EQ(layer(zeros({4, 5, 3})).shape(), (Dims{4, 5, 2}));
  nn::Linear plain(3, 2, false);
  EXPECT_EQ(plain.parameters().size(), 1u);
  expect_error<ShapeError>([&] { layer(zeros({7, 4})); }, {"Linear(3, 2)", "[7, 4]", "3"});
  expect_error<ShapeError>([&] { layer(scalar(1)); }, {"Linear(3, 2)"});
  expect_error<ValueError>([] { nn::Linear(0, 2); }, {"Linear", "0"});
}

TEST(Linear, first_values_are_spread_as_in_pytorch) {
  manual_seed(1);
  nn::Linear layer(100, 400);
  EXPECT_NEAR(layer.weight.max().item<double>(), 0.1, 1e-3);
  EXPECT_NEAR(layer.weight.min().item<double>(), -0.1, 1e-3);
  EXPECT_NEAR(layer.weight.std().item<double>(), 0.1 / std::sqrt(3.0), 1e-3);
  EXPECT_LE(abs(*layer.bias).max().item<double>(), 0.1);
  manual_seed(1);
  EXPECT_TRUE(equal(nn::Linear(100, 400).weight, layer.weight));
  Generator mine(1);
  EXPECT_TRUE(equal(nn::Linear(100, 400, true, kF32, mine).weight, layer.weight));
}

TEST(Init, deviations_follow_from_the_fans) {
  Dims shape{64, 32, 5};
  EXPECT_EQ(nn::init::fans(shape).in, 160);
  EXPECT_EQ(nn::init::fans(shape).out, 320);
  EXPECT_NEAR(nn::init::xavier_normal(shape).std().item<double>(), std::sqrt(2.0 / 480), 2e-3);
  EXPECT_NEAR(nn::init::xavier_uniform(shape, 2).std().item<double>(), 2 * std::sqrt(2.0 / 480), 3e-3);
  EXPECT_NEAR(nn::init::kaiming_normal(shape).std().item<double>(), std::sqrt(2.0 / 160), 3e-3);
  EXPECT_NEAR(nn::init::kaiming_uniform(shape, 1).std().item<double>(), std::sqrt(1.0 / 160), 2e-3);
  expect_error<ShapeError>([] { nn::init::fans({3}); }, {"two axes"});
}

TEST(Embedding, picks_rows_and_wants_integers) {
  nn::Embedding table(5, 3);
  Tensor y = table(tensor({{4, 0}}, kI32));
  EXPECT_EQ(y.shape(), (Dims{1, 2, 3}));
  EXPECT_TRUE(equal(y[0][0], table.weight[4]));
  expect_error<DTypeError>([&] { table(tensor({1.0})); }, {"Embedding(5, 3)", "f32"});
}

TEST(Norms, normalise_the_last_axes) {
  nn::LayerNorm norm(4);
  norm.weight.assign(full(4, 2));
  norm.bias->assign(full(4, 1));
  Tensor x = noise_tensor({3, 4});
  std::vector<double> v = doubles(x), want;
  for (size_t r = 0; r < 3; ++r) {
    double mean = 0, var = 0;
    for (size_t c = 0; c < 4; ++c) mean += v[4 * r + c] / 4;
    for (size_t c = 0; c < 4; ++c) var += (v[4 * r + c] - mean) * (v[4 * r + c] - mean) / 4;
    for (size_t c = 0; c < 4; ++c) want.push_back((v[4 * r + c] - mean) / std::sqrt(var + 1e-5) * 2 + 1);
  }
  expect_close(norm(x), want, 1e-5);
  EXPECT_FALSE(nn::LayerNorm({2, 2}, 1e-5, false).bias.has_value());
  expect_error<ShapeError>([&] { norm(zeros({3, 5})); }, {"layer_norm", "[4]", "[3, 5]"});
  nn::RMSNorm rms(2);
  expect_close(rms(tensor({3, 4})), {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}, 1e-5);
}

TEST(Activations, are_the_operators) {
  Tensor x = tensor({-1, 0.5});
  EXPECT_TRUE(equal(nn::ReLU()(x), relu(x)));
  EXPECT_TRUE(equal(nn::GELU()(x), gelu(x)));
  EXPECT_TRUE(equal(nn::SiLU()(x), silu(x)));
  EXPECT_TRUE(equal(nn::Tanh()(x), tanh(x)));
  EXPECT_TRUE(equal(nn::Sigmoid()(x), sigmoid(x)));
}

TEST(Dropout, scales_what_it_keeps) {
  nn::Dropout drop(0.25);
  std::vector<double> y = doubles(drop(ones(1000)));
  int kept = 0;
  for (double v : y) {
    EXPECT_TRUE(v == 0 || std::fabs(v - 4.0 / 3) < 1e-6);
    kept += v != 0;
  }
  EXPECT_NEAR(kept, 750, 60);
  expect_error<ValueError>([] { nn::Dropout(1.5); }, {"1.5"});
}

// One position and head at a time, in double.
std::vector<double> attention_by_hand(const nn::MultiHeadAttention& m, const Tensor& x, size_t time, size_t width) {
  std::vector<double> in = doubles(x), w = doubles(m.in_proj_weight), b = doubles(m.in_proj_bias);
  std::vector<double> ow = doubles(m.out_proj.weight), ob = doubles(*m.out_proj.bias);
  size_t heads = static_cast<size_t>(m.heads), part = width / heads;
  auto projected = [&](size_t t, size_t row) {
    double sum = b[row];
    for (size_t c = 0; c < width; ++c) sum += in[t * width + c] * w[row * width + c];
    return sum;
  };
  std::vector<double> mixed(time * width), out;
  for (size_t h = 0; h < heads; ++h)
    for (size_t q = 0; q < time; ++q) {
      std::vector<double> weight;
      double total = 0;
      for (size_t k = 0; k < (m.causal ? q + 1 : time); ++k) {
        double score = 0;
        for (size_t c = 0; c < part; ++c) score += projected(q, h * part + c) * projected(k, width + h * part + c);
        weight.push_back(std::exp(score / std::sqrt(static_cast<double>(part))));
        total += weight.back();
      }
      for (size_t k = 0; k < weight.size(); ++k)
        for (size_t c = 0; c < part; ++c)
          mixed[q * width + h * part + c] += weight[k] / total * projected(k, 2 * width + h * part + c);
    }
  for (size_t t = 0; t < time; ++t)
    for (size_t r = 0; r < width; ++r) {
      double sum = ob[r];
      for (size_t c = 0; c < width; ++c) sum += mixed[t * width + c] * ow[r * width + c];
      out.push_back(sum);
    }
  return out;
}

TEST(MultiHeadAttention, agrees_with_loops) {
  manual_seed(3);
  for (bool causal : {false, true}) {
    nn::MultiHeadAttention m(6, 2, causal);
    m.in_proj_bias.assign(noise_tensor({18}));
    Tensor x = noise_tensor({5, 6});
    std::vector<double> want = attention_by_hand(m, x, 5, 6);
    expect_close(m(x), want, 1e-5);
    EXPECT_TRUE(allclose(m(stack({x, x}))[1], m(x)));
    EXPECT_EQ(m.named_parameters()[2].first, "out_proj.weight");
  }
  expect_error<ValueError>([] { nn::MultiHeadAttention(6, 4); }, {"6", "4 heads"});
  expect_error<ShapeError>([] { nn::MultiHeadAttention(6, 2)(zeros({5, 7})); }, {"MultiHeadAttention(6, 2)", "[5, 7]"});
}

}  // namespace
}  // namespace heddle
