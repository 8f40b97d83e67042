// Schedules: on numbers against formulas, on tensors against numbers.
#include <heddle/optim/schedule.h>

#include "tensor/helpers.h"

namespace heddle::optim {
namespace {

using namespace heddle::testing;

void check(const Schedule& s, const std::function<double(int64_t)>& want) {
  for (int64_t step : {0, 1, 2, 3, 4, 5, 9, 10, 11, 19, 20, 21, 99, 100, 1000, 1000000}) {
    EXPECT_NEAR(s(step), want(step), 1e-12) << "step " << step;
    Tensor counter = from_vector(std::vector<double>{static_cast<double>(step)}, {});
    EXPECT_NEAR(s.base() * s.factor(counter).item<double>(), want(step), 1e-12) << "as a tensor, step " << step;
    EXPECT_EQ(s.factor(counter).dtype(), kF64);
    EXPECT_EQ(s.factor(counter).rank(), 0);
  }
}

TEST(Schedule, follow_their_formulas) {
  check(0.25, [](int64_t) { return 0.25; });
  check(step_decay(2, 10, 0.5), [](int64_t t) { return 2 * std::pow(0.5, t / 10); });
  check(step_decay(2, 3, 0.9), [](int64_t t) { return 2 * std::pow(0.9, t / 3); });
  check(multi_step(1, {5, 20}, 0.1), [](int64_t t) { return t < 5 ? 1 : t < 20 ? 0.1 : 0.01; });
  check(exponential_decay(3, 0.9), [](int64_t t) { return 3 * std::pow(0.9, t); });
  check(cosine(2, 20, 0.5), [](int64_t t) {
    return 0.5 + 1.5 * (1 + std::cos(M_PI * static_cast<double>(std::min<int64_t>(t, 20)) / 20)) / 2;
  });
  check(linear(1, 3, 10), [](int64_t t) { return 1 + 2 * static_cast<double>(std::min<int64_t>(t, 10)) / 10; });
  check(linear(0, 0, 10), [](int64_t) { return 0; });
}

TEST(Schedule, warm_up_and_chains_go_on_with_what_follows) {
  check(warmup(4, 2.0), [](int64_t t) { return t < 4 ? 2 * static_cast<double>(t + 1) / 4 : 2; });
  Schedule after = cosine(2, 10);
  check(warmup(10, after), [&](int64_t t) { return t < 10 ? 2 * static_cast<double>(t + 1) / 10 : after(t - 10); });
  Schedule three = chain({{constant(0.5), 5}, {linear(1, 4, 5), 10}}, exponential_decay(4, 0.5));
  check(three, [](int64_t t) {
    if (t < 5) return 0.5;
    if (t < 15) return 1 + 3 * static_cast<double>(std::min<int64_t>(t - 5, 5)) / 5;
    return 4 * std::pow(0.5, t - 15);
  });
}

TEST(Schedule, mistakes_are_named) {
  expect_error<ValueError>([] { cosine(1, 0); }, {"cosine", "0 steps"});
  expect_error<ValueError>([] { constant(-1); }, {"constant", "-1", "not negative"});
  expect_error<ValueError>([] { warmup(3, -1.0); }, {"warmup", "-1"});
  expect_error<ValueError>([] { chain({{-1.0, 2}}, 1.0); }, {"chain", "-1"});
  expect_error<ValueError>([] { chain({{constant(1), 0}}, 1.0); }, {"chain"});
  expect_error<ValueError>([] { warmup(-3, 1.0); }, {"warmup", "-3"});
}

}  // namespace
}  // namespace heddle::optim
