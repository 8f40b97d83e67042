#include "core/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace heddle {
namespace {

using S = ScalarOp;

Scalar run(S op, std::initializer_list<Scalar> operands) { return apply(op, {operands.begin(), operands.size()}); }
int64_t ints(S op, DType dtype, int64_t a, int64_t b = 0) {
  if (info(op).arity == 1) return run(op, {Scalar::of(dtype, a)}).i;
  return run(op, {Scalar::of(dtype, a), Scalar::of(dtype, b)}).i;
}
double floats(S op, DType dtype, double a, double b = 0) {
  if (info(op).arity == 1) return run(op, {Scalar::of(dtype, a)}).as_double();
  return run(op, {Scalar::of(dtype, a), Scalar::of(dtype, b)}).as_double();
}
constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min(), kMin64 = std::numeric_limits<int64_t>::min();

TEST(Ops, table_and_names_agree) {
  for (int k = 0; k < kScalarOpCount; ++k) EXPECT_EQ(find_op(info(static_cast<S>(k)).name), static_cast<S>(k));
  EXPECT_EQ(find_op("nonsense"), std::nullopt);
  EXPECT_TRUE(info(S::fma).native);
  EXPECT_FALSE(info(S::tanh).native);
  EXPECT_EQ(info(S::where).arity, 3);
}

TEST(Ops, dtype_rules) {
  auto result = [](S op, std::vector<DType> operands) { return result_dtype(op, operands); };
  EXPECT_EQ(result(S::add, {kI8, kI8}), kI8);
  EXPECT_EQ(result(S::add, {kI8, kI16}), std::nullopt);
  EXPECT_EQ(result(S::add, {kBool, kBool}), std::nullopt);
  EXPECT_EQ(result(S::add, {kI8}), std::nullopt);
  EXPECT_EQ(result(S::exp, {kI32}), std::nullopt);
  EXPECT_EQ(result(S::exp, {kF16}), kF16);
  EXPECT_EQ(result(S::lt, {kBool, kBool}), kBool);
  EXPECT_EQ(result(S::bit_and, {kF32, kF32}), std::nullopt);
  EXPECT_EQ(result(S::bit_not, {kBool}), kBool);
  EXPECT_EQ(result(S::shl, {kBool, kBool}), std::nullopt);
  EXPECT_EQ(result(S::maximum, {kBool, kBool}), kBool);
  EXPECT_EQ(result(S::where, {kBool, kF32, kF32}), kF32);
  EXPECT_EQ(result(S::where, {kI8, kF32, kF32}), std::nullopt);
  EXPECT_EQ(result(S::where, {kBool, kF32, kF64}), std::nullopt);
}

TEST(Ops, integers_wrap) {
  EXPECT_EQ(ints(S::add, kI8, 127, 1), -128);
  EXPECT_EQ(ints(S::mul, kI32, 1 << 20, 1 << 20), 0);
  EXPECT_EQ(ints(S::mul, kI64, kMin64, -1), kMin64);
  EXPECT_EQ(ints(S::neg, kI32, kMin32), kMin32);
  EXPECT_EQ(ints(S::abs, kI32, kMin32), kMin32);
  EXPECT_EQ(ints(S::neg, kU8, 1), 255);
  EXPECT_EQ(ints(S::abs, kU8, 200), 200);
  EXPECT_EQ(ints(S::sub, kU16, 0, 1), 65535);
}

TEST(Ops, integer_division_floors_and_survives_zero_and_overflow) {
  EXPECT_EQ(ints(S::floordiv, kI32, -7, 2), -4);
  EXPECT_EQ(ints(S::floordiv, kI32, 7, -2), -4);
  EXPECT_EQ(ints(S::floordiv, kI32, -8, 2), -4);
  EXPECT_EQ(ints(S::floordiv, kI32, 7, 0), 0);
  EXPECT_EQ(ints(S::floordiv, kI32, kMin32, -1), kMin32);
  EXPECT_EQ(ints(S::floordiv, kI64, kMin64, -1), kMin64);
  EXPECT_EQ(ints(S::floordiv, kI8, -128, -1), -128);
  EXPECT_EQ(ints(S::floordiv, kU8, 255, 2), 127);
  EXPECT_EQ(ints(S::mod, kI32, -7, 3), 2);
  EXPECT_EQ(ints(S::mod, kI32, 7, -3), -2);
  EXPECT_EQ(ints(S::mod, kI32, 7, 0), 0);
  EXPECT_EQ(ints(S::mod, kI64, kMin64, -1), 0);
  for (int a = -128; a < 128; ++a)
    for (int b = -128; b < 128; ++b) {
      if (b == 0) continue;
      int64_t expected = static_cast<int64_t>(std::floor(static_cast<double>(a) / b));
      ASSERT_EQ(ints(S::floordiv, kI8, a, b), static_cast<int8_t>(expected));
      ASSERT_EQ(ints(S::mod, kI8, a, b), static_cast<int8_t>(a - expected * b));
    }
}

TEST(Ops, shifts_outside_the_width_are_defined) {
  EXPECT_EQ(ints(S::shl, kI32, 1, 31), kMin32);
  EXPECT_EQ(ints(S::shl, kI32, 1, 32), 0);
  EXPECT_EQ(ints(S::shl, kI32, 1, -1), 0);
  EXPECT_EQ(ints(S::shl, kI8, 3, 7), -128);
  EXPECT_EQ(ints(S::shr, kI32, -8, 1), -4);
  EXPECT_EQ(ints(S::shr, kI32, -8, 40), -1);
  EXPECT_EQ(ints(S::shr, kI32, 8, 40), 0);
  EXPECT_EQ(ints(S::shr, kI32, 8, -1), 0);
  EXPECT_EQ(ints(S::shr, kU8, 0x80, 7), 1);
  EXPECT_EQ(ints(S::shr, kU64, -1, 64), 0);
}

TEST(Ops, bool_logic) {
  Scalar yes = Scalar::of(kBool, true), no = Scalar::of(kBool, false);
  EXPECT_EQ(run(S::bit_not, {yes}), no);
  EXPECT_EQ(run(S::bit_xor, {yes, yes}), no);
  EXPECT_EQ(run(S::bit_or, {yes, no}), yes);
  EXPECT_EQ(run(S::minimum, {yes, no}), no);
  EXPECT_EQ(run(S::lt, {no, yes}), yes);
  EXPECT_EQ(ints(S::bit_not, kI16, 0), -1);
}

TEST(Ops, minimum_and_maximum_propagate_nan_and_order_zeros) {
  for (DType dtype : {kF16, kBF16, kF32, kF64}) {
    EXPECT_TRUE(std::isnan(floats(S::minimum, dtype, NAN, 1)));
    EXPECT_TRUE(std::isnan(floats(S::maximum, dtype, 1, NAN)));
    EXPECT_FALSE(std::signbit(floats(S::maximum, dtype, -0.0, 0.0)));
    EXPECT_TRUE(std::signbit(floats(S::minimum, dtype, 0.0, -0.0)));
    EXPECT_EQ(floats(S::maximum, dtype, -INFINITY, 2), 2);
  }
}

TEST(Ops, comparisons_with_nan_are_false_but_for_ne) {
  EXPECT_EQ(floats(S::eq, kF32, NAN, NAN), 0);
  EXPECT_EQ(floats(S::ne, kF32, NAN, NAN), 1);
  EXPECT_EQ(floats(S::lt, kF32, NAN, 1), 0);
  EXPECT_EQ(floats(S::le, kF16, 1, NAN), 0);
  EXPECT_EQ(floats(S::eq, kF64, 0.0, -0.0), 1);
  EXPECT_EQ(run(S::lt, {Scalar::of(kU64, -1), Scalar::of(kU64, 1)}).u, 0u);
  EXPECT_EQ(run(S::lt, {Scalar::of(kI64, -1), Scalar::of(kI64, 1)}).u, 1u);
}

TEST(Ops, rounding_functions) {
  EXPECT_EQ(floats(S::round, kF32, 2.5), 2);
  EXPECT_EQ(floats(S::round, kF32, 3.5), 4);
  EXPECT_EQ(floats(S::round, kF64, -0.5), 0);
  EXPECT_TRUE(std::signbit(floats(S::round, kF64, -0.5)));
  EXPECT_EQ(floats(S::trunc, kF32, -2.7), -2);
  EXPECT_EQ(floats(S::floor, kF32, -2.1), -3);
  EXPECT_EQ(floats(S::ceil, kF32, -2.7), -2);
}

TEST(Ops, each_float_dtype_rounds_its_results) {
  EXPECT_EQ(floats(S::add, kF32, 0x1p24, 1), 0x1p24);
  EXPECT_EQ(floats(S::add, kF64, 0x1p24, 1), 0x1p24 + 1);
  EXPECT_EQ(floats(S::add, kF16, 2048, 1), 2048);
  EXPECT_EQ(floats(S::mul, kF16, 300, 300), INFINITY);
  EXPECT_EQ(floats(S::div, kF32, 1, 3), static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(floats(S::div, kF32, 1, -0.0), -INFINITY);
  EXPECT_EQ(floats(S::exp, kF32, 1), static_cast<double>(static_cast<float>(std::exp(1.0))));
  EXPECT_EQ(floats(S::pow, kBF16, 2, 0.5), Scalar::of(kBF16, std::sqrt(2.0)).f);
}

TEST(Ops, fma_rounds_once) {
  float a = 1.0f + 0x1p-12f;
  Scalar x = Scalar::of(kF32, static_cast<double>(a)), c = Scalar::of(kF32, -static_cast<double>(a * a));
  EXPECT_EQ(run(S::fma, {x, x, c}).f, 0x1p-24);
}

TEST(Ops, scale_multiplies_by_a_power_of_two_and_rounds_once) {
  EXPECT_EQ(floats(S::scale, kF32, 1.5, 3.9), 12);
  EXPECT_EQ(floats(S::scale, kF32, 1.5, -0.5), 0.75);
  EXPECT_EQ(floats(S::scale, kF32, 0x1p-149, 276), 0x1p127);
  EXPECT_EQ(floats(S::scale, kF32, 0x1.8p0, -149), 0x1p-148);  // halfway, to even
  EXPECT_EQ(floats(S::scale, kF64, 0x1p1023, -2097), 0x1p-1074);
  EXPECT_EQ(floats(S::scale, kF32, -1, 1e30), -INFINITY);
  EXPECT_EQ(floats(S::scale, kF32, NAN, INFINITY), INFINITY);
  EXPECT_EQ(floats(S::scale, kF32, NAN, -INFINITY), 0);
  EXPECT_TRUE(std::isnan(floats(S::scale, kF32, NAN, 1)));
  EXPECT_TRUE(std::isnan(floats(S::scale, kF32, 1, NAN)));
}

TEST(Ops, float_division_and_modulo_follow_the_divisors_sign) {
  EXPECT_EQ(floats(S::floordiv, kF32, -7, 2), -4);
  EXPECT_EQ(floats(S::mod, kF32, -7, 3), 2);
  EXPECT_EQ(floats(S::mod, kF32, 7, -3), -2);
  EXPECT_EQ(floats(S::mod, kF64, 1e20, 3), 1);
  EXPECT_EQ(floats(S::mod, kF64, 5, INFINITY), 5);
  EXPECT_EQ(floats(S::mod, kF64, -5, INFINITY), INFINITY);
  EXPECT_TRUE(std::signbit(floats(S::mod, kF64, 6, -3)));
  EXPECT_TRUE(std::isnan(floats(S::mod, kF64, 6, 0)));
}

TEST(Ops, where_selects_without_touching_the_value) {
  Scalar nan = Scalar::from_bits(kF32, 0x7fa00001), one = Scalar::of(kF32, 1);
  EXPECT_EQ(run(S::where, {Scalar::of(kBool, true), nan, one}), nan);
  EXPECT_EQ(run(S::where, {Scalar::of(kBool, false), nan, one}), one);
}

TEST(Ops, apply_double_does_not_round) {
  double third = 1.0 / 3.0;
  EXPECT_EQ(apply_double(S::div, std::vector<double>{1.0, 3.0}), third);
  EXPECT_EQ(apply_double(S::lt, std::vector<double>{1.0, 3.0}), 1.0);
  EXPECT_EQ(apply_double(S::where, std::vector<double>{0.0, 3.0, 4.0}), 4.0);
  EXPECT_EQ(apply_double(S::tanh, std::vector<double>{0.5}), std::tanh(0.5));
}

}  // namespace
}  // namespace heddle
