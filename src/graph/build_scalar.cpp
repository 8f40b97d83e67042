// Builders of elementwise nodes.
#include "graph/build.h"

namespace heddle {
namespace {

[[noreturn]] void bad_dtypes(ScalarOp op, std::span<const NodeRef> inputs) {
  std::string operands;
  for (const NodeRef& input : inputs) operands += text(operands.empty() ? "" : ", ", input->dtype, input->shape);
  throw DTypeError(text(info(op).name, ": does not take operands (", operands, ")"));
}

[[noreturn]] void bad_shapes(ScalarOp op, std::span<const NodeRef> inputs) {
  std::string operands;
  for (const NodeRef& input : inputs) operands += text(operands.empty() ? "" : ", ", input->dtype, input->shape);
  throw ShapeError(text(info(op).name, ": operands differ in shape: ", operands));
}

NodeRef fold_constants(ScalarOp op, std::span<const NodeRef> inputs) {
  SmallVector<Scalar, 3> values;
  for (const NodeRef& input : inputs) values.push_back(input->literal);
  return const_like(apply(op, values), inputs[0]->shape);
}

NodeRef scalar_node(ScalarOp op, DType dtype, std::span<const NodeRef> inputs) {
  NewNode node = new_node(NodeOp::Scalar, dtype, inputs[0]->shape);
  node->scalar_op = op;
  for (const NodeRef& input : inputs) node->inputs.push_back(input);
  return finish(std::move(node));
}

// cast(cast(x, middle), to) == cast(x, to) for every x.
bool middle_cast_is_idle(DType from, DType middle, DType to) {
  if (is_lossless(from, middle)) {
    // From integers through floats to integers saturates where the direct way wraps.
    bool saturates = is_integer(from) && is_float(middle) && is_integer(to);
    return !saturates || is_lossless(from, to);
  }
  return is_integer(from) && is_integer(middle) && is_integer(to) && size_of(to) <= size_of(middle);
}

}  // namespace

bool commutes(ScalarOp op) {
  switch (op) {
    case ScalarOp::add:
    case ScalarOp::mul:
    case ScalarOp::minimum:
    case ScalarOp::maximum:
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::bit_and:
    case ScalarOp::bit_or:
    case ScalarOp::bit_xor: return true;
    default: return false;
  }
}

NodeRef make_scalar(ScalarOp op, std::span<const NodeRef> inputs) {
  const OpInfo& what = info(op);
  if (inputs.size() != static_cast<size_t>(what.arity))
    throw ValueError(text(what.name, ": takes ", what.arity, " operands, not ", inputs.size()));
  DType dtypes[3];
  size_t constants = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_operand(what.name, inputs[i]);
    dtypes[i] = inputs[i]->dtype;
    constants += inputs[i]->op == NodeOp::Const;
    if (i > 0 && !same_shape(inputs[i]->shape, inputs[0]->shape)) bad_shapes(op, inputs);
  }
  std::optional<DType> dtype = result_dtype(op, std::span<const DType>(dtypes, inputs.size()));
  if (!dtype) bad_dtypes(op, inputs);

  if (constants == inputs.size()) return fold_constants(op, inputs);
  if (constants > 0 && inputs.size() == 2 && inputs[0]->op == NodeOp::Const && commutes(op)) {
    NodeRef swapped[] = {inputs[1], inputs[0]};
    if (NodeRef simpler = scalar_identity(op, swapped)) return where_they_are(simpler, inputs);
    return scalar_node(op, *dtype, swapped);
  }
  if (NodeRef simpler = scalar_identity(op, inputs)) return where_they_are(simpler, inputs);
  return scalar_node(op, *dtype, inputs);
}

NodeRef make_cast(const NodeRef& x, DType to) {
  check_operand("cast", x);
  if (x->dtype == to) return x;
  if (x->op == NodeOp::Const) return const_like(cast(x->literal, to), x->shape);
  if (x->op == NodeOp::Cast && middle_cast_is_idle(x->inputs[0]->dtype, x->dtype, to))
    return make_cast(x->inputs[0], to);
  NewNode node = new_node(NodeOp::Cast, to, x->shape);
  node->inputs.push_back(x);
  return finish(std::move(node));
}

NodeRef make_bitcast(const NodeRef& x, DType to) {
  check_operand("bitcast", x);
  if (x->dtype == to) return x;
  if (size_of(x->dtype) != size_of(to) || to == DType::boolean)
    throw DTypeError(text("bitcast: cannot read ", x->dtype, x->shape, " as ", to,
                          to == DType::boolean ? "; compare with zero instead" : ": their sizes differ"));
  if (x->op == NodeOp::Const) return const_like(bitcast(x->literal, to), x->shape);
  if (x->op == NodeOp::Bitcast) return make_bitcast(x->inputs[0], to);
  NewNode node = new_node(NodeOp::Bitcast, to, x->shape);
  node->inputs.push_back(x);
  return finish(std::move(node));
}

}  // namespace heddle
