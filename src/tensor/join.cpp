#include "base/error.h"
#include "tensor/build.h"

namespace heddle {

Tensor cat(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw ValueError("cat: nothing to join");
  DType dtype = parts[0].dtype();
  for (const Tensor& p : parts) dtype = promote(dtype, p.dtype());
  std::vector<NodeRef> nodes;
  for (const Tensor& p : parts) nodes.push_back(make_cast(p.node(), dtype));
  return Tensor(make_cat(nodes, normalize_axis("cat", axis, parts[0].rank())));
}

Tensor stack(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw ValueError("stack: nothing to join");
  int at = normalize_axis("stack", axis, parts[0].rank() + 1);
  std::vector<Tensor> grown;
  for (const Tensor& p : parts) {
    if (p.shape() != parts[0].shape())
      throw ShapeError(text("stack: shapes ", parts[0].node()->shape, " and ", p.node()->shape, " differ"));
    grown.push_back(unsqueeze(p, at));
  }
  return cat(grown, at);
}

}  // namespace heddle
