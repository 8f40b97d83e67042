// Comparisons: everything on one side, divided by common factors, decided from what is known.
#include <algorithm>

#include "expr/expr.h"
#include "expr/facts.h"
#include "expr/sum.h"

namespace heddle {
namespace {

int64_t coefficient_divisor(const Sum& sum) {
  int64_t g = 0;
  for (const Term& term : sum.terms) g = common_divisor(g, term.coefficient);
  return g;
}

// sum == g * whole + rest, whole taking the terms that g divides.
struct Parts {
  Sum whole;
  Sum rest;
};

Parts split_by(const Sum& sum, int64_t g) {
  Parts parts;
  parts.rest.constant = sum.constant;
  for (const Term& term : sum.terms) {
    if (term.coefficient % g == 0) {
      parts.whole.add_term(term.monomial, term.coefficient / g);
    } else {
      parts.rest.add_term(term.monomial, term.coefficient);
    }
  }
  return parts;
}

// Common divisors of the terms with the largest coefficients, largest first.
SmallVector<int64_t, 8> divisor_candidates(const Sum& sum) {
  SmallVector<int64_t, 8> sizes, candidates;
  for (const Term& term : sum.terms) sizes.push_back(common_divisor(term.coefficient, 0));
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  int64_t g = 0;
  for (int64_t size : sizes) {
    g = common_divisor(g, size);
    if (g > 1 && (candidates.empty() || candidates.back() != g)) candidates.push_back(g);
  }
  for (int64_t size : sizes)
    if (size > 1 && std::find(candidates.begin(), candidates.end(), size) == candidates.end())
      candidates.push_back(size);
  return candidates;
}

// g * whole + rest < 0 with rest in [p * g, p * g + g) is whole + p < 0.
bool drop_small_terms(Sum& sum) {
  for (int64_t g : divisor_candidates(sum)) {
    Parts parts = split_by(sum, g);
    Range range = range_of(parts.rest);
    int64_t p = floor_div(range.lo, g);
    if (p != floor_div(range.hi, g)) continue;
    parts.whole.add_constant(p);
    if (parts.whole.overflow) continue;
    sum = std::move(parts.whole);
    return true;
  }
  return false;
}

// The same for a symbolic g that is a factor of some terms.
bool drop_small_symbolic_terms(Sum& sum) {
  for (const Term& candidate : sum.terms) {
    for (const Expr& g : factors(candidate.monomial)) {
      if (range_of(g).lo < 1) continue;
      Sum whole, rest;
      rest.constant = sum.constant;
      for (const Term& term : sum.terms) {
        if (auto q = divide_monomials(term.monomial, g)) {
          whole.add(*q, term.coefficient);
        } else {
          rest.add_term(term.monomial, term.coefficient);
        }
      }
      if (whole.terms.empty()) continue;
      Sum width(g);
      if (prove_within(rest, Sum(), width)) {
        sum = std::move(whole);
        return true;
      }
      if (prove_within(rest, negated(width), width)) {
        whole.add_constant(-1);
        sum = std::move(whole);
        return !sum.overflow;
      }
    }
  }
  return false;
}

// x // d + t < 0 is x + t * d < 0; t - x // d < 0 is (t + 1) * d - 1 - x < 0.
bool drop_division(Sum& sum) {
  for (const Term& term : sum.terms) {
    if (term.monomial.kind() != ExprKind::FloorDiv || (term.coefficient != 1 && term.coefficient != -1)) continue;
    const Expr x = term.monomial.args()[0], d = term.monomial.args()[1];
    int64_t sign = term.coefficient;
    Sum others = sum;
    others.add_term(term.monomial, -sign);
    if (sign < 0) others.add_constant(1);
    Sum next;
    if (d.is_const()) {
      next.add(others, d.value());
    } else {
      next.add(build(std::move(others)) * d, 1);
    }
    next.add(x, sign);
    if (sign < 0) next.add_constant(-1);
    if (next.overflow) continue;
    sum = std::move(next);
    return true;
  }
  return false;
}

// Positive terms to the left, negative ones to the right, the constant where it is positive or alone.
std::pair<Expr, Expr> sides(const Sum& sum) {
  Sum left, right;
  for (const Term& term : sum.terms) {
    if (term.coefficient > 0) {
      left.add_term(term.monomial, term.coefficient);
    } else {
      right.add_term(term.monomial, -term.coefficient);
    }
  }
  bool to_left = right.terms.empty() ? false : left.terms.empty() || sum.constant > 0;
  if (to_left || sum.constant == kMinInt) {
    left.add_constant(sum.constant);
  } else {
    right.add_constant(sum.constant, -1);
  }
  return {build(std::move(left)), build(std::move(right))};
}

bool has_minimum_coefficient(const Sum& sum) {
  return std::any_of(sum.terms.begin(), sum.terms.end(), [](const Term& t) { return t.coefficient == kMinInt; });
}

Expr below_zero(Sum sum) {
  for (;;) {
    if (recombine(sum)) continue;
    if (sum.terms.empty()) return Expr(sum.constant < 0);
    Range range = range_of(sum);
    if (range.hi < 0) return Expr(1);
    if (range.lo >= 0) return Expr(0);
    if (drop_small_terms(sum)) continue;
    if (is_symbolic(sum)) {
      if (prove_nonnegative(sum)) return Expr(0);
      if (prove_nonnegative(negated(sum, -1))) return Expr(1);
      if (drop_small_symbolic_terms(sum)) continue;
    }
    if (drop_division(sum)) continue;
    break;
  }
  if (sum.terms.size() == 1 && is_guard(sum.terms[0].monomial)) {
    // Undecided for a value of 0 or 1: either 0 < guard or guard < 1.
    const Expr& guard = sum.terms[0].monomial;
    return sum.terms[0].coefficient < 0 ? guard : logical_not(guard);
  }
  auto [left, right] = sides(sum);
  return make_node(ExprKind::Lt, {left, right});
}

// Equality of a value that is 0 or 1 with a constant.
std::optional<Expr> equality_of_truth(const Sum& sum) {
  if (sum.terms.size() != 1 || sum.terms[0].coefficient != 1) return std::nullopt;
  const Expr& e = sum.terms[0].monomial;
  if (e.lo() < 0 || e.hi() > 1) return std::nullopt;
  if (sum.constant == -1) return e;
  if (sum.constant == 0 && is_guard(e)) return logical_not(e);
  return std::nullopt;
}

Expr is_zero(Sum sum) {
  recombine(sum);
  if (sum.terms.empty()) return Expr(sum.constant == 0);
  Range range = range_of(sum);
  if (range.lo > 0 || range.hi < 0) return Expr(0);
  if (range.lo == 0 && range.hi == 0) return Expr(1);
  int64_t divisor = 0;
  for (const Term& term : sum.terms) {
    int64_t product;
    bool large = __builtin_mul_overflow(term.coefficient, term.monomial.multiple(), &product);
    divisor = common_divisor(divisor, large ? term.coefficient : product);
  }
  if (divisor > 1 && sum.constant % divisor != 0) return Expr(0);
  int64_t g = coefficient_divisor(sum);
  if (sum.terms[0].coefficient < 0) sum = negated(sum);
  if (g > 1) {
    for (Term& term : sum.terms) term.coefficient /= g;
    sum.constant /= g;
  }
  if (auto truth = equality_of_truth(sum)) return *truth;
  for (int64_t candidate : divisor_candidates(sum)) {
    Parts parts = split_by(sum, candidate);
    if (parts.rest.terms.empty()) continue;
    Range rest = range_of(parts.rest);
    if (rest.lo == kMinInt || rest.hi == kMaxInt) continue;
    // The rest has to be a multiple of the candidate: is there just one in its range?
    int64_t p = -floor_div(-rest.lo, candidate);
    if (Wide{p} * candidate > rest.hi) return Expr(0);
    if (Wide{p + 1} * candidate <= rest.hi) continue;
    parts.rest.add_constant(p, -candidate);
    parts.whole.add_constant(p);
    if (parts.rest.overflow || parts.whole.overflow) continue;
    return logical_and(is_zero(parts.whole), is_zero(parts.rest));
  }
  if (is_symbolic(sum)) {
    Sum below = negated(sum, -1), above = sum;
    above.add_constant(-1);
    if (prove_nonnegative(above) || prove_nonnegative(below)) return Expr(0);
  }
  auto [left, right] = sides(sum);
  return make_node(ExprKind::Eq, {left, right});
}

}  // namespace

Expr lt(const Expr& a, const Expr& b) {
  Sum sum(a);
  sum.add(b, -1);
  if (sum.overflow || has_minimum_coefficient(sum)) {
    if (range_of(a).hi < range_of(b).lo) return Expr(1);
    if (range_of(a).lo >= range_of(b).hi) return Expr(0);
    return make_node(ExprKind::Lt, {a, b});
  }
  return below_zero(std::move(sum));
}

Expr le(const Expr& a, const Expr& b) { return logical_not(lt(b, a)); }
Expr gt(const Expr& a, const Expr& b) { return lt(b, a); }
Expr ge(const Expr& a, const Expr& b) { return logical_not(lt(a, b)); }

Expr eq(const Expr& a, const Expr& b) {
  if (a == b) return Expr(1);
  Sum sum(a);
  sum.add(b, -1);
  if (sum.overflow || has_minimum_coefficient(sum) || sum.constant == kMinInt) {
    if (range_of(a).hi < range_of(b).lo || range_of(b).hi < range_of(a).lo) return Expr(0);
    return compare(a, b) < 0 ? make_node(ExprKind::Eq, {a, b}) : make_node(ExprKind::Eq, {b, a});
  }
  return is_zero(std::move(sum));
}

Expr ne(const Expr& a, const Expr& b) { return logical_not(eq(a, b)); }

}  // namespace heddle
