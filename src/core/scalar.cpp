#include "core/scalar.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ostream>

#include "base/error.h"

namespace heddle {
namespace {

// float <-> double by bits for NaN: the hardware would make a signalling NaN quiet, but loading and storing an
// element must not change it.
double widen(float value) {
  if (value == value) return value;
  uint64_t raw = std::bit_cast<uint32_t>(value);
  return std::bit_cast<double>((raw >> 31) << 63 | 0x7ff0000000000000ull | (raw & 0x7fffff) << 29);
}
float narrow(double value) {
  if (value == value) return static_cast<float>(value);
  uint64_t raw = std::bit_cast<uint64_t>(value);
  uint32_t mantissa = static_cast<uint32_t>(raw >> 29) & 0x7fffff;
  return std::bit_cast<float>(static_cast<uint32_t>(raw >> 63) << 31 | 0x7f800000 | (mantissa ? mantissa : 0x400000));
}

// To the float beside it whose last digit is odd, unless it is one itself: rounding that further is rounding once.
float narrow_to_odd(double value) {
  float near = narrow(value);
  double back = near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (back == value || value != value || (bits & 1)) return near;
  return std::bit_cast<float>(std::fabs(back) > std::fabs(value) ? bits - 1 : bits + 1);
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case kF8E4M3: return widen(static_cast<float>(Float8E4M3(narrow_to_odd(value))));
    case kF8E5M2: return widen(static_cast<float>(Float8E5M2(narrow_to_odd(value))));
    case kF16: return widen(static_cast<float>(Half(narrow(value))));
    case kBF16: return widen(static_cast<float>(BFloat16(narrow(value))));
    case kF32: return widen(narrow(value));
    default: return value;
  }
}

template <class T>
T saturate(double value) {
  if (value != value) return 0;
  // Both bounds are powers of two (or zero) as doubles once the upper one is taken exclusively.
  constexpr double lower = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double upper = 2.0 * static_cast<double>(T{1} << (std::numeric_limits<T>::digits - 1));
  if (value <= lower) return std::numeric_limits<T>::min();
  if (value >= upper) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

// Keeps the low bits, sign- or zero-extended as the dtype says.
Scalar wrap(DType dtype, uint64_t value) {
  return dispatch(dtype, [&]<class T>(TypeTag<T>) -> Scalar {
    Scalar result;
    result.dtype = dtype;
    if constexpr (std::is_same_v<T, bool>) {
      result.u = value != 0;
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      result.i = static_cast<T>(value);
    } else if constexpr (std::is_integral_v<T>) {
      result.u = static_cast<T>(value);
    }
    return result;
  });
}

Scalar float_scalar(DType dtype, double value) {
  Scalar result;
  result.dtype = dtype;
  result.f = value;
  return result;
}

// To f64 directly, to the others through f32: one rounding for f32, two for the small floats.
template <class Integer>
Scalar from_integer(DType dtype, Integer value) {
  if (!is_float(dtype)) return wrap(dtype, static_cast<uint64_t>(value));
  if (dtype == kF64) return float_scalar(dtype, static_cast<double>(value));
  return float_scalar(dtype, round_to(dtype, static_cast<float>(value)));
}

}  // namespace

Scalar Scalar::of(DType dtype, double value) {
  if (is_float(dtype)) return float_scalar(dtype, round_to(dtype, value));
  return dispatch(dtype, [&]<class T>(TypeTag<T>) -> Scalar {
    if constexpr (std::is_same_v<T, bool>) {
      return wrap(dtype, value != 0);
    } else if constexpr (std::is_integral_v<T>) {
      return wrap(dtype, static_cast<uint64_t>(saturate<T>(value)));
    } else {
      return float_scalar(dtype, value);
    }
  });
}
Scalar Scalar::of(DType dtype, int64_t value) { return from_integer(dtype, value); }
Scalar Scalar::of(DType dtype, uint64_t value) { return from_integer(dtype, value); }

double Scalar::as_double() const {
  if (is_float(dtype)) return f;
  return is_signed(dtype) ? static_cast<double>(i) : static_cast<double>(u);
}
int64_t Scalar::as_int() const { return is_float(dtype) ? saturate<int64_t>(f) : i; }
bool Scalar::as_bool() const { return is_float(dtype) ? f != 0 : u != 0; }

uint64_t Scalar::bits() const {
  switch (dtype) {
    case kF8E4M3: return Float8E4M3(narrow(f)).bits;
    case kF8E5M2: return Float8E5M2(narrow(f)).bits;
    case kF16: return Half(narrow(f)).bits;
    case kBF16: return BFloat16(narrow(f)).bits;
    case kF32: return std::bit_cast<uint32_t>(narrow(f));
    case kF64: return std::bit_cast<uint64_t>(f);
    default: break;
  }
  int size = size_of(dtype);
  return size == 8 ? u : u & ((uint64_t{1} << (size * 8)) - 1);
}

Scalar Scalar::from_bits(DType dtype, uint64_t bits) {
  switch (dtype) {
    case kF8E4M3: {
      Float8E4M3 small;
      small.bits = static_cast<uint8_t>(bits);
      return float_scalar(dtype, widen(static_cast<float>(small)));
    }
    case kF8E5M2: {
      Float8E5M2 small;
      small.bits = static_cast<uint8_t>(bits);
      return float_scalar(dtype, widen(static_cast<float>(small)));
    }
    case kF16: {
      Half half;
      half.bits = static_cast<uint16_t>(bits);
      return float_scalar(dtype, widen(static_cast<float>(half)));
    }
    case kBF16: {
      BFloat16 small;
      small.bits = static_cast<uint16_t>(bits);
      return float_scalar(dtype, widen(static_cast<float>(small)));
    }
    case kF32: return float_scalar(dtype, widen(std::bit_cast<float>(static_cast<uint32_t>(bits))));
    case kF64: return float_scalar(dtype, std::bit_cast<double>(bits));
    default: return wrap(dtype, bits);
  }
}

Scalar cast(const Scalar& value, DType to) {
  if (value.dtype == to) return value;
  if (is_float(value.dtype)) return Scalar::of(to, value.f);
  return is_signed(value.dtype) ? Scalar::of(to, value.i) : Scalar::of(to, value.u);
}

Scalar bitcast(const Scalar& value, DType to) {
  if (size_of(value.dtype) != size_of(to))
    throw DTypeError(text("bitcast: ", value.dtype, " and ", to, " differ in size"));
  return Scalar::from_bits(to, value.bits());
}

Scalar load_scalar(const void* base, int64_t element, DType dtype) {
  uint64_t bits = 0;
  int size = size_of(dtype);
  std::memcpy(&bits, static_cast<const char*>(base) + element * size, static_cast<size_t>(size));
  return Scalar::from_bits(dtype, bits);
}

void store_scalar(void* base, int64_t element, const Scalar& value) {
  uint64_t bits = value.bits();
  int size = size_of(value.dtype);
  std::memcpy(static_cast<char*>(base) + element * size, &bits, static_cast<size_t>(size));
}

std::string to_string(const Scalar& value) {
  if (value.dtype == kBool) return value.u ? "true" : "false";
  if (is_integer(value.dtype)) return is_signed(value.dtype) ? std::to_string(value.i) : std::to_string(value.u);
  if (value.f != value.f) return "nan";
  if (std::isinf(value.f)) return value.f < 0 ? "-inf" : "inf";
  char buffer[40];
  auto written = [&](std::to_chars_result end) { return std::string(buffer, end.ptr); };
  if (value.dtype == kF64) return written(std::to_chars(buffer, std::end(buffer), value.f));
  float single = static_cast<float>(value.f);
  std::string shortest = written(std::to_chars(buffer, std::end(buffer), single));
  if (value.dtype == kF32) return shortest;
  for (int digits = 1; digits < 9; ++digits) {
    std::string candidate =
        written(std::to_chars(buffer, std::end(buffer), single, std::chars_format::general, digits));
    if (candidate.size() >= shortest.size()) continue;
    if (Scalar::of(value.dtype, std::strtod(candidate.c_str(), nullptr)) == value) return candidate;
  }
  return shortest;
}

std::ostream& operator<<(std::ostream& out, const Scalar& value) { return out << to_string(value); }

}  // namespace heddle
