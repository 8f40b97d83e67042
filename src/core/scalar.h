// One value of any dtype.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "core/dtype.h"

namespace heddle {

// Floats are held as double (every dtype's values are exact in it), signed integers as int64, unsigned ones and
// bool as uint64. The value is always representable in dtype.
struct Scalar {
  DType dtype = DType::f32;
  union {
    double f;
    int64_t i;
    uint64_t u;
  };

  Scalar() : f(0) {}
  // Converts with the rules of cast(): see there.
  static Scalar of(DType dtype, double value);
  static Scalar of(DType dtype, int64_t value);
  static Scalar of(DType dtype, uint64_t value);
  static Scalar of(DType dtype, int value) { return of(dtype, int64_t{value}); }
  static Scalar of(DType dtype, bool value) { return of(dtype, int64_t{value}); }

  double as_double() const;
  int64_t as_int() const;  // floats truncate and saturate; NaN gives 0
  bool as_bool() const;
  uint64_t bits() const;  // the element's bytes in memory, zero extended
  static Scalar from_bits(DType dtype, uint64_t bits);

  // Equality of dtype and bits: NaN equals itself, 0 differs from -0.
  friend bool operator==(const Scalar& a, const Scalar& b) { return a.dtype == b.dtype && a.bits() == b.bits(); }
};

// Conversion between dtypes, the same on every target: float to float rounds to nearest even; float to integer
// truncates and saturates, NaN gives 0; integer to integer wraps; anything to bool is `!= 0`; integer to float
// rounds to nearest even. Conversions to f16 and bf16, from whatever type, go through f32 (two roundings): that is
// what every target does cheaply. Those to the f8 types round once. What is too large becomes infinity, in f8e4m3,
// which has none, NaN.
Scalar cast(const Scalar& value, DType to);
// Reinterprets the bits; the dtypes have the same size.
Scalar bitcast(const Scalar& value, DType to);

Scalar load_scalar(const void* base, int64_t element, DType dtype);
void store_scalar(void* base, int64_t element, const Scalar& value);

// "1.5", "-inf", "nan", "true": shortest text that reads back to the same value of the dtype.
std::string to_string(const Scalar& value);
std::ostream& operator<<(std::ostream& out, const Scalar& value);

}  // namespace heddle
