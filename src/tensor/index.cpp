#include <algorithm>

#include "base/error.h"
#include "tensor/index_common.h"
#include "tensor/symbolic.h"

namespace heddle {

NodeRef to_positions(const char* op, const Tensor& index, NodeRef& x, size_t axis) {
  NodeRef i = index.node();
  if (!is_integer(i->dtype)) throw DTypeError(text(op, ": the index must hold integers, not ", i->dtype));
  int64_t number = known_size(x->shape[axis]);
  if (number == 0 && index.numel() > 0)
    throw IndexError(text(op, ": axis ", axis, " of ", x->shape, " has no elements to choose from"));
  if (i->op == NodeOp::Const && index.numel() > 0) {
    const Scalar& at = i->literal;
    bool fits = is_signed(at.dtype) ? at.i >= -number && at.i < number : at.u < static_cast<uint64_t>(number);
    if (!fits) throw IndexError(text(op, ": index ", at, " is out of range for axis ", axis, " of size ", number));
  }
  // A kernel for all sizes could not clamp.
  if (x->shape[axis].lo() == 0) x = with_number(x, static_cast<int>(axis));
  if (!is_signed(i->dtype)) return i;
  // A narrow index could not hold its position counted from the front.
  const Expr& size = x->shape[axis];
  DType dtype = size_of(i->dtype) <= 4 && size.hi() <= INT32_MAX ? kI32 : kI64;
  Tensor wide = cast(index, dtype);
  return where(lt(wide, 0), add(wide, Tensor(size_node(size, dtype))), wide).node();
}

MergedIndex merge_indices(const char* op, const NodeRef& n, const std::vector<Tensor>& indices, size_t axis) {
  if (indices.empty()) throw ValueError(text(op, ": no indices are given"));
  if (axis + indices.size() > n->shape.size())
    throw IndexError(text(op, ": ", indices.size(), " indices from axis ", axis, " on are too many for ", n->shape));
  NodeRef x = n;  // of known sizes: stays as it is
  MergedIndex result;
  result.merged.append(n->shape.begin(), n->shape.begin() + axis);
  Expr size = 1;
  for (size_t k = 0; k < indices.size(); ++k) size = size * n->shape[axis + k];
  result.merged.push_back(size);
  result.merged.append(n->shape.begin() + axis + indices.size(), n->shape.end());
  if (indices.size() == 1) {
    result.positions = to_positions(op, indices[0], x, axis);
    return result;
  }
  int64_t label = index_label(op);
  Tensor place(make_const(Scalar::of(kI64, 0)));
  for (size_t k = 0; k < indices.size(); ++k) {
    int64_t along = n->shape[axis + k].value();
    NodeRef positions = to_positions(op, indices[k], x, axis + k);
    // Reading the positions 0, 1, ... at the index checks it against its own axis.
    if (positions->op != NodeOp::Const) {
      Shape line(axis + k + 1, Expr(1));
      line[axis + k] = along;
      NodeRef numbers = make_iota(kI64, line, static_cast<int>(axis + k));
      NodeRef read = make_gather(numbers, positions, static_cast<int>(axis + k), label);
      positions = make_reshape(read, positions->shape);
    }
    place = add(mul(place, along), cast(Tensor(positions), kI64));
  }
  result.positions = place.node();
  return result;
}

std::vector<NodeRef> begins_of(const char* op, const Shape& of, const Tensor& begins, const Dims& sizes) {
  if (begins.rank() != 1 || begins.size(0) != of.rank())
    throw ShapeError(text(op, ": begins must be ", of.rank(), " integers, one for each axis of ", of, ", not ",
                          begins.node()->shape));
  if (!is_integer(begins.dtype())) throw DTypeError(text(op, ": begins must be integers, not ", begins.dtype()));
  if (sizes.size() != of.size()) throw ShapeError(text(op, ": sizes ", list_text(sizes), " for the axes of ", of));
  std::vector<NodeRef> result;
  for (size_t i = 0; i < of.size(); ++i) {
    int64_t room = of[i].value() - sizes[i] + 1;
    if (sizes[i] < 0 || room < 1)
      throw ShapeError(text(op, ": a part of ", list_text(sizes), " does not fit into ", of, " on axis ", i));
    NodeRef begin = cast(select(begins, 0, static_cast<int64_t>(i)), kI64).node();
    Shape line(i + 1, Expr(1));
    line[i] = room;
    NodeRef read = make_gather(make_iota(kI64, line, static_cast<int>(i)), begin, static_cast<int>(i),
                               -index_label(text(op, " (begins)")));
    result.push_back(make_reshape(read, Shape()));
  }
  return result;
}

Tensor gather(const Tensor& x, const Tensor& index, int64_t axis) {
  int at = normalize_axis("gather", axis, x.rank());
  NodeRef n = x.node();
  NodeRef positions = to_positions("gather", index, n, static_cast<size_t>(at));
  return Tensor(make_gather(n, positions, at, index_label("gather")));
}

Tensor take(const Tensor& x, const Tensor& index, std::optional<int64_t> axis) {
  NodeRef from = (axis ? x : flatten(x)).node();
  int at = axis ? normalize_axis("take", *axis, x.rank()) : 0;
  NodeRef positions = to_positions("take", index, from, static_cast<size_t>(at));
  return Tensor(make_gather(from, positions, at, index_label("take")));
}

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index) {
  int at = normalize_axis("index_select", axis, x.rank());
  if (index.rank() != 1)
    throw ShapeError(text("index_select: the index must have one axis, not the shape ", index.node()->shape));
  NodeRef n = x.node();
  NodeRef positions = to_positions("index_select", index, n, static_cast<size_t>(at));
  return Tensor(make_gather(n, positions, at, index_label("index_select")));
}

Tensor take_along_axis(const Tensor& x, const Tensor& index, int64_t axis) {
  const char* op = "take_along_axis";
  int at = normalize_axis(op, axis, x.rank());
  NodeRef n = with_numbers(x.node()), i = with_numbers(index.node());
  if (n->shape.size() != i->shape.size())
    throw ShapeError(text(op, ": the index ", i->shape, " must have as many axes as ", n->shape));
  Shape theirs = n->shape, mine = i->shape;
  theirs[static_cast<size_t>(at)] = mine[static_cast<size_t>(at)] = 1;
  Shape common = broadcast_shapes(op, theirs, mine);
  Shape from = common, to = common;
  from[static_cast<size_t>(at)] = n->shape[static_cast<size_t>(at)];
  to[static_cast<size_t>(at)] = i->shape[static_cast<size_t>(at)];
  check_shape(op, to, n->dtype);
  NodeRef positions = to_positions(op, Tensor(i), n, static_cast<size_t>(at));
  return Tensor(make_gather_along(make_expand(n, from), make_expand(positions, to), at, index_label(op)));
}

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  if (weight.rank() != 2)
    throw ShapeError(text("embedding: the table must have two axes, not the shape ", weight.node()->shape));
  NodeRef table = weight.node();
  NodeRef positions = to_positions("embedding", ids, table, 0);
  return Tensor(make_gather(table, positions, 0, index_label("embedding")));
}

Tensor index(const Tensor& x, const std::vector<Tensor>& indices, int64_t axis) {
  int at = normalize_axis("index", axis, x.rank());
  NodeRef n = with_numbers(x.node());
  MergedIndex merged = merge_indices("index", n, indices, static_cast<size_t>(at));
  return Tensor(make_gather(make_reshape(n, merged.merged), merged.positions, at, index_label("index")));
}

Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype) {
  if (!is_integer(ids.dtype())) throw DTypeError(text("one_hot: ids must be integers, not ", ids.dtype()));
  if (classes < 0) throw ValueError(text("one_hot: ", classes, " classes"));
  to_shape("one_hot", {classes}, kI64);
  bool wide = size_of(ids.dtype()) == 8 || ids.dtype() == kU32 || classes > INT32_MAX;
  DType common = ids.dtype() == kU64 ? kU64 : wide ? kI64 : kI32;
  OnDeviceOf there(ids);
  return cast(eq(unsqueeze(cast(ids, common), -1), cast(arange(classes), common)), dtype);
}

Tensor dynamic_slice(const Tensor& x, const Tensor& begins, const Dims& sizes) {
  OnDeviceOf there(x);
  Tensor result(with_numbers(x.node()));
  std::vector<NodeRef> from = begins_of("dynamic_slice", result.node()->shape, begins, sizes);
  for (size_t i = 0; i < from.size(); ++i) {
    if (sizes[i] == x.size(static_cast<int64_t>(i))) continue;
    Tensor places = add(Tensor(from[i]), arange(sizes[i]));
    result = Tensor(make_gather(result.node(), places.node(), static_cast<int>(i), index_label("dynamic_slice")));
  }
  return result;
}

Tensor checked_positions(const char* op, const Tensor& positions, int64_t count, int64_t axis) {
  NodeRef index = positions.node();
  OnDeviceOf there(index->device);
  Shape line(static_cast<size_t>(axis) + 1, Expr(1));  // so that an error names the axis
  line[static_cast<size_t>(axis)] = count;
  NodeRef numbers = make_iota(kI64, line, static_cast<int>(axis));
  if (count < 2) numbers = buffer_node(std::vector<int64_t>(static_cast<size_t>(count)).data(), kI64, line);
  NodeRef read = make_gather(numbers, index, static_cast<int>(axis), -index_label(op));
  return Tensor(make_reshape(read, index->shape));
}

}  // namespace heddle
