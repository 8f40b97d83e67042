// Builders of gather and scatter.
#include <algorithm>
#include <mutex>

#include "base/lock.h"
#include "graph/build.h"

namespace heddle {
namespace {

// gather with every index equal to `at`.
NodeRef gather_one(const NodeRef& x, int axis, const Expr& at, const Shape& index_shape, const Shape& result) {
  SmallVector<Expr, 4> begin(x->shape.size(), Expr(0)), size(x->shape);
  begin[axis] = at;
  size[axis] = 1;
  Shape thin;
  for (int i = 0; i < x->shape.rank(); ++i) {
    if (i == axis)
      for (size_t k = 0; k < index_shape.size(); ++k) thin.push_back(1);
    else
      thin.push_back(x->shape[i]);
  }
  return make_expand(make_reshape(make_shrink(x, begin, size), thin), result);
}

void check_index(const char* op, const NodeRef& x, const NodeRef& index) {
  check_operand(op, x);
  check_operand(op, index);
  if (!is_integer(index->dtype))
    throw DTypeError(text(op, ": the index must hold integers, not ", index->dtype, index->shape, " (operand ",
                          x->dtype, x->shape, ")"));
}

void check_not_empty(const char* op, const NodeRef& x, const NodeRef& index, int axis) {
  if (x->shape[axis].lo() < 1)
    throw IndexError(text(op, ": axis ", axis, " of ", x->dtype, x->shape, " may be empty, and ", index->dtype,
                          index->shape, " asks for its elements"));
}

// Equal sizes but along `axis`.
bool fits_along(const Shape& a, const Shape& b, int axis) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (i != axis && !same_dim(a[i], b[i])) return false;
  return true;
}

NodeRef finish_gather(const NodeRef& x, const NodeRef& index, const Shape& shape, int axis, bool along, int64_t label) {
  NewNode node = new_node(NodeOp::Gather, x->dtype, shape);
  node->inputs.push_back(x);
  node->inputs.push_back(index);
  for (int64_t attr : {int64_t{axis}, int64_t{along}, label}) node->attrs.push_back(attr);
  return finish(std::move(node));
}

struct Labels {
  Mutex mutex;
  std::vector<std::string> names;
};
Labels& labels() {
  static Labels& all = *new Labels;
  return all;
}
[[maybe_unused]] Labels& labels_made_at_start = labels();

}  // namespace

NodeRef make_gather(const NodeRef& x, const NodeRef& index, int axis, int64_t label) {
  check_index("gather", x, index);
  axis = normalize_axis("gather", axis, x->shape.rank());
  Shape result(x->shape.begin(), x->shape.begin() + axis);
  result.append(index->shape.begin(), index->shape.end());
  result.append(x->shape.begin() + axis + 1, x->shape.end());
  check_shape("gather", result, x->dtype);
  const Expr& n = x->shape[axis];
  if (has_zero(result)) return make_unmoved(const_like(Scalar::of(x->dtype, 0), result), std::span(&x, 1));
  check_not_empty("gather", x, index, axis);
  if (index->op == NodeOp::Const && n.is_const()) {
    const heddle::Scalar& at = index->literal;
    bool negative = is_signed(at.dtype) && at.i < 0;
    if (!negative && at.u < static_cast<uint64_t>(n.value()))
      return gather_one(x, axis, static_cast<int64_t>(at.u), index->shape, result);
  }
  return finish_gather(x, index, result, axis, false, label);
}

NodeRef make_gather_along(const NodeRef& x, const NodeRef& index, int axis, int64_t label) {
  check_index("gather", x, index);
  axis = normalize_axis("gather", axis, x->shape.rank());
  if (!fits_along(x->shape, index->shape, axis))
    throw ShapeError(text("gather: ", index->dtype, index->shape, " does not match ", x->dtype, x->shape,
                          " on the axes other than ", axis));
  if (has_zero(index->shape)) return make_unmoved(const_like(Scalar::of(x->dtype, 0), index->shape), std::span(&x, 1));
  check_not_empty("gather", x, index, axis);
  return finish_gather(x, index, index->shape, axis, true, label);
}

std::optional<ScalarOp> scatter_combiner(ScatterOp op, DType dtype) {
  switch (op) {
    case ScatterOp::Set: return std::nullopt;
    case ScatterOp::Add: return dtype == DType::boolean ? ScalarOp::bit_or : ScalarOp::add;
    case ScatterOp::Mul: return dtype == DType::boolean ? ScalarOp::bit_and : ScalarOp::mul;
    case ScatterOp::Max: return ScalarOp::maximum;
    case ScatterOp::Min: return ScalarOp::minimum;
  }
  __builtin_unreachable();
}

NodeRef make_scatter(ScatterOp op, const NodeRef& base, const NodeRef& index, const NodeRef& updates, int axis,
                     int64_t label) {
  check_index("scatter", base, index);
  check_operand("scatter", updates);
  axis = normalize_axis("scatter", axis, base->shape.rank());
  if (updates->dtype != base->dtype)
    throw DTypeError(text("scatter: updates of ", updates->dtype, " into ", base->dtype, base->shape));
  if (!same_shape(index->shape, updates->shape) || !fits_along(base->shape, index->shape, axis))
    throw ShapeError(text("scatter: the index ", index->dtype, index->shape, " and the updates ", updates->dtype,
                          updates->shape, " must have one shape, that of ", base->dtype, base->shape,
                          " but along axis ", axis));
  if (has_zero(index->shape)) return make_unmoved(base, std::span(&updates, 1));
  check_not_empty("scatter", base, index, axis);
  NewNode node = new_node(NodeOp::Scatter, base->dtype, base->shape);
  node->scatter_op = op;
  for (const NodeRef& input : {base, index, updates}) node->inputs.push_back(input);
  node->attrs.push_back(axis);
  node->attrs.push_back(label);
  return finish(std::move(node));
}

int64_t index_label(const std::string& name) {
  Labels& all = labels();
  std::lock_guard lock(all.mutex);
  auto found = std::find(all.names.begin(), all.names.end(), name);
  if (found == all.names.end()) found = all.names.insert(found, name);
  return found - all.names.begin() + 1;
}

std::string describe_bad_index(const char* node, int64_t label, int64_t index, int64_t axis, int64_t size) {
  std::string op = node;
  if (label != 0) {
    Labels& all = labels();
    std::lock_guard lock(all.mutex);
    op = all.names.at(static_cast<size_t>(std::abs(label) - 1));
  }
  if (label > 0 && index < 0) index -= size;  // as the user wrote it
  return text(op, ": index ", index, " is out of range for axis ", axis, " of size ", size);
}

}  // namespace heddle
