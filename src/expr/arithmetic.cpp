// Sums and products, and the rules that undo divisions inside sums.
#include "base/error.h"
#include "expr/expr.h"
#include "expr/sum.h"

namespace heddle {
namespace {

// Products of sums are multiplied out up to this many terms, so that symbolic strides cancel.
constexpr size_t kDistributeLimit = 16;

const Term* find_term(const Sum& sum, const Expr& monomial) {
  for (const Term& term : sum.terms)
    if (term.monomial == monomial) return &term;
  return nullptr;
}

bool contains(const Sum& sum, const Sum& part) {
  for (const Term& term : part.terms) {
    const Term* found = find_term(sum, term.monomial);
    if (!found || found->coefficient != term.coefficient) return false;
  }
  return true;
}

// The terms of scale * e * others.
Sum scaled_sum(const Expr& e, const Expr& others, int64_t scale) {
  Sum result;
  result.add(others.is_const(1) ? e : e * others, scale);
  return result;
}

// If `part` stands in `sum` as it is, and likewise coefficient * factor * others, replaces both by `whole`.
bool replace(Sum& sum, const Term& term, const Sum& part, const Sum& whole) {
  if (part.overflow || whole.overflow || part.terms.empty() || !contains(sum, part)) return false;
  Sum next = sum;
  next.add_term(term.monomial, -term.coefficient);
  next.add(part, -1);
  next.add(whole, 1);
  if (next.overflow) return false;
  sum = std::move(next);
  return true;
}

// term == k * others * (y % c). With k * c * others * (y // c) in the sum both become k * others * y; with
// k * c * others * ((y // c) % d) they become k * others * (y % (c * d)).
bool recombine_mod(Sum& sum, const Term& term, const Expr& factor, const Expr& others) {
  const Expr& y = factor.args()[0];
  const Expr& c = factor.args()[1];
  Expr quotient = floordiv(y, c);
  Expr c_others = c * others;
  int64_t k = term.coefficient;
  if (replace(sum, term, scaled_sum(quotient, c_others, k), scaled_sum(y, others, k))) return true;
  for (const Term& other : sum.terms) {
    for (const Expr& f : factors(other.monomial)) {
      if (f.kind() != ExprKind::Mod || !(f.args()[0] == quotient)) continue;
      Sum part = scaled_sum(f, c_others, k);
      if (part.terms.size() != 1 || part.constant != 0) continue;
      if (!(part.terms[0].monomial == other.monomial) || part.terms[0].coefficient != other.coefficient) continue;
      Wide product = c.is_const() && f.args()[1].is_const() ? Wide{c.value()} * f.args()[1].value() : 0;
      if (product > kMaxInt) continue;
      Expr whole = mod(y, c * f.args()[1]);
      return replace(sum, term, part, scaled_sum(whole, others, k));
    }
  }
  return false;
}

// term == k * (x // c).
bool recombine_div(Sum& sum, const Term& term) {
  const Expr& x = term.monomial.args()[0];
  int64_t c = term.monomial.args()[1].value();
  int64_t k = term.coefficient;
  // An exact division: part of it can be undone.
  int64_t g = common_divisor(k, c);
  if (g > 1 && x.multiple() % c == 0) {
    Sum next = sum;
    next.add_term(term.monomial, -k);
    next.add(floordiv(x, Expr(c / g)), k / g);
    if (next.overflow) return false;
    sum = std::move(next);
    return true;
  }
  // x - (x // c) * c is x % c.
  if (k % c != 0 || k == kMinInt) return false;
  Sum part, whole;
  part.add(x, -(k / c));
  int64_t shift = part.constant;
  part.constant = 0;
  whole.add(mod(x, Expr(c)), -(k / c));
  whole.add_constant(shift, -1);
  return replace(sum, term, part, whole);
}

bool recombine_once(Sum& sum) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const Expr& monomial = sum.terms[i].monomial;
    ExprKind kind = monomial.kind();
    if (kind == ExprKind::FloorDiv && monomial.args()[1].is_const()) {
      if (recombine_div(sum, Term(sum.terms[i]))) return true;
    } else if (kind == ExprKind::Mod) {
      if (sum.terms.size() > 1 && recombine_mod(sum, Term(sum.terms[i]), Expr(monomial), Expr(1))) return true;
    } else if (kind == ExprKind::Mul && sum.terms.size() > 1) {
      for (const Expr& factor : monomial.args()) {
        if (factor.kind() != ExprKind::Mod) continue;
        Expr others = *divide_monomials(monomial, factor);
        if (recombine_mod(sum, Term(sum.terms[i]), Expr(factor), others)) return true;
        break;
      }
    }
  }
  return false;
}

Expr multiply_sums(const Expr& a, const Expr& b) {
  Sum sa(a), sb(b);
  if (sa.terms.empty()) return b * Expr(sa.constant);
  if (sb.terms.empty()) return a * Expr(sb.constant);
  size_t size_a = sa.terms.size() + (sa.constant != 0), size_b = sb.terms.size() + (sb.constant != 0);
  if (size_a * size_b > kDistributeLimit) {
    auto as_term = [](const Sum& s, const Expr& e) {
      return s.terms.size() == 1 && s.constant == 0 ? s.terms[0] : Term{e, 1};
    };
    Term ta = as_term(sa, a), tb = as_term(sb, b);
    Sum result;
    result.add_term(multiply_monomials(ta.monomial, tb.monomial), ta.coefficient);
    Sum whole;
    whole.add(result, tb.coefficient);
    return build(std::move(whole), "multiplication");
  }
  Sum product;
  product.add(sb, sa.constant);
  for (const Term& x : sa.terms) {
    int64_t coefficient;
    product.overflow |= __builtin_mul_overflow(x.coefficient, sb.constant, &coefficient);
    product.add_term(x.monomial, coefficient);
    for (const Term& y : sb.terms) {
      product.overflow |= __builtin_mul_overflow(x.coefficient, y.coefficient, &coefficient);
      product.add_term(multiply_monomials(x.monomial, y.monomial), coefficient);
    }
  }
  return build(std::move(product), "multiplication");
}

}  // namespace

bool recombine(Sum& sum) {
  bool interesting = false;
  for (const Term& term : sum.terms) {
    ExprKind kind = term.monomial.kind();
    interesting |= kind == ExprKind::FloorDiv || kind == ExprKind::Mod || kind == ExprKind::Mul;
  }
  if (!interesting) return false;
  bool changed = false;
  while (recombine_once(sum)) changed = true;
  return changed;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const()) {
    int64_t result;
    if (__builtin_add_overflow(a.value(), b.value(), &result)) throw_overflow("addition", a, b);
    return Expr(result);
  }
  Sum sum(a);
  sum.add(b, 1);
  if (sum.overflow) throw_overflow("addition", a, b);
  return build(std::move(sum));
}

Expr operator-(const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const()) {
    int64_t result;
    if (__builtin_sub_overflow(a.value(), b.value(), &result)) throw_overflow("subtraction", a, b);
    return Expr(result);
  }
  Sum sum(a);
  sum.add(b, -1);
  if (sum.overflow) throw_overflow("subtraction", a, b);
  return build(std::move(sum));
}

Expr operator-(const Expr& a) { return Expr(0) - a; }

Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const()) {
    int64_t result;
    if (__builtin_mul_overflow(a.value(), b.value(), &result)) throw_overflow("multiplication", a, b);
    return Expr(result);
  }
  if (!a.is_const() && !b.is_const()) return multiply_sums(a, b);
  const Expr& factor = a.is_const() ? a : b;
  const Expr& other = a.is_const() ? b : a;
  if (factor.is_const(1)) return other;
  Sum sum;
  sum.add(other, factor.value());
  if (sum.overflow) throw_overflow("multiplication", a, b);
  return build(std::move(sum));
}

}  // namespace heddle
