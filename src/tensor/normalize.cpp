#include "base/error.h"
#include "tensor/build.h"

namespace heddle {

Tensor softmax(const Tensor& x, int64_t axis) {
  Tensor f = to_wide_float(x);
  int64_t at = normalize_axis("softmax", axis, f.rank());
  if (f.numel() == 0) return from_wide_float(f, x);
  Tensor e = exp(sub(f, max(f, {at}, true)));
  return from_wide_float(mul(e, reciprocal(sum(e, {at}, true))), x);  // one division per row
}
Tensor log_softmax(const Tensor& x, int64_t axis) {
  Tensor f = to_wide_float(x);
  int64_t at = normalize_axis("log_softmax", axis, f.rank());
  if (f.numel() == 0) return from_wide_float(f, x);
  Tensor shifted = sub(f, max(f, {at}, true));
  return from_wide_float(sub(shifted, log(sum(exp(shifted), {at}, true))), x);
}
Tensor layer_norm(const Tensor& x, int64_t axes, double epsilon) {
  Tensor f = to_wide_float(x);
  if (axes < 1 || axes > f.rank())
    throw ValueError(text("layer_norm: a tensor of shape ", f.node()->shape, " has no ", axes, " last axes"));
  Axes list;
  for (int64_t i = f.rank() - axes; i < f.rank(); ++i) list.push_back(i);
  Tensor centred = sub(f, mean(f, list, true));
  Tensor variance = mean(square(centred), list, true);
  return from_wide_float(mul(centred, rsqrt(add(variance, epsilon))), x);
}

}  // namespace heddle
