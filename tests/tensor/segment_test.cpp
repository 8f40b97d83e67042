// Steps that are the same but for sizes are one launch: updates of many parameters, norms of many gradients.
#include <cmath>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

// Biases and matrices of many sizes, small and odd ones among them.
std::vector<std::vector<int64_t>> mixed_shapes(int count) {
  std::vector<std::vector<int64_t>> shapes;
  for (int i = 0; i < count; ++i) {
    int64_t n = 2 + (i * 37) % 150, m = 3 + (i * 53) % 97;
    if (i % 2)
      shapes.push_back({n});
    else
      shapes.push_back({n, m});
  }
  return shapes;
}

std::vector<Tensor> noise_like(const std::vector<std::vector<int64_t>>& shapes, uint64_t seed, bool positive = false) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < shapes.size(); ++i) {
    Tensor t = noise_tensor(shapes[i], seed * 1000 + i);
    result.push_back((positive ? square(t) : t).realize());
  }
  return result;
}

struct State {
  Tensor p, g, m, v;
};
using Update = std::vector<Tensor> (*)(const State&, const Tensor& rate, const Tensor& step);

std::vector<Tensor> sgd(const State& s, const Tensor& rate, const Tensor&) {
  Tensor m = s.m * 0.9 + s.g;
  return {s.p - rate * m, m};
}
std::vector<Tensor> adamw(const State& s, const Tensor& rate, const Tensor& step) {
  Tensor m = s.m * 0.9 + s.g * 0.1, v = s.v * 0.999 + square(s.g) * 0.001;
  Tensor mean = m / (1 - pow(full({}, 0.9), step)), spread = v / (1 - pow(full({}, 0.999), step));
  return {s.p * (1 - rate * 0.01) - rate * mean / (sqrt(spread) + 1e-8), m, v};
}
std::vector<Tensor> rmsprop(const State& s, const Tensor& rate, const Tensor&) {
  Tensor v = s.v * 0.99 + square(s.g) * 0.01;
  return {s.p - rate * s.g / (sqrt(v) + 1e-8), v};
}
std::vector<Tensor> lion(const State& s, const Tensor& rate, const Tensor&) {
  Tensor direction = sign(s.m * 0.9 + s.g * 0.1);
  return {s.p - rate * (direction + s.p * 0.1), s.m * 0.99 + s.g * 0.01};
}

std::vector<State> states(int count) {
  auto shapes = mixed_shapes(count);
  std::vector<Tensor> p = noise_like(shapes, 1), g = noise_like(shapes, 2), m = noise_like(shapes, 3),
                      v = noise_like(shapes, 4, true);
  std::vector<State> result;
  for (int i = 0; i < count; ++i) {
    auto k = static_cast<size_t>(i);
    result.push_back({p[k], g[k], m[k], v[k]});
  }
  return result;
}

// Realised together and one by one the results are the same, bit for bit.
void expect_same(const std::vector<Tensor>& together, const std::vector<Tensor>& apart) {
  ASSERT_EQ(together.size(), apart.size());
  for (size_t i = 0; i < together.size(); ++i) EXPECT_EQ(doubles(together[i]), doubles(apart[i])) << "result " << i;
}

class Optimiser : public ::testing::TestWithParam<Update> {};

TEST_P(Optimiser, updates_a_hundred_tensors_in_one_launch) {
  std::vector<State> all = states(100);
  Tensor rate = full({}, 0.01).realize(), step = full({}, 3.0).realize();
  std::vector<Tensor> together, apart;
  for (const State& s : all)
    for (Tensor& t : GetParam()(s, rate, step)) together.push_back(std::move(t));
  StatsSince stats;
  realize(together);
  EXPECT_LE(stats->launches, 1u);
  for (const State& s : all) {
    std::vector<Tensor> own = GetParam()(s, rate, step);
    realize(own);
    apart.insert(apart.end(), own.begin(), own.end());
  }
  expect_same(together, apart);
}

INSTANTIATE_TEST_SUITE_P(Rules, Optimiser, ::testing::Values(sgd, adamw, rmsprop, lion));

TEST(Segments, tensors_of_equal_shapes_go_together_too) {
  std::vector<Tensor> results;
  Tensor rate = full({}, 0.01).realize(), step = full({}, 3.0).realize();
  for (uint64_t i = 0; i < 97; ++i) {
    std::vector<int64_t> shape = i % 2 ? std::vector<int64_t>{64} : std::vector<int64_t>{64, i % 5 ? 64 : 32};
    State s{noise_tensor(shape, i), noise_tensor(shape, i + 100), noise_tensor(shape, i + 200),
            square(noise_tensor(shape, i + 300)).realize()};
    for (Tensor& t : adamw(s, rate, step)) results.push_back(std::move(t));
  }
  StatsSince stats;
  realize(results);
  EXPECT_LE(stats->launches, 1u);
}

TEST(Segments, weights_with_decay_and_biases_without_are_two_launches) {
  std::vector<State> all = states(100);
  Tensor rate = full({}, 0.01).realize();
  std::vector<Tensor> results;
  for (const State& s : all) {
    Tensor m = s.m * 0.9 + s.g;
    results.push_back(m);
    results.push_back(s.p.rank() > 1 ? s.p * (1 - rate * 0.1) - rate * m : s.p - rate * m);
  }
  StatsSince stats;
  realize(results);
  EXPECT_LE(stats->launches, 2u);
}

TEST(Segments, clipping_by_the_global_norm_adds_two_launches) {
  std::vector<State> all = states(100);
  Tensor rate = full({}, 0.01).realize(), step = full({}, 3.0).realize();
  std::vector<Tensor> squares, results;
  for (const State& s : all) squares.push_back(sum(square(s.g)));
  Tensor norm = sqrt(sum(stack(squares)));
  Tensor scale = minimum(1.0 / (norm + 1e-6), 1.0);
  for (State s : all) {
    s.g = s.g * scale;
    for (Tensor& t : adamw(s, rate, step)) results.push_back(std::move(t));
  }
  results.push_back(norm);
  StatsSince stats;
  realize(results);
  EXPECT_LE(stats->launches, 4u);
  double total = 0;
  for (const State& s : all)
    for (double g : doubles(s.g)) total += g * g;
  EXPECT_NEAR(doubles(norm)[0], std::sqrt(total), 1e-4 * std::sqrt(total));
}

TEST(Segments, large_and_tiny_tensors_go_together) {
  std::vector<Tensor> inputs, results, sums;
  for (int64_t n : {1000003, 2, 17, 300000, 5, 64, 131072, 1000})
    inputs.push_back(noise_tensor({n}, static_cast<uint64_t>(n)));
  for (const Tensor& x : inputs) {
    results.push_back(x * 2 + 1);
    sums.push_back(sum(x * x));
  }
  StatsSince stats;
  realize(results);
  EXPECT_EQ(stats->launches, 1u);
  EXPECT_EQ(stats->bytes_written, 4u * (1000003 + 2 + 17 + 300000 + 5 + 64 + 131072 + 1000));
  realize(sums);
  EXPECT_EQ(stats->launches, 2u);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<double> x = doubles(inputs[i]), y = doubles(results[i]);
    double total = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      ASSERT_EQ(y[k], static_cast<double>(static_cast<float>(x[k]) * 2 + 1));
      total += x[k] * x[k];
    }
    EXPECT_NEAR(doubles(sums[i])[0], total, 1e-4 * (1 + total));
  }
}

TEST(Segments, steps_that_need_each_other_stay_apart) {
  Tensor x = noise_tensor({100}), y = noise_tensor({37}, 2);
  Tensor a = cumsum(x * 2 + 1, 0), b = cumsum(y * 2 + 1, 0);
  Tensor c = cumsum(a.slice(0, 0, 37) + b, 0);
  StatsSince stats;
  realize({a, b, c});
  std::vector<double> va = doubles(a), vb = doubles(b), vc = doubles(c);
  double total = 0;
  for (size_t i = 0; i < 37; ++i) {
    total += va[i] + vb[i];
    EXPECT_NEAR(vc[i], total, 1e-3 * (1 + std::fabs(total)));
  }
}

}  // namespace
}  // namespace heddle
