// What people write: products, statistics and normalisations that meet in one program, with their gradients and with
// several results at once. Against the evaluator, which computes in double.
#include <algorithm>
#include <array>
#include <functional>

#include "near_evaluator.h"

namespace heddle {
namespace {

using namespace testing;

// In place of a length: each result within a few units of the last place of its largest element.
constexpr double kRelative = -1;

void expect_close(const Tensors& results, const std::vector<HostArray>& want, double length) {
  if (length != kRelative) return expect_near(results, want, length);
  realize(results);
  for (size_t i = 0; i < results.size(); ++i) {
    double largest = 0;
    for (double value : want[i].floats) largest = std::max(largest, std::fabs(value));
    expect_near({results[i]}, {want[i]}, 16 * largest);
  }
}

// Whatever is realised with whatever: each result alone, all together, and all in reverse order.
void expect_right(const std::function<Tensors()>& make, double length) {
  const Tensors reference = make();
  const std::vector<HostArray> want = evaluated(reference);
  {
    SCOPED_TRACE("together");
    expect_close(make(), want, length);
  }
  for (size_t i = 0; i < want.size() && want.size() > 1; ++i) {
    SCOPED_TRACE(::testing::Message() << "result " << i << " alone");
    expect_close({make()[i]}, {want[i]}, length);
  }
  SCOPED_TRACE("in reverse order");
  Tensors reversed = make();
  std::vector<HostArray> reversed_want = want;
  std::reverse(reversed.begin(), reversed.end());
  std::reverse(reversed_want.begin(), reversed_want.end());
  expect_close(reversed, reversed_want, length);
}

// Numbers with respect to which gradients may be asked for.
Tensor leaf(const Dims& shape, uint64_t seed, DType dtype = kF32) {
  Tensor x = noise(shape, seed, dtype);
  x.requires_grad_();
  return x;
}

Tensors operator+(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Composite, gradients_of_a_perceptron) {
  for (int64_t width : {2, 16, 64, 255, 256, 257, 300}) {
    SCOPED_TRACE(width);
    Tensor x = leaf({8, 32}, 1), w = leaf({width, 32}, 2), b = leaf({width}, 3), v = leaf({10, width}, 4);
    Tensor t = (arange(8) * 7 % 10).realize();
    auto loss = [&] { return cross_entropy(matmul(tanh(matmul(x, transpose(w)) + b), transpose(v)), t); };
    expect_right([&] { return grad(loss(), {w, b}); }, 64);
    expect_right([&] { return grad(loss(), {w, b, v, x}); }, 64);
  }
}

TEST(Composite, an_update_behind_the_gradient_of_a_wide_head) {
  for (int64_t classes : {300, 5003}) {
    SCOPED_TRACE(classes);
    Tensor x = leaf({24, 16}, 1), w = leaf({classes, 16}, 2), m = leaf({classes, 16}, 3);
    Tensor s = abs(noise({classes, 16}, 4)).realize(), t = (arange(24) * 131 % classes).realize();
    auto step = [&]() -> Tensors {
      Tensor g = grad(cross_entropy(matmul(x, transpose(w)), t), {w})[0];
      Tensor first = m * 0.9 + g * 0.1, second = s * 0.99 + g * g * 0.01;
      return {w * 0.999 - first / (sqrt(second) + 0.1) * 0.01, first, second};
    };
    expect_right(step, 64);
  }
}

TEST(Composite, gradients_of_a_residual_block) {
  for (auto [n, d, h] : {std::array<int64_t, 3>{65, 8, 32}, {64, 16, 64}, {33, 17, 257}, {512, 8, 16}, {96, 128, 96}}) {
    SCOPED_TRACE(::testing::Message() << n << " " << d << " " << h);
    Tensor x = leaf({n, d}, 1), w1 = leaf({d, h}, 2), w2 = leaf({h, d}, 3), b = zeros({d}).realize();
    b.requires_grad_();
    Tensor b1 = leaf({h}, 4), b2 = leaf({d}, 5);
    expect_right(
        [&] {
          Tensor y = x + b, z = y + matmul(relu(matmul(y, w1)), w2);
          return grad(sum(square(z)), {b});
        },
        kRelative);
    expect_right(
        [&] {
          Tensor y = x + b, z = y + matmul(gelu(matmul(y, w1) + b1), w2) + b2;
          return Tensors{z} + grad(sum(square(z)), {x, b, w1, b1, w2, b2});
        },
        kRelative);
  }
}

TEST(Composite, symmetric_normalisation) {
  for (int64_t n : {2, 3, 16, 33, 64, 65}) {
    SCOPED_TRACE(n);
    Tensor a = abs(noise({n, n}, 1)).realize(), x = leaf({n, 5}, 2);
    a.requires_grad_();
    auto make = [&]() -> Tensors {
      Tensor s = rsqrt(sum(a, {-1}));
      return {matmul(a * unsqueeze(s, 1) * unsqueeze(s, 0), x)};
    };
    expect_right(make, 16);
    expect_right([&] { return make() + grad(sum(square(make()[0])), {a, x}); }, 256);
  }
}

TEST(Composite, a_nested_product_with_what_uses_it) {
  for (auto [n, d, m] : {std::array<int64_t, 3>{64, 8, 64}, {65, 8, 33}, {7, 3, 5}, {130, 16, 70}}) {
    SCOPED_TRACE(::testing::Message() << n << " " << d << " " << m);
    Tensor x = leaf({n, d}, 1), y = leaf({m, d}, 2), z = leaf({m, d}, 3);
    auto attended = [&] { return matmul(softmax(matmul(x, transpose(y)), -1), z); };
    expect_right([&] { return Tensors{x + attended(), attended()}; }, 64);
    expect_right([&] { return Tensors{x * attended(), relu(attended()), attended()}; }, 64);
    expect_right([&] { return Tensors{sum(attended(), {-1}), attended()}; }, 256);
    auto chain = [&] { return matmul(matmul(x, transpose(y)), z); };
    expect_right([&] { return Tensors{chain(), chain() * 2}; }, 4.0 * static_cast<double>(m * d));
    expect_right([&] { return Tensors{chain() > 0}; }, 1);
  }
}

TEST(Composite, a_nested_product_of_integers) {
  for (DType dtype : {kI32, kF32, kF64}) {
    auto integers = [&](const Dims& shape, uint64_t seed) {
      return trunc(noise(shape, seed) * 9).cast(dtype).realize();
    };
    Tensor a = integers({64, 8}, 1), b = integers({8, 64}, 2), c = integers({64, 8}, 3);
    auto t = [&] { return matmul(matmul(a, b), c); };
    expect_right([&] { return Tensors{t() * 2, t()}; }, 1e-9);
    expect_right([&] { return Tensors{a + t(), t()}; }, 1e-9);
  }
}

TEST(Composite, attention_assigned_to_state) {
  Tensor q = leaf({40, 8}, 1), k = leaf({30, 8}, 2), v = leaf({30, 8}, 3);
  auto attended = [&] { return matmul(softmax(matmul(q, transpose(k)), -1), v); };
  const std::vector<HostArray> want = evaluated({attended(), attended() + q});
  Tensor state = zeros({40, 8}).realize();
  auto f = jit([&](const Tensor& x) {
    Tensor t = matmul(softmax(matmul(x, transpose(k)), -1), v);
    state.assign(t);
    return t + x;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor out = f(q);
    expect_near({state, out}, want, 64);
  }
}

TEST(Composite, a_statistic_of_a_row_read_at_two_rows) {
  Tensor small = tensor({{0., 1.}, {3., 1.}}, kF32);
  Tensor a = small - max(small, {-1}, true);
  EXPECT_EQ(matmul(a, transpose(a)).to_vector<float>(), (std::vector<float>{1, 0, 0, 4}));
  for (auto [n, d] : {std::array<int64_t, 2>{2, 2}, {5, 3}, {16, 16}, {33, 8}, {64, 32}, {65, 64}, {100, 17}}) {
    for (DType dtype : {kF32, kF64}) {
      SCOPED_TRACE(::testing::Message() << n << " " << d);
      Tensor x = leaf({n, d}, 1, dtype), y = leaf({n, d}, 2, dtype);
      const double terms = static_cast<double>(d);
      auto with_own = [](const Tensor& t) { return matmul(t, transpose(t)); };
      expect_right([&] { return Tensors{with_own(x - max(x, {-1}, true))}; }, 4 * terms);
      expect_right([&] { return Tensors{with_own(log_softmax(x, -1))}; }, 32 * terms);
      expect_right([&] { return Tensors{with_own(softmax(x, -1) * 2)}; }, 64);
      expect_right([&] { return Tensors{with_own(layer_norm(x) * 2)}; }, 64 * terms);
      auto gradients = [&](const Tensor& t) { return Tensors{t} + grad(sum(t * t), {x}); };
      expect_right([&] { return gradients(softmax(with_own(x), -1)); }, 1024);
      expect_right([&] { return gradients(var(with_own(x), {-1})); }, 1e6);
      expect_right([&] { return gradients(layer_norm(with_own(x))); }, 1e5);
      auto normalised = [](const Tensor& t) { return t / norm(t, 2, {-1}, true); };
      expect_right(
          [&] {
            Tensor scores = matmul(normalised(x), transpose(normalised(y))) / 0.5;
            Tensor l = cross_entropy(scores, arange(n)) + cross_entropy(transpose(scores), arange(n));
            return Tensors{l} + grad(l, {x, y});
          },
          1024);
    }
  }
}

TEST(Composite, attention_of_normalised_queries_and_keys) {
  for (auto [heads, n, d] : {std::array<int64_t, 3>{8, 256, 64}, {2, 33, 8}, {1, 64, 64}, {3, 7, 16}, {2, 64, 32}}) {
    SCOPED_TRACE(::testing::Message() << heads << " " << n << " " << d);
    Tensor q = leaf({1, heads, n, d}, 1), k = leaf({1, heads, n, d}, 2), v = leaf({1, heads, n, d}, 3);
    expect_right([&] { return Tensors{scaled_dot_product_attention(layer_norm(q), k, v)}; }, 64);
    expect_right([&] { return Tensors{scaled_dot_product_attention(layer_norm(q), layer_norm(k), v)}; }, 64);
    expect_right([&] { return Tensors{matmul(softmax(matmul(q - max(q, {-1}, true), transpose(k, -1, -2)), -1), v)}; },
                 256);
    if (n > 100) continue;
    expect_right(
        [&] {
          Tensor out = scaled_dot_product_attention(layer_norm(q), layer_norm(k), v);
          return Tensors{out} + grad(sum(square(out)), {q, k, v});
        },
        4096);
  }
}

TEST(Composite, a_statistic_of_everything_read_at_two_places) {
  Tensor x = tensor({{1., 3.}}, kF32);
  Tensor a = x - max(x);
  EXPECT_EQ(sum(reshape(a, {1, 2}) * reshape(a, {2, 1}), {0}).to_vector<float>(), (std::vector<float>{4, 0}));
}

TEST(Composite, gradients_alone_of_what_reads_in_two_orders) {
  for (int64_t n : {4, 33, 64, 300}) {
    SCOPED_TRACE(n);
    Tensor x = leaf({n, 16}, 1), w = leaf({16, 8}, 2), target = leaf({n, 8}, 3);
    auto gradients = [&](auto&& f) {
      expect_right([&] { return grad(sum(square(f(matmul(x, w)))), {x, w}); }, 4096);
      expect_right([&] { return grad(huber_loss(f(matmul(x, w)), target), {x, w}); }, 256);
    };
    gradients([](const Tensor& p) { return p + flip(p, {0}); });
    gradients([](const Tensor& p) { return elu(p + flip(p, {1})); });
    gradients([](const Tensor& p) {
      Tensor q = pad(p + flip(p, {0}), {{1, 1}, {0, 0}}, PadMode::Replicate);
      q = elu((q - mean(q, {0}, true)) / heddle::std(q, {0}, true));
      return slice(flip(q, {0}), 0, 1, -1);
    });
    gradients(
        [](const Tensor& p) { return (p - mean(p, {0}, true)) / (heddle::std(p, {0}, true) + 1) + flip(p, {0}); });
  }
}

// What two gradients share goes to memory for one of them after the other has been planned without.
TEST(Composite, gradients_alone_of_attention_along_columns) {
  for (auto [n, m] : {std::array<int64_t, 2>{128, 64}, {64, 64}, {129, 33}, {300, 64}}) {
    for (DType dtype : {kF32, kF16}) {
      SCOPED_TRACE(::testing::Message() << n << " " << m);
      Tensor q = leaf({n, 1}, 1, dtype), k = leaf({m, 1}, 2, dtype), v = leaf({m, 10}, 3, dtype);
      auto attended = [&] { return matmul(softmax(matmul(rms_norm(q), transpose(k)), 0), v); };
      expect_right([&] { return grad(sum(attended()), {q, k}); }, dtype == kF16 ? 1 << 16 : 512);
    }
  }
}

}  // namespace
}  // namespace heddle
