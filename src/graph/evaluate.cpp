// The oracle: every node computed on its own, element by element.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/build.h"
#include "graph/control.h"
#include "graph/custom.h"
#include "graph/host_array.h"
#include "graph/node_map.h"
#include "graph/strided.h"

namespace heddle {

HostArray filled(DType dtype, std::vector<int64_t> shape, const heddle::Scalar& value) {
  HostArray array{dtype, std::move(shape), {}, {}};
  if (is_float(dtype))
    array.floats.assign(array.numel(), value.f);
  else
    array.integers.assign(array.numel(), value.u);
  return array;
}

heddle::Scalar get(const HostArray& array, int64_t i) {
  Scalar value;
  value.dtype = array.dtype;
  if (is_float(array.dtype))
    value.f = array.floats[i];
  else
    value.u = array.integers[i];
  return value;
}

void set(HostArray& array, int64_t i, const heddle::Scalar& value) {
  if (is_float(array.dtype))
    array.floats[i] = value.f;
  else
    array.integers[i] = value.u;
}

namespace {

using Index = std::vector<int64_t>;

int64_t product(const Index& shape) {
  int64_t n = 1;
  for (int64_t dim : shape) n *= dim;
  return n;
}

int64_t flat(const Index& shape, const Index& at) {
  int64_t result = 0;
  for (size_t i = 0; i < shape.size(); ++i) result = result * shape[i] + at[i];
  return result;
}

// Calls f(position, index) for every index of shape, in row-major order.
template <class F>
void for_each_index(const Index& shape, F f) {
  int64_t n = product(shape);
  Index at(shape.size(), 0);
  for (int64_t position = 0; position < n; ++position) {
    f(position, at);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++at[i] < shape[i]) break;
      at[i] = 0;
    }
  }
}

HostArray empty(DType dtype, Index shape) { return filled(dtype, std::move(shape), Scalar::of(dtype, 0)); }

void combine_into(HostArray& array, int64_t i, ScalarOp op, const heddle::Scalar& value) {
  Scalar both[] = {get(array, i), value};
  set(array, i, apply_unrounded(op, both, array.dtype));
}

// array[places] = op(array[places], x), element by element of x.
void combine_all(HostArray& array, const Strided& places, ScalarOp op, const HostArray& x) {
  if (!is_float(array.dtype)) {
    for_each_place(x.shape, places,
                   [&](int64_t position, int64_t to) { combine_into(array, to, op, get(x, position)); });
    return;
  }
  double* to = array.floats.data();
  const double* from = x.floats.data();
  for_each_place(x.shape, places, [&](int64_t position, int64_t place) {
    if (op == ScalarOp::add) {  // most of what is computed
      to[place] += from[position];
    } else {
      const double both[] = {to[place], from[position]};
      to[place] = apply_double(op, both);
    }
  });
}

// Calls f(to, from) with the elements of both, which have one dtype.
template <class F>
void with_elements(HostArray& to, const HostArray& from, F f) {
  if (is_float(to.dtype))
    f(to.floats.data(), from.floats.data());
  else
    f(to.integers.data(), from.integers.data());
}

class Evaluation {
 public:
  Evaluation(const SymbolValues& symbols, const std::unordered_map<const Node*, HostArray>& inputs, Rounding rounding)
      : symbols_(symbols), given_(inputs), rounding_(rounding) {}

  std::vector<HostArray> run(std::span<const NodeRef> roots);
  int64_t bad_indices() const { return bad_indices_; }

 private:
  int64_t size(const Expr& e) const;
  Index sizes(std::span<const Expr> list) const;
  int axis(const Node& node) const { return static_cast<int>(node.attrs[0].value()); }
  const HostArray& operand(const Node& node, size_t i, size_t result = 0) const {
    return values_[number_.find(node.inputs[i].get())][result];
  }

  std::vector<HostArray> compute(const Node& node);
  HostArray only_result(const Node& node);
  HostArray buffer(const Node& node) const;
  HostArray input(const Node& node) const;
  HostArray elementwise(const Node& node) const;
  HostArray cast_of(const Node& node) const;
  HostArray reduce(const Node& node) const;
  std::vector<HostArray> arg_reduce(const Node& node) const;
  std::vector<HostArray> sort(const Node& node) const;
  HostArray scan(const Node& node) const;
  HostArray view(const Node& node) const;
  HostArray pad(const Node& node) const;
  HostArray unwindow(const Node& node) const;
  HostArray cat(const Node& node) const;
  HostArray gather(const Node& node);
  HostArray gather_along(const Node& node);
  std::vector<HostArray> region(const Region& region, const std::vector<HostArray>& parameters);
  std::vector<HostArray> loop(const Node& node);
  std::vector<HostArray> cond(const Node& node);
  std::vector<HostArray> custom(const Node& node);
  HostArray scatter(const Node& node);

  // Element `i` of an index into `n` elements: clamped and counted if it is none of 0 to n - 1.
  int64_t choose(const HostArray& index, int64_t i, int64_t n);

  const SymbolValues& symbols_;
  const std::unordered_map<const Node*, HostArray>& given_;
  const Rounding rounding_;
  NodeMap number_;
  std::vector<std::vector<HostArray>> values_;  // all results of each node
  int64_t bad_indices_ = 0;
};

int64_t Evaluation::size(const Expr& e) const {
  if (e.is_const()) return e.value();
  return evaluate(e, [&](const Expr& var) {
    for (const auto& [symbol, value] : symbols_) {
      if (symbol != var) continue;
      if (value < var.lo() || value > var.hi() || value % var.multiple() != 0)
        throw ValueError(text("evaluate: symbol ", var, " cannot be ", value, ": it lies in [", var.lo(), ", ",
                              var.hi(), "] and is a multiple of ", var.multiple()));
      return value;
    }
    if (std::optional<int64_t> own = known_value(var)) return *own;
    throw ValueError(text("evaluate: symbol ", var, " has no value"));
  });
}

Index Evaluation::sizes(std::span<const Expr> list) const {
  Index result;
  for (const Expr& e : list) result.push_back(size(e));
  return result;
}

HostArray Evaluation::buffer(const Node& node) const {
  if (given_.count(&node)) return input(node);
  HostArray result = empty(node.dtype, sizes(node.shape));
  const void* data = node.storage->host_data();
  if (!data && result.numel() > 0)
    throw ValueError(text("evaluate: the data of ", node.dtype, node.shape, " cannot be read from the host"));
  if (static_cast<uint64_t>(result.numel()) * size_of(node.dtype) > node.storage->bytes())
    throw ShapeError(text("evaluate: ", node.dtype, node.shape, " does not fit into its ", node.storage->bytes(),
                          " bytes of storage"));
  for (int64_t i = 0, n = result.numel(); i < n; ++i) set(result, i, load_scalar(data, i, node.dtype));
  return result;
}

HostArray Evaluation::input(const Node& node) const {
  auto found = given_.find(&node);
  if (found == given_.end())
    throw ValueError(text("evaluate: input ", node.attrs[0], " (", node.dtype, node.shape, ") has no value"));
  const HostArray& value = found->second;
  if (value.dtype != node.dtype)
    throw DTypeError(text("evaluate: a value of ", value.dtype, " for an input of ", node.dtype, node.shape));
  size_t elements = is_float(value.dtype) ? value.floats.size() : value.integers.size();
  if (value.shape != sizes(node.shape) || elements != static_cast<size_t>(value.numel()))
    throw ShapeError(text("evaluate: a value of ", elements, " elements and rank ", value.shape.size(),
                          " for an input of ", node.dtype, node.shape));
  return value;
}

HostArray Evaluation::elementwise(const Node& node) const {
  HostArray result = empty(node.dtype, operand(node, 0).shape);
  SmallVector<const HostArray*, 3> from;
  bool floats = is_float(node.dtype);
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    from.push_back(&operand(node, k));
    floats &= is_float(from[k]->dtype);
  }
  const int64_t n = result.numel();
  if (floats && node.scalar_op == ScalarOp::mul) {  // most of what is computed
    for (int64_t i = 0; i < n; ++i) result.floats[i] = from[0]->floats[i] * from[1]->floats[i];
  } else if (floats) {
    double values[3];
    for (int64_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < from.size(); ++k) values[k] = from[k]->floats[i];
      result.floats[i] = apply_double(node.scalar_op, {values, from.size()});
    }
  } else {
    SmallVector<Scalar, 3> values(from.size());
    for (int64_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < values.size(); ++k) values[k] = get(*from[k], i);
      set(result, i, apply_unrounded(node.scalar_op, values, node.dtype));
    }
  }
  return result;
}

HostArray Evaluation::cast_of(const Node& node) const {
  const HostArray& x = operand(node, 0);
  HostArray result = empty(node.dtype, x.shape);
  for (int64_t i = 0, n = result.numel(); i < n; ++i) {
    Scalar value = get(x, i);
    if (node.op == NodeOp::Bitcast)
      value = bitcast(is_float(x.dtype) ? Scalar::of(x.dtype, value.f) : value, node.dtype);
    else if (rounding_ == Rounding::Never && is_float(node.dtype) && is_float(x.dtype) &&
             size_of(x.dtype) < size_of(node.dtype))
      value.dtype = node.dtype;  // a wider one has all the values
    else
      value = is_float(x.dtype) ? Scalar::of(node.dtype, value.f) : cast(value, node.dtype);
    set(result, i, value);
  }
  return result;
}

HostArray Evaluation::reduce(const Node& node) const {
  const HostArray& x = operand(node, 0);
  HostArray result = filled(node.dtype, sizes(node.shape), reduce_identity(node.reduce_op, node.dtype));
  combine_all(result, result_seen(result.shape, x.shape.size(), sizes(node.attrs)), combiner(node.reduce_op), x);
  return result;
}

std::vector<HostArray> Evaluation::arg_reduce(const Node& node) const {
  const HostArray& x = operand(node, 0);
  HostArray result = empty(node.dtype, sizes(node.shape));
  HostArray positions = empty(DType::i64, result.shape);
  auto better = [&](const heddle::Scalar& a, const heddle::Scalar& b) {
    if (is_float(x.dtype) && (std::isnan(a.f) || std::isnan(b.f))) return std::isnan(a.f) && !std::isnan(b.f);
    bool max = node.reduce_op == ReduceOp::Max;
    Scalar ordered[] = {max ? b : a, max ? a : b};
    return apply_unrounded(ScalarOp::lt, ordered, DType::boolean).as_bool();
  };
  for_each_index(x.shape, [&](int64_t position, const Index& at) {
    Index kept = at;
    kept.erase(kept.begin() + axis(node));
    int64_t to = flat(result.shape, kept), along = at[axis(node)];
    if (along > 0 && !better(get(x, position), get(result, to))) return;
    set(result, to, get(x, position));
    positions.integers[to] = static_cast<uint64_t>(along);
  });
  return {std::move(result), std::move(positions)};
}

std::vector<HostArray> Evaluation::sort(const Node& node) const {
  const HostArray& x = operand(node, 0);
  HostArray result = empty(node.dtype, sizes(node.shape));
  HostArray positions = empty(DType::i64, result.shape);
  int64_t n = x.shape.back(), kept = result.shape.back();
  int64_t rows = kept == 0 ? 0 : result.numel() / kept;
  bool descending = node.attrs[0].is_const(1);
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t row = 0; row < rows; ++row) {
    auto less = [&](int64_t i, int64_t j) {
      Scalar a = get(x, row * n + i), b = get(x, row * n + j);
      if (is_float(x.dtype) && (std::isnan(a.f) || std::isnan(b.f))) return !std::isnan(a.f);
      Scalar ordered[] = {a, b};
      return apply_unrounded(ScalarOp::lt, ordered, DType::boolean).as_bool();
    };
    for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      if (is_float(x.dtype) && std::isnan(x.floats[row * n + i]) && std::isnan(x.floats[row * n + j])) return false;
      return descending ? less(j, i) : less(i, j);
    });
    for (int64_t k = 0; k < kept; ++k) {
      int64_t from = order[static_cast<size_t>(k)];
      set(result, row * kept + k, get(x, row * n + from));
      positions.integers[row * kept + k] = static_cast<uint64_t>(from);
    }
  }
  return {std::move(result), std::move(positions)};
}

HostArray Evaluation::scan(const Node& node) const {
  HostArray result = operand(node, 0);
  ScalarOp op = combiner(node.reduce_op);
  int64_t step = 1;  // to the next element along the axis
  for (size_t i = static_cast<size_t>(axis(node)) + 1; i < result.shape.size(); ++i) step *= result.shape[i];
  for_each_index(result.shape, [&](int64_t position, const Index& at) {
    if (at[axis(node)] == 0) return;
    heddle::Scalar own = get(result, position);
    set(result, position, get(result, position - step));
    combine_into(result, position, op, own);
  });
  return result;
}

// Nodes of which each element is one element of the operand.
HostArray Evaluation::view(const Node& node) const {
  const HostArray& x = operand(node, 0);
  HostArray result = empty(node.dtype, sizes(node.shape));
  const Strided from = seen_by(node.op, x.shape, sizes(node.attrs));
  with_elements(result, x, [&](auto* to, const auto* elements) {
    for_each_place(result.shape, from, [&](int64_t position, int64_t place) { to[position] = elements[place]; });
  });
  return result;
}

HostArray Evaluation::pad(const Node& node) const {
  const HostArray& x = operand(node, 0);
  HostArray result = filled(node.dtype, sizes(node.shape), node.literal);
  const Index attrs = sizes(node.attrs);
  Strided to{strides_of(result.shape)};
  for (size_t i = 0; i < x.shape.size(); ++i) to.start += attrs[2 * i] * to.steps[i];
  with_elements(result, x, [&](auto* padded, const auto* elements) {
    for_each_place(x.shape, to, [&](int64_t position, int64_t place) { padded[place] = elements[position]; });
  });
  return result;
}

HostArray Evaluation::unwindow(const Node& node) const {
  HostArray result = empty(node.dtype, sizes(node.shape));
  combine_all(result, windows(strides_of(result.shape), sizes(node.attrs)), ScalarOp::add, operand(node, 0));
  return result;
}

HostArray Evaluation::cat(const Node& node) const {
  HostArray result = empty(node.dtype, sizes(node.shape));
  int64_t start = 0;
  const Index strides = strides_of(result.shape);
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const HostArray& part = operand(node, k);
    with_elements(result, part, [&](auto* to, const auto* elements) {
      for_each_place(part.shape, {strides, start * strides[axis(node)]},
                     [&](int64_t position, int64_t place) { to[place] = elements[position]; });
    });
    start += part.shape[axis(node)];
  }
  return result;
}

int64_t Evaluation::choose(const HostArray& index, int64_t i, int64_t n) {
  uint64_t chosen = index.integers[i];
  if (chosen < static_cast<uint64_t>(n)) return static_cast<int64_t>(chosen);
  ++bad_indices_;
  return is_signed(index.dtype) && static_cast<int64_t>(chosen) < 0 ? 0 : n - 1;
}

HostArray Evaluation::gather(const Node& node) {
  const HostArray &x = operand(node, 0), &index = operand(node, 1);
  HostArray result = empty(node.dtype, sizes(node.shape));
  size_t first = static_cast<size_t>(axis(node)), last = first + index.shape.size();
  for_each_index(result.shape, [&](int64_t position, const Index& at) {
    int64_t which = flat(index.shape, Index(at.begin() + first, at.begin() + last));
    Index from(at.begin(), at.begin() + first);
    from.push_back(choose(index, which, x.shape[first]));
    from.insert(from.end(), at.begin() + last, at.end());
    set(result, position, get(x, flat(x.shape, from)));
  });
  return result;
}

HostArray Evaluation::gather_along(const Node& node) {
  const HostArray &x = operand(node, 0), &index = operand(node, 1);
  HostArray result = empty(node.dtype, index.shape);
  size_t along = static_cast<size_t>(axis(node));
  for_each_index(index.shape, [&](int64_t position, const Index& at) {
    Index from = at;
    from[along] = choose(index, position, x.shape[along]);
    set(result, position, get(x, flat(x.shape, from)));
  });
  return result;
}

HostArray Evaluation::scatter(const Node& node) {
  const HostArray &index = operand(node, 1), &updates = operand(node, 2);
  HostArray result = operand(node, 0);
  size_t along = static_cast<size_t>(axis(node));
  bool rounds = is_float(node.dtype) && (rounding_ != Rounding::Never || compute_dtype(node.dtype) != node.dtype);
  auto round = [&](heddle::Scalar value) { return rounds ? Scalar::of(node.dtype, value.f) : value; };
  // Row-major order keeps ascending order along the axis.
  for_each_index(index.shape, [&](int64_t position, const Index& at) {
    uint64_t chosen = index.integers[position];
    if (choose(index, position, result.shape[along]) != static_cast<int64_t>(chosen)) return;
    Index to = at;
    to[along] = static_cast<int64_t>(chosen);
    int64_t place = flat(result.shape, to);
    heddle::Scalar operands[] = {round(get(result, place)), round(get(updates, position))};
    if (std::optional<ScalarOp> op = scatter_combiner(node.scatter_op, node.dtype))
      set(result, place, round(apply_unrounded(*op, operands, node.dtype)));
    else
      set(result, place, operands[1]);
  });
  return result;
}

std::vector<HostArray> Evaluation::region(const Region& region, const std::vector<HostArray>& parameters) {
  std::unordered_map<const Node*, HostArray> given;
  for (size_t i = 0; i < parameters.size(); ++i) given[region.parameters[i].get()] = parameters[i];
  Evaluation inside(symbols_, given, Rounding::Never);
  std::vector<HostArray> results = inside.run(region.results);
  bad_indices_ += inside.bad_indices();
  return results;
}

std::vector<HostArray> Evaluation::loop(const Node& node) {
  const Control& control = *node.control;
  std::vector<HostArray> values, outputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) values.push_back(operand(node, i));
  const int64_t length = control.condition() ? 0 : size(control.length);
  for (size_t r = control.carried; r < control.body().results.size(); ++r)
    outputs.push_back(empty(control.body().results[r]->dtype, sizes(result_type(node, static_cast<int>(r)).shape)));
  auto copy_slice = [](HostArray& to, int64_t to_first, const HostArray& from, int64_t from_first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) set(to, to_first + i, get(from, from_first + i));
  };
  auto goes_on = [&](int64_t round) {
    if (!control.condition()) return round < length;
    return get(region(*control.condition(), values)[0], 0).u != 0;
  };
  for (int64_t round = 0; goes_on(round); ++round) {
    const int64_t at = control.reverse ? length - 1 - round : round;
    std::vector<HostArray> now = values;
    for (size_t i = control.carried; i < control.carried + control.stacked; ++i) {
      now[i] = empty(values[i].dtype, Index(values[i].shape.begin() + 1, values[i].shape.end()));
      copy_slice(now[i], 0, values[i], at * now[i].numel(), now[i].numel());
    }
    std::vector<HostArray> given = region(control.body(), now);
    for (size_t r = 0; r < control.carried; ++r) values[r] = given[r];
    for (size_t r = control.carried; r < given.size(); ++r)
      copy_slice(outputs[r - control.carried], at * given[r].numel(), given[r], 0, given[r].numel());
  }
  values.resize(control.carried);
  values.insert(values.end(), outputs.begin(), outputs.end());
  return values;
}

std::vector<HostArray> Evaluation::cond(const Node& node) {
  std::vector<HostArray> values;
  for (size_t i = 1; i < node.inputs.size(); ++i) values.push_back(operand(node, i));
  return region(node.control->regions[get(operand(node, 0), 0).u != 0 ? 0 : 1], values);
}

std::vector<HostArray> Evaluation::custom(const Node& node) {
  std::vector<const HostArray*> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(&operand(node, i));
  return node.custom->evaluate(inputs);
}

std::vector<HostArray> Evaluation::compute(const Node& node) {
  std::vector<HostArray> results;
  if (node.op == NodeOp::ArgReduce)
    results = arg_reduce(node);
  else if (node.op == NodeOp::Sort)
    results = sort(node);
  else if (node.op == NodeOp::Loop)
    results = loop(node);
  else if (node.op == NodeOp::Cond)
    results = cond(node);
  else if (node.op == NodeOp::Custom)
    results = custom(node);
  else
    results.push_back(only_result(node));
  HD_ASSERT(results.size() == static_cast<size_t>(node.result_count()), name(node.op), " gave ", results.size());
  return results;
}

HostArray Evaluation::only_result(const Node& node) {
  switch (node.op) {
    case NodeOp::Const: return filled(node.dtype, sizes(node.shape), node.literal);
    case NodeOp::Buffer: return buffer(node);
    case NodeOp::Input: return input(node);
    case NodeOp::Iota: {
      HostArray result = empty(node.dtype, sizes(node.shape));
      for_each_index(result.shape, [&](int64_t position, const Index& at) {
        set(result, position, Scalar::of(node.dtype, at[axis(node)]));
      });
      return result;
    }
    case NodeOp::Scalar: return elementwise(node);
    case NodeOp::Cast:
    case NodeOp::Bitcast: return cast_of(node);
    case NodeOp::Reduce: return reduce(node);
    case NodeOp::ArgReduce:
    case NodeOp::Sort:
    case NodeOp::Loop:
    case NodeOp::Cond:
    case NodeOp::Custom: break;  // several
    case NodeOp::Scan: return scan(node);
    case NodeOp::Reshape: {
      HostArray result = operand(node, 0);
      result.shape = sizes(node.shape);
      HD_ASSERT(result.numel() == operand(node, 0).numel(), "reshape to ", node.shape);
      return result;
    }
    case NodeOp::Permute:
    case NodeOp::Expand:
    case NodeOp::Shrink:
    case NodeOp::Flip:
    case NodeOp::Window: return view(node);
    case NodeOp::Pad: return pad(node);
    case NodeOp::Unwindow: return unwindow(node);
    case NodeOp::Cat: return cat(node);
    case NodeOp::Gather: return node.attrs[1].is_const(0) ? gather(node) : gather_along(node);
    case NodeOp::Scatter: return scatter(node);
    case NodeOp::Get: return operand(node, 0, static_cast<size_t>(node.attrs[0].value()));
    case NodeOp::To:
    case NodeOp::Barrier:
    case NodeOp::Pullback: return operand(node, 0);
  }
  __builtin_unreachable();
}

std::vector<HostArray> Evaluation::run(std::span<const NodeRef> roots) {
  std::vector<const Node*> order = topological(roots);
  std::vector<uint32_t> uses(order.size(), 0);
  for (uint32_t i = 0; i < order.size(); ++i) {
    number_.insert(order[i], i);
    for (const NodeRef& input : order[i]->inputs) ++uses[number_.find(input.get())];
  }
  for (const NodeRef& root : roots) ++uses[number_.find(root.get())];

  values_.resize(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    values_[i] = compute(*order[i]);
    for (const NodeRef& input : order[i]->inputs) {
      uint32_t used = number_.find(input.get());
      if (--uses[used] == 0) values_[used].clear();
    }
  }

  std::vector<HostArray> results;
  for (const NodeRef& root : roots) {
    HostArray result = values_[number_.find(root.get())][0];
    if (rounding_ != Rounding::Never)
      for (double& value : result.floats) value = Scalar::of(result.dtype, value).f;
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace

int64_t HostArray::numel() const { return product(shape); }

std::vector<HostArray> evaluate(std::span<const NodeRef> roots, const SymbolValues& symbols,
                                const std::unordered_map<const Node*, HostArray>& inputs, int64_t* bad_indices,
                                Rounding rounding) {
  Evaluation evaluation(symbols, inputs, rounding);
  std::vector<HostArray> results = evaluation.run(roots);
  if (bad_indices) *bad_indices = evaluation.bad_indices();
  return results;
}

}  // namespace heddle
