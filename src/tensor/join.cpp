#include <algorithm>

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
  int64_t total = 0;
  for (const NodeRef& node : nodes)
    if (at < node->shape.rank() && __builtin_add_overflow(total, node->shape[static_cast<size_t>(at)].hi(), &total))
      throw ShapeError(text("cat: the sizes along axis ", at, " overflow"));
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

namespace {

// Vectors and scalars get axes, as NumPy's atleast_1d, _2d, _3d do.
Tensor with_axes(const Tensor& x, int rank) {
  Dims shape = x.shape();
  if (rank == 3 && shape.size() == 1) return reshape(x, {1, shape[0], 1});
  if (rank == 3 && shape.size() == 2) return unsqueeze(x, 2);
  while (static_cast<int>(shape.size()) < rank) shape.insert(shape.begin(), 1);
  return reshape(x, shape);
}
std::vector<Tensor> all_with_axes(const char* op, const std::vector<Tensor>& parts, int rank) {
  if (parts.empty()) throw ValueError(text(op, ": nothing to join"));
  std::vector<Tensor> result;
  for (const Tensor& p : parts) result.push_back(with_axes(p, rank));
  return result;
}
Tensor joined(const char* op, const std::vector<Tensor>& parts, int64_t axis) {
  for (const Tensor& p : parts) {
    Dims a = parts[0].shape(), b = p.shape();
    if (a.size() == b.size()) a[static_cast<size_t>(axis)] = b[static_cast<size_t>(axis)];
    if (a != b) throw ShapeError(text(op, ": shapes ", parts[0].node()->shape, " and ", p.node()->shape, " differ"));
  }
  return cat(parts, axis);
}

}  // namespace

Tensor vstack(const std::vector<Tensor>& parts) { return joined("vstack", all_with_axes("vstack", parts, 2), 0); }
Tensor hstack(const std::vector<Tensor>& parts) {
  std::vector<Tensor> list = all_with_axes("hstack", parts, 1);
  return joined("hstack", list, list[0].rank() == 1 ? 0 : 1);
}
Tensor dstack(const std::vector<Tensor>& parts) { return joined("dstack", all_with_axes("dstack", parts, 3), 2); }

namespace {

std::vector<Tensor> pieces(const Tensor& x, int64_t axis, std::span<const int64_t> sizes) {
  std::vector<Tensor> result;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    result.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return result;
}
// Parts of one size; the last may be smaller. An axis of size 0 is one empty part.
std::vector<Tensor> parts_of(const Tensor& x, int64_t axis, int64_t size) {
  std::vector<int64_t> sizes;
  int64_t rest = x.size(axis);
  for (; rest > size; rest -= size) sizes.push_back(size);
  sizes.push_back(rest);
  return pieces(x, axis, sizes);
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis) {
  int at = normalize_axis("split", axis, x.rank());
  if (size < 1) throw ValueError(text("split: parts of ", size, " elements"));
  return parts_of(x, at, size);
}
std::vector<Tensor> split(const Tensor& x, std::initializer_list<int64_t> sizes, int64_t axis) {
  return split(x, std::vector<int64_t>(sizes), axis);
}
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  int at = normalize_axis("split", axis, x.rank());
  int64_t total = 0;
  bool fits = true;
  for (int64_t size : sizes) fits = fits && size >= 0 && !__builtin_add_overflow(total, size, &total);
  if (!fits || total != x.size(at))
    throw ShapeError(text("split: sizes ", list_text(sizes), " do not add up to axis ", at, " of ", x.node()->shape));
  return pieces(x, at, sizes);
}
std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t axis) {
  int at = normalize_axis("chunk", axis, x.rank());
  if (count < 1) throw ValueError(text("chunk: ", count, " parts"));
  int64_t size = x.size(at);
  return parts_of(x, at, std::max<int64_t>(size / count + (size % count != 0), 1));
}
std::vector<Tensor> array_split(const Tensor& x, int64_t count, int64_t axis) {
  int at = normalize_axis("array_split", axis, x.rank());
  if (count < 1) throw ValueError(text("array_split: ", count, " parts"));
  int64_t size = x.size(at);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(size / count + (i < size % count));
  return pieces(x, at, sizes);
}
std::vector<Tensor> unbind(const Tensor& x, int64_t axis) {
  int at = normalize_axis("unbind", axis, x.rank());
  std::vector<Tensor> result;
  for (int64_t i = 0; i < x.size(at); ++i) result.push_back(select(x, at, i));
  return result;
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, std::string_view indexing) {
  if (indexing != "xy" && indexing != "ij")
    throw ValueError(text("meshgrid: the indexing is \"xy\" or \"ij\", not \"", indexing, "\""));
  size_t rank = axes.size();
  auto place = [&](size_t i) { return indexing == "xy" && rank > 1 && i < 2 ? 1 - i : i; };
  Shape shape(rank, Expr(1));
  for (size_t i = 0; i < rank; ++i) {
    if (axes[i].rank() > 1) throw ShapeError(text("meshgrid: ", axes[i].node()->shape, " is no vector"));
    shape[place(i)] = axes[i].node()->shape.numel();
  }
  std::vector<Tensor> result;
  for (size_t i = 0; i < rank; ++i) {
    check_shape("meshgrid", shape, axes[i].dtype());
    Shape line(rank, Expr(1));
    line[place(i)] = shape[place(i)];
    result.emplace_back(make_expand(make_reshape(axes[i].node(), line), shape));
  }
  return result;
}

}  // namespace heddle
