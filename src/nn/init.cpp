#include <heddle/nn/init.h>
#include <cmath>

#include "base/error.h"

namespace heddle::nn::init {
namespace {

Tensor uniform_of(const Dims& shape, double deviation, DType dtype, Generator& generator) {
  double bound = deviation * std::sqrt(3.0);
  return uniform(shape, -bound, bound, dtype, generator).realize();
}
double xavier_deviation(const Dims& shape, double gain) {
  Fans f = fans(shape);
  return gain * std::sqrt(2.0 / static_cast<double>(f.in + f.out));
}
double kaiming_deviation(const Dims& shape, double slope) {
  return std::sqrt(2.0 / ((1 + slope * slope) * static_cast<double>(fans(shape).in)));
}

}  // namespace

Fans fans(const Dims& shape) {
  if (shape.size() < 2) throw ShapeError(text("init: a weight has two axes or more, not ", shape.size()));
  int64_t field = 1;
  for (size_t i = 2; i < shape.size(); ++i) field *= shape[i];
  Fans f{shape[1] * field, shape[0] * field};
  if (f.in <= 0 || f.out <= 0) throw ShapeError("init: the weight has no elements");
  return f;
}

Tensor xavier_uniform(const Dims& shape, double gain, DType dtype, Generator& generator) {
  return uniform_of(shape, xavier_deviation(shape, gain), dtype, generator);
}
Tensor xavier_normal(const Dims& shape, double gain, DType dtype, Generator& generator) {
  return normal(shape, 0, xavier_deviation(shape, gain), dtype, generator).realize();
}
Tensor kaiming_uniform(const Dims& shape, double slope, DType dtype, Generator& generator) {
  return uniform_of(shape, kaiming_deviation(shape, slope), dtype, generator);
}
Tensor kaiming_normal(const Dims& shape, double slope, DType dtype, Generator& generator) {
  return normal(shape, 0, kaiming_deviation(shape, slope), dtype, generator).realize();
}

}  // namespace heddle::nn::init
