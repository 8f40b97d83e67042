#include "graph/strided.h"

namespace heddle {

std::vector<int64_t> strides_of(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
  return strides;
}

Strided windows(std::span<const int64_t> strides, std::span<const int64_t> attrs) {
  const int64_t axis = attrs[0], stride = attrs[2], dilation = attrs[3];
  Strided seen{{strides.begin(), strides.end()}};
  seen.steps[axis] *= stride;
  seen.steps.push_back(strides[axis] * dilation);
  return seen;
}

Strided seen_by(NodeOp view, std::span<const int64_t> operand, std::span<const int64_t> attrs) {
  const std::vector<int64_t> strides = strides_of(operand);
  Strided seen{strides};
  switch (view) {
    case NodeOp::Permute:
      for (size_t i = 0; i < attrs.size(); ++i) seen.steps[i] = strides[attrs[i]];
      break;
    case NodeOp::Expand:
      for (size_t i = 0; i < strides.size(); ++i) seen.steps[i] = operand[i] == 1 ? 0 : strides[i];
      break;
    case NodeOp::Shrink:
      for (size_t i = 0; i < attrs.size(); ++i) seen.start += attrs[i] * strides[i];
      break;
    case NodeOp::Flip:
      for (int64_t flipped : attrs) {
        seen.start += (operand[flipped] - 1) * strides[flipped];
        seen.steps[flipped] = -strides[flipped];
      }
      break;
    default: seen = windows(strides, attrs);
  }
  return seen;
}

Strided result_seen(std::span<const int64_t> result, size_t rank, std::span<const int64_t> axes) {
  Strided seen{std::vector<int64_t>(rank, 1)};
  for (int64_t axis : axes) seen.steps[axis] = 0;
  const std::vector<int64_t> strides = strides_of(result);
  size_t kept = 0;
  for (int64_t& step : seen.steps)
    if (step != 0) step = strides[kept++];
  return seen;
}

}  // namespace heddle
