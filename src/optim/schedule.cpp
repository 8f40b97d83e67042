#include <heddle/ops.h>
#include <heddle/optim/schedule.h>

#include <cmath>

#include "base/error.h"

namespace heddle::optim {
namespace {

// The vocabulary that schedules are written in, for numbers and for tensors.
double choose(bool condition, double yes, double no) { return condition ? yes : no; }
Tensor choose(const Tensor& condition, const Operand& yes, const Operand& no) { return where(condition, yes, no); }
double at_most(double x, double limit) { return std::min(x, limit); }
Tensor at_most(const Tensor& x, double limit) { return minimum(x, limit); }
double at_least(double x, double limit) { return std::max(x, limit); }
Tensor at_least(const Tensor& x, double limit) { return maximum(x, limit); }
double power(double base, double exponent) { return std::pow(base, exponent); }
Tensor power(double base, const Tensor& exponent) { return pow(full_like(exponent, base), exponent); }
double down(double x) { return std::floor(x); }
Tensor down(const Tensor& x) { return floor(x); }
double cosine_of(double x) { return std::cos(x); }
Tensor cosine_of(const Tensor& x) { return cos(x); }
double same_everywhere(double, double value) { return value; }
Tensor same_everywhere(const Tensor& like, double value) { return full_like(like, value); }

// One formula for both.
template <class F>
Schedule schedule(double base, const F& f) {
  return Schedule(
      base, [f](double step) -> double { return f(step); }, [f](const Tensor& step) -> Tensor { return f(step); });
}

void check_rate(const char* what, double rate) {
  if (!(rate >= 0) || !std::isfinite(rate))
    throw ValueError(text(what, ": a learning rate of ", rate, "; it must be a finite number, and not negative"));
}
void check_steps(const char* what, int64_t steps) {
  if (steps <= 0) throw ValueError(text(what, ": ", steps, " steps; there must be at least one"));
}

}  // namespace

Schedule::Schedule(double base, OfNumber number_factor, OfTensor tensor_factor)
    : base_(base), number_factor_(std::move(number_factor)), tensor_factor_(std::move(tensor_factor)) {}

// The optimiser that gets it checks the number: it can say its own name.
Schedule::Schedule(double rate) : Schedule(schedule(rate, [](const auto& step) { return same_everywhere(step, 1); })) {}

Schedule constant(double rate) {
  check_rate("constant", rate);
  return Schedule(rate);
}

Schedule step_decay(double rate, int64_t size, double gamma) {
  check_rate("step_decay", rate);
  check_steps("step_decay", size);
  double inverse = 1 / static_cast<double>(size);
  // Half a step more: a quotient that rounds down must not miss the whole number.
  return schedule(rate, [=](const auto& step) { return power(gamma, down((step + 0.5) * inverse)); });
}

Schedule multi_step(double rate, std::vector<int64_t> milestones, double gamma) {
  check_rate("multi_step", rate);
  return schedule(rate, [=](const auto& step) {
    auto factor = same_everywhere(step, 1);
    for (int64_t milestone : milestones)
      factor = choose(step >= static_cast<double>(milestone), factor * gamma, factor);
    return factor;
  });
}

Schedule exponential_decay(double rate, double gamma) {
  check_rate("exponential_decay", rate);
  return schedule(rate, [=](const auto& step) { return power(gamma, step); });
}

Schedule cosine(double rate, int64_t steps, double end) {
  check_rate("cosine", rate);
  check_rate("cosine", end);
  check_steps("cosine", steps);
  double last = rate > 0 ? end / rate : 0, turn = 3.14159265358979323846 / static_cast<double>(steps);
  return schedule(rate, [=](const auto& step) {
    return (cosine_of(at_most(step, static_cast<double>(steps)) * turn) + 1) * ((1 - last) / 2) + last;
  });
}

Schedule linear(double begin, double end, int64_t steps) {
  check_rate("linear", begin);
  check_rate("linear", end);
  check_steps("linear", steps);
  double base = std::max(begin, end);
  if (base == 0) return constant(0);
  double slope = (end - begin) / base / static_cast<double>(steps);
  return schedule(base,
                  [=](const auto& step) { return at_most(step, static_cast<double>(steps)) * slope + begin / base; });
}

Schedule warmup(int64_t steps, const Schedule& then) {
  check_steps("warmup", steps);
  check_rate("warmup", then.base());
  double count = static_cast<double>(steps);
  return schedule(then.base(), [=](const auto& step) {
    auto rising = (step + 1) * (then.factor(0.0) / count);
    return choose(step < count, rising, then.factor(at_least(step - count, 0)));
  });
}

Schedule chain(const std::vector<std::pair<Schedule, int64_t>>& parts, const Schedule& last) {
  check_rate("chain", last.base());
  double base = last.base();
  for (const auto& [part, steps] : parts) {
    check_steps("chain", steps);
    check_rate("chain", part.base());
    base = std::max(base, part.base());
  }
  if (base == 0) return constant(0);
  return schedule(base, [=](const auto& step) {
    double begin = 0;
    for (const auto& [part, steps] : parts) begin += static_cast<double>(steps);
    auto factor = last.factor(at_least(step - begin, 0)) * (last.base() / base);
    for (size_t i = parts.size(); i-- > 0;) {
      const auto& [part, steps] = parts[i];
      double end = begin;
      begin -= static_cast<double>(steps);
      factor = choose(step < end, part.factor(at_least(step - begin, 0)) * (part.base() / base), factor);
    }
    return factor;
  });
}

}  // namespace heddle::optim
