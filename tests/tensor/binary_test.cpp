// Operators of two operands beyond plain arithmetic, as NumPy has them.
#include <limits>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

const double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// Every pair of the values, as two tensors.
struct Pairs {
  std::vector<double> a, b;
  Tensor x, y;
};
Pairs pairs_of(const std::vector<double>& values, DType dtype) {
  Pairs p;
  for (double u : values)
    for (double v : values) {
      p.a.push_back(u);
      p.b.push_back(v);
    }
  int64_t n = static_cast<int64_t>(p.a.size());
  p.x = cast(from_vector(p.a, {n}), dtype).realize();
  p.y = cast(from_vector(p.b, {n}), dtype).realize();
  p.a = doubles(p.x);
  p.b = doubles(p.y);
  return p;
}
const std::vector<double> kSpecial = {0.0, -0.0, 1,    -1,    0.1,       -0.1,       7,
                                      -7,  2.5,  1e30, -1e30, kInfinity, -kInfinity, kNan};

// Python's float floor division and remainder.
double python_floordiv(double a, double b) {
  if (b == 0) return a / b;
  double rest = std::fmod(a, b), whole = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) whole -= 1;
  if (whole == 0) return std::copysign(0.0, a / b);
  double down = std::floor(whole);
  return whole - down > 0.5 ? down + 1 : down;
}
double python_mod(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

void expect_same_signs(const Tensor& x, const std::vector<double>& want) {
  std::vector<double> got = doubles(x);
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) continue;
    EXPECT_EQ(std::signbit(got[i]), std::signbit(want[i])) << i;
  }
}

TEST(Binary, float_division_that_rounds_down_is_pythons) {
  Pairs p = pairs_of(kSpecial, kF64);
  std::vector<double> down, rest, truncated;
  for (size_t i = 0; i < p.a.size(); ++i) {
    down.push_back(python_floordiv(p.a[i], p.b[i]));
    rest.push_back(python_mod(p.a[i], p.b[i]));
    truncated.push_back(std::fmod(p.a[i], p.b[i]));
  }
  expect_equal(floordiv(p.x, p.y), down);
  expect_same_signs(floordiv(p.x, p.y), down);
  expect_equal(fmod(p.x, p.y), truncated);
  expect_same_signs(fmod(p.x, p.y), truncated);
  expect_equal(remainder(p.x, p.y), rest);
  auto [quotient, left] = divmod(p.x, p.y);
  expect_equal(quotient, down);
  expect_equal(left, rest);
  expect_equal(floordiv(tensor({1}, kF64), 0.1), {9});  // though 1 / 0.1 rounds to 10
}

TEST(Binary, integer_remainders_have_the_sign_of_the_dividend_or_divisor) {
  Tensor a = tensor({7, -7, 7, -7, 5, INT32_MIN}, kI32), b = tensor({3, 3, -3, -3, 0, -1}, kI32);
  expect_equal(fmod(a, b), {1, -1, 1, -1, 0, 0});
  expect_equal(remainder(a, b), {1, 2, -2, -1, 0, 0});
  expect_equal(fmod(tensor({7, 8}, kU8), 5), {2, 3});
}

TEST(Binary, signs_and_neighbours) {
  for (DType dtype : {kF64, kF32, kF16, kBF16}) {
    SCOPED_TRACE(name(dtype));
    Tensor x = tensor({1, -2, 0, kInfinity, -0.0}, dtype), y = tensor({-1, 3, -0.0, -5, 1}, dtype);
    expect_equal(copysign(x, y), {-1, 2, 0, -kInfinity, 0});
    expect_same_signs(copysign(x, y), {-1, 2, -0.0, -kInfinity, 0});
    expect_equal(signbit(x), {0, 1, 0, 0, 1});
  }
  Pairs p = pairs_of(kSpecial, kF64);
  std::vector<double> want;
  for (size_t i = 0; i < p.a.size(); ++i) want.push_back(std::nextafter(p.a[i], p.b[i]));
  expect_equal(nextafter(p.x, p.y), want);
  p = pairs_of(kSpecial, kF32);
  want.clear();
  for (size_t i = 0; i < p.a.size(); ++i)
    want.push_back(std::nextafterf(static_cast<float>(p.a[i]), static_cast<float>(p.b[i])));
  expect_equal(nextafter(p.x, p.y), want);
  EXPECT_EQ(nextafter(tensor({1}, kBF16), 2).item<double>(), 1.0078125);
  EXPECT_EQ(nextafter(tensor({1}, kF16), 0).item<double>(), 1 - 0x1p-11);
}

TEST(Binary, hypot_neither_overflows_nor_vanishes) {
  for (DType dtype : {kF64, kF32}) {
    double large = dtype == kF64 ? 1e300 : 1e38, small = dtype == kF64 ? 1e-300 : 1e-38;
    Pairs p = pairs_of({0, 3, -4, large, small, kInfinity, kNan}, dtype);
    std::vector<double> want;
    for (size_t i = 0; i < p.a.size(); ++i) {
      double h = std::hypot(p.a[i], p.b[i]);
      want.push_back(h);
    }
    std::vector<double> got = doubles(hypot(p.x, p.y));
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << i;
      } else if (std::isinf(want[i]) || want[i] == 0) {
        EXPECT_EQ(got[i], want[i]) << i;
      } else {
        EXPECT_NEAR(got[i] / want[i], 1, dtype == kF64 ? 1e-15 : 3e-7) << i;
      }
    }
  }
}

TEST(Binary, sums_of_exponentials) {
  Tensor a = tensor({0, 1000, -1000, kInfinity, -kInfinity, -kInfinity, kNan}, kF64);
  Tensor b = tensor({0, 1001, -1000, 1, -kInfinity, 2, 1}, kF64);
  expect_close(
      logaddexp(a, b),
      {std::log(2.0), 1001 + std::log1p(std::exp(-1.0)), -1000 + std::log(2.0), kInfinity, -kInfinity, 2, kNan}, 1e-14);
  expect_close(logaddexp2(tensor({3, 0}, kF64), tensor({3, -kInfinity}, kF64)), {4, 0}, 1e-14);
}

TEST(Binary, functions_with_a_special_point) {
  expect_close(xlogy(tensor({0, 0, 2, 0}, kF64), tensor({0, kInfinity, std::exp(1.0), kNan}, kF64)), {0, 0, 2, kNan},
               1e-14);
  expect_equal(heaviside(tensor({-1, 0, 1, kNan}), 0.5), {0, 0.5, 1, kNan});
  expect_close(sinc(tensor({0, 0.5, 1, -1.5}, kF64)), {1, 2 / M_PI, 0, std::sin(1.5 * M_PI) / (1.5 * M_PI)}, 1e-15);
  expect_close(rad2deg(tensor({M_PI}, kF64)), {180}, 1e-15);
  expect_close(deg2rad(tensor({180}, kF64)), {M_PI}, 1e-15);
  expect_equal(frac(tensor({-1.25, 3.5, 2})), {-0.25, 0.5, 0});
  expect_equal(frac(tensor({3}, kI32)), {0});
}

TEST(Binary, minimum_and_maximum_with_and_without_nan) {
  Tensor a = tensor({1, kNan, 3, kNan}), b = tensor({2, 5, kNan, kNan});
  expect_equal(minimum(a, b), {1, kNan, kNan, kNan});
  expect_equal(fmin(a, b), {1, 5, 3, kNan});
  expect_equal(fmax(a, b), {2, 5, 3, kNan});
  expect_equal(fmax(tensor({1, 7}, kI8), 5), {5, 7});
}

TEST(Binary, clamp_takes_numbers_and_tensors) {
  Tensor x = tensor({-5, 0, 5, kNan});
  expect_equal(clamp(x, -1, 2), {-1, 0, 2, kNan});
  expect_equal(clamp(x, tensor({-9, 1, 1, 1}), tensor({9, 9, 3, 9})), {-5, 1, 3, kNan});
  expect_equal(clamp(x, tensor({{-1}, {1}}), 2), {-1, 0, 2, kNan, 1, 1, 2, kNan});
  expect_equal(clamp(x, 3, 1), {1, 1, 1, kNan});  // the upper bound wins
  EXPECT_EQ(clamp(tensor({1, 9}, kI32), 2, 3.5).dtype(), kF32);
  expect_error<ShapeError>([&] { clamp(x, zeros(3), 1); }, {"clamp", "[4]", "[3]"});
}

TEST(Binary, lerp_hits_both_ends) {
  Tensor a = tensor({1e8, -3}), b = tensor({1, 7});
  expect_equal(lerp(a, b, 0), {1e8, -3});
  expect_equal(lerp(a, b, 1), {1, 7});
  expect_equal(lerp(a, b, tensor({1.0, 0.0})), {1, -3});
  expect_close(lerp(a, b, 0.25), {75000000.25, -0.5});
  expect_error<ShapeError>([&] { lerp(a, b, zeros(3)); }, {"lerp"});
}

TEST(Binary, nan_to_num_replaces_what_is_not_finite) {
  Tensor x = tensor({kNan, kInfinity, -kInfinity, 2});
  double top = std::numeric_limits<float>::max();
  expect_equal(nan_to_num(x), {0, top, -top, 2});
  expect_equal(nan_to_num(x, 5, 6, -6), {5, 6, -6, 2});
  expect_equal(nan_to_num(cast(x, kF16)), {0, 65504, -65504, 2});
  expect_equal(nan_to_num(tensor({1}, kI32)), {1});
  expect_equal(isposinf(x), {0, 1, 0, 0});
  expect_equal(isneginf(x), {0, 0, 1, 0});
  expect_equal(isposinf(tensor({1}, kI32)), {0});
}

TEST(Binary, closeness) {
  Tensor a = tensor({1, 1, kInfinity, kInfinity, kNan, 1e-9}, kF64);
  Tensor b = tensor({1 + 1e-6, 1.1, kInfinity, -kInfinity, kNan, 0}, kF64);
  expect_equal(isclose(a, b), {1, 0, 1, 0, 0, 1});
  expect_equal(isclose(a, b, 0.2, 0, true), {1, 1, 1, 0, 1, 0});
  expect_equal(isclose(tensor({1}), kInfinity), {0});
  EXPECT_TRUE(allclose(tensor({1, 2}), tensor({1, 2.0000001})));
  EXPECT_FALSE(allclose(tensor({1, 2}), tensor({1, 2.1})));
  EXPECT_TRUE(allclose(zeros({0, 3}), zeros({0, 3})));
  EXPECT_TRUE(equal(tensor({1, 2}), tensor({1, 2}, kI32)));
  EXPECT_FALSE(equal(tensor({1, 2}), tensor({{1, 2}})));
  EXPECT_FALSE(equal(tensor({kNan}), tensor({kNan})));
  expect_error<ShapeError>([] { allclose(zeros(2), zeros(3)); }, {"allclose", "[2]", "[3]"});
  // i64 beyond what f32 tells apart.
  expect_equal(isclose(tensor({int64_t{1} << 40}, kI64), tensor({(int64_t{1} << 40) + 100}, kI64), 0, 10), {0});
}

}  // namespace
}  // namespace heddle
