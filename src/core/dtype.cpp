#include "core/dtype.h"

#include <cmath>
#include <limits>
#include <ostream>

#include "base/error.h"

namespace heddle {
namespace {

enum class Kind : uint8_t { Bool, Signed, Unsigned, Float };
struct DTypeInfo {
  const char* name;
  int bytes;
  Kind kind;
};
constexpr DTypeInfo kDTypes[] = {
#define HD_DTYPE(enumerator, name, type, bits, kind) {name, bits / 8, Kind::kind},
#include "core/dtypes.def"
#undef HD_DTYPE
};
const DTypeInfo& info_of(DType dtype) { return kDTypes[static_cast<int>(dtype)]; }

DType signed_of_bytes(int bytes) { return bytes == 1 ? kI8 : bytes == 2 ? kI16 : bytes == 4 ? kI32 : kI64; }

// Drops the low `count` bits of a magnitude, rounding to nearest even. Works on bit patterns of floats: a carry
// out of the mantissa increments the exponent, which is what rounding up means.
uint32_t round_off(uint32_t bits, int count) {
  uint32_t half = 1u << (count - 1);
  uint32_t odd = (bits >> count) & 1;
  return (bits + half - 1 + odd) >> count;
}

}  // namespace

Half::Half(float value) {
  uint32_t raw = std::bit_cast<uint32_t>(value);
  uint32_t sign = (raw >> 16) & 0x8000, magnitude = raw & 0x7fffffff;
  uint32_t rounded;
  if (magnitude > 0x7f800000) {  // NaN: keep the upper payload; one that would vanish becomes the quiet NaN
    rounded = 0x7c00 | ((magnitude >> 13) & 0x3ff);
    if (rounded == 0x7c00) rounded = 0x7e00;
  } else if (magnitude >= 0x47800000) {  // 65536 and more
    rounded = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // normal halves: rebias the exponent; 65520 and more carry into infinity
    rounded = round_off(magnitude - 0x38000000, 13);
  } else if (magnitude >= 0x33000000) {  // subnormal halves, multiples of 2^-24: let the float adder round
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    rounded = std::bit_cast<uint32_t>(shifted) - 0x3f000000;
  } else {
    rounded = 0;
  }
  bits = static_cast<uint16_t>(sign | rounded);
}

Half::operator float() const {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

BFloat16::BFloat16(float value) {
  uint32_t raw = std::bit_cast<uint32_t>(value);
  uint32_t magnitude = raw & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    bits = static_cast<uint16_t>(raw >> 16);
    if ((bits & 0x7f) == 0) bits |= 0x40;
  } else {
    bits = static_cast<uint16_t>(((raw >> 16) & 0x8000) | round_off(magnitude, 16));
  }
}

BFloat16::operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

namespace {

// A format of eight bits: `digits` of the fraction, the exponents' bias; what stands above the largest number.
struct Format8 {
  int digits, bias;
  uint32_t above;     // everything from this float's bits on becomes `overflow`
  uint32_t overflow;  // infinity, or the NaN of a format without one
};
constexpr Format8 kE4M3{3, 7, 0x43f00000, 0x7f}, kE5M2{2, 15, 0x47800000, 0x7c};

uint8_t encode(float value, const Format8& format) {
  uint32_t raw = std::bit_cast<uint32_t>(value);
  uint32_t sign = (raw >> 24) & 0x80, magnitude = raw & 0x7fffffff;
  uint32_t rounded;
  if (magnitude >= format.above) {
    rounded = format.overflow;
  } else if (magnitude >= static_cast<uint32_t>(128 - format.bias) << 23) {
    // Rebias the exponent. What rounds above the largest number carries into the code of infinity or NaN.
    rounded = round_off(magnitude - (static_cast<uint32_t>(127 - format.bias) << 23), 23 - format.digits);
  } else {  // subnormal: beside a number with the same last place the float adder rounds
    uint32_t anchor = static_cast<uint32_t>(127 + 24 - format.bias - format.digits) << 23;
    rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(anchor)) - anchor;
  }
  return static_cast<uint8_t>(sign | rounded);
}

float decode(uint8_t bits, const Format8& format) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24, magnitude = bits & 0x7f;
  uint32_t shifted = magnitude << (23 - format.digits);
  float finite = std::bit_cast<float>(shifted) * std::bit_cast<float>(static_cast<uint32_t>(254 - format.bias) << 23);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(finite));
}

}  // namespace

Float8E4M3::Float8E4M3(float value) : bits(encode(value, kE4M3)) {}
Float8E4M3::operator float() const {
  if ((bits & 0x7f) == 0x7f) return std::bit_cast<float>(static_cast<uint32_t>(bits & 0x80) << 24 | 0x7fc00000u);
  return decode(bits, kE4M3);
}

Float8E5M2::Float8E5M2(float value) : bits(encode(value, kE5M2)) {
  if (value == value) return;  // NaN: keep the upper payload; one that would vanish becomes the quiet NaN
  uint32_t raw = std::bit_cast<uint32_t>(value);
  uint32_t payload = (raw >> 21) & 3;
  bits = static_cast<uint8_t>((raw >> 24 & 0x80) | 0x7c | (payload ? payload : 2));
}
Float8E5M2::operator float() const {
  uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24, magnitude = bits & 0x7f;
  if (magnitude >= 0x7c) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 3) << 21);
  return decode(bits, kE5M2);
}

const char* name(DType dtype) { return info_of(dtype).name; }
int size_of(DType dtype) { return info_of(dtype).bytes; }
bool is_float(DType dtype) { return info_of(dtype).kind == Kind::Float; }
bool is_integer(DType dtype) {
  Kind kind = info_of(dtype).kind;
  return kind == Kind::Signed || kind == Kind::Unsigned;
}
bool is_signed(DType dtype) {
  Kind kind = info_of(dtype).kind;
  return kind == Kind::Signed || kind == Kind::Float;
}
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

DType promote(DType a, DType b) {
  if (a == b || b == kBool) return a;
  if (a == kBool) return b;
  if (is_float(a) || is_float(b)) {
    if (!is_float(b)) return a;
    if (!is_float(a)) return b;
    if (size_of(a) != size_of(b)) return size_of(a) > size_of(b) ? a : b;
    return size_of(a) == 1 ? kF16 : kF32;  // neither holds the other
  }
  if (is_signed(a) == is_signed(b)) return size_of(a) > size_of(b) ? a : b;
  DType plus = is_signed(a) ? a : b, minus = is_signed(a) ? b : a;  // the signed one, the unsigned one
  if (size_of(plus) > size_of(minus)) return plus;
  return minus == kU64 ? kF64 : signed_of_bytes(size_of(minus) * 2);
}

DType promote_weak(DType tensor, ScalarClass scalar) {
  switch (scalar) {
    case ScalarClass::Bool: return tensor;
    case ScalarClass::Integer: return tensor == kBool ? kI64 : tensor;
    case ScalarClass::Float: return is_float(tensor) ? tensor : kF32;
  }
  __builtin_unreachable();
}

double upper_limit(DType dtype) { return dtype == kF8E4M3 ? 448 : std::numeric_limits<double>::infinity(); }

int precision(DType dtype) {
  switch (dtype) {
    case kBool: return 1;
    case kF8E4M3: return 4;
    case kF8E5M2: return 3;
    case kF16: return 11;
    case kBF16: return 8;
    case kF32: return 24;
    case kF64: return 53;
    default: return 8 * size_of(dtype) - (is_signed(dtype) ? 1 : 0);
  }
}

DType compute_dtype(DType dtype) { return is_float(dtype) && size_of(dtype) < 4 ? kF32 : dtype; }

DType dtype_from_name(std::string_view wanted) {
  for (size_t i = 0; i < std::size(kDTypes); ++i)
    if (wanted == kDTypes[i].name) return static_cast<DType>(i);
  throw ValueError(text("unknown dtype \"", wanted, "\""));
}

}  // namespace heddle
