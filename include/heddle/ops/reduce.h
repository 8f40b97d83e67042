// Reductions over any set of axes.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// Over no axes listed: over all. Sums and products of bool and narrow integers are i64, of unsigned ones u64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  // ValueError over an empty axis
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// Divides by n - correction: 1 as in PyTorch; NumPy's default is 0.
Tensor var(const Tensor& x, const Axes& axes = {}, bool keepdim = false, int64_t correction = 1);
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor argmax(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);  // i64; first among equals
Tensor argmin(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim = false);

}  // namespace heddle
