#include <heddle/heddle.h>

#include <cmath>
#include <cstdio>

namespace hd = heddle;

// Trains a line, saves it, and reads it back.
int main() {
  hd::nn::Linear net(1, 1);
  hd::optim::SGD o(net, {.lr = 0.1});
  hd::Tensor x = hd::tensor({{0.}, {1.}, {2.}}), t = x * 3 - 1;
  auto step = hd::jit([&](const hd::Tensor& a, const hd::Tensor& b) {
    hd::Tensor loss = hd::mse_loss(net(a), b);
    o.step(hd::grad(loss, net.parameters()));
    return loss;
  });
  float loss = 0;
  for (int i = 0; i < 300; ++i) loss = step(x, t).item<float>();
  net.save("line.safetensors");
  hd::nn::Linear again(1, 1);
  again.load("line.safetensors");
  float slope = again.weight.item<float>();
  std::printf("loss %g, slope %g\n", loss, slope);
  return loss < 1e-3 && std::abs(slope - 3) < 0.1 ? 0 : 1;
}
