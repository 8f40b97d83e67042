// C++ operators on tensors.
#pragma once

#include <heddle/ops/binary.h>
#include <heddle/ops/unary.h>
#include <concepts>

namespace heddle {

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }
inline Tensor operator!(const Tensor& x) { return logical_not(x); }

// One operand of an operator is a tensor, the other a tensor or a number.
template <class A, class B>
concept OperandPair = std::convertible_to<const A&, Operand> && std::convertible_to<const B&, Operand> &&
                      (std::same_as<A, Tensor> || std::same_as<B, Tensor>);
#define HD_OPERATOR(symbol, function)              \
  template <class A, class B>                      \
    requires OperandPair<A, B>                     \
  Tensor operator symbol(const A& a, const B& b) { \
    return function(a, b);                         \
  }
HD_OPERATOR(+, add)
HD_OPERATOR(-, sub)
HD_OPERATOR(*, mul)
HD_OPERATOR(/, div)
HD_OPERATOR(%, mod)
HD_OPERATOR(==, eq)
HD_OPERATOR(!=, ne)
HD_OPERATOR(<, lt)
HD_OPERATOR(<=, le)
HD_OPERATOR(>, gt)
HD_OPERATOR(>=, ge)
HD_OPERATOR(&, bitwise_and)
HD_OPERATOR(|, bitwise_or)
HD_OPERATOR(^, bitwise_xor)
HD_OPERATOR(<<, shift_left)
HD_OPERATOR(>>, shift_right)
#undef HD_OPERATOR

}  // namespace heddle
