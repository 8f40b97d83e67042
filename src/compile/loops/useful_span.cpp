#include "compile/loops/useful_span.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace heddle {
namespace {

using kernel::Inst;
using kernel::Op;
using kernel::Value;

// Whether the dtype has every value of the expression.
bool holds(DType dtype, const Expr& e) {
  const int bits = 8 * size_of(dtype) - is_signed(dtype);
  return e.lo() >= (is_signed(dtype) ? -(int64_t{1} << 30) : 0) && e.hi() <= (int64_t{1} << 30) &&
         (bits >= 31 || (e.hi() < int64_t{1} << bits && e.lo() >= -(int64_t{1} << bits)));
}

// Computes with what is known where a condition does not hold.
class Excluded {
 public:
  explicit Excluded(const Loops& loops) : loops_(loops) { translate(); }

  // The conditions that choose between values.
  std::vector<Expr> conditions() const {
    std::vector<Expr> found;
    for (const Stage& stage : loops_.stages)
      for (const Inst& inst : stage.body.insts) {
        if (inst.op != Op::where) continue;
        const std::optional<Expr> condition = expression(inst.args[0]);
        if (!condition) continue;
        std::vector<Expr> parts = conjuncts(*condition);
        parts.push_back(logical_not(*condition));
        for (const Expr& part : parts)
          if (!contains(found, part)) found.push_back(part);
      }
    return found;
  }

  // What a value is made of, if only of positions.
  std::optional<Expr> expression(Value v) const {
    auto it = exprs_.find(v);
    return it == exprs_.end() ? std::nullopt : std::optional(it->second);
  }

  // Whether all reductions over the axis add nothing where `condition` is false.
  bool adds_nothing(const Expr& axis, const Expr& condition) {
    numbers_.clear();
    bool reduced = false;
    for (const Stage& stage : loops_.stages) {
      for (const Inst& inst : stage.body.insts)
        if (auto n = inst.results.size() == 1 ? result(inst, condition) : std::nullopt) numbers_[inst.results[0]] = *n;
      const bool over = reduces_along(stage, axis);
      for (size_t r = 0; r < stage.results.size(); ++r) {
        auto lifted = numbers_.find(stage.body.results[r]);
        if (over && (lifted == numbers_.end() || lifted->second != stage.reducer->identity[r].as_double()))
          return false;
        if (!stage.reducer && lifted != numbers_.end()) numbers_[stage.results[r]] = lifted->second;
      }
      reduced |= over;
      if (stores(stage) && walks(stage.inner, axis)) return false;
    }
    return reduced;
  }

 private:
  // Integers and conditions that are made of positions.
  void translate() {
    for (const Stage& stage : loops_.stages)
      for (const Inst& inst : stage.body.insts) {
        if (inst.results.size() != 1) continue;
        if (inst.op == Op::index && inst.binds.empty()) exprs_[inst.results[0]] = inst.address;
        if (inst.op == Op::constant && !is_float(inst.literal.dtype))
          exprs_[inst.results[0]] = static_cast<int64_t>(inst.literal.as_double());
        SmallVector<Expr, 3> args;
        for (Value v : inst.args)
          if (auto it = exprs_.find(v); it != exprs_.end()) args.push_back(it->second);
        if (inst.args.empty() || args.size() != inst.args.size()) continue;
        const bool small = std::ranges::all_of(
            args, [](const Expr& e) { return e.lo() > -(int64_t{1} << 30) && e.hi() < int64_t{1} << 30; });
        const DType result = loops_.dtype(inst.results[0]);
        if (!small || is_float(result)) continue;
        std::optional<Expr> e;
        const bool truth = loops_.dtype(inst.args[0]) == DType::boolean;
        if (!truth && (inst.op == Op::bit_and || inst.op == Op::bit_or || inst.op == Op::bit_not)) continue;
        switch (inst.op) {
          case Op::cast: e = result == DType::boolean && !truth ? ne(args[0], 0) : args[0]; break;
          case Op::add: e = args[0] + args[1]; break;
          case Op::sub: e = args[0] - args[1]; break;
          case Op::lt: e = lt(args[0], args[1]); break;
          case Op::le: e = le(args[0], args[1]); break;
          case Op::bit_and: e = logical_and(args[0], args[1]); break;
          case Op::bit_or: e = logical_or(args[0], args[1]); break;
          case Op::bit_not: e = logical_not(args[0]); break;
          default: break;
        }
        // Integers wrap around; expressions do not.
        if (e && (result == DType::boolean || holds(result, *e))) exprs_[inst.results[0]] = *e;
      }
  }

  std::optional<double> number(Value v) const {
    auto it = numbers_.find(v);
    return it == numbers_.end() ? std::nullopt : std::optional(it->second);
  }

  std::optional<double> result(const Inst& inst, const Expr& condition) const {
    if (inst.op == Op::constant) return inst.literal.as_double();
    if (inst.op == Op::cast) return number(inst.args[0]);
    if (!kernel::is_scalar_op(inst.op)) return {};
    std::vector<std::optional<double>> x;
    for (Value v : inst.args) x.push_back(number(v));
    if (inst.op == Op::where) {
      if (const std::optional<Expr> chooses = expression(inst.args[0])) {
        if (contains(conjuncts(*chooses), condition)) return x[2];
        if (*chooses == logical_not(condition)) return x[1];
      }
      return x[1] && x[2] && *x[1] == *x[2] ? x[1] : std::nullopt;
    }
    if (std::ranges::all_of(x, [](auto& n) { return n.has_value(); })) {
      std::vector<double> known;
      for (auto& n : x) known.push_back(*n);
      if (!is_float(loops_.dtype(inst.results[0]))) return {};
      return apply_double(kernel::scalar_op(inst.op), known);
    }
    auto is = [&](size_t i, auto&& test) { return x[i] && test(*x[i]); };
    auto zero = [](double n) { return n == 0; };
    auto infinite = [](double n) { return std::isinf(n); };
    switch (inst.op) {
      case Op::mul: return is(0, zero) || is(1, zero) ? std::optional(0.0) : std::nullopt;
      case Op::div: return is(0, zero) ? std::optional(0.0) : std::nullopt;
      case Op::add: return is(0, infinite) ? x[0] : is(1, infinite) ? x[1] : std::nullopt;
      case Op::sub: return is(0, infinite) ? x[0] : is(1, infinite) ? std::optional(-*x[1]) : std::nullopt;
      case Op::fma:
        if (is(2, infinite)) return x[2];
        return (is(0, zero) || is(1, zero)) && x[2] ? x[2] : std::nullopt;
      default: return {};
    }
  }

  const Loops& loops_;
  std::unordered_map<Value, Expr> exprs_;
  std::unordered_map<Value, double> numbers_;
};

// The part of the axis in which the condition holds, if only the outer axes say where it begins and ends.
std::optional<Span> where_it_holds(const Loops& loops, const Axis& axis, const Expr& condition) {
  if (condition.kind() != ExprKind::Lt || !depends_on(condition, axis.var)) return {};
  Expr difference = condition.args()[0] - condition.args()[1];
  std::optional<Linear> linear = linear_in(difference, axis.var);
  if (!linear || linear->coefficient == 0) return {};
  for (const Expr& var : variables(linear->rest))
    if (!var.is_symbol() && !walks(loops.outer, var)) return {};
  if (linear->coefficient > 0) return Span{0, ceildiv(-linear->rest, linear->coefficient)};
  return Span{floordiv(linear->rest, -linear->coefficient) + 1, axis.extent};
}

}  // namespace

Span useful_span(const Loops& loops, const Axis& axis) {
  Span span{0, axis.extent};
  Excluded excluded(loops);
  for (const Expr& condition : excluded.conditions()) {
    const std::optional<Span> holds = where_it_holds(loops, axis, condition);
    if (!holds || !excluded.adds_nothing(axis.var, condition)) continue;
    span.begin = max(span.begin, holds->begin);
    span.end = min(span.end, holds->end);
  }
  return span;
}

Unmasked unmasked_part(const Loops& loops, const Axis& axis) {
  Unmasked part{axis.extent, {}};
  Excluded excluded(loops);
  for (const Stage& stage : loops.stages)
    for (const Inst& inst : stage.body.insts) {
      if (inst.op != Op::where) continue;
      const std::optional<Expr> condition = excluded.expression(inst.args[0]);
      if (!condition) continue;
      Expr end = part.end;
      const std::vector<Expr> all = conjuncts(*condition);
      const bool known = std::ranges::all_of(all, [&](const Expr& one) {
        const std::optional<Span> holds = where_it_holds(loops, axis, one);
        if (!holds || !holds->begin.is_const(0)) return false;
        end = min(end, holds->end);
        return true;
      });
      if (!known || all.empty()) continue;
      part.end = end;
      part.conditions.push_back(inst.args[0]);
    }
  return part;
}

}  // namespace heddle
