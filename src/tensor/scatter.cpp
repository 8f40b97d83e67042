#include <algorithm>

#include "base/error.h"
#include "tensor/index_common.h"
#include "tensor/symbolic.h"

namespace heddle {
namespace {

// Updates in the dtype of x. Assigning converts as NumPy does; combining refuses what would lose the fraction.
NodeRef to_updates(const char* op, const NodeRef& x, const Operand& updates, const Shape& shape, ScatterOp how) {
  if (updates.kind() != Operand::Kind::Tensor) return number_node(op, updates, x->dtype, shape);
  NodeRef u = with_numbers(updates.tensor().node());  // as x and the index
  bool loses = (is_float(u->dtype) && !is_float(x->dtype)) || (u->dtype != kBool && x->dtype == kBool);
  if (loses && how != ScatterOp::Set)
    throw DTypeError(text(op, ": updates of ", u->dtype, " cannot be combined with ", x->dtype, "; cast them first"));
  if (!(broadcast_shapes(op, u->shape, shape) == shape))
    throw ShapeError(text(op, ": updates of shape ", u->shape, " do not fit the index of shape ", shape));
  return broadcast_to(make_cast(u, x->dtype), shape);
}

// Scatters and slice updates are compiled for the numbers that symbolic sizes have.
Tensor plain(const Tensor& x) { return Tensor(with_numbers(x.node())); }

// index has x's rank; along axes other than `axis` it may be shorter than x.
Tensor scatter_with(const char* op, ScatterOp how, const Tensor& base, int64_t axis, const Tensor& where_to,
                    const Operand& updates) {
  Tensor x = plain(base), index = plain(where_to);
  size_t at = static_cast<size_t>(normalize_axis(op, axis, x.rank()));
  NodeRef n = x.node();
  Shape shape = index.node()->shape;
  bool fits = shape.size() == n->shape.size(), whole = true;
  std::vector<std::pair<int64_t, int64_t>> part;
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    int64_t size = n->shape[i].value(), wanted = i == at ? size : shape[i].value();
    fits = wanted <= size;
    whole = whole && wanted == size;
    part.emplace_back(0, wanted);
  }
  if (!fits)
    throw ShapeError(text(op, ": the index ", shape, " does not fit into ", n->shape, " on the axes other than ", at));
  NodeRef positions = to_positions(op, index, n, at);
  NodeRef changes = to_updates(op, n, updates, shape, how);
  int along = static_cast<int>(at);
  if (whole) return Tensor(make_scatter(how, n, positions, changes, along, index_label(op)));
  Tensor corner(make_scatter(how, shrink(x, part).node(), positions, changes, along, index_label(op)));
  return Tensor(put_part(op, n, corner.node(), std::vector<Expr>(n->shape.size(), Expr(0)), {}));
}

// An index of one axis, repeated along all others of the source.
Tensor scatter_slices(const char* op, ScatterOp how, const Tensor& base, int64_t axis, const Tensor& where_to,
                      const Operand& source) {
  Tensor x = plain(base), index = plain(where_to);
  size_t at = static_cast<size_t>(normalize_axis(op, axis, x.rank()));
  if (index.rank() != 1)
    throw ShapeError(text(op, ": the index must have one axis, not the shape ", index.node()->shape));
  Shape shape = x.node()->shape, thin(shape.size(), Expr(1));
  shape[at] = thin[at] = index.node()->shape[0];
  NodeRef n = x.node();
  NodeRef positions = to_positions(op, index, n, at);
  NodeRef everywhere = make_expand(make_reshape(positions, thin), shape);
  NodeRef changes = to_updates(op, x.node(), source, shape, how);
  return Tensor(make_scatter(how, x.node(), everywhere, changes, static_cast<int>(at), index_label(op)));
}

}  // namespace

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Operand& updates) {
  return scatter_with("scatter", ScatterOp::Set, x, axis, index, updates);
}

Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Operand& updates) {
  return scatter_with("scatter_add", ScatterOp::Add, x, axis, index, updates);
}

Tensor scatter_reduce(const Tensor& x, int64_t axis, const Tensor& index, const Operand& updates,
                      const std::string& reduce, bool include_self) {
  const char* op = "scatter_reduce";
  bool mean = reduce == "mean";
  ScatterOp how;
  Scalar identity = Scalar::of(x.dtype(), 0);
  if (mean || reduce == "sum") {
    how = ScatterOp::Add;
  } else if (reduce == "prod") {
    how = ScatterOp::Mul;
    identity = Scalar::of(x.dtype(), 1);
  } else if (reduce == "amax" || reduce == "amin") {
    how = reduce == "amax" ? ScatterOp::Max : ScatterOp::Min;
    identity = reduce_identity(reduce == "amax" ? ReduceOp::Max : ReduceOp::Min, x.dtype());
  } else {
    throw ValueError(text(op, ": '", reduce, "' is none of sum, prod, amax, amin and mean"));
  }
  if (mean && x.dtype() == kBool) throw DTypeError(text(op, ": bool has no mean"));
  Tensor start = x;
  if (!include_self) start = scatter_with(op, ScatterOp::Set, x, axis, index, Tensor(make_const(identity, Shape())));
  Tensor total = scatter_with(op, how, start, axis, index, updates);
  if (!mean) return total;
  OnDeviceOf there(x);
  Tensor count = scatter_with(op, ScatterOp::Add, full(x.shape(), include_self ? 1 : 0, kI64), axis, index, 1);
  count = cast(maximum(count, 1), x.dtype());
  return is_float(x.dtype()) ? div(total, count) : floordiv(total, count);
}

Tensor put_along_axis(const Tensor& x, const Tensor& index, const Operand& values, int64_t axis) {
  const char* op = "put_along_axis";
  size_t at = static_cast<size_t>(normalize_axis(op, axis, x.rank()));
  NodeRef n = with_numbers(x.node()), i = with_numbers(index.node());
  Shape shape = n->shape;
  bool fits = i->shape.size() == shape.size();
  if (fits) shape[at] = i->shape[at];
  if (!fits || !(broadcast_shapes(op, i->shape, shape) == shape))
    throw ShapeError(text(op, ": the index ", i->shape, " does not fit ", n->shape, " on the axes other than ", at));
  return scatter_with(op, ScatterOp::Set, x, axis, Tensor(broadcast_to(i, shape)), values);
}

Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Operand& source, const Operand& alpha) {
  bool plain = alpha.kind() != Operand::Kind::Tensor && alpha.real() == 1;
  if (plain) return scatter_slices("index_add", ScatterOp::Add, x, axis, index, source);
  return scatter_slices("index_add", ScatterOp::Add, x, axis, index, mul(source, alpha));
}

Tensor index_copy(const Tensor& x, int64_t axis, const Tensor& index, const Operand& source) {
  return scatter_slices("index_copy", ScatterOp::Set, x, axis, index, source);
}

NodeRef put_at(const char* op, ScatterOp how, const NodeRef& n, const std::vector<Tensor>& indices, size_t at,
               const Operand& values) {
  std::vector<Tensor> arrays;
  for (const Tensor& array : indices) arrays.push_back(plain(array));
  MergedIndex merged = merge_indices(op, n, arrays, at);
  // The values as index() would give them; then all axes of the index as one.
  Shape shape(n->shape.begin(), n->shape.begin() + at), lines = shape, thin(at, Expr(1));
  shape.append(merged.positions->shape.begin(), merged.positions->shape.end());
  Expr count = merged.positions->shape.numel();
  lines.push_back(count);
  thin.push_back(count);
  for (size_t i = at + indices.size(); i < n->shape.size(); ++i) {
    shape.push_back(n->shape[i]);
    lines.push_back(n->shape[i]);
    thin.push_back(1);
  }
  NodeRef changes = make_reshape(to_updates(op, n, values, shape, how), lines);
  NodeRef positions = make_expand(make_reshape(merged.positions, thin), lines);
  NodeRef result =
      make_scatter(how, make_reshape(n, merged.merged), positions, changes, static_cast<int>(at), index_label(op));
  return make_reshape(result, n->shape);
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Operand& values, bool accumulate,
                 int64_t axis) {
  size_t at = static_cast<size_t>(normalize_axis("index_put", axis, x.rank()));
  ScatterOp how = accumulate ? ScatterOp::Add : ScatterOp::Set;
  return Tensor(put_at("index_put", how, with_numbers(x.node()), indices, at, values));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value) {
  const char* op = "masked_fill";
  if (mask.dtype() != kBool) throw DTypeError(text(op, ": the mask must be bool, not ", mask.dtype()));
  Shape shape = broadcast_shapes(op, x.node()->shape, mask.node()->shape);
  NodeRef fill = to_updates(op, x.node(), value, shape, ScatterOp::Set);
  return Tensor(scalar_node(ScalarOp::where, {broadcast_to(mask.node(), shape), fill, broadcast_to(x.node(), shape)}));
}

}  // namespace heddle
