#include "core/ops.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace heddle {
namespace {

constexpr OpInfo kOps[] = {
#define Native true
#define Math false
#define HD_OP(name, arity, rule, native) {#name, arity, OpRule::rule, native},
#include "core/ops.def"
#undef HD_OP
#undef Native
#undef Math
};

template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return a + b;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return a + b;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

template <class T>
T float_mod(T a, T b) {
  T remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(T{0}, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// Halley's iteration on erf, and on erfc in the tail, where erf says nothing any more.
double inverse_erf(double x) {
  long double a = std::fabs(static_cast<long double>(x));
  if (!(a < 1)) return a == 1 ? std::copysign(std::numeric_limits<double>::infinity(), x) : std::nan("");
  if (a < 0x1p-40L) return static_cast<double>(0.88622692545275801364908374167057259L * x);
  constexpr long double slope = 1.1283791670955125738961589031215452L;  // of erf at 0
  long double w = -std::log((1 - a) * (1 + a));
  // Winitzki's approximation, two digits.
  long double b = 2 / (3.14159265358979323846L * 0.147L) - w / 2;
  long double y = std::sqrt(std::sqrt(b * b + w / 0.147L) - b);
  for (int k = 0; k < 4; ++k) {
    long double error = (a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y)) / (slope * std::exp(-y * y));
    y -= error / (1 + y * error);
  }
  return std::copysign(static_cast<double>(y), x);
}

template <class T>
T scaled(T a, T b) {
  if (std::isinf(b)) return (std::isnan(a) ? T{1} : a) * (b > 0 ? b : T{0});
  if (std::isnan(b)) return b;
  return std::ldexp(a, static_cast<int>(std::floor(std::min(std::max(b, T{-5000}), T{5000}))));
}

// Arithmetic on float or double; math functions in double, rounded by the conversion to T.
template <class T>
T float_op(ScalarOp op, const T* x) {
  double d = static_cast<double>(x[0]);
  switch (op) {
    case ScalarOp::neg: return -x[0];
    case ScalarOp::abs: return std::fabs(x[0]);
    case ScalarOp::sqrt: return std::sqrt(x[0]);
    case ScalarOp::floor: return std::floor(x[0]);
    case ScalarOp::ceil: return std::ceil(x[0]);
    case ScalarOp::trunc: return std::trunc(x[0]);
    case ScalarOp::round: return std::nearbyint(x[0]);
    case ScalarOp::exp: return static_cast<T>(std::exp(d));
    case ScalarOp::exp2: return static_cast<T>(std::exp2(d));
    case ScalarOp::expm1: return static_cast<T>(std::expm1(d));
    case ScalarOp::log: return static_cast<T>(std::log(d));
    case ScalarOp::log2: return static_cast<T>(std::log2(d));
    case ScalarOp::log1p: return static_cast<T>(std::log1p(d));
    case ScalarOp::sin: return static_cast<T>(std::sin(d));
    case ScalarOp::cos: return static_cast<T>(std::cos(d));
    case ScalarOp::tanh: return static_cast<T>(std::tanh(d));
    case ScalarOp::erf: return static_cast<T>(std::erf(d));
    case ScalarOp::erfinv: return static_cast<T>(inverse_erf(d));
    case ScalarOp::log10: return static_cast<T>(std::log10(d));
    case ScalarOp::tan: return static_cast<T>(std::tan(d));
    case ScalarOp::asin: return static_cast<T>(std::asin(d));
    case ScalarOp::acos: return static_cast<T>(std::acos(d));
    case ScalarOp::atan: return static_cast<T>(std::atan(d));
    case ScalarOp::sinh: return static_cast<T>(std::sinh(d));
    case ScalarOp::cosh: return static_cast<T>(std::cosh(d));
    case ScalarOp::asinh: return static_cast<T>(std::asinh(d));
    case ScalarOp::acosh: return static_cast<T>(std::acosh(d));
    case ScalarOp::atanh: return static_cast<T>(std::atanh(d));
    case ScalarOp::cbrt: return static_cast<T>(std::cbrt(d));
    case ScalarOp::add: return x[0] + x[1];
    case ScalarOp::sub: return x[0] - x[1];
    case ScalarOp::mul: return x[0] * x[1];
    case ScalarOp::div: return x[0] / x[1];
    case ScalarOp::floordiv: return std::floor(x[0] / x[1]);
    case ScalarOp::mod: return float_mod(x[0], x[1]);
    case ScalarOp::minimum: return smaller(x[0], x[1]);
    case ScalarOp::maximum: return larger(x[0], x[1]);
    case ScalarOp::pow: return static_cast<T>(std::pow(d, static_cast<double>(x[1])));
    case ScalarOp::atan2: return static_cast<T>(std::atan2(d, static_cast<double>(x[1])));
    case ScalarOp::scale: return scaled(x[0], x[1]);
    case ScalarOp::fma: return std::fma(x[0], x[1], x[2]);
    default: break;
  }
  throw InternalError(text("op ", info(op).name, " does not take floats"));
}

// Wraps modulo 2^bits: everything that could overflow is computed in uint64 and cut down to T.
template <class T>
T integer_op(ScalarOp op, const T* x) {
  constexpr uint64_t bits = sizeof(T) * 8;
  uint64_t a = static_cast<uint64_t>(x[0]), b = static_cast<uint64_t>(x[1]);
  switch (op) {
    case ScalarOp::neg: return static_cast<T>(-a);
    case ScalarOp::abs: return x[0] < T{0} ? static_cast<T>(-a) : x[0];
    case ScalarOp::bit_not: return static_cast<T>(~a);
    case ScalarOp::add: return static_cast<T>(a + b);
    case ScalarOp::sub: return static_cast<T>(a - b);
    case ScalarOp::mul: return static_cast<T>(a * b);
    case ScalarOp::floordiv: {
      if (b == 0) return 0;
      if (std::is_signed_v<T> && x[1] == static_cast<T>(-1)) return static_cast<T>(-a);
      T quotient = static_cast<T>(x[0] / x[1]);
      bool inexact = x[0] % x[1] != 0;
      return static_cast<T>(inexact && (x[0] < T{0}) != (x[1] < T{0}) ? quotient - 1 : quotient);
    }
    case ScalarOp::mod: {
      if (b == 0 || (std::is_signed_v<T> && x[1] == static_cast<T>(-1))) return 0;
      T remainder = static_cast<T>(x[0] % x[1]);
      return static_cast<T>(remainder != 0 && (remainder < T{0}) != (x[1] < T{0}) ? remainder + x[1] : remainder);
    }
    case ScalarOp::minimum: return smaller(x[0], x[1]);
    case ScalarOp::maximum: return larger(x[0], x[1]);
    case ScalarOp::bit_and: return static_cast<T>(a & b);
    case ScalarOp::bit_or: return static_cast<T>(a | b);
    case ScalarOp::bit_xor: return static_cast<T>(a ^ b);
    case ScalarOp::shl: return b < bits ? static_cast<T>(a << b) : T{0};
    // A negative count became a huge unsigned one: outside, too.
    case ScalarOp::shr: return b < bits ? static_cast<T>(x[0] >> b) : static_cast<T>(x[0] < T{0} ? -1 : 0);
    default: break;
  }
  throw InternalError(text("op ", info(op).name, " does not take integers"));
}

bool bool_op(ScalarOp op, const bool* x) {
  switch (op) {
    case ScalarOp::bit_not: return !x[0];
    case ScalarOp::minimum:
    case ScalarOp::bit_and: return x[0] && x[1];
    case ScalarOp::maximum:
    case ScalarOp::bit_or: return x[0] || x[1];
    case ScalarOp::bit_xor: return x[0] != x[1];
    default: break;
  }
  throw InternalError(text("op ", info(op).name, " does not take bool"));
}

template <class T>
bool compare(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::eq: return a == b;
    case ScalarOp::ne: return a != b;
    case ScalarOp::lt: return a < b;
    default: return a <= b;
  }
}

// The value of a scalar in the C++ type the dtype computes in.
template <class T>
T value_of(const Scalar& s) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(s.f);
  } else {
    return static_cast<T>(s.u);
  }
}

template <class T>
Scalar apply_as(ScalarOp op, DType dtype, std::span<const Scalar> operands) {
  T x[3] = {};
  for (size_t k = 0; k < operands.size(); ++k) x[k] = value_of<T>(operands[k]);
  if (info(op).rule == OpRule::Compare) return Scalar::of(kBool, compare(op, x[0], x[1]));
  if constexpr (std::is_same_v<T, bool>) {
    return Scalar::of(dtype, bool_op(op, x));
  } else if constexpr (std::is_floating_point_v<T>) {
    return Scalar::of(dtype, static_cast<double>(float_op(op, x)));
  } else if constexpr (std::is_signed_v<T>) {
    return Scalar::of(dtype, static_cast<int64_t>(integer_op(op, x)));
  } else {
    return Scalar::of(dtype, static_cast<uint64_t>(integer_op(op, x)));
  }
}

}  // namespace

const OpInfo& info(ScalarOp op) { return kOps[static_cast<int>(op)]; }

std::optional<ScalarOp> find_op(std::string_view name) {
  for (int k = 0; k < kScalarOpCount; ++k)
    if (name == kOps[k].name) return static_cast<ScalarOp>(k);
  return std::nullopt;
}

std::optional<DType> result_dtype(ScalarOp op, std::span<const DType> operands) {
  const OpInfo& row = info(op);
  if (operands.size() != static_cast<size_t>(row.arity)) return std::nullopt;
  if (row.rule == OpRule::Select) {
    if (operands[0] != kBool || operands[1] != operands[2]) return std::nullopt;
    return operands[1];
  }
  DType dtype = operands[0];
  for (DType other : operands)
    if (other != dtype) return std::nullopt;
  switch (row.rule) {
    case OpRule::Arith: return dtype == kBool ? std::nullopt : std::optional(dtype);
    case OpRule::Float: return is_float(dtype) ? std::optional(dtype) : std::nullopt;
    case OpRule::Compare: return kBool;
    case OpRule::Logic: return is_float(dtype) ? std::nullopt : std::optional(dtype);
    case OpRule::Shift: return is_integer(dtype) ? std::optional(dtype) : std::nullopt;
    case OpRule::Order: return dtype;
    case OpRule::Select: break;
  }
  return std::nullopt;
}

Scalar apply(ScalarOp op, std::span<const Scalar> operands) {
  HD_ASSERT(operands.size() == static_cast<size_t>(info(op).arity), info(op).name);
  if (op == ScalarOp::where) return operands[0].as_bool() ? operands[1] : operands[2];
  DType dtype = operands[0].dtype;
  return dispatch(dtype, [&]<class T>(TypeTag<T>) -> Scalar {
    if constexpr (kSmallFloat<T>) {
      return apply_as<float>(op, dtype, operands);
    } else {
      return apply_as<T>(op, dtype, operands);
    }
  });
}

double apply_double(ScalarOp op, std::span<const double> operands) {
  HD_ASSERT(operands.size() == static_cast<size_t>(info(op).arity), info(op).name);
  if (op == ScalarOp::where) return operands[0] != 0 ? operands[1] : operands[2];
  if (info(op).rule == OpRule::Compare) return compare(op, operands[0], operands[1]);
  return float_op(op, operands.data());
}

Scalar apply_unrounded(ScalarOp op, std::span<const Scalar> operands, DType result) {
  if (!is_float(operands.back().dtype)) return apply(op, operands);
  double values[3];
  for (size_t i = 0; i < operands.size(); ++i)
    values[i] = is_float(operands[i].dtype) ? operands[i].f : operands[i].as_double();
  double value = apply_double(op, {values, operands.size()});
  if (!is_float(result)) return Scalar::of(result, value != 0);
  Scalar unrounded;
  unrounded.dtype = result;
  unrounded.f = value;
  return unrounded;
}

}  // namespace heddle
