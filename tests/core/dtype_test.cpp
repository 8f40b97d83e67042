#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include <heddle/error.h>
#include "core/scalar.h"

namespace heddle {
namespace {

constexpr DType kAll[] = {kBool, kI8,     kI16,    kI32, kI64,  kU8,  kU16, kU32,
                          kU64,  kF8E4M3, kF8E5M2, kF16, kBF16, kF32, kF64};

Half half_of_bits(uint16_t bits) {
  Half h;
  h.bits = bits;
  return h;
}
BFloat16 bf16_of_bits(uint16_t bits) {
  BFloat16 b;
  b.bits = bits;
  return b;
}

// The value of a small float straight from the definition.
double decode(uint16_t bits, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << mantissa_bits) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TEST(DType, every_half_converts_to_its_value_and_back) {
  for (int bits = 0; bits < 65536; ++bits) {
    auto pattern = static_cast<uint16_t>(bits);
    float value = static_cast<float>(half_of_bits(pattern));
    double expected = decode(pattern, 5, 10);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
    }
    ASSERT_EQ(Half(value).bits, pattern) << bits;
  }
}

TEST(DType, every_bfloat16_converts_to_its_value_and_back) {
  for (int bits = 0; bits < 65536; ++bits) {
    auto pattern = static_cast<uint16_t>(bits);
    float value = static_cast<float>(bf16_of_bits(pattern));
    double expected = decode(pattern, 8, 7);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
    }
    ASSERT_EQ(BFloat16(value).bits, pattern) << bits;
  }
}

// Between every two neighbours: just below the middle, the middle (to even), just above.
template <class T>
void check_rounding(uint16_t infinity, T (*of_bits)(uint16_t)) {
  for (uint16_t bits = 0; bits + 1 < infinity; ++bits) {
    float low = static_cast<float>(of_bits(bits)), high = static_cast<float>(of_bits(static_cast<uint16_t>(bits + 1)));
    float middle = low + (high - low) / 2;
    if (middle == low || middle == high) continue;  // f32 itself has no room: bf16 subnormals never get here
    uint16_t even = bits % 2 == 0 ? bits : static_cast<uint16_t>(bits + 1);
    ASSERT_EQ(T(middle).bits, even) << bits;
    ASSERT_EQ(T(-middle).bits, even | 0x8000) << bits;
    ASSERT_EQ(T(std::nextafterf(middle, 0)).bits, bits);
    ASSERT_EQ(T(std::nextafterf(middle, INFINITY)).bits, bits + 1);
  }
}

TEST(DType, half_rounds_to_nearest_even) { check_rounding<Half>(0x7c00, half_of_bits); }
TEST(DType, bfloat16_rounds_to_nearest_even) { check_rounding<BFloat16>(0x7f80, bf16_of_bits); }

TEST(DType, small_floats_overflow_to_infinity_and_underflow_to_zero) {
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(-1e30f).bits, 0xfc00);
  EXPECT_EQ(Half(0x1p-25f).bits, 0);
  EXPECT_EQ(Half(-0x1p-25f).bits, 0x8000);
  EXPECT_EQ(Half(0x1.8p-25f).bits, 1);
  EXPECT_EQ(BFloat16(3.4e38f).bits, 0x7f80);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7f7f7fffu)).bits, 0x7f7f);
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0xff800001u)))));
}

// f8: the values of all codes, by the definition.
double value_of_f8(DType dtype, int code) {
  if (dtype == kF8E4M3) {
    if ((code & 0x7f) == 0x7f) return NAN;
    int exponent = code >> 3 & 15, fraction = code & 7;
    double magnitude = exponent ? std::ldexp(8 + fraction, exponent - 10) : std::ldexp(fraction, -9);
    return code & 0x80 ? -magnitude : magnitude;
  }
  return decode(static_cast<uint16_t>(code << 8), 5, 10);
}

TEST(DType, every_f8_converts_to_its_value_and_back) {
  for (DType dtype : {kF8E4M3, kF8E5M2})
    for (int code = 0; code < 256; ++code) {
      Scalar element = Scalar::from_bits(dtype, static_cast<uint64_t>(code));
      double expected = value_of_f8(dtype, code);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(element.f)) << code;
      } else {
        ASSERT_EQ(element.f, expected) << code;
        ASSERT_EQ(std::signbit(element.f), code >= 128) << code;
      }
      ASSERT_EQ(element.bits(), static_cast<uint64_t>(code));
      for (DType wide : {kF16, kBF16, kF32, kF64}) {
        Scalar back = cast(cast(element, wide), dtype);
        ASSERT_TRUE(back == element || std::isnan(expected)) << code << " through " << wide;
      }
    }
}

// The nearest element, the one with an even code of two; beyond the largest whatever a further step would be.
uint64_t nearest_f8(DType dtype, double value) {
  double magnitude = std::fabs(value);
  int infinite = dtype == kF8E4M3 ? 0x7f : 0x7c;  // E4M3 has NaN there
  auto at = [&](int code) {
    return code == infinite ? (dtype == kF8E4M3 ? 480.0 : 65536.0) : value_of_f8(dtype, code);
  };
  int best = 0;
  if (std::isnan(value)) return dtype == kF8E4M3 ? 0x7f : 0x7e;
  for (int code = 1; code <= infinite; ++code) {
    double closer = (at(code) - magnitude) - (magnitude - at(best));  // exact: few digits
    if (magnitude == INFINITY || closer < 0 || (closer == 0 && code % 2 == 0)) best = code;
  }
  return static_cast<uint64_t>(best) | (std::signbit(value) ? 0x80 : 0);
}

TEST(DType, f8_rounds_once_from_every_dtype) {
  for (DType dtype : {kF8E4M3, kF8E5M2}) {
    for (int bits = 0; bits < 65536; ++bits) {
      Scalar half = Scalar::from_bits(kF16, static_cast<uint64_t>(bits));
      uint64_t got = cast(half, dtype).bits(), want = nearest_f8(dtype, half.f);
      if (std::isnan(half.f)) {
        ASSERT_TRUE(std::isnan(cast(half, dtype).f));
      } else {
        ASSERT_EQ(got, want) << half;
      }
    }
    for (int code = 0; code + 1 < 0x7c; ++code) {
      double middle = (value_of_f8(dtype, code) + value_of_f8(dtype, code + 1)) / 2;
      for (double hair : {0.0, 0x1p-52, -0x1p-52, 0x1p-25, -0x1p-25, 0x1p-24, -0x1p-24})
        for (double sign : {1.0, -1.0})
          for (DType from : {kF32, kF64}) {
            Scalar x = Scalar::of(from, sign * (middle + middle * hair));
            ASSERT_EQ(cast(x, dtype).bits(), nearest_f8(dtype, x.f)) << x << " of " << from;
          }
    }
    for (int64_t n = -70000; n < 70000; n += 7) {
      ASSERT_EQ(Scalar::of(dtype, n).bits(), nearest_f8(dtype, static_cast<double>(n))) << n;
    }
  }
}

TEST(DType, f8_overflows_to_infinity_or_nan) {
  EXPECT_EQ(Float8E4M3(464.0f).bits, 0x7e);
  EXPECT_EQ(Float8E4M3(464.1f).bits, 0x7f);
  EXPECT_EQ(Float8E4M3(-INFINITY).bits, 0xff);
  EXPECT_EQ(Float8E5M2(61439.0f).bits, 0x7b);
  EXPECT_EQ(Float8E5M2(61440.0f).bits, 0x7c);
  EXPECT_EQ(Float8E5M2(-1e30f).bits, 0xfc);
  EXPECT_EQ(Scalar::of(kF8E5M2, 1e300).bits(), 0x7cu);
  EXPECT_EQ(Scalar::of(kF8E4M3, 1e300).bits(), 0x7fu);
  EXPECT_EQ(upper_limit(kF8E4M3), 448);
}

TEST(DType, names_round_trip) {
  for (DType dtype : kAll) EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  EXPECT_THROW(dtype_from_name("f8"), ValueError);
  std::ostringstream out;
  out << kBF16;
  EXPECT_EQ(out.str(), "bf16");
}

TEST(DType, classes_and_sizes) {
  EXPECT_FALSE(is_integer(kBool));
  EXPECT_FALSE(is_signed(kBool));
  EXPECT_TRUE(is_integer(kU8));
  EXPECT_FALSE(is_signed(kU64));
  EXPECT_TRUE(is_signed(kF16));
  EXPECT_EQ(size_of(kBool), 1);
  EXPECT_EQ(size_of(kBF16), 2);
  for (DType dtype : kAll)
    dispatch(dtype, [&]<class T>(TypeTag<T>) {
      EXPECT_EQ(sizeof(T), static_cast<size_t>(size_of(dtype)));
      EXPECT_EQ(dtype_of<T>(), dtype);
    });
}

TEST(DType, promotion_table) {
  EXPECT_EQ(promote(kBool, kI8), kI8);
  EXPECT_EQ(promote(kI8, kU8), kI16);
  EXPECT_EQ(promote(kU16, kI8), kI32);
  EXPECT_EQ(promote(kI16, kU8), kI16);
  EXPECT_EQ(promote(kU32, kI32), kI64);
  EXPECT_EQ(promote(kU64, kI8), kF64);
  EXPECT_EQ(promote(kU64, kU8), kU64);
  EXPECT_EQ(promote(kI64, kF16), kF16);
  EXPECT_EQ(promote(kF16, kBF16), kF32);
  EXPECT_EQ(promote(kBF16, kF32), kF32);
  EXPECT_EQ(promote(kF64, kF32), kF64);
}

TEST(DType, promotion_is_commutative_idempotent_and_never_loses_range_of_integers) {
  for (DType a : kAll) {
    EXPECT_EQ(promote(a, a), a);
    for (DType b : kAll) {
      EXPECT_EQ(promote(a, b), promote(b, a));
      if (is_integer(a) && is_integer(promote(a, b))) {
        Scalar lowest = Scalar::of(a, -1e30), highest = Scalar::of(a, 1e30);
        EXPECT_EQ(cast(cast(lowest, promote(a, b)), a), lowest);
        EXPECT_EQ(cast(highest, promote(a, b)).as_double(), highest.as_double());
      }
    }
  }
}

TEST(DType, a_scalar_literal_never_widens) {
  EXPECT_EQ(promote_weak(kF16, ScalarClass::Float), kF16);
  EXPECT_EQ(promote_weak(kI8, ScalarClass::Integer), kI8);
  EXPECT_EQ(promote_weak(kU8, ScalarClass::Float), kF32);
  EXPECT_EQ(promote_weak(kI64, ScalarClass::Float), kF32);
  EXPECT_EQ(promote_weak(kBool, ScalarClass::Integer), kI64);
  EXPECT_EQ(promote_weak(kBool, ScalarClass::Bool), kBool);
  EXPECT_EQ(promote_weak(kF64, ScalarClass::Bool), kF64);
}

TEST(DType, small_floats_compute_in_f32) {
  EXPECT_EQ(compute_dtype(kF16), kF32);
  EXPECT_EQ(compute_dtype(kBF16), kF32);
  EXPECT_EQ(compute_dtype(kF8E4M3), kF32);
  EXPECT_EQ(compute_dtype(kF8E5M2), kF32);
  EXPECT_EQ(compute_dtype(kF64), kF64);
  EXPECT_EQ(compute_dtype(kI8), kI8);
}

}  // namespace
}  // namespace heddle
