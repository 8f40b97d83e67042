// What operators take: a tensor, or a number.
#pragma once

#include <heddle/tensor.h>

namespace heddle {

// A tensor, or a number that takes its dtype from the tensor beside it.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T number)
      : kind_(std::is_same_v<T, bool> ? Kind::Bool
              : std::is_integral_v<T> ? Kind::Integer
                                      : Kind::Float),
        integer_(std::is_integral_v<T> ? static_cast<int64_t>(number) : 0),
        real_(static_cast<double>(number)) {}

  enum class Kind { Tensor, Bool, Integer, Float };
  Kind kind() const { return kind_; }
  const Tensor& tensor() const { return *tensor_; }
  int64_t integer() const { return integer_; }  // of Bool and Integer; numbers from 2^63 on wrap around
  double real() const { return real_; }

 private:
  Kind kind_ = Kind::Tensor;
  const Tensor* tensor_ = nullptr;
  int64_t integer_ = 0;
  double real_ = 0;
};

}  // namespace heddle
