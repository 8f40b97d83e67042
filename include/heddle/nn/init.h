// First values of parameters, as in torch.nn.init. Computed at once.
#pragma once

#include <heddle/ops/random.h>

namespace heddle::nn::init {

// Inputs and outputs of one element of a weight [outputs, inputs, ...]; further axes count for both.
struct Fans {
  int64_t in = 0, out = 0;
};
Fans fans(const Dims& shape);

// Variance 2 * gain^2 / (inputs + outputs).
Tensor xavier_uniform(const Dims& shape, double gain = 1, DType dtype = kF32,
                      Generator& generator = default_generator());
Tensor xavier_normal(const Dims& shape, double gain = 1, DType dtype = kF32,
                     Generator& generator = default_generator());
// Variance 2 / ((1 + slope^2) * inputs): keeps the variance through leaky_relu(slope).
Tensor kaiming_uniform(const Dims& shape, double slope = 0, DType dtype = kF32,
                       Generator& generator = default_generator());
Tensor kaiming_normal(const Dims& shape, double slope = 0, DType dtype = kF32,
                      Generator& generator = default_generator());

}  // namespace heddle::nn::init
