// Learning rates that depend on the number of the step. A schedule is evaluated as tensor code on the optimiser's
// counter, so a captured step follows it; on a number it says what it will be.
#pragma once

#include <heddle/tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace heddle::optim {

// A base rate times a factor that depends on the step; steps count from 0. A number is a constant schedule.
class Schedule {
 public:
  using OfNumber = std::function<double(double step)>;
  using OfTensor = std::function<Tensor(const Tensor& step)>;
  Schedule(double rate);
  Schedule(double base, OfNumber number_factor, OfTensor tensor_factor);

  double base() const { return base_; }
  // The rate of a step.
  double operator()(int64_t step) const { return base_ * number_factor_(static_cast<double>(step)); }
  // The factor by which the base is multiplied; the tensor is a 0-d f64.
  double factor(double step) const { return number_factor_(step); }
  Tensor factor(const Tensor& step) const { return tensor_factor_(step); }

 private:
  double base_;
  OfNumber number_factor_;
  OfTensor tensor_factor_;
};

//   constant(0.1)(1000)   // 0.1
Schedule constant(double rate);
// Times gamma every `size` steps.
//   step_decay(1, 10, 0.5)(20)   // 0.25
Schedule step_decay(double rate, int64_t size, double gamma = 0.1);
// Times gamma at each of these steps.
//   multi_step(1, {5, 10}, 0.5)(7)   // 0.5
Schedule multi_step(double rate, std::vector<int64_t> milestones, double gamma = 0.1);
// Times gamma at every step.
//   exponential_decay(1, 0.5)(3)   // 0.125
Schedule exponential_decay(double rate, double gamma);
// Half a cosine from rate down to `end` in so many steps, then `end`.
//   cosine(1, 100)(50)   // 0.5
Schedule cosine(double rate, int64_t steps, double end = 0);
// A straight line from one rate to another in so many steps, then the latter.
//   linear(1, 0, 10)(4)   // 0.6
Schedule linear(double begin, double end, int64_t steps);
// Rises in a straight line: step t has (t + 1) / steps of the first rate of `then`, which goes on afterwards.
//   warmup(10, 1.0)(4)   // 0.5
Schedule warmup(int64_t steps, const Schedule& then);
// Each schedule for so many steps, counting from 0 again; the last one goes on for ever.
//   chain({{constant(1), 5}}, cosine(1, 10))(10)   // 0.5
Schedule chain(const std::vector<std::pair<Schedule, int64_t>>& parts, const Schedule& last);

}  // namespace heddle::optim
