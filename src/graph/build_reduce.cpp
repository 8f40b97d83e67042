// Builders of reductions and of sort: what gives values and positions.
#include <algorithm>

#include "graph/build.h"
#include "graph/control.h"
#include "graph/custom.h"

namespace heddle {
namespace {

Shape without_axes(const Shape& shape, std::span<const int> axes) {
  Shape result;
  size_t next = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (next < axes.size() && axes[next] == i)
      ++next;
    else
      result.push_back(shape[i]);
  }
  return result;
}

// The reduction of `count` equal values, where that is at least as exact as adding them one by one.
std::optional<heddle::Scalar> reduce_equal(ReduceOp op, const heddle::Scalar& value, int64_t count) {
  DType dtype = value.dtype;
  switch (op) {
    case ReduceOp::Max:
    case ReduceOp::Min: return value;
    case ReduceOp::Sum: {
      if (is_float(dtype)) return Scalar::of(dtype, value.f * static_cast<double>(count));
      Scalar factors[] = {value, Scalar::of(dtype, count)};
      return apply(ScalarOp::mul, factors);
    }
    case ReduceOp::Prod: {
      if (value == Scalar::of(dtype, 1)) return value;
      if (is_float(dtype)) return {};
      Scalar result = Scalar::of(dtype, 1), square = value;
      for (int64_t rest = count; rest > 0; rest /= 2) {
        Scalar step[] = {result, square}, again[] = {square, square};
        if (rest % 2) result = apply(ScalarOp::mul, step);
        square = apply(ScalarOp::mul, again);
      }
      return result;
    }
  }
  __builtin_unreachable();
}

}  // namespace

ScalarOp combiner(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return ScalarOp::add;
    case ReduceOp::Prod: return ScalarOp::mul;
    case ReduceOp::Max: return ScalarOp::maximum;
    case ReduceOp::Min: return ScalarOp::minimum;
  }
  __builtin_unreachable();
}

NodeRef make_reduce(ReduceOp op, const NodeRef& x, std::span<const int> axes) {
  check_operand(name(op), x);
  SmallVector<int, 4> sorted = normalize_axes(name(op), x, axes);
  if ((op == ReduceOp::Sum || op == ReduceOp::Prod) && x->dtype == DType::boolean)
    throw DTypeError(text(name(op), ": takes numbers, not ", x->dtype, x->shape, "; cast first"));
  if (sorted.empty()) return x;

  Shape result = without_axes(x->shape, sorted);
  SmallVector<int, 4> real;  // axes with more than one element
  Expr count = 1;
  for (int axis : sorted) {
    if (x->shape[axis].is_const(0))
      return make_unmoved(const_like(reduce_identity(op, x->dtype), result), std::span(&x, 1));
    if (!x->shape[axis].is_const(1)) real.push_back(axis);
    count = count * x->shape[axis];
  }
  if (x->op == NodeOp::Const && count.is_const())
    if (std::optional<heddle::Scalar> value = reduce_equal(op, x->literal, count.value()))
      return const_like(*value, result);
  if (real.empty()) return make_reshape(x, result);
  if (real.size() < sorted.size()) return make_reshape(make_reduce(op, x, real), result);

  NewNode node = new_node(NodeOp::Reduce, x->dtype, result);
  node->reduce_op = op;
  node->inputs.push_back(x);
  for (int axis : real) node->attrs.push_back(axis);
  return finish(std::move(node));
}

NodeRef make_arg_reduce(ReduceOp op, const NodeRef& x, int axis) {
  const char* what = op == ReduceOp::Max ? "argmax" : "argmin";
  if (op != ReduceOp::Max && op != ReduceOp::Min)
    throw ValueError(text("arg_reduce: finds the max or min, not the ", name(op)));
  check_operand(what, x);
  axis = normalize_axis(what, axis, x->shape.rank());
  Shape result = without_axes(x->shape, std::span(&axis, 1));
  // A symbol's number is enough: every graph with this node had the same check.
  auto least = [](const Expr& size) { return known_value(size).value_or(size.lo()); };
  bool nothing = std::any_of(result.begin(), result.end(), [&](const Expr& size) { return least(size) == 0; });
  if (least(x->shape[axis]) < 1 && !nothing)
    throw ShapeError(text(what, ": axis ", axis, " of ", x->dtype, x->shape, " may be empty"));
  NewNode node = new_node(NodeOp::ArgReduce, x->dtype, result);
  node->reduce_op = op;
  node->inputs.push_back(x);
  node->attrs.push_back(axis);
  return finish_as_is(std::move(node));
}

NodeRef make_sort(const NodeRef& x, bool descending, const Expr& count) {
  check_operand("sort", x);
  if (x->shape.rank() == 0) throw ShapeError(text("sort: ", x->dtype, x->shape, " has no axis to sort along"));
  if (count.lo() < 0 || !provably_true(le(count, x->shape.back())))
    throw ShapeError(text("sort: cannot keep ", count, " elements of the last axis of ", x->dtype, x->shape));
  Shape result = x->shape;
  result.back() = count;
  NewNode node = new_node(NodeOp::Sort, x->dtype, result);
  node->inputs.push_back(x);
  node->attrs.push_back(descending ? 1 : 0);
  return finish_as_is(std::move(node));
}

NodeRef make_scan(ReduceOp op, const NodeRef& x, int axis) {
  std::string what = text("cum", name(op));
  check_operand(what.c_str(), x);
  axis = normalize_axis(what.c_str(), axis, x->shape.rank());
  if ((op == ReduceOp::Sum || op == ReduceOp::Prod) && x->dtype == DType::boolean)
    throw DTypeError(text(what, ": takes numbers, not ", x->dtype, x->shape, "; cast first"));
  if (x->shape[axis].is_const(1) || x->shape[axis].is_const(0)) return x;
  // The largest or smallest of equal values; of a scan with the same op, that scan.
  bool order = op == ReduceOp::Max || op == ReduceOp::Min;
  if (order && x->op == NodeOp::Const) return x;
  if (order && x->op == NodeOp::Scan && x->reduce_op == op && x->attrs[0].is_const(axis)) return x;
  NewNode node = new_node(NodeOp::Scan, x->dtype, x->shape);
  node->reduce_op = op;
  node->inputs.push_back(x);
  node->attrs.push_back(axis);
  return finish(std::move(node));
}

ResultType result_type(const Node& node, int result) {
  switch (node.op) {
    case NodeOp::ArgReduce:
    case NodeOp::Sort: return {result == 0 ? node.dtype : DType::i64, node.shape};  // elements, their positions
    case NodeOp::Loop:
    case NodeOp::Cond: return control_result_type(node, result);
    case NodeOp::Custom: return node.custom->results[static_cast<size_t>(result)];
    default:
      HD_ASSERT(!node.gives_several(), "the results of ", name(node.op), " have no types");
      return {node.dtype, node.shape};
  }
}

namespace {

// A result of ArgReduce or Sort that needs no computing; null if it does.
NodeRef known_result(const Node& node, int result, const ResultType& type) {
  const NodeRef& x = node.inputs[0];
  const bool sorts = node.op == NodeOp::Sort;
  if (x->op == NodeOp::Const) {  // all are equal: the first of them
    if (result == 0) return const_like(x->literal, type.shape);
    return sorts ? make_iota(type.dtype, type.shape, type.shape.rank() - 1)
                 : const_like(Scalar::of(type.dtype, 0), type.shape);
  }
  const Expr& n = sorts ? x->shape.back() : x->shape[node.attrs[0].value()];
  if (!n.is_const(1) || has_zero(type.shape)) return {};
  return result == 0 ? make_reshape(x, type.shape) : const_like(Scalar::of(type.dtype, 0), type.shape);
}

}  // namespace

NodeRef make_get(const NodeRef& x, int result) {
  if (!x) throw ValueError("get: the operand is empty");
  if (result < 0 || result >= x->result_count())
    throw IndexError(text("get: result ", result, " of ", name(x->op), ", which has ", x->result_count()));
  if (!x->gives_several()) return x;
  const ResultType type = result_type(*x, result);
  if (x->control)
    if (NodeRef known = known_control_result(*x, result)) return known;
  if (x->op == NodeOp::ArgReduce || x->op == NodeOp::Sort)
    if (NodeRef known = known_result(*x, result, type)) return known;
  NewNode node = new_node(NodeOp::Get, type.dtype, type.shape);
  node->inputs.push_back(x);
  node->attrs.push_back(result);
  return finish(std::move(node));
}

}  // namespace heddle
