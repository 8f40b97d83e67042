// Dtypes in full: dispatch from a run-time dtype to a C++ type, promotion.
#pragma once

#include <heddle/dtype.h>

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace heddle {

template <class T>
inline constexpr bool kSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
                                    std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type of dtype.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
#define HD_DTYPE(enumerator, name, type, bits, kind) \
  case DType::enumerator: return f(TypeTag<type>{});
#include "core/dtypes.def"
#undef HD_DTYPE
  }
  __builtin_unreachable();
}

// Integers that are no element type themselves (long long, char) count by size and sign.
template <class T>
constexpr DType dtype_of() {
#define HD_DTYPE(enumerator, name, type, bits, kind) \
  if constexpr (std::is_same_v<T, type>)             \
    return DType::enumerator;                        \
  else
#include "core/dtypes.def"
#undef HD_DTYPE
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return std::is_signed_v<T> ? DType::i64 : DType::u64;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? DType::i8 : DType::u8;
  else
    static_assert(sizeof(T) == 0, "not an element type");
}

// The dtype of `a op b` for two tensors. Floats win over integers, wider over narrower; f16 with bf16 gives f32,
// f8e4m3 with f8e5m2 f16;
// signed with unsigned gives the narrowest signed type that holds both (u64 with a signed type: f64, as NumPy).
DType promote(DType a, DType b);
// The dtype of `tensor op scalar`: a scalar literal is weak, it changes the class (bool < integer < float) but
// never the width. A class the tensor does not have takes its default: i64, f32.
enum class ScalarClass { Bool, Integer, Float };
DType promote_weak(DType tensor, ScalarClass scalar);
// The largest value of a float dtype: infinity, where it has one.
double upper_limit(DType dtype);
// Digits of the significand of a float, bits of the magnitude of an integer.
int precision(DType dtype);
// In which dtype a kernel computes: small floats in f32, the rest in themselves.
DType compute_dtype(DType dtype);
// Parses "f32"; throws ValueError for anything else.
DType dtype_from_name(std::string_view name);

}  // namespace heddle
