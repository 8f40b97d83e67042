#include "expr/sum.h"

#include <algorithm>

#include "base/error.h"

namespace heddle {

std::span<const Expr> factors(const Expr& monomial) {
  if (monomial.kind() == ExprKind::Mul) return monomial.args();
  return {&monomial, 1};
}

Term split_coefficient(const Expr& e) {
  if (e.kind() != ExprKind::Mul || !e.args().back().is_const()) return {e, 1};
  std::span<const Expr> args = e.args();
  int64_t coefficient = args.back().value();
  if (args.size() == 2) return {args[0], coefficient};
  return {make_node(ExprKind::Mul, ExprArgs(args.first(args.size() - 1))), coefficient};
}

Expr scaled(const Expr& monomial, int64_t coefficient) {
  if (coefficient == 1) return monomial;
  ExprArgs args(factors(monomial));
  args.push_back(Expr(coefficient));
  return make_node(ExprKind::Mul, std::move(args));
}

Expr multiply_monomials(const Expr& a, const Expr& b) {
  std::span<const Expr> fa = factors(a), fb = factors(b);
  ExprArgs merged;
  size_t i = 0, j = 0;
  while (i < fa.size() || j < fb.size()) {
    bool left = j == fb.size() || (i < fa.size() && compare(fa[i], fb[j]) <= 0);
    merged.push_back(left ? fa[i++] : fb[j++]);
  }
  return make_node(ExprKind::Mul, std::move(merged));
}

std::optional<Expr> divide_monomials(const Expr& a, const Expr& b) {
  if (a == b) return Expr(1);
  ExprArgs rest(factors(a));
  for (const Expr& factor : factors(b)) {
    size_t i = 0;
    while (i < rest.size() && !(rest[i] == factor)) ++i;
    if (i == rest.size()) return std::nullopt;
    rest.erase(i);
  }
  if (rest.empty()) return Expr(1);
  if (rest.size() == 1) return rest[0];
  return make_node(ExprKind::Mul, std::move(rest));
}

bool is_symbolic(const Sum& sum) {
  return std::any_of(sum.terms.begin(), sum.terms.end(), [](const Term& t) { return is_symbolic(t.monomial); });
}

Sum negated(const Sum& sum, int64_t constant) {
  Sum result;
  result.constant = constant;
  result.add(sum, -1);
  return result;
}

void Sum::add_constant(int64_t value, int64_t scale) {
  int64_t product;
  overflow |= __builtin_mul_overflow(value, scale, &product);
  overflow |= __builtin_add_overflow(constant, product, &constant);
}

void Sum::add_term(const Expr& monomial, int64_t coefficient) {
  if (coefficient == 0) return;
  if (monomial.is_const()) return add_constant(monomial.value(), coefficient);
  size_t at = terms.size();
  while (at > 0) {
    int order = compare(terms[at - 1].monomial, monomial);
    if (order < 0) break;
    --at;
    if (order > 0) continue;
    overflow |= __builtin_add_overflow(terms[at].coefficient, coefficient, &terms[at].coefficient);
    if (terms[at].coefficient == 0) terms.erase(at);
    return;
  }
  terms.insert(at, Term{monomial, coefficient});
}

void Sum::add(const Expr& e, int64_t scale) {
  if (e.is_const()) return add_constant(e.value(), scale);
  if (e.kind() == ExprKind::Add) {
    for (const Expr& arg : e.args()) add(arg, scale);
    return;
  }
  if (e.is_var() && e.lo() == e.hi()) return add_constant(e.lo(), scale);
  Term term = split_coefficient(e);
  int64_t coefficient;
  overflow |= __builtin_mul_overflow(term.coefficient, scale, &coefficient);
  add_term(term.monomial, coefficient);
}

void Sum::add(const Sum& other, int64_t scale) {
  overflow |= other.overflow;
  add_constant(other.constant, scale);
  for (const Term& term : other.terms) {
    int64_t coefficient;
    overflow |= __builtin_mul_overflow(term.coefficient, scale, &coefficient);
    add_term(term.monomial, coefficient);
  }
}

Expr build(Sum sum, const char* operation) {
  if (!sum.overflow) recombine(sum);
  if (sum.overflow) throw ValueError(text("integer overflow in ", operation, " of index expressions"));
  if (sum.terms.empty()) return Expr(sum.constant);
  if (sum.terms.size() == 1 && sum.constant == 0) return scaled(sum.terms[0].monomial, sum.terms[0].coefficient);
  ExprArgs args;
  args.reserve(sum.terms.size() + 1);
  for (const Term& term : sum.terms) args.push_back(scaled(term.monomial, term.coefficient));
  if (sum.constant != 0) args.push_back(Expr(sum.constant));
  return make_node(ExprKind::Add, std::move(args));
}

}  // namespace heddle
