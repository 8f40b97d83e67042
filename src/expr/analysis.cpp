// Substitution, evaluation and questions about expressions. All of them visit each shared node once.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "expr/expr.h"
#include "expr/facts.h"
#include "expr/rebuild.h"
#include "expr/sum.h"

namespace heddle {
Expr rebuild(const Expr& e, std::span<const Expr> args) {
  switch (e.kind()) {
    case ExprKind::Const:
    case ExprKind::Var: return e;
    case ExprKind::Add: {
      Sum sum;
      for (const Expr& arg : args) sum.add(arg, 1);
      return build(std::move(sum));
    }
    case ExprKind::Mul: {
      Expr product = args[0];
      for (const Expr& arg : args.subspan(1)) product = product * arg;
      return product;
    }
    case ExprKind::FloorDiv: return floordiv(args[0], args[1]);
    case ExprKind::Mod: return mod(args[0], args[1]);
    case ExprKind::Min: return min(args[0], args[1]);
    case ExprKind::Max: return max(args[0], args[1]);
    case ExprKind::Lt: return lt(args[0], args[1]);
    case ExprKind::Eq: return eq(args[0], args[1]);
    case ExprKind::And: return logical_and(args[0], args[1]);
    case ExprKind::Or: return logical_or(args[0], args[1]);
    case ExprKind::Not: return logical_not(args[0]);
    case ExprKind::Select: return select(args[0], args[1], args[2]);
  }
  HD_ASSERT(false, "unknown kind of expression");
}

namespace {

using Memo = std::unordered_map<Expr, Expr>;

Expr substitute_in(const Expr& e, Memo& done) {
  if (e.is_const()) return e;
  if (auto found = done.find(e); found != done.end()) return found->second;
  if (e.is_var()) return e;
  ExprArgs args;
  bool changed = false;
  for (const Expr& arg : e.args()) {
    args.push_back(substitute_in(arg, done));
    changed |= !(args.back() == arg);
  }
  Expr result = changed ? rebuild(e, args) : e;
  done.emplace(e, result);
  return result;
}

// Rebuilds e under the facts in force, so that every rule asks them.
Expr simplify_in(const Expr& e, const Facts& facts, Memo& done) {
  if (e.is_const()) return e;
  if (auto found = done.find(e); found != done.end()) return found->second;
  Expr result = e;
  Range range = facts.range(e);
  if (range.lo == range.hi) {
    result = Expr(range.lo);
  } else if (!e.is_var()) {
    ExprArgs args;
    for (const Expr& arg : e.args()) args.push_back(simplify_in(arg, facts, done));
    result = rebuild(e, args);
  }
  done.emplace(e, result);
  return result;
}

int64_t checked(bool overflow, int64_t value, const char* operation) {
  if (overflow) throw ValueError(text("integer overflow in ", operation, " while evaluating an expression"));
  return value;
}

using Values = std::unordered_map<Expr, int64_t>;

int64_t evaluate_in(const Expr& e, const std::function<int64_t(const Expr&)>& value_of, Values& done) {
  if (e.is_const()) return e.value();
  if (auto found = done.find(e); found != done.end()) return found->second;
  auto arg = [&](size_t i) { return evaluate_in(e.args()[i], value_of, done); };
  int64_t result = 0;
  switch (e.kind()) {
    case ExprKind::Const: break;
    case ExprKind::Var: result = value_of(e); break;
    case ExprKind::Add: {
      Wide sum = 0;  // only the whole sum has to fit
      for (size_t i = 0; i < e.args().size(); ++i) sum += arg(i);
      result = checked(sum < kMinInt || sum > kMaxInt, static_cast<int64_t>(sum), "addition");
      break;
    }
    case ExprKind::Mul:
      result = 1;
      for (size_t i = 0; i < e.args().size(); ++i)
        checked(__builtin_mul_overflow(result, arg(i), &result), result, "multiplication");
      break;
    case ExprKind::FloorDiv:
    case ExprKind::Mod: {
      int64_t a = arg(0), b = arg(1);
      if (b <= 0) throw ValueError(text("division of ", a, " by ", b, ": divisors should be positive"));
      result = e.kind() == ExprKind::Mod ? floor_mod(a, b) : floor_div(a, b);
      break;
    }
    case ExprKind::Min: result = std::min(arg(0), arg(1)); break;
    case ExprKind::Max: result = std::max(arg(0), arg(1)); break;
    case ExprKind::Lt: result = arg(0) < arg(1); break;
    case ExprKind::Eq: result = arg(0) == arg(1); break;
    case ExprKind::And: result = arg(0) != 0 && arg(1) != 0; break;
    case ExprKind::Or: result = arg(0) != 0 || arg(1) != 0; break;
    case ExprKind::Not: result = arg(0) == 0; break;
    case ExprKind::Select: result = arg(0) != 0 ? arg(1) : arg(2); break;
  }
  done.emplace(e, result);
  return result;
}

template <class Visit>
void for_each_node(const Expr& root, Visit visit) {
  std::vector<Expr> pending{root};
  std::unordered_set<Expr> seen;
  while (!pending.empty()) {
    Expr e = std::move(pending.back());
    pending.pop_back();
    if (e.is_const() || !seen.insert(e).second) continue;
    visit(e);
    for (const Expr& arg : e.args()) pending.push_back(arg);
  }
}

}  // namespace

Expr substitute(const Expr& e, const Substitution& replacements) {
  if (e.is_const() || replacements.empty()) return e;
  Memo done;
  for (const auto& [from, to] : replacements) done.emplace(from, to);
  return substitute_in(e, done);
}

Expr simplify_given(const Expr& e, const Expr& condition) {
  if (e.is_const()) return e;
  Facts facts(condition);
  if (facts.contradictory()) return e;
  FactScope scope(&facts);
  Memo done;
  return simplify_in(e, facts, done);
}

int64_t evaluate(const Expr& e, const std::function<int64_t(const Expr& var)>& value_of) {
  Values done;
  return evaluate_in(e, value_of, done);
}

std::optional<int64_t> known_value(const Expr& e) {
  if (e.is_const()) return e.value();
  if (e.is_var()) return ExprNode::of(e)->variable->value;
  for (const Expr& variable : variables(e))
    if (!ExprNode::of(variable)->variable->value) return std::nullopt;
  return evaluate(e, [](const Expr& variable) { return *ExprNode::of(variable)->variable->value; });
}

bool depends_on(const Expr& e, const Expr& var) {
  bool found = false;
  for_each_node(e, [&](const Expr& node) { found |= node == var; });
  return found;
}

std::vector<Expr> variables(const Expr& e) {
  std::vector<Expr> result;
  for_each_node(e, [&](const Expr& node) {
    if (node.is_var()) result.push_back(node);
  });
  std::sort(result.begin(), result.end(), [](const Expr& a, const Expr& b) { return compare(a, b) < 0; });
  return result;
}

std::optional<Linear> linear_in(const Expr& e, const Expr& var) {
  Sum rest(e);
  int64_t coefficient = 0;
  for (const Term& term : rest.terms)
    if (term.monomial == var) coefficient = term.coefficient;
  rest.add_term(var, coefficient == kMinInt ? 0 : -coefficient);
  for (const Term& term : rest.terms)
    if (depends_on(term.monomial, var)) return std::nullopt;
  return Linear{coefficient, build(std::move(rest))};
}

}  // namespace heddle
