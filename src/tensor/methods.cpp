// Operators as methods of Tensor.
#include <heddle/ops.h>

namespace heddle {

#define HD_METHOD(name) \
  Tensor Tensor::name() const { return heddle::name(*this); }
HD_METHOD(abs)
HD_METHOD(square)
HD_METHOD(sqrt)
HD_METHOD(rsqrt)
HD_METHOD(reciprocal)
HD_METHOD(exp)
HD_METHOD(log)
HD_METHOD(sin)
HD_METHOD(cos)
HD_METHOD(tanh)
HD_METHOD(floor)
HD_METHOD(ceil)
HD_METHOD(round)
HD_METHOD(isnan)
HD_METHOD(relu)
HD_METHOD(sigmoid)
HD_METHOD(gelu)
HD_METHOD(clone)
#undef HD_METHOD
Tensor Tensor::pow(const Operand& exponent) const { return heddle::pow(*this, exponent); }
Tensor Tensor::clamp(const Operand& low, const Operand& high) const { return heddle::clamp(*this, low, high); }
Tensor Tensor::cast(DType to) const { return heddle::cast(*this, to); }

#define HD_METHOD(name) \
  Tensor Tensor::name(const Axes& axes, bool keepdim) const { return heddle::name(*this, axes, keepdim); }
HD_METHOD(sum)
HD_METHOD(prod)
HD_METHOD(mean)
HD_METHOD(max)
HD_METHOD(min)
HD_METHOD(any)
HD_METHOD(all)
#undef HD_METHOD
Tensor Tensor::var(const Axes& axes, bool keepdim, int64_t correction) const {
  return heddle::var(*this, axes, keepdim, correction);
}
Tensor Tensor::std(const Axes& axes, bool keepdim, int64_t correction) const {
  return heddle::std(*this, axes, keepdim, correction);
}
Tensor Tensor::norm(double p, const Axes& axes, bool keepdim) const { return heddle::norm(*this, p, axes, keepdim); }
Tensor Tensor::argmax(std::optional<int64_t> axis, bool keepdim) const { return heddle::argmax(*this, axis, keepdim); }
Tensor Tensor::argmin(std::optional<int64_t> axis, bool keepdim) const { return heddle::argmin(*this, axis, keepdim); }
Tensor Tensor::softmax(int64_t axis) const { return heddle::softmax(*this, axis); }
Tensor Tensor::log_softmax(int64_t axis) const { return heddle::log_softmax(*this, axis); }

Tensor Tensor::reshape(const Dims& dims) const { return heddle::reshape(*this, dims); }
Tensor Tensor::view(const Dims& dims) const { return heddle::view(*this, dims); }
Tensor Tensor::permute(const Axes& axes) const { return heddle::permute(*this, axes); }
Tensor Tensor::transpose(int64_t axis0, int64_t axis1) const { return heddle::transpose(*this, axis0, axis1); }
Tensor Tensor::t() const { return heddle::t(*this); }
Tensor Tensor::expand(const Dims& dims) const { return heddle::expand(*this, dims); }
Tensor Tensor::flatten(int64_t begin, int64_t end) const { return heddle::flatten(*this, begin, end); }
Tensor Tensor::squeeze(const Axes& axes) const { return heddle::squeeze(*this, axes); }
Tensor Tensor::unsqueeze(const Axes& axes) const { return heddle::unsqueeze(*this, axes); }
Tensor Tensor::flip(const Axes& axes) const { return heddle::flip(*this, axes); }
Tensor Tensor::slice(int64_t axis, std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step) const {
  return heddle::slice(*this, axis, begin, end, step);
}
Tensor Tensor::select(int64_t axis, int64_t index) const { return heddle::select(*this, axis, index); }

Tensor Tensor::matmul(const Tensor& other) const { return heddle::matmul(*this, other); }
Tensor Tensor::dot(const Tensor& other) const { return heddle::dot(*this, other); }

}  // namespace heddle
