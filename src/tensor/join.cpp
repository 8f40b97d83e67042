#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

// Outside the axis that grows, a symbol in one part and its number in another are the same size.
void share_symbols(std::vector<NodeRef>& parts, int axis) {
  Shape common = parts[0]->shape;
  for (const NodeRef& part : parts)
    for (size_t i = 0; i < common.size() && i < part->shape.size(); ++i)
      if (common[i].is_const() && same_size(common[i], part->shape[i])) common[i] = part->shape[i];
  for (NodeRef& part : parts) {
    Shape shape = part->shape;
    for (size_t i = 0; i < common.size() && i < shape.size(); ++i)
      if (static_cast<int>(i) != axis && same_size(common[i], shape[i])) shape[i] = common[i];
    part = make_reshape(part, shape);
  }
}

}  // namespace

Tensor cat(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw ValueError("cat: nothing to join");
  DType dtype = parts[0].dtype();
  for (const Tensor& p : parts) dtype = promote(dtype, p.dtype());
  std::vector<NodeRef> nodes;
  for (const Tensor& p : parts) nodes.push_back(make_cast(p.node(), dtype));
  int at = normalize_axis("cat", axis, parts[0].rank());
  share_symbols(nodes, at);
  return Tensor(make_cat(nodes, at));
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
