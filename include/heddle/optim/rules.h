// The optimisers. Each is an Optimizer with its own rule; settings have PyTorch's meaning and defaults.
#pragma once

#include <heddle/optim/optimizer.h>

namespace heddle::optim {

struct SGDOptions {
  Schedule lr = 1e-3;
  double momentum = 0, dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;  // added to the gradient
};
struct SGD : Optimizer {
  SGD(const Parameters& parameters, const SGDOptions& options = {});
};

struct AdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // added to the gradient
  bool amsgrad = false;
};
struct Adam : Optimizer {
  Adam(const Parameters& parameters, const AdamOptions& options = {});
};

// Weight decay acts on the parameter itself, not through the gradient. Nothing is clipped.
struct AdamWOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
};
struct AdamW : Optimizer {
  AdamW(const Parameters& parameters, const AdamWOptions& options = {});
};

struct RMSpropOptions {
  Schedule lr = 1e-2;
  double alpha = 0.99, epsilon = 1e-8, momentum = 0;
  bool centered = false;
  double weight_decay = 0;  // added to the gradient
};
struct RMSprop : Optimizer {
  RMSprop(const Parameters& parameters, const RMSpropOptions& options = {});
};

// Steps of one size in the direction of the sign; weight decay acts on the parameter itself.
struct LionOptions {
  Schedule lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
};
struct Lion : Optimizer {
  Lion(const Parameters& parameters, const LionOptions& options = {});
};

struct AdagradOptions {
  Schedule lr = 1e-2;
  double epsilon = 1e-10;
  double weight_decay = 0;  // added to the gradient
};
struct Adagrad : Optimizer {
  Adagrad(const Parameters& parameters, const AdagradOptions& options = {});
};

}  // namespace heddle::optim
