#include "core/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include <heddle/error.h>

namespace heddle {
namespace {

constexpr DType kAll[] = {kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64};
constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min(), kMax64 = std::numeric_limits<int64_t>::max();

TEST(Scalar, floats_become_integers_by_truncation_and_saturation) {
  EXPECT_EQ(Scalar::of(kI8, 3.9).i, 3);
  EXPECT_EQ(Scalar::of(kI8, -3.9).i, -3);
  EXPECT_EQ(Scalar::of(kI8, 1000.0).i, 127);
  EXPECT_EQ(Scalar::of(kI8, -1000.0).i, -128);
  EXPECT_EQ(Scalar::of(kU8, -5.0).u, 0u);
  EXPECT_EQ(Scalar::of(kU8, 255.9).u, 255u);
  EXPECT_EQ(Scalar::of(kI64, 9.3e18).i, kMax64);
  EXPECT_EQ(Scalar::of(kI64, -INFINITY).i, kMin64);
  EXPECT_EQ(Scalar::of(kU64, 1.9e19).u, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Scalar::of(kU64, 0x1p63).u, uint64_t{1} << 63);
  EXPECT_EQ(Scalar::of(kI32, NAN).i, 0);
  EXPECT_EQ(Scalar::of(kBool, NAN).u, 1u);
  EXPECT_EQ(Scalar::of(kBool, 0.25).u, 1u);
  EXPECT_EQ(Scalar::of(kBool, -0.0).u, 0u);
}

TEST(Scalar, integers_wrap) {
  EXPECT_EQ(Scalar::of(kI8, 200).i, -56);
  EXPECT_EQ(Scalar::of(kU8, -1).u, 255u);
  EXPECT_EQ(Scalar::of(kU64, -1).u, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(cast(Scalar::of(kU64, std::numeric_limits<uint64_t>::max()), kI32).i, -1);
  EXPECT_EQ(cast(Scalar::of(kI32, 256), kBool).u, 1u);
}

TEST(Scalar, integers_become_floats_rounded_to_nearest_even) {
  EXPECT_EQ(Scalar::of(kF32, (1 << 24) + 1).f, 0x1p24);
  EXPECT_EQ(Scalar::of(kF32, (1 << 24) + 3).f, 0x1.000004p24);
  // A single rounding: through double this would first become a tie.
  EXPECT_EQ(Scalar::of(kF32, (int64_t{1} << 60) + (int64_t{1} << 36) + 1).f, 0x1.000002p60);
  EXPECT_EQ(Scalar::of(kF64, kMax64).f, 0x1p63);
  EXPECT_EQ(Scalar::of(kF16, 70000).f, INFINITY);
  EXPECT_EQ(Scalar::of(kF32, std::numeric_limits<uint64_t>::max()).f, 0x1p64);
}

TEST(Scalar, floats_round_to_their_dtype) {
  EXPECT_EQ(Scalar::of(kF32, 0.1).f, static_cast<double>(0.1f));
  EXPECT_EQ(Scalar::of(kF16, 1.0 + 0x1p-11).f, 1.0);
  EXPECT_EQ(Scalar::of(kF16, 1.0 + 0x1.8p-10).f, 1.0 + 0x1p-9);
  EXPECT_EQ(Scalar::of(kF32, 1e300).f, INFINITY);
  EXPECT_TRUE(std::signbit(Scalar::of(kBF16, -1e-300).f));
}

TEST(Scalar, bits_round_trip_whatever_the_pattern) {
  std::mt19937_64 random(1);
  for (DType dtype : kAll) {
    uint64_t mask = size_of(dtype) == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size_of(dtype))) - 1;
    if (dtype == kBool) mask = 1;
    for (int k = 0; k < 2000; ++k) {
      uint64_t bits = random() & mask;
      if (k % 4 == 0 && is_float(dtype)) bits |= Scalar::of(dtype, INFINITY).bits();  // NaNs, signalling ones too
      Scalar value = Scalar::from_bits(dtype, bits);
      ASSERT_EQ(value.bits(), bits) << name(dtype);
      ASSERT_EQ(value, value);
      uint64_t memory[2] = {};
      store_scalar(memory, 1, value);
      ASSERT_EQ(load_scalar(memory, 1, dtype), value);
      ASSERT_EQ(load_scalar(memory, 0, dtype).bits(), 0u);
    }
  }
}

TEST(Scalar, equality_is_of_bits) {
  EXPECT_EQ(Scalar::of(kF32, NAN), Scalar::of(kF32, NAN));
  EXPECT_FALSE(Scalar::of(kF32, 0.0) == Scalar::of(kF32, -0.0));
  EXPECT_FALSE(Scalar::of(kF32, 1) == Scalar::of(kF64, 1));
}

TEST(Scalar, bitcast_reinterprets_and_refuses_other_sizes) {
  EXPECT_EQ(bitcast(Scalar::of(kF32, 1), kI32).i, 0x3f800000);
  EXPECT_EQ(bitcast(Scalar::of(kI64, -1), kU64).u, ~uint64_t{0});
  EXPECT_EQ(bitcast(Scalar::of(kU16, 0x3c00), kF16).f, 1.0);
  EXPECT_THROW(bitcast(Scalar::of(kF32, 1), kI64), DTypeError);
}

TEST(Scalar, text_is_short_and_reads_back) {
  EXPECT_EQ(to_string(Scalar::of(kF32, 0.1)), "0.1");
  EXPECT_EQ(to_string(Scalar::of(kF16, 0.1)), "0.1");
  EXPECT_EQ(to_string(Scalar::of(kBF16, 3.14)), "3.14");
  EXPECT_EQ(to_string(Scalar::of(kF64, 0.1)), "0.1");
  EXPECT_EQ(to_string(Scalar::of(kF32, -INFINITY)), "-inf");
  EXPECT_EQ(to_string(Scalar::of(kF32, NAN)), "nan");
  EXPECT_EQ(to_string(Scalar::of(kF32, -0.0)), "-0");
  EXPECT_EQ(to_string(Scalar::of(kBool, 1)), "true");
  EXPECT_EQ(to_string(Scalar::of(kI64, kMin64)), "-9223372036854775808");
  EXPECT_EQ(to_string(Scalar::of(kU64, -1)), "18446744073709551615");
  std::mt19937_64 random(2);
  for (DType dtype : {kF16, kBF16, kF32, kF64}) {
    for (int k = 0; k < 5000; ++k) {
      Scalar value =
          Scalar::from_bits(dtype, size_of(dtype) == 8 ? random() : random() % (1ull << (8 * size_of(dtype))));
      if (std::isnan(value.f)) continue;
      ASSERT_EQ(Scalar::of(dtype, std::strtod(to_string(value).c_str(), nullptr)), value) << to_string(value);
    }
  }
}

TEST(Scalar, reads_as_other_types) {
  EXPECT_EQ(Scalar::of(kF32, -2.7).as_int(), -2);
  EXPECT_EQ(Scalar::of(kF64, NAN).as_int(), 0);
  EXPECT_EQ(Scalar::of(kU64, -1).as_double(), 0x1p64);
  EXPECT_EQ(Scalar::of(kI8, -1).as_double(), -1);
  EXPECT_TRUE(Scalar::of(kF32, NAN).as_bool());
  EXPECT_FALSE(Scalar::of(kI8, 256).as_bool());
}

}  // namespace
}  // namespace heddle
