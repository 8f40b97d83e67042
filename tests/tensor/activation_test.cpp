// Activation functions against their definitions in double, at large arguments too.
#include <limits>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

const double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

struct Activation {
  const char* name;
  std::function<Tensor(const Tensor&)> compute;
  std::function<double(double)> reference;
};

double softplus_reference(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double sigmoid_reference(double x) { return 1 / (1 + std::exp(-x)); }

const std::vector<Activation>& activations() {
  static const std::vector<Activation> list = {
      {"relu", [](const Tensor& x) { return relu(x); }, [](double x) { return std::max(x, 0.0); }},
      {"relu6", [](const Tensor& x) { return relu6(x); }, [](double x) { return std::clamp(x, 0.0, 6.0); }},
      {"hardtanh", [](const Tensor& x) { return hardtanh(x, -2, 3); },
       [](double x) { return std::clamp(x, -2.0, 3.0); }},
      {"threshold", [](const Tensor& x) { return threshold(x, 1, 7); }, [](double x) { return x > 1 ? x : 7; }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, sigmoid_reference},
      {"logsigmoid", [](const Tensor& x) { return logsigmoid(x); }, [](double x) { return -softplus_reference(-x); }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.1); }, [](double x) { return x > 0 ? x : 0.1 * x; }},
      {"elu", [](const Tensor& x) { return elu(x, 1.5); }, [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }},
      {"selu", [](const Tensor& x) { return selu(x); },
       [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }},
      {"celu", [](const Tensor& x) { return celu(x, 2); }, [](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); }},
      {"gelu", [](const Tensor& x) { return gelu(x); },
       [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"gelu tanh", [](const Tensor& x) { return gelu(x, "tanh"); },
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {"silu", [](const Tensor& x) { return silu(x); }, [](double x) { return x * sigmoid_reference(x); }},
      {"hardsigmoid", [](const Tensor& x) { return hardsigmoid(x); },
       [](double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"hardswish", [](const Tensor& x) { return hardswish(x); },
       [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }, softplus_reference},
      {"softplus beta", [](const Tensor& x) { return softplus(x, 3); },
       [](double x) { return softplus_reference(3 * x) / 3; }},
      {"softsign", [](const Tensor& x) { return softsign(x); }, [](double x) { return x / (1 + std::fabs(x)); }},
      {"mish", [](const Tensor& x) { return mish(x); }, [](double x) { return x * std::tanh(softplus_reference(x)); }},
  };
  return list;
}

std::vector<double> arguments() {
  std::vector<double> x;
  for (double v : {0.0, 1e-6, 0.01, 0.5, 1.0, 1.75, 2.5, 6.0, 9.0, 19.5, 20.5, 30.0, 87.0, 90.0, 200.0, 1e4, 60000.0})
    for (double s : {1.0, -1.0}) x.push_back(s * v);
  return x;
}

TEST(Activations, equal_their_definitions_in_f32_and_f64) {
  std::vector<double> x = arguments();
  for (const Activation& a : activations()) {
    SCOPED_TRACE(a.name);
    std::vector<double> want;
    for (double v : x) want.push_back(a.reference(v));
    Tensor wide = from_vector(x, {static_cast<int64_t>(x.size())});
    expect_close(a.compute(wide), want, 1e-13);
    EXPECT_EQ(a.compute(wide).dtype(), kF64);
    want.clear();
    std::vector<float> narrow(x.begin(), x.end());
    for (float v : narrow) want.push_back(a.reference(v));
    expect_close(a.compute(from_vector(narrow, {static_cast<int64_t>(x.size())})), want, 5e-7);
  }
}

TEST(Activations, half_precision_does_not_overflow_on_the_way) {
  std::vector<double> x = arguments();
  for (const Activation& a : activations()) {
    SCOPED_TRACE(a.name);
    for (DType dtype : {kF16, kBF16}) {
      Tensor small = cast(from_vector(x, {static_cast<int64_t>(x.size())}), dtype).realize();
      Tensor y = a.compute(small);
      EXPECT_EQ(y.dtype(), dtype);
      std::vector<double> got = doubles(y), from = doubles(small);
      for (size_t i = 0; i < x.size(); ++i) {
        double want = a.reference(from[i]);
        if (std::fabs(want) > 6e4) continue;  // may overflow in the end
        EXPECT_NEAR(got[i], want, (dtype == kF16 ? 1e-3 : 8e-3) * std::max(1.0, std::fabs(want))) << from[i];
      }
    }
  }
}

TEST(Activations, small_results_keep_their_digits) {
  // Relative errors: where a naive formula has lost everything.
  for (double v : {-20.0, -50.0, -80.0}) {
    Tensor x = tensor({v}, kF64);
    EXPECT_NEAR(softplus(x).item<double>() / std::exp(v), 1, 1e-8) << v;
    EXPECT_NEAR(mish(x).item<double>() / (v * std::exp(v)), 1, 1e-8) << v;
    EXPECT_NEAR(sigmoid(x).item<double>() / std::exp(v), 1, 1e-8) << v;
    EXPECT_NEAR(logsigmoid(neg(x)).item<double>() / -std::exp(v), 1, 1e-8) << v;
  }
}

TEST(Activations, integers_become_floats_and_nan_stays) {
  for (const Activation& a : activations()) {
    SCOPED_TRACE(a.name);
    if (std::string(a.name) != "relu" && std::string(a.name) != "relu6") {
      EXPECT_EQ(a.compute(tensor({1, 2}, kI32)).dtype(), kF32);
    }
    if (std::string(a.name) != "threshold") expect_close(a.compute(tensor({kNan})), {kNan});
    if (std::string(a.name) != "softsign" && std::string(a.name) != "hardtanh") {
      double at = a.compute(tensor({kInfinity})).item<double>();
      EXPECT_FALSE(std::isnan(at));
    }
  }
}

TEST(Activations, glu_multiplies_halves) {
  Tensor x = noise_tensor({4, 6});
  Tensor want = slice(x, 1, 0, 3) * sigmoid(slice(x, 1, 3, 6));
  expect_close(glu(x), doubles(want));
  expect_close(glu(x, 0), doubles(slice(x, 0, 0, 2) * sigmoid(slice(x, 0, 2, 4))));
  expect_error<ShapeError>([] { glu(zeros({2, 3})); }, {"glu", "[2, 3]"});
}

TEST(Activations, bad_arguments) {
  expect_error<ValueError>([] { gelu(zeros(2), "fast"); }, {"gelu", "fast"});
  expect_error<ValueError>([] { softplus(zeros(2), 0); }, {"softplus"});
  expect_error<ValueError>([] { hardtanh(zeros(2), 1, -1); }, {"hardtanh"});
  expect_error<ValueError>([] { celu(zeros(2), 0); }, {"celu"});
}

TEST(Activations, each_is_one_kernel) {
  Tensor x = noise_tensor({64, 65});
  for (const Activation& a : activations()) {
    SCOPED_TRACE(a.name);
    Tensor y = a.compute(x);
    StatsSince stats;
    y.realize();
    EXPECT_EQ(stats->launches, 1u);
  }
}

}  // namespace
}  // namespace heddle
