// What the files of models share.
#pragma once

#include <cmath>
#include <numbers>

#include "bench/zoo/zoo.h"

namespace heddle::zoo {

// A gradient that is rounding noise alone stays small beside epsilon, so that two machines train alike.
inline optim::AdamWOptions adamw() { return {.lr = 0.01, .epsilon = 1e-3, .weight_decay = 0.05}; }

// What positions and times are computed in: f32, or f64 in a model of f64.
inline DType wide(DType dtype) { return dtype == kF64 ? kF64 : kF32; }

inline int64_t pick(Size size, int64_t small, int64_t bench) { return size == Size::Small ? small : bench; }

// Numbers of mean 0 and variance 1, and classes; the same for the same seed.
inline Tensor noise(const Dims& shape, uint64_t seed = 1) {
  Generator generator(seed);
  return randn(shape, kF32, generator).realize();
}
inline Tensor classes(const Dims& shape, int64_t count, uint64_t seed = 2) {
  Generator generator(seed);
  return randint(shape, 0, count, kI64, generator).realize();
}

inline NamedTensors in_dtype(NamedTensors data, DType dtype) {
  for (auto& [name, tensor] : data)
    if (is_float(tensor.dtype())) tensor = cast(tensor, dtype).realize();
  return data;
}

// A model that one optimiser trains. `forward` is called with the net and the batch, `loss` with the same.
template <class Net, class Forward, class Loss>
Instance trained(Net given, const NamedTensors& data, DType dtype, Forward forward, Loss loss) {
  given.to(dtype);
  auto net = std::make_shared<Net>(given);
  auto opt = std::make_shared<optim::AdamW>(*net, adamw());
  Instance result;
  result.state = net->state();
  result.data = in_dtype(data, dtype);
  result.forward = [net, forward](const TensorList& batch) { return TensorList{forward(*net, batch)}; };
  result.step = [net, opt, loss](const TensorList& batch) {
    Tensor value = loss(*net, batch);
    opt->step(grad(value, net->parameters()));
    return TensorList{value};
  };
  result.train = [net](bool on) { net->train(on); };
  return result;
}

// One of inputs and classes.
template <class Net>
Instance classifier(const Net& net, const Tensor& x, const Tensor& targets, DType dtype) {
  return trained(
      net, {{"x", x}, {"targets", targets}}, dtype, [](const Net& n, const TensorList& b) { return n(b[0]); },
      [](const Net& n, const TensorList& b) { return cross_entropy(n(b[0]), b[1]); });
}

}  // namespace heddle::zoo
