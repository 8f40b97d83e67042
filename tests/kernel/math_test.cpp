#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "array_eval.h"
#include "kernel/builder.h"
#include "kernel/interpreter.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

using S = ScalarOp;

// out[i] = op(in0[i], ...) for a tile of n elements.
Kernel elementwise(S op, DType dtype, int64_t n = 1) {
  Kernel kernel;
  kernel.name = info(op).name;
  int arity = info(op).arity;
  for (int k = 0; k < arity; ++k) kernel.buffers.push_back({"in" + std::to_string(k), dtype, Space::In, n});
  kernel.buffers.push_back({"out", dtype, Space::Out, n});
  kernel.phases.emplace_back();
  Builder builder(kernel, kernel.phases[0]);
  Expr i = Expr::index("i", n);
  Builder::Access access;
  access.address = i;
  access.coords = {i};
  std::vector<Value> args;
  for (int k = 0; k < arity; ++k) args.push_back(builder.load(k, dtype, access));
  builder.store(arity, builder.op(op, args), access);
  return kernel;
}

// As for a CPU, or as for a machine where many threads run a block.
Kernel expanded(S op, DType dtype, int64_t n = 1, int threads = 1) {
  Kernel kernel = elementwise(op, dtype, n);
  kernel.threads = threads;
  expand_math(kernel);
  kernel.threads = 1;
  fold(kernel);
  cse(kernel);
  dce(kernel);
  verify(kernel);
  return kernel;
}

long double inverse_erf(long double x) {
  long double a = std::fabs(x);
  if (!(a < 1)) return a == 1 ? std::copysign(INFINITY, x) : NAN;
  if (a < 0x1p-30L) return x * 0.88622692545275801364908374167057259L;
  long double low = 0, high = 7;
  for (int k = 0; k < 30; ++k) {  // a bracket, then Newton
    long double y = (low + high) / 2;
    ((a < 0.5L ? std::erf(y) < a : std::erfc(y) > 1 - a) ? low : high) = y;
  }
  long double y = (low + high) / 2;
  for (int k = 0; k < 3; ++k) {
    long double error = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    y -= error / (1.1283791670955125738961589031215452L * std::exp(-y * y));
  }
  return std::copysign(y, x);
}

// Computes in long double: 64 bits of mantissa, and no overflow where double has one.
long double reference(S op, long double x, long double y) {
  switch (op) {
    case S::exp: return std::exp(x);
    case S::exp2: return std::exp2(x);
    case S::expm1: return std::expm1(x);
    case S::log: return std::log(x);
    case S::log2: return std::log2(x);
    case S::log1p: return std::log1p(x);
    case S::sin: return std::sin(x);
    case S::cos: return std::cos(x);
    case S::tanh: return std::tanh(x);
    case S::erf: return std::erf(x);
    case S::erfinv: return inverse_erf(x);
    case S::atan2: return std::atan2(x, y);
    case S::log10: return std::log10(x);
    case S::tan: return std::tan(x);
    case S::asin: return std::asin(x);
    case S::acos: return std::acos(x);
    case S::atan: return std::atan(x);
    case S::sinh: return std::sinh(x);
    case S::cosh: return std::cosh(x);
    case S::asinh: return std::asinh(x);
    case S::acosh: return std::acosh(x);
    case S::atanh: return std::atanh(x);
    case S::cbrt: return std::cbrt(x);
    default: return std::pow(x, y);
  }
}

struct Format {
  int digits, lowest, highest;  // mantissa bits, exponents of the smallest subnormal and of infinity
};
Format format_of(DType dtype) { return dtype == kF32 ? Format{24, -149, 128} : Format{53, -1074, 1024}; }

// Distance in units of the last place of the exact value; infinity counts as the first number too large.
long double ulps(DType dtype, double got, long double want) {
  Format format = format_of(dtype);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  auto finite = [&](long double v) { return std::isinf(v) ? std::copysign(std::ldexp(1.0L, format.highest), v) : v; };
  long double limit = std::ldexp(1.0L, format.highest);
  long double exact = std::min(std::max(finite(want), -limit), limit);
  if (exact == 0 && got == 0) return std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  int exponent = std::max(std::ilogb(exact == 0 ? 1e-4000L : exact) - format.digits + 1, format.lowest);
  exponent = std::min(exponent, format.highest - format.digits);
  return std::fabs(finite(got) - exact) / std::ldexp(1.0L, exponent);
}

std::vector<double> special_values(DType dtype) {
  bool wide = dtype == kF64;
  std::vector<double> values = {0.0,
                                INFINITY,
                                NAN,
                                1,
                                2,
                                3,
                                0.5,
                                1.5,
                                0.25,
                                10,
                                100,
                                1000,
                                1e10,
                                1e30,
                                1e38,
                                7,
                                15,
                                wide ? 0x1p-1074 : 0x1p-149,
                                wide ? 0x1p-1022 : 0x1p-126,
                                wide ? 0x1.fffffffffffffp1023 : 0x1.fffffep127,
                                wide ? 0x1p1023 : 0x1p127,
                                0x1p24,
                                0x1p53,
                                88.72283,
                                88.72284,
                                103.97,
                                103.98,
                                709.78271289338397,
                                709.7827128933841,
                                745.13321910194122,
                                745.13321910194110,
                                1024,
                                1023.999,
                                1074,
                                1075,
                                128,
                                149,
                                150,
                                0.34657359,
                                0.6931471805599453,
                                1.5707963267948966,
                                3.141592653589793,
                                0x1.6ac5b262ca1ffp849,
                                3.92,
                                4,
                                5.93,
                                6,
                                9.01,
                                9.02,
                                19.06,
                                20,
                                1 - 0x1p-24,
                                1 + 0x1p-23,
                                1 - 0x1p-53,
                                1 + 0x1p-52,
                                0x1p-12,
                                0x1p-25,
                                0x1p-27,
                                0x1p-54,
                                0x1p-60};
  std::vector<double> result;
  for (double v : values)
    for (double sign : {1.0, -1.0}) result.push_back(Scalar::of(dtype, sign * v).f);
  return result;
}

// Whole bit patterns, and ranges where the function does something.
double sample(std::mt19937_64& random, DType dtype, int kind) {
  auto uniform = [&](double low, double high) {
    return Scalar::of(dtype, std::uniform_real_distribution<double>(low, high)(random)).f;
  };
  switch (kind % 6) {
    case 0:
    case 1: return Scalar::from_bits(dtype, dtype == kF32 ? random() & 0xffffffff : random()).f;
    case 2: return uniform(-1.5, 1.5);
    case 3: return uniform(-12, 12);
    case 4: return uniform(-110, 110);
    default: {  // near 1, near multiples of pi/2
      double base = kind % 12 < 6 ? 1.0 : 1.5707963267948966 * static_cast<double>(random() % 1000);
      return Scalar::of(dtype, base * (1 + uniform(-1, 1) * std::ldexp(1.0, -static_cast<int>(random() % 24)))).f;
    }
  }
}

enum class Way { Plain, Fused, ManyThreads };
class Accuracy : public testing::TestWithParam<std::tuple<S, DType, Way>> {};

TEST_P(Accuracy, stays_within_the_bound_everywhere) {
  auto [op, dtype, way] = GetParam();
  const bool fused = way == Way::Fused;
  long double bound = dtype == kF32 ? 2 : 4;
  std::vector<std::vector<uint64_t>> inputs(static_cast<size_t>(info(op).arity));
  auto add = [&](double x, double y) {
    inputs[0].push_back(Scalar::of(dtype, x).bits());
    if (inputs.size() > 1) inputs[1].push_back(Scalar::of(dtype, y).bits());
  };
  std::vector<double> specials = special_values(dtype);
  for (double x : specials) {
    if (inputs.size() == 1) {
      add(x, 0);
    } else {
      for (double y : specials) add(x, y);
    }
  }
  std::mt19937_64 random(7);
  // HEDDLE_TEST_SAMPLES=100 multiplies the samples, for a search that takes minutes.
  const char* more = std::getenv("HEDDLE_TEST_SAMPLES");
  const int count = (op == S::sin || op == S::cos || op == S::pow ? 20000 : 60000) * (more ? std::atoi(more) : 1);
  for (int k = 0; k < count; ++k) {
    double x = sample(random, dtype, k), y = sample(random, dtype, k + static_cast<int>(random() % 5));
    if (op == S::pow && k % 3 != 0) {  // mostly results in range: |y log2 x| below the exponents' limit
      x = std::fabs(x);
      double scale = std::log2(x);
      double wanted = (dtype == kF32 ? 150.0 : 1075.0) * std::uniform_real_distribution<double>(-1, 1)(random);
      if (std::isfinite(scale) && scale != 0) y = wanted / scale;
    }
    add(x, y);
  }
  Kernel kernel = expanded(op, dtype, 1, way == Way::ManyThreads ? 256 : 1);
  if (fused) fuse_mad(kernel);
  std::vector<uint64_t> results = ArrayEval::run(kernel, inputs);
  long double worst = 0;
  double worst_at = 0;
  int failures = 0;
  for (size_t k = 0; k < results.size(); ++k) {
    double x = Scalar::from_bits(dtype, inputs[0][k]).f;
    double y = inputs.size() > 1 ? Scalar::from_bits(dtype, inputs[1][k]).f : 0;
    double got = Scalar::from_bits(dtype, results[k]).f;
    long double want = reference(op, x, y);
    long double error = ulps(dtype, got, want);
    if (error > worst) worst_at = x;
    worst = std::max(worst, error);
    if (!(error <= bound) && ++failures <= 5)
      ADD_FAILURE() << info(op).name << "(" << x << (inputs.size() > 1 ? text(", ", y) : "") << ") of " << dtype
                    << " gave " << got << ", expected " << want << ": " << error << " ulp";
  }
  EXPECT_EQ(failures, 0);
  RecordProperty("worst_ulp", text(worst));
  if (std::getenv("HEDDLE_TEST_VERBOSE"))
    printf("%s %s%s: %.3Lf ulp at %a, %zu instructions\n", info(op).name, name(dtype), fused ? " fused" : "", worst,
           worst_at, kernel.phases[0].body.insts.size());
}

std::string accuracy_case(const testing::TestParamInfo<std::tuple<S, DType, Way>>& test) {
  auto [op, dtype, way] = test.param;
  return std::string(info(op).name) + "_" + name(dtype) +
         (way == Way::Fused         ? "_fused"
          : way == Way::ManyThreads ? "_many_threads"
                                    : "");
}

INSTANTIATE_TEST_SUITE_P(Math, Accuracy,
                         testing::Combine(testing::Values(S::exp, S::exp2, S::expm1, S::log, S::log2, S::log10,
                                                          S::log1p, S::sin, S::cos, S::tan, S::asin, S::acos, S::atan,
                                                          S::sinh, S::cosh, S::tanh, S::asinh, S::acosh, S::atanh,
                                                          S::erf, S::erfinv, S::cbrt, S::pow, S::atan2),
                                          testing::Values(kF32, kF64), testing::Values(Way::Plain, Way::Fused)),
                         accuracy_case);
INSTANTIATE_TEST_SUITE_P(MathOfManyThreads, Accuracy,
                         testing::Combine(testing::Values(S::exp, S::exp2, S::erf), testing::Values(kF32),
                                          testing::Values(Way::ManyThreads)),
                         accuracy_case);

TEST(ExpandMath, leaves_only_native_ops) {
  for (int k = 0; k < kScalarOpCount; ++k) {
    S op = static_cast<S>(k);
    for (DType dtype : {kF16, kBF16, kF32, kF64}) {
      std::vector<DType> operands(static_cast<size_t>(info(op).arity), dtype);
      if (result_dtype(op, operands) != dtype) continue;
      Kernel kernel = expanded(op, dtype);
      visit(kernel.phases[0].body, [&](const Inst& inst) {
        if (!is_scalar_op(inst.op)) return;
        EXPECT_TRUE(info(scalar_op(inst.op)).native) << name(inst.op);
        DType computed = kernel.values[static_cast<size_t>(inst.args.back())].dtype;
        EXPECT_NE(computed, kF16);
        EXPECT_NE(computed, kBF16);
      });
    }
  }
}

TEST(ExpandMath, the_hot_functions_are_short) {
  auto length = [](S op) {
    int count = 0;
    Kernel kernel = expanded(op, kF32);
    visit(kernel.phases[0].body, [&](const Inst& inst) { count += is_scalar_op(inst.op) || inst.op == Op::cast; });
    return count;
  };
  // Seven of them for results below the normal numbers: behind a branch in a thread, which this kernel does not have.
  EXPECT_LE(length(S::exp), 18);
  EXPECT_LE(length(S::exp2), 15);
  EXPECT_LE(length(S::tanh), 22);
  EXPECT_LE(length(S::log), 30);
  EXPECT_LE(length(S::erf), 29);
}

TEST(ExpandMath, the_interpreter_agrees_with_the_array_evaluator_bit_for_bit) {
  std::mt19937_64 random(3);
  constexpr int64_t n = 64;
  for (S op : {S::exp, S::log1p, S::sin, S::tanh, S::pow}) {
    std::vector<std::vector<uint64_t>> inputs(static_cast<size_t>(info(op).arity));
    std::vector<float> memory[3] = {std::vector<float>(n), std::vector<float>(n), std::vector<float>(n)};
    for (size_t k = 0; k < inputs.size(); ++k)
      for (int64_t i = 0; i < n; ++i) {
        Scalar x = Scalar::of(kF32, sample(random, kF32, 2 + static_cast<int>(random() % 4)));
        inputs[k].push_back(x.bits());
        store_scalar(memory[k].data(), i, x);
      }
    Kernel kernel = expanded(op, kF32, n);
    std::vector<void*> buffers;
    for (size_t k = 0; k <= inputs.size(); ++k) buffers.push_back(memory[k].data());
    std::vector<int64_t> sizes(buffers.size(), n);
    interpret(kernel, buffers, sizes);
    std::vector<uint64_t> fast = ArrayEval::run(kernel, inputs);
    for (int64_t i = 0; i < n; ++i) {
      uint64_t slow = load_scalar(memory[inputs.size()].data(), i, kF32).bits();
      bool both_nan = std::isnan(Scalar::from_bits(kF32, slow).f) &&
                      std::isnan(Scalar::from_bits(kF32, fast[static_cast<size_t>(i)]).f);
      EXPECT_TRUE(both_nan || slow == fast[static_cast<size_t>(i)]) << info(op).name;
    }
  }
}

TEST(ExpandMath, small_floats_round_once_at_the_end) {
  for (S op : {S::exp, S::tanh, S::add, S::mul, S::fma, S::minimum}) {
    Kernel before = elementwise(op, kF16), after = expanded(op, kF16);
    std::mt19937_64 random(5);
    for (int k = 0; k < 200; ++k) {
      uint16_t memory[4] = {};
      std::vector<Scalar> operands;
      for (int j = 0; j < info(op).arity; ++j) {
        operands.push_back(Scalar::of(kF16, sample(random, kF16, 2)));
        store_scalar(memory, j, operands.back());
      }
      std::vector<void*> buffers;
      for (int j = 0; j <= info(op).arity; ++j) buffers.push_back(memory + j);
      std::vector<int64_t> sizes(buffers.size(), 1);
      interpret(after, buffers, sizes);
      Scalar got = load_scalar(memory, info(op).arity, kF16), want = heddle::apply(op, operands);
      if (info(op).native) {
        EXPECT_EQ(got, want);
      } else {
        EXPECT_NEAR(got.f, want.f, std::fabs(want.f) * 0x1p-10);
      }
    }
  }
}

}  // namespace
}  // namespace heddle::kernel
