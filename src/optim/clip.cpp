#include <heddle/ops.h>
#include <heddle/optim/clip.h>

#include <cmath>

#include "base/error.h"

namespace heddle::optim {

Clipped clip_grad_norm(const std::vector<Tensor>& gradients, double limit, double p) {
  if (!(limit >= 0)) throw ValueError(text("clip_grad_norm: a limit of ", limit));
  if (!(p > 0)) throw ValueError(text("clip_grad_norm: the ", p, "-norm"));
  DType wide = kF32;
  for (const Tensor& g : gradients) {
    if (!is_float(g.dtype())) throw DTypeError(text("clip_grad_norm: gradients are floats, not ", g.dtype()));
    if (g.dtype() == kF64) wide = kF64;
  }
  Tensor total = full({}, 0, wide);
  for (const Tensor& g : gradients) {
    const Device together = gradients[0].device();
    if (g.numel() == 0) continue;
    Tensor f = cast(g, wide);
    if (std::isinf(p))
      total = maximum(total, max(abs(f)).to(together));
    else
      total = total + sum(p == 2 ? square(f) : pow(abs(f), p)).to(together);
  }
  Tensor norm = std::isinf(p) ? total : p == 2 ? sqrt(total) : pow(total, 1 / p);
  Tensor factor = minimum(limit / (norm + 1e-6), 1);
  Clipped result{{}, norm};
  for (const Tensor& g : gradients) result.gradients.push_back(cast(cast(g, wide) * factor.to(g.device()), g.dtype()));
  return result;
}

std::vector<Tensor> clip_grad_value(const std::vector<Tensor>& gradients, double limit) {
  if (!(limit >= 0)) throw ValueError(text("clip_grad_value: a limit of ", limit));
  std::vector<Tensor> result;
  for (const Tensor& g : gradients) result.push_back(clamp(g, -limit, limit));
  return result;
}

}  // namespace heddle::optim
