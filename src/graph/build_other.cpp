// Builders of window, unwindow, cat, to and barrier.
#include <algorithm>
#include <atomic>

#include "base/fork.h"
#include "graph/build.h"
#include "graph/graph.h"

namespace heddle {
namespace {

std::string describe(std::span<const NodeRef> inputs) {
  std::string list;
  for (const NodeRef& input : inputs.first(std::min<size_t>(inputs.size(), 8)))
    list += text(list.empty() ? "" : ", ", input->dtype, input->shape);
  return inputs.size() > 8 ? text(list, ", ... (", inputs.size(), " operands)") : list;
}

void check_window(const char* op, const NodeRef& x, int64_t size, int64_t stride, int64_t dilation, const Expr& n) {
  if (size < 1 || stride < 1 || dilation < 1)
    throw ValueError(text(op, ": size ", size, ", stride ", stride, " and dilation ", dilation,
                          " must be positive (operand ", x->dtype, x->shape, ")"));
  if (n.lo() < 1 || size - 1 > (n.lo() - 1) / dilation)
    throw ShapeError(text(op, ": a window of ", size, " elements with dilation ", dilation, " does not fit into ", n,
                          " elements (operand ", x->dtype, x->shape, ")"));
}

Expr window_positions(const Expr& n, int64_t size, int64_t stride, int64_t dilation) {
  return floordiv(n - (dilation * (size - 1) + 1), Expr(stride)) + 1;
}

void set_window_attrs(Node& node, int axis, int64_t size, int64_t stride, int64_t dilation) {
  for (int64_t value : {int64_t{axis}, size, stride, dilation}) node.attrs.push_back(value);
}

}  // namespace

NodeRef make_window(const NodeRef& x, int axis, int64_t size, int64_t stride, int64_t dilation) {
  check_operand("window", x);
  axis = normalize_axis("window", axis, x->shape.rank());
  check_window("window", x, size, stride, dilation, x->shape[axis]);
  Shape result = x->shape;
  result[axis] = window_positions(x->shape[axis], size, stride, dilation);
  result.push_back(size);
  if (size == 1 && stride == 1) return make_reshape(x, result);
  check_shape("window", result, x->dtype);
  if (x->op == NodeOp::Const) return const_like(x->literal, result);
  NewNode node = new_node(NodeOp::Window, x->dtype, result);
  node->inputs.push_back(x);
  set_window_attrs(*node, axis, size, stride, size == 1 ? 1 : dilation);
  return finish(std::move(node));
}

NodeRef make_unwindow(const NodeRef& x, int axis, int64_t size, int64_t stride, int64_t dilation, const Expr& n) {
  check_operand("unwindow", x);
  if (x->dtype == DType::boolean) throw DTypeError(text("unwindow: adds numbers, not ", x->dtype, x->shape));
  if (x->shape.rank() < 2)
    throw ShapeError(text("unwindow: needs an axis of positions and one inside the window, not ", x->dtype, x->shape));
  axis = normalize_axis("unwindow", axis, x->shape.rank() - 1);
  check_window("unwindow", x, size, stride, dilation, n);
  Expr positions = window_positions(n, size, stride, dilation);
  if (!same_dim(x->shape[axis], positions) || !same_dim(x->shape.back(), size))
    throw ShapeError(text("unwindow: ", n, " elements have ", positions, " windows of ", size, " (stride ", stride,
                          ", dilation ", dilation, "), which ", x->dtype, x->shape, " does not match on axis ", axis,
                          " and the last"));
  Shape result = x->shape;
  result.pop_back();
  result[axis] = n;
  if (size == 1 && stride == 1) return make_reshape(x, result);
  check_shape("unwindow", result, x->dtype);
  if (x->op == NodeOp::Const && x->literal == Scalar::of(x->dtype, 0)) return const_like(x->literal, result);
  NewNode node = new_node(NodeOp::Unwindow, x->dtype, result);
  node->inputs.push_back(x);
  set_window_attrs(*node, axis, size, stride, size == 1 ? 1 : dilation);
  node->attrs.push_back(n);
  return finish(std::move(node));
}

NodeRef make_cat(std::span<const NodeRef> inputs, int axis) {
  if (inputs.empty()) throw ValueError("cat: there is nothing to join");
  for (const NodeRef& input : inputs) check_operand("cat", input);
  const NodeRef& first = inputs[0];
  axis = normalize_axis("cat", axis, first->shape.rank());
  Shape result = first->shape;
  result[axis] = 0;
  bool one_constant = true;
  SmallVector<NodeRef, 2> parts, empty;
  for (const NodeRef& input : inputs) {
    if (input->dtype != first->dtype) throw DTypeError(text("cat: operands differ in dtype: ", describe(inputs)));
    bool fits = input->shape.size() == first->shape.size();
    for (int i = 0; fits && i < first->shape.rank(); ++i)
      fits = i == axis || same_dim(input->shape[i], first->shape[i]);
    if (!fits) throw ShapeError(text("cat: operands differ in shape outside axis ", axis, ": ", describe(inputs)));
    result[axis] = result[axis] + input->shape[axis];
    if (input->shape[axis].is_const(0)) {
      empty.push_back(input);
      continue;
    }
    parts.push_back(input);
    one_constant = one_constant && input->op == NodeOp::Const && input->literal == parts[0]->literal;
  }
  if (parts.empty()) return make_unmoved(first, empty);
  if (parts.size() == 1) return make_unmoved(parts[0], empty);
  check_shape("cat", result, first->dtype);
  if (one_constant) return make_unmoved(const_like(parts[0]->literal, result), empty);
  NewNode node = new_node(NodeOp::Cat, first->dtype, result);
  node->inputs = std::move(parts);
  node->attrs.push_back(axis);
  return make_unmoved(finish(std::move(node)), empty);
}

NodeRef make_to(const NodeRef& x, DeviceNumber device) {
  check_operand("to", x);
  if (device == kAnywhere || x->device == device) return x;
  if (x->op == NodeOp::To) return make_to(x->inputs[0], device);
  NewNode node = new_node(NodeOp::To, x->dtype, x->shape);
  node->inputs.push_back(x);
  node->attrs.push_back(device);
  return finish_as_is(std::move(node));
}

NodeRef make_barrier_with(const NodeRef& x, const NodeRef& token, uint64_t number) {
  check_operand("barrier", x);
  check_operand("barrier", token);
  if (x->op == NodeOp::Const) return x;
  NewNode node = new_node(NodeOp::Barrier, x->dtype, x->shape);
  node->inputs.push_back(x);
  node->inputs.push_back(token);
  node->token = number;
  return finish(std::move(node));
}

NodeRef make_pullback(const NodeRef& value, std::span<const NodeRef> inputs, std::shared_ptr<const GradientRule> rule) {
  check_operand("pullback", value);
  for (const NodeRef& input : inputs) check_operand("pullback", input);
  if (!rule && !inputs.empty()) throw ValueError("pullback: inputs, but no rule for their gradients");
  if (!rule && (value->op == NodeOp::Const || !is_float(value->dtype))) return value;
  NewNode node = new_node(NodeOp::Pullback, value->dtype, value->shape);
  node->inputs.push_back(value);
  for (const NodeRef& input : inputs) node->inputs.push_back(input);
  node->rule = std::move(rule);
  return finish_as_is(std::move(node));
}

namespace {

std::atomic<int64_t> leaves_alive{0};

std::shared_ptr<GradientRule> new_leaf_rule() {
  auto forget = [](GradientRule* rule) {
    leaves_alive.fetch_sub(1, std::memory_order_relaxed);
    delete rule;
  };
  leaves_alive.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<GradientRule> rule(new GradientRule{"leaf"}, forget);
  rule->is_leaf = true;
  return rule;
}

}  // namespace

int64_t live_leaves() { return leaves_alive.load(std::memory_order_relaxed); }

NodeRef make_leaf(const NodeRef& x) {
  check_operand("leaf", x);
  std::shared_ptr<GradientRule> rule = new_leaf_rule();
  rule->pull = [](const Node&, const NodeRef& gradient, GradientRule::Wanted) {
    return std::vector<NodeRef>{gradient};
  };
  return make_pullback(x, std::span(&x, 1), rule);
}

NodeRef make_leaf(const NodeRef& x, std::weak_ptr<TensorSlot> tensor) {
  check_operand("leaf", x);
  std::shared_ptr<GradientRule> rule = new_leaf_rule();
  rule->tensor = std::move(tensor);
  if (x->op == NodeOp::Buffer) return make_buffer(x->storage, x->dtype, x->shape, rule);
  return make_pullback(x, {}, rule);
}

const GradientRule* leaf_rule(const Node& node) { return node.rule && node.rule->is_leaf ? node.rule.get() : nullptr; }
bool has_ended(const GradientRule& leaf) { return std::atomic_ref(leaf.ended).load(std::memory_order_relaxed); }
void end_leaf(const Node& leaf) { std::atomic_ref(leaf.rule->ended).store(true, std::memory_order_relaxed); }

int64_t next_placeholder_number() {
  static std::atomic<int64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

NodeRef make_placeholder(DType dtype, const Shape& shape, DeviceNumber device) {
  // Captured functions have numbers from zero on.
  return make_input(0, -next_placeholder_number(), dtype, shape, device);
}

int64_t placeholder_number(const Node& node) {
  return node.op == NodeOp::Input && node.attrs[1].is_const() && node.attrs[1].value() < 0 ? -node.attrs[1].value() : 0;
}

NodeRef make_detached(const NodeRef& x) {
  if (x && x->op == NodeOp::Pullback && !x->rule) return x;
  if (x && x->op == NodeOp::Buffer && x->rule) return make_buffer(x->storage, x->dtype, x->shape);
  return make_pullback(x, {}, nullptr);
}

namespace {
thread_local bool forgetting = false;
}  // namespace

ForgetSources::ForgetSources() : before_(std::exchange(forgetting, true)) {}
ForgetSources::~ForgetSources() { forgetting = before_; }

NodeRef where_they_are(const NodeRef& constant, std::span<const NodeRef> inputs) {
  if (forgetting || constant->device != kAnywhere) return constant;
  for (const NodeRef& input : inputs)
    if (input->device != kAnywhere && input->device != home_device()) return make_to(constant, input->device);
  return constant;
}

NodeRef make_unmoved(const NodeRef& folded, std::span<const NodeRef> by) {
  const NodeRef value = where_they_are(folded, by);
  if (forgetting || !is_float(value->dtype)) return value;
  // The value itself comes first, if it is tracked, and gets what arrives.
  SmallVector<NodeRef, 4> sources;
  if (value->tracked) sources.push_back(value);
  for (const NodeRef& source : by)
    if (source->tracked && source != value) sources.push_back(source);
  if (sources.size() == (value->tracked ? 1 : 0)) return value;
  // By position: under vmap stand-ins take the place of the inputs.
  auto rule = [](bool to_first) {
    return std::make_shared<const GradientRule>(
        GradientRule{"unmoved", [to_first](const Node& node, const NodeRef& g, GradientRule::Wanted) {
                       std::vector<NodeRef> gradients;
                       for (const NodeRef& source : std::span(node.inputs).subspan(1))
                         gradients.push_back(const_like(Scalar::of(source->dtype, 0), source->shape));
                       if (to_first) gradients[0] = g;
                       return gradients;
                     }});
  };
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto to_first = rule(true), to_none = rule(false);
  return make_pullback(value, sources, value->tracked ? to_first : to_none);
}

NodeRef make_barrier(const NodeRef& x, const NodeRef& token) {
  static std::atomic<uint64_t> next{1};
  return make_barrier_with(x, token, next.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace heddle
