// Activation functions.
#pragma once

#include <heddle/ops/operand.h>

#include <string_view>

namespace heddle {

// @dtypes any @shape same

//   relu(tensor({-1, 2}))   // [0. 2.]
Tensor relu(const Tensor& x);
//   relu6(tensor({-1, 2, 9}))   // [0. 2. 6.]
Tensor relu6(const Tensor& x);
//   hardtanh(tensor({-3, 0.5, 3}))   // [-1.   0.5  1. ]
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
// x above the limit, `value` elsewhere.
//   threshold(tensor({0.5, 2}), 1, -7)   // [-7.  2.]
Tensor threshold(const Tensor& x, double limit, double value);

// @dtypes floats; integers and bool become f32 @shape same

// 1 / (1 + exp(-x)).
//   sigmoid(tensor({0, 2}))   // [0.5 0.88079715]
Tensor sigmoid(const Tensor& x);
// log(sigmoid(x)), for large |x| too.
//   logsigmoid(tensor({0, -200}))   // [ -0.6931472 -200. ]
Tensor logsigmoid(const Tensor& x);
//   leaky_relu(tensor({-10, 2}), 0.1)   // [-1.  2.]
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// alpha * (exp(x) - 1) below zero.
//   elu(tensor({-1, 2}))   // [-0.63212055 2. ]
Tensor elu(const Tensor& x, double alpha = 1);
//   selu(tensor({-1, 2}))   // [-1.1113307 2.101402 ]
Tensor selu(const Tensor& x);
// alpha * (exp(x / alpha) - 1) below zero.
//   celu(tensor({-1, 2}), 2)   // [-0.78693867 2. ]
Tensor celu(const Tensor& x, double alpha = 1);
// x times the share of a normal distribution below x; "tanh" for the approximation by tanh.
//   gelu(tensor({-1, 1}))           // [-0.15865526 0.8413447 ]
//   gelu(tensor({-1, 1}), "tanh")   // [-0.158808 0.841192]
Tensor gelu(const Tensor& x);
Tensor gelu(const Tensor& x, std::string_view approximate);
// x * sigmoid(x).
//   silu(tensor({-1, 1}))   // [-0.2689414 0.73105854]
Tensor silu(const Tensor& x);
//   hardsigmoid(tensor({-4, 0, 4}))   // [0.  0.5 1. ]
Tensor hardsigmoid(const Tensor& x);
//   hardswish(tensor({-4, 1, 4}))   // [-0. 0.6666667 4. ]
Tensor hardswish(const Tensor& x);
// log(1 + exp(beta * x)) / beta, for large |x| too.
//   softplus(tensor({0, 200}))   // [ 0.6931472 200. ]
Tensor softplus(const Tensor& x, double beta = 1);
// x / (1 + |x|).
//   softsign(tensor({-1, 3}))   // [-0.5   0.75]
Tensor softsign(const Tensor& x);
// x * tanh(softplus(x)), for large |x| too.
//   mish(tensor({-1, 1}))   // [-0.30340147 0.8650984 ]
Tensor mish(const Tensor& x);

// @dtypes floats; integers and bool become f32 @shape half of the axis

// The first half along the axis times the sigmoid of the second.
//   glu(tensor({3, 4, 0, 0}))   // [1.5 2. ]
Tensor glu(const Tensor& x, int64_t axis = -1);

}  // namespace heddle
