#include "tensor/symbolic.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/fork.h"
#include "tensor/build.h"
#include "tensor/recording.h"
#include "tensor/together.h"

namespace heddle {

const std::string& Dim::name() const { return symbol_->name; }
int64_t Dim::lo() const { return symbol_->size.lo(); }
int64_t Dim::hi() const { return symbol_->size.hi(); }
int64_t Dim::multiple_of() const { return std::max<int64_t>(symbol_->size.multiple(), 1); }

Dim dim(const std::string& name, int64_t lo, int64_t hi, int64_t multiple_of) {
  bool word = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (char c : name) word = word && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  if (!word) throw ValueError(text("dim: '", name, "' is no name; use letters, digits and _"));
  if (lo < 0 || lo > hi) throw ValueError(text("dim: the size '", name, "' cannot lie in [", lo, ", ", hi, "]"));
  if (multiple_of < 1) throw ValueError(text("dim: the size '", name, "' cannot be a multiple of ", multiple_of));
  Expr symbol = Expr::symbol(name, lo, hi, multiple_of);
  Dim result;
  result.symbol_ =
      std::make_shared<const Dim::Symbol>(Dim::Symbol{symbol.lo() == symbol.hi() ? Expr(symbol.lo()) : symbol, name});
  return result;
}

namespace {

// A part of a tensor whose axis has this size instead, which is the same number; null if x is something else. What is
// computed of a part element by element, or transposed, is found as well.
NodeRef with_part_of(const NodeRef& x, size_t axis, const Expr& size) {
  std::vector<const Node*> above;
  const Node* node = x.get();
  for (; node->op != NodeOp::Shrink; node = node->inputs[0].get()) {
    bool simple = node->op == NodeOp::Cast || node->op == NodeOp::Permute ||
                  (node->op == NodeOp::Scalar && node->inputs.size() == 1);
    if (!simple) return {};
    if (node->op == NodeOp::Permute) axis = static_cast<size_t>(node->attrs[axis].value());
    above.push_back(node);
  }
  Shape shape = node->shape;
  if (node->inputs[0]->shape[axis] == shape[axis]) return {};  // it is the whole axis
  shape[axis] = size;
  NodeRef result = make_shrink(node->inputs[0], node->attrs, shape);
  for (size_t i = above.size(); i-- > 0;) {
    if (above[i]->op == NodeOp::Cast) {
      result = make_cast(result, above[i]->dtype);
    } else if (above[i]->op == NodeOp::Permute) {
      std::vector<int> axes;
      for (const Expr& from : above[i]->attrs) axes.push_back(static_cast<int>(from.value()));
      result = make_permute(result, axes);
    } else {
      result = make_scalar(above[i]->scalar_op, std::span(&result, 1));
    }
  }
  return result;
}

// The same elements under another shape, with gradients to where they come from.
NodeRef with_gradient_of(const NodeRef& named, const NodeRef& x) {
  NoFork whole;  // no child of fork() meets the rule half made
  static const auto rule = std::make_shared<const GradientRule>(
      GradientRule{"with_dim", [](const Node& node, const NodeRef& g, GradientRule::Wanted) {
                     return std::vector{make_reshape(g, node.inputs[1]->shape)};
                   }});
  return make_pullback(named, std::span(&x, 1), rule);
}

}  // namespace

Tensor Tensor::with_dim(int64_t axis, const Dim& size) const {
  NodeRef x = node();
  size_t at = static_cast<size_t>(normalize_axis("with_dim", axis, x->shape.rank()));
  const Expr& symbol = size.symbol().size;
  int64_t value = known_size(x->shape[at]);
  if (value < symbol.lo() || value > symbol.hi() || value % size.multiple_of() != 0)
    throw ValueError(text("with_dim: axis ", at, " of shape ", x->shape, " has ", value, " elements, but '",
                          size.name(), "' lies in [", size.lo(), ", ", size.hi(), "]",
                          size.multiple_of() > 1 ? text(" and is a multiple of ", size.multiple_of()) : ""));
  Shape shape = x->shape;
  shape[at] = symbol.is_const() ? symbol : Expr::bound(symbol, value);
  check_shape("with_dim", shape, x->dtype);
  if (x->op == NodeOp::Const || x->op == NodeOp::Iota) return Tensor(make_reshape(x, shape));
  if (NodeRef part = with_part_of(x, at, shape[at])) return Tensor(part);
  refuse_in_capture("with_dim()");
  // The number may be all over the graph of a value that is still to be computed.
  NodeRef data = realized(*this);
  NodeRef named = make_buffer(data->storage, data->dtype, shape);
  return Tensor(requires_grad() ? with_gradient_of(named, x) : named);
}

Shape to_symbolic_shape(const char* op, const Dims& dims, DType dtype) {
  Shape shape = to_shape(op, dims, dtype);
  if (!dims.recorded) return shape;
  for (size_t i = 0; i < shape.size() && i < dims.recorded->size(); ++i)
    if (known_size((*dims.recorded)[i]) == dims[i]) shape[i] = (*dims.recorded)[i];
  check_shape(op, shape, dtype);
  return shape;
}

NodeRef size_node(const Expr& size, DType dtype) {
  if (size.is_const()) return make_const(cast(Scalar::of(kI64, size.value()), dtype));
  // The last of the positions 0, 1, …, size.
  Expr begin[] = {size}, one[] = {1};
  NodeRef last = make_shrink(make_iota(kI64, Shape{size + 1}, 0), begin, one);
  return make_cast(make_reshape(last, Shape{}), dtype);
}

NodeRef with_number(const NodeRef& x, int axis) {
  Shape shape = x->shape;
  Expr& size = shape[static_cast<size_t>(axis)];
  size = known_size(size);
  return make_reshape(x, shape);
}

NodeRef with_numbers(const NodeRef& x) {
  if (x->shape.is_static()) return x;
  Shape shape = x->shape;
  for (Expr& size : shape) size = known_size(size);
  return make_reshape(x, shape);
}

namespace {

// a / b where that is whole for all values of the symbols.
std::optional<Expr> quotient(const Expr& a, const Expr& b) {
  if (b.hi() <= 0) return std::nullopt;
  Expr q = floordiv(a, b);
  if (!provably_equal(q * b, a)) return std::nullopt;
  return q;
}

// Replaces shape[at] by what the other sizes leave of `total`. False if that is not the same number.
bool work_out(Shape& shape, size_t at, const Expr& total) {
  Expr others = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != at) others = others * shape[i];
  std::optional<Expr> rest = quotient(total, others);
  if (!rest || known_size(*rest) != known_size(shape[at])) return false;
  shape[at] = *rest;
  return true;
}

bool try_sizes(Shape& shape, int open, const Expr& total) {
  if (open >= 0) return work_out(shape, static_cast<size_t>(open), total);
  if (provably_equal(shape.numel(), total)) return true;
  for (size_t i = shape.size(); i-- > 0;)
    if (work_out(shape, i, total)) return true;
  return false;
}

}  // namespace

Shape reshape_sizes(const Shape& from, const Dims& dims, int open) {
  Shape numbers(dims.begin(), dims.end());
  if (from.is_static() && !dims.recorded) return numbers;
  Expr total = from.numel();
  auto means = [&](size_t i, const Expr& size) {
    return static_cast<int>(i) != open && !size.is_const() && known_size(size) == dims[i];
  };
  // What was said to be a symbol; symbols that stay in their places; numbers; symbols that keep their order.
  Shape shape = numbers;
  for (size_t i = 0; dims.recorded && i < std::min(dims.size(), dims.recorded->size()); ++i)
    if (means(i, (*dims.recorded)[i])) shape[i] = (*dims.recorded)[i];
  if (dims.recorded && try_sizes(shape, open, total)) return shape;
  shape = numbers;
  for (size_t i = 0; i < std::min(dims.size(), from.size()); ++i)
    if (means(i, from[i])) shape[i] = from[i];
  if (try_sizes(shape, open, total)) return shape;
  shape = numbers;
  if (try_sizes(shape, open, total)) return shape;
  shape = numbers;
  size_t next = 0;
  for (const Expr& size : from)
    for (size_t i = next; i < dims.size(); ++i) {
      if (!means(i, size)) continue;
      shape[i] = size;
      next = i + 1;
      break;
    }
  return try_sizes(shape, open, total) ? shape : numbers;
}

std::optional<SymbolicRange> symbolic_range(const Expr& size, std::optional<int64_t> begin,
                                            std::optional<int64_t> end) {
  // A position that every value of the size clips in the same way.
  auto position = [&](int64_t i) -> std::optional<Expr> {
    if (i >= 0)
      return i <= size.lo() ? std::optional<Expr>(i) : i >= size.hi() ? std::optional<Expr>(size) : std::nullopt;
    if (-i <= size.lo()) return size + i;
    return -i >= size.hi() ? std::optional<Expr>(0) : std::nullopt;
  };
  std::optional<Expr> first = position(begin.value_or(0)), last = end ? position(*end) : size;
  if (!first || !last) return std::nullopt;
  if (provably_true(le(*last, *first))) return SymbolicRange{*first, 0};
  if (!provably_true(le(*first, *last))) return std::nullopt;
  return SymbolicRange{*first, *last - *first};
}

}  // namespace heddle
