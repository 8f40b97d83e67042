#include <heddle/ops.h>
#include <heddle/optim/rules.h>

#include <cmath>

#include "base/error.h"

namespace heddle::optim {
namespace {

void check_fraction(const char* rule, const char* what, double value) {
  if (!(value >= 0 && value < 1)) throw ValueError(text(rule, ": ", what, " is ", value, "; it must be in [0, 1)"));
}
void check_positive(const char* rule, const char* what, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    throw ValueError(text(rule, ": ", what, " is ", value, "; it must not be negative"));
}

// Weight decay as a part of the gradient.
Tensor decayed(const Tensor& gradient, const Tensor& parameter, const Settings& now) {
  return now.weight_decay == 0 ? gradient : gradient + parameter * now.weight_decay;
}
// Weight decay of the parameter itself.
Tensor shrunk(const Tensor& parameter, const Settings& now) {
  return now.weight_decay == 0 ? parameter : parameter * (1 - now.lr * now.weight_decay);
}
Tensor moving_average(const Tensor& old, const Tensor& value, double beta) { return old * beta + value * (1 - beta); }
// 1 - beta^step, exact for a beta close to 1.
Tensor bias_correction(double beta, const Settings& now) {
  if (beta == 0) return full_like(now.step, 1);
  return -expm1(now.step * std::log(beta));
}

Rule sgd(const SGDOptions& o) {
  check_positive("SGD", "momentum", o.momentum);
  check_positive("SGD", "weight_decay", o.weight_decay);
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
    throw ValueError("SGD: Nesterov's method needs a momentum and no dampening");
  Rule rule{"SGD", {}, {}};
  if (o.momentum != 0) rule.state = {"momentum_buffer"};
  rule.update = [o](const Tensor& p, const Tensor& gradient, std::span<Tensor> state, const Settings& now) {
    Tensor g = decayed(gradient, p, now);
    if (o.momentum == 0) return p - g * now.lr;
    Tensor next = state[0] * o.momentum + g * (1 - o.dampening);
    // The first gradient counts in full.
    if (o.dampening != 0) next = where(now.step < 1.5, g, next);
    state[0] = next;
    return p - (o.nesterov ? g + next * o.momentum : next) * now.lr;
  };
  return rule;
}

Rule adam(const char* name, const AdamWOptions& o, bool decoupled) {
  check_fraction(name, "beta1", o.beta1);
  check_fraction(name, "beta2", o.beta2);
  check_positive(name, "epsilon", o.epsilon);
  check_positive(name, "weight_decay", o.weight_decay);
  Rule rule{name, {"exp_avg", "exp_avg_sq"}, {}};
  if (o.amsgrad) rule.state.push_back("max_exp_avg_sq");
  rule.update = [o, decoupled](const Tensor& p, const Tensor& gradient, std::span<Tensor> state, const Settings& now) {
    Tensor g = decoupled ? gradient : decayed(gradient, p, now);
    Tensor value = decoupled ? shrunk(p, now) : p;
    state[0] = moving_average(state[0], g, o.beta1);
    state[1] = moving_average(state[1], square(g), o.beta2);
    if (o.amsgrad) state[2] = maximum(state[2], state[1]);
    // Both corrections are numbers: divided once, not for every element.
    Tensor size = now.lr / cast(bias_correction(o.beta1, now), p.dtype());
    Tensor root = cast(rsqrt(bias_correction(o.beta2, now)), p.dtype());
    return value - state[0] * size / (sqrt(o.amsgrad ? state[2] : state[1]) * root + o.epsilon);
  };
  return rule;
}

Rule rmsprop(const RMSpropOptions& o) {
  check_fraction("RMSprop", "alpha", o.alpha);
  check_positive("RMSprop", "epsilon", o.epsilon);
  check_positive("RMSprop", "momentum", o.momentum);
  check_positive("RMSprop", "weight_decay", o.weight_decay);
  Rule rule{"RMSprop", {"square_avg"}, {}};
  if (o.centered) rule.state.push_back("grad_avg");
  if (o.momentum != 0) rule.state.push_back("momentum_buffer");
  rule.update = [o](const Tensor& p, const Tensor& gradient, std::span<Tensor> state, const Settings& now) {
    Tensor g = decayed(gradient, p, now);
    state[0] = moving_average(state[0], square(g), o.alpha);
    Tensor variance = state[0];
    if (o.centered) {
      state[1] = moving_average(state[1], g, o.alpha);
      variance = maximum(variance - square(state[1]), 0);  // rounding may take it below zero
    }
    Tensor direction = g / (sqrt(variance) + o.epsilon);
    if (o.momentum == 0) return p - direction * now.lr;
    Tensor& buffer = state.back();
    buffer = buffer * o.momentum + direction;
    return p - buffer * now.lr;
  };
  return rule;
}

Rule lion(const LionOptions& o) {
  check_fraction("Lion", "beta1", o.beta1);
  check_fraction("Lion", "beta2", o.beta2);
  check_positive("Lion", "weight_decay", o.weight_decay);
  return {"Lion", {"exp_avg"}, [o](const Tensor& p, const Tensor& g, std::span<Tensor> state, const Settings& now) {
            Tensor direction = sign(moving_average(state[0], g, o.beta1));
            state[0] = moving_average(state[0], g, o.beta2);
            return shrunk(p, now) - direction * now.lr;
          }};
}

Rule adagrad(const AdagradOptions& o) {
  check_positive("Adagrad", "epsilon", o.epsilon);
  check_positive("Adagrad", "weight_decay", o.weight_decay);
  return {
      "Adagrad", {"sum"}, [o](const Tensor& p, const Tensor& gradient, std::span<Tensor> state, const Settings& now) {
        Tensor g = decayed(gradient, p, now);
        state[0] = state[0] + square(g);
        return p - g * now.lr / (sqrt(state[0]) + o.epsilon);
      }};
}

}  // namespace

SGD::SGD(const Parameters& parameters, const SGDOptions& o) : Optimizer(parameters, o.lr, o.weight_decay, sgd(o)) {}
Adam::Adam(const Parameters& parameters, const AdamOptions& o)
    : Optimizer(parameters, o.lr, o.weight_decay,
                adam("Adam", {o.lr, o.beta1, o.beta2, o.epsilon, o.weight_decay, o.amsgrad}, false)) {}
AdamW::AdamW(const Parameters& parameters, const AdamWOptions& o)
    : Optimizer(parameters, o.lr, o.weight_decay, adam("AdamW", o, true)) {}
RMSprop::RMSprop(const Parameters& parameters, const RMSpropOptions& o)
    : Optimizer(parameters, o.lr, o.weight_decay, rmsprop(o)) {}
Lion::Lion(const Parameters& parameters, const LionOptions& o) : Optimizer(parameters, o.lr, o.weight_decay, lion(o)) {}
Adagrad::Adagrad(const Parameters& parameters, const AdagradOptions& o)
    : Optimizer(parameters, o.lr, o.weight_decay, adagrad(o)) {}

}  // namespace heddle::optim
