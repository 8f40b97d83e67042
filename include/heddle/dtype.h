// Element types.
#pragma once

#include <cstdint>
#include <iosfwd>

namespace heddle {

enum class DType : uint8_t { boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64 };

inline constexpr DType kBool = DType::boolean, kI8 = DType::i8, kI16 = DType::i16, kI32 = DType::i32, kI64 = DType::i64,
                       kU8 = DType::u8, kU16 = DType::u16, kU32 = DType::u32, kU64 = DType::u64, kF16 = DType::f16,
                       kBF16 = DType::bf16, kF32 = DType::f32, kF64 = DType::f64;

const char* name(DType dtype);  // "f32", "bool"
int size_of(DType dtype);       // bytes of one element in memory; bool takes one
bool is_float(DType dtype);
bool is_integer(DType dtype);  // bool is not an integer
bool is_signed(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace heddle
