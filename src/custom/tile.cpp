// Tiles: formulas and values, and the elementwise ops between them.
#include <algorithm>

#include "base/error.h"
#include "custom/trace.h"

namespace heddle {
namespace {

using kernel::Value;

// The value of a formula as data: an index, at the ranges that it depends on.
Value index_of(KernelTrace& trace, const Tile& x) {
  const Expr& formula = *x.value()->formula;
  const TileDims dims = dims_of(trace, formula);
  check_size("a position", dims);
  return trace.builder->index(x.value()->condition ? DType::boolean : DType::i64, formula, coords_of(trace, dims));
}

ScalarClass class_of(const Tile& x) {
  switch (x.kind()) {
    case Tile::Kind::Bool: return ScalarClass::Bool;
    case Tile::Kind::Integer: return ScalarClass::Integer;
    case Tile::Kind::Float: return ScalarClass::Float;
    case Tile::Kind::Value: return x.value()->condition ? ScalarClass::Bool : ScalarClass::Integer;
  }
  __builtin_unreachable();
}

bool is_data(const Tile& x) { return x.kind() == Tile::Kind::Value && !x.value()->formula; }

// Of integers up to 2^48, which double holds.
bool fits(DType dtype, int64_t number) { return Scalar::of(dtype, number).as_double() == static_cast<double>(number); }

// What operands are computed in: values by their dtypes, numbers and formulas as these allow. A position is no number
// that somebody chose for a narrow dtype: where that cannot hold all of them, it counts as i64.
DType common_dtype(std::span<const Tile> operands) {
  std::optional<DType> dtype;
  for (const Tile& x : operands)
    if (is_data(x)) dtype = dtype ? promote(*dtype, x.dtype()) : x.dtype();
  for (const Tile& x : operands) {
    if (is_data(x)) continue;
    dtype = promote_weak(dtype.value_or(DType::boolean), class_of(x));
    if (x.kind() != Tile::Kind::Value || x.value()->condition || !is_integer(*dtype)) continue;
    const Expr& position = *x.value()->formula;
    if (!fits(*dtype, position.lo()) || !fits(*dtype, position.hi())) dtype = promote(*dtype, DType::i64);
  }
  return *dtype;
}

// A position or condition, where op on formulas is one.
std::optional<Expr> formula_op(ScalarOp op, std::span<const Tile> x, bool& condition) {
  std::vector<Expr> e;
  size_t conditions = 0;
  for (const Tile& operand : x) {
    std::optional<Expr> formula = formula_of(operand);
    if (!formula) return std::nullopt;
    e.push_back(*formula);
    conditions += is_condition(operand);
  }
  condition = true;
  if (conditions == x.size()) switch (op) {
      case ScalarOp::bit_and: return logical_and(e[0], e[1]);
      case ScalarOp::bit_or: return logical_or(e[0], e[1]);
      case ScalarOp::bit_not: return logical_not(e[0]);
      case ScalarOp::where: return select(e[0], e[1], e[2]);
      default: return std::nullopt;
    }
  if (conditions == 1 && op == ScalarOp::where && is_condition(x[0])) {
    condition = false;
    return select(e[0], e[1], e[2]);
  }
  if (conditions > 0) return std::nullopt;
  switch (op) {
    case ScalarOp::lt: return lt(e[0], e[1]);
    case ScalarOp::le: return le(e[0], e[1]);
    case ScalarOp::eq: return eq(e[0], e[1]);
    case ScalarOp::ne: return ne(e[0], e[1]);
    default: condition = false;
  }
  const bool divides = e.size() > 1 && e[1].lo() > 0;
  switch (op) {
    case ScalarOp::add: return e[0] + e[1];
    case ScalarOp::sub: return e[0] - e[1];
    case ScalarOp::mul: return e[0] * e[1];
    case ScalarOp::neg: return -e[0];
    case ScalarOp::abs: return max(e[0], -e[0]);
    case ScalarOp::minimum: return min(e[0], e[1]);
    case ScalarOp::maximum: return max(e[0], e[1]);
    case ScalarOp::floordiv: return divides ? std::optional(floordiv(e[0], e[1])) : std::nullopt;
    case ScalarOp::mod: return divides ? std::optional(mod(e[0], e[1])) : std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

std::string ranges_text(const TileDims& dims) {
  std::string list;
  int count = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1 && ++count) list += text(list.empty() ? "" : ", ", d);
  return count == 0 ? "" : text(count == 1 ? " over range " : " over ranges ", list);
}

void check_size(const char* what, const TileDims& dims) {
  int64_t size = 1;
  for (int64_t d : dims) {
    size *= d;
    if (size > kLargestTile)
      throw ValueError(text(what, ": a tile", ranges_text(dims), " has more than ", kLargestTile,
                            " elements; use more blocks, or a loop"));
  }
}

void check_usable(const char* what, const KernelTrace& trace, const Tile& x) {
  if (trace.closed) throw ValueError(text(what, ": kernel ", trace.name, " has been written already"));
  if (x.kind() != Tile::Kind::Value) return;
  if (x.value()->trace.get() != &trace) throw ValueError(text(what, ": a tile of another kernel"));
  if (!trace.is_open(x.value()->scope))
    throw ValueError(text(what, ": ", x.describe(),
                          " belongs to a loop that has ended; a loop gives what it carries to those behind it"));
}

std::optional<Expr> formula_of(const Tile& x) {
  switch (x.kind()) {
    case Tile::Kind::Bool:
    case Tile::Kind::Integer: return Expr(x.integer());
    case Tile::Kind::Float: return std::nullopt;
    case Tile::Kind::Value: return x.value()->formula;
  }
  __builtin_unreachable();
}

bool is_condition(const Tile& x) {
  return x.kind() == Tile::Kind::Bool || (x.kind() == Tile::Kind::Value && x.value()->condition);
}

Tile make_position(const std::shared_ptr<KernelTrace>& trace, const Expr& formula, bool condition, int scope) {
  if (formula.lo() < -kLargestPosition || formula.hi() > kLargestPosition)
    throw ValueError(text("the position ", formula, " of kernel ", trace->name, " may lie beyond 2^48"));
  return Tile(std::make_shared<TileValue>(TileValue{trace, scope, formula, condition}));
}

Tile make_data(const std::shared_ptr<KernelTrace>& trace, Value value) {
  return Tile(std::make_shared<TileValue>(TileValue{trace, trace->scopes.back(), std::nullopt, false, value}));
}

int scope_of(const Tile& x) { return x.kind() == Tile::Kind::Value ? x.value()->scope : 0; }

Scalar scalar_of(const Tile& number, DType dtype) {
  const bool real = number.kind() == Tile::Kind::Float;
  const Scalar value = real ? Scalar::of(dtype, number.real()) : Scalar::of(dtype, number.integer());
  const double wanted = real ? number.real() : static_cast<double>(number.integer());
  if (is_float(dtype) || dtype == DType::boolean || value.as_double() == wanted) return value;
  throw ValueError(text("the ", number.describe(), " does not fit a tile of dtype ", dtype));
}

Value data_of(KernelTrace& trace, const Tile& x, DType dtype) {
  if (x.kind() != Tile::Kind::Value) return trace.builder->constant(scalar_of(x, dtype));
  return trace.builder->cast(x.value()->formula ? index_of(trace, x) : x.value()->data, dtype);
}

Value data_of(KernelTrace& trace, const Tile& x) { return data_of(trace, x, x.dtype()); }

Value spread(KernelTrace& trace, Value v, const TileDims& dims) {
  kernel::Builder& builder = *trace.builder;
  if (builder.type(v).shape == dims) return v;
  Value yes = builder.constant(Scalar::of(DType::boolean, true), dims);
  return builder.op(ScalarOp::where, {yes, v, v});
}

TileDims dims_of(const KernelTrace& trace, const Expr& formula) {
  TileDims dims(kMostRanges, 1);
  for (size_t r = 0; r < trace.ranges.size(); ++r)
    if (trace.ranges[r].is_var() && depends_on(formula, trace.ranges[r])) dims[r] = trace.ranges[r].extent().value();
  return dims;
}

TileDims joined(const TileDims& a, const TileDims& b) {
  TileDims result = a.empty() ? b : a;
  for (size_t d = 0; d < b.size(); ++d) result[d] = std::max(result[d], b[d]);
  return result;
}

SmallVector<Expr, 4> coords_of(const KernelTrace& trace, const TileDims& dims) {
  SmallVector<Expr, 4> coords;
  for (size_t d = 0; d < dims.size(); ++d)
    coords.push_back(dims[d] == 1 ? Expr::index(text("d", d), 1) : trace.ranges[d]);
  return coords;
}

DType Tile::dtype() const {
  switch (kind_) {
    case Kind::Bool: return DType::boolean;
    case Kind::Integer: return DType::i64;
    case Kind::Float: return DType::f32;
    case Kind::Value: break;
  }
  if (value_->formula) return value_->condition ? DType::boolean : DType::i64;
  return value_->trace->builder->type(value_->data).dtype;
}

Tile Tile::to(DType dtype) const {
  if (kind_ != Kind::Value) throw ValueError(text("to: ", describe(), " has no dtype of its own"));
  check_usable("to", *value_->trace, *this);
  return make_data(value_->trace, data_of(*value_->trace, *this, dtype));
}

std::string Tile::describe() const {
  switch (kind_) {
    case Kind::Bool: return integer_ ? "true" : "false";
    case Kind::Integer: return text("number ", integer_);
    case Kind::Float: return text("number ", real_);
    case Kind::Value: break;
  }
  if (value_->formula) return text(value_->condition ? "condition " : "position ", *value_->formula);
  const kernel::Type& type = value_->trace->builder->type(value_->data);
  return text(type.dtype, ranges_text(type.shape));
}

Tile Tile::of(const char* op, std::span<const Tile> operands) {
  const std::optional<ScalarOp> found = find_op(op);
  if (!found) throw ValueError(text("there is no elementwise op ", op));
  const OpInfo& about = info(*found);
  if (static_cast<size_t>(about.arity) != operands.size())
    throw ValueError(text(op, " takes ", about.arity, " operands, not ", operands.size()));
  std::shared_ptr<KernelTrace> trace;
  int scope = 0;
  for (const Tile& x : operands)
    if (x.kind() == Kind::Value && !trace) trace = x.value()->trace;
  if (!trace) throw ValueError(text(op, ": none of its operands belongs to a kernel"));
  for (const Tile& x : operands) {
    check_usable(op, *trace, x);
    scope = std::max(scope, scope_of(x));
  }
  bool condition = false;
  if (std::optional<Expr> formula = formula_op(*found, operands, condition))
    return make_position(trace, *formula, condition, scope);

  const bool selects = about.rule == OpRule::Select;
  if (selects && is_condition(operands[0]))  // one that always holds, or never, chooses now
    if (const Expr chosen = *formula_of(operands[0]); chosen.is_const()) {
      const DType common = common_dtype(operands.subspan(1));
      return make_data(trace, data_of(*trace, operands[chosen.is_const(0) ? 2 : 1], common));
    }
  DType dtype = common_dtype(operands.subspan(selects ? 1 : 0));
  if (about.rule == OpRule::Float && !is_float(dtype)) dtype = DType::f32;
  if (selects && operands[0].dtype() != DType::boolean)
    throw DTypeError(text(op, ": the condition is ", operands[0].describe(), ", not bool"));
  SmallVector<DType, 3> dtypes;
  TileDims dims;
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    dtypes.push_back(selects && i == 0 ? DType::boolean : dtype);
    values.push_back(data_of(*trace, operands[i], dtypes.back()));
    dims = joined(dims, trace->builder->type(values.back()).shape);
  }
  if (!result_dtype(*found, dtypes)) throw DTypeError(text(op, ": does not take ", dtype));
  check_size(op, dims);
  return make_data(trace, trace->builder->op(*found, values));
}

}  // namespace heddle
