// Making tensors.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& shape);
template <class T>
Tensor from_data(const T* values, const Dims& shape);                     // copies
Tensor tensor(std::initializer_list<double> values, DType dtype = kF32);  // one axis
Tensor scalar(const Operand& value, DType dtype = kF32);
Tensor full(const Dims& shape, const Operand& value, DType dtype = kF32);  // an integer dtype must hold the number
Tensor zeros(const Dims& shape, DType dtype = kF32);
Tensor ones(const Dims& shape, DType dtype = kF32);
Tensor arange(int64_t end, DType dtype = kI64);
Tensor arange(double begin, double end, double step, DType dtype = kF32);
Tensor eye(int64_t n, DType dtype = kF32);

}  // namespace heddle
