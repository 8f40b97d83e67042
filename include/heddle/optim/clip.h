// Limits for gradients.
#pragma once

#include <heddle/tensor.h>

namespace heddle::optim {

struct Clipped {
  std::vector<Tensor> gradients;
  Tensor norm;  // before, f32 (f64 if a gradient is)
};
// All gradients times one factor, so that the norm of all their elements together is at most `limit`.
Clipped clip_grad_norm(const std::vector<Tensor>& gradients, double limit, double p = 2);
// Every element into [-limit, limit].
std::vector<Tensor> clip_grad_value(const std::vector<Tensor>& gradients, double limit);

}  // namespace heddle::optim
