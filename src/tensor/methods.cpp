// Operators as methods of Tensor.
#include <heddle/ops.h>

namespace heddle {

Tensor Tensor::sum(const Axes& axes, bool keepdim) const { return heddle::sum(*this, axes, keepdim); }
Tensor Tensor::mean(const Axes& axes, bool keepdim) const { return heddle::mean(*this, axes, keepdim); }
Tensor Tensor::max(const Axes& axes, bool keepdim) const { return heddle::max(*this, axes, keepdim); }
Tensor Tensor::min(const Axes& axes, bool keepdim) const { return heddle::min(*this, axes, keepdim); }
Tensor Tensor::reshape(const Dims& dims) const { return heddle::reshape(*this, dims); }
Tensor Tensor::permute(const Axes& axes) const { return heddle::permute(*this, axes); }
Tensor Tensor::transpose(int64_t axis0, int64_t axis1) const { return heddle::transpose(*this, axis0, axis1); }
Tensor Tensor::cast(DType to) const { return heddle::cast(*this, to); }
Tensor Tensor::operator[](int64_t index) const { return heddle::select(*this, 0, index); }

}  // namespace heddle
