// Element types.
#pragma once

#include <cstdint>
#include <iosfwd>

namespace heddle {

enum class DType : uint8_t { boolean, i8, i16, i32, i64, u8, u16, u32, u64, f8e4m3, f8e5m2, f16, bf16, f32, f64 };

inline constexpr DType kBool = DType::boolean, kI8 = DType::i8, kI16 = DType::i16, kI32 = DType::i32, kI64 = DType::i64,
                       kU8 = DType::u8, kU16 = DType::u16, kU32 = DType::u32, kU64 = DType::u64,
                       kF8E4M3 = DType::f8e4m3, kF8E5M2 = DType::f8e5m2, kF16 = DType::f16, kBF16 = DType::bf16,
                       kF32 = DType::f32, kF64 = DType::f64;

const char* name(DType dtype);  // "f32", "bool"
int size_of(DType dtype);       // bytes of one element in memory; bool takes one
bool is_float(DType dtype);
bool is_integer(DType dtype);  // bool is not an integer
bool is_signed(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

// Small floats as storage: conversion rounds to nearest even and keeps NaN a NaN. Arithmetic is done in float.
struct Half {  // IEEE binary16; overflows to infinity
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
};
struct BFloat16 {  // the upper half of a float; overflows to infinity
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const;
};
struct Float8E4M3 {  // OCP's E4M3 ("FN"): no infinity, up to 448; overflow and infinity give NaN
  uint8_t bits = 0;
  Float8E4M3() = default;
  explicit Float8E4M3(float value);
  explicit operator float() const;
};
struct Float8E5M2 {  // OCP's E5M2: like IEEE's, up to 57344; overflows to infinity
  uint8_t bits = 0;
  Float8E5M2() = default;
  explicit Float8E5M2(float value);
  explicit operator float() const;
};

}  // namespace heddle
