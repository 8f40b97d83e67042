// Floor division and remainder.
//
// Both bring the dividend into the same reduced form (whole multiples of the divisor split off, coefficients below
// the divisor, mostly positive), so that the quotient and the remainder of one value recombine in sums.
#include <algorithm>

#include "base/error.h"
#include "expr/expr.h"
#include "expr/facts.h"
#include "expr/sum.h"

namespace heddle {
namespace {

// dividend == divisor * whole + sign * rest (+ divisor - 1 where sign is negative), rest reduced.
struct Reduced {
  Sum whole;
  Sum rest;
  bool negative = false;
};

Sum only(const Expr& monomial) {
  Sum sum;
  sum.add_term(monomial, 1);
  return sum;
}

enum class Wanted { Quotient, Remainder };

// Terms whose value is a multiple of c, as exact quotients. Nothing is gained for a quotient of such a term alone.
void take_exact_terms(Sum& rest, Sum& whole, int64_t c, Wanted wanted) {
  for (size_t i = 0; i < rest.terms.size();) {
    const Term& term = rest.terms[i];
    int64_t g = common_divisor(term.coefficient, c);
    bool alone = wanted == Wanted::Quotient && rest.terms.size() == 1 && rest.constant == 0 && term.coefficient == 1;
    if (alone || term.monomial.multiple() % (c / g) != 0) {
      ++i;
      continue;
    }
    if (wanted == Wanted::Quotient) whole.add(floordiv(term.monomial, Expr(c / g)), term.coefficient / g);
    rest.terms.erase(i);
  }
}

// True if a sum reads better with all signs flipped.
bool mostly_negative(const Sum& sum) {
  int64_t balance = 0;
  for (const Term& term : sum.terms) balance += term.coefficient > 0 ? 1 : -1;
  return balance < 0 || (balance == 0 && !sum.terms.empty() && sum.terms[0].coefficient < 0);
}

Reduced reduce(const Sum& dividend, int64_t c, Wanted wanted) {
  Reduced r;
  r.whole.constant = floor_div(dividend.constant, c);
  r.rest.constant = floor_mod(dividend.constant, c);
  for (const Term& term : dividend.terms) {
    int64_t q = term.coefficient / c, k = term.coefficient % c;
    r.whole.add_term(term.monomial, q);
    r.rest.add_term(term.monomial, k);
  }
  take_exact_terms(r.rest, r.whole, c, wanted);
  if (mostly_negative(r.rest)) {
    r.negative = true;
    r.rest = negated(r.rest, c - 1);
  }
  return r;
}

// dividend == g * quotient + rest with 0 <= rest < g: dividing by a multiple of g may first divide by g.
struct Grouped {
  int64_t g;
  Sum quotient;
  Sum rest;
};

std::optional<Grouped> group(const Sum& dividend, int64_t c) {
  SmallVector<int64_t, 8> candidates;
  for (const Term& term : dividend.terms) candidates.push_back(common_divisor(term.coefficient, c));
  std::sort(candidates.begin(), candidates.end(), std::greater<>());
  size_t count = candidates.size();
  for (size_t i = 0, common = 0; i < count; ++i) {
    common = static_cast<size_t>(common_divisor(static_cast<int64_t>(common), candidates[i]));
    candidates.push_back(static_cast<int64_t>(common));
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    int64_t g = candidates[i];
    if (g <= 1 || std::find(candidates.begin(), candidates.begin() + i, g) != candidates.begin() + i) continue;
    Grouped result{g, {}, {}};
    result.rest.constant = dividend.constant;
    for (const Term& term : dividend.terms) {
      if (term.coefficient % g == 0) {
        result.quotient.add_term(term.monomial, term.coefficient / g);
      } else {
        result.rest.add_term(term.monomial, term.coefficient);
      }
    }
    Range range = range_of(result.rest);
    int64_t shift = floor_div(range.lo, g);
    if (shift != floor_div(range.hi, g)) continue;
    result.quotient.add_constant(shift);
    result.rest.add_constant(shift, -g);
    if (result.quotient.overflow || result.rest.overflow) continue;
    return result;
  }
  return std::nullopt;
}

// The only term of the sum that is a division, if its coefficient is one.
const Term* lone_division(const Sum& sum) {
  const Term* found = nullptr;
  for (const Term& term : sum.terms) {
    if (term.monomial.kind() != ExprKind::FloorDiv) continue;
    if (found) return nullptr;
    found = &term;
  }
  return found && found->coefficient == 1 ? found : nullptr;
}

Expr divide_by_constant(const Sum& dividend, int64_t c);

// The quotient of an already reduced dividend.
Expr divide_reduced(const Sum& rest, int64_t c) {
  if (rest.terms.empty()) return Expr(floor_div(rest.constant, c));
  Range range = range_of(rest);
  if (floor_div(range.lo, c) == floor_div(range.hi, c)) return Expr(floor_div(range.lo, c));
  if (auto grouped = group(rest, c)) return divide_by_constant(grouped->quotient, c / grouped->g);
  Sum again = rest;
  if (recombine(again)) return divide_by_constant(again, c);
  if (const Term* division = lone_division(rest)) {
    // (q + x // d) // c == (q * d + x) // (d * c)
    const Expr& x = division->monomial.args()[0];
    const Expr& d = division->monomial.args()[1];
    if (!d.is_const()) {
      Sum others = rest;
      others.add_term(division->monomial, -1);
      return floordiv(build(std::move(others)) * d + x, d * Expr(c));
    }
    int64_t divisor;
    Sum merged;
    if (!__builtin_mul_overflow(d.value(), c, &divisor)) {
      merged.add(rest, d.value());
      merged.add_term(division->monomial, -d.value());
      merged.add(x, 1);
      if (!merged.overflow) return divide_by_constant(merged, divisor);
    }
  }
  if (rest.terms.size() == 1 && rest.constant == 0 && rest.terms[0].coefficient == 1) {
    // (x % (c * n)) // c == (x // c) % n
    const Expr& m = rest.terms[0].monomial;
    if (m.kind() == ExprKind::Mod && m.args()[1].is_const() && m.args()[1].value() % c == 0)
      return mod(floordiv(m.args()[0], Expr(c)), Expr(m.args()[1].value() / c));
  }
  return make_node(ExprKind::FloorDiv, {build(rest), Expr(c)});
}

Expr divide_by_constant(const Sum& dividend, int64_t c) {
  if (c == 1) return build(dividend);
  Reduced r = reduce(dividend, c, Wanted::Quotient);
  Sum result = r.whole;
  result.add(divide_reduced(r.rest, c), r.negative ? -1 : 1);
  return build(std::move(result), "division");
}

Expr remainder_of_constant(const Sum& dividend, int64_t c) {
  if (c == 1) return Expr(0);
  Sum open = dividend;
  // x % (c * n) may stand for x here.
  for (size_t i = 0; i < open.terms.size(); ++i) {
    Term term = open.terms[i];
    if (term.monomial.kind() != ExprKind::Mod) continue;
    int64_t g = common_divisor(term.coefficient, c);
    if (term.monomial.args()[1].multiple() % (c / g) != 0) continue;
    Sum next = open;
    next.add_term(term.monomial, -term.coefficient);
    next.add(term.monomial.args()[0], term.coefficient % c);
    if (next.overflow) continue;
    return remainder_of_constant(next, c);
  }
  Reduced r = reduce(open, c, Wanted::Remainder);
  auto finish = [&](Sum remainder) {
    return build(r.negative ? negated(remainder, c - 1) : std::move(remainder), "remainder");
  };
  if (r.rest.terms.empty()) return finish(r.rest);
  Range range = range_of(r.rest);
  int64_t shift = floor_div(range.lo, c);
  if (shift == floor_div(range.hi, c)) {
    Sum remainder = r.rest;
    remainder.add_constant(shift, -c);
    if (!remainder.overflow) return finish(std::move(remainder));
  }
  if (auto grouped = group(r.rest, c)) {
    Sum remainder = grouped->rest;
    remainder.add(remainder_of_constant(grouped->quotient, c / grouped->g), grouped->g);
    return finish(std::move(remainder));
  }
  Sum again = r.rest;
  if (recombine(again)) return finish(Sum(remainder_of_constant(again, c)));
  return finish(only(make_node(ExprKind::Mod, {build(r.rest), Expr(c)})));
}

// --- Divisors that are not constants ---------------------------------------------------------------------------

// sum == divisor * quotient + rest, splitting off the terms that the divisor's leading term divides.
struct Split {
  Expr quotient;
  Sum rest;
};

const Term& leading_term(const Sum& divisor) {
  const Term* best = &divisor.terms[0];
  for (const Term& term : divisor.terms)
    if (factors(term.monomial).size() > factors(best->monomial).size()) best = &term;
  return *best;
}

Split split_terms(const Sum& sum, const Expr& divisor) {
  Sum d(divisor);
  const Term& lead = leading_term(d);
  Split result{Expr(0), sum};
  for (int round = 0; round < 4; ++round) {
    Sum quotient;
    for (const Term& term : result.rest.terms) {
      if (term.coefficient % lead.coefficient != 0) continue;
      if (auto q = divide_monomials(term.monomial, lead.monomial))
        quotient.add(*q, term.coefficient / lead.coefficient);
    }
    if (quotient.terms.empty() && quotient.constant == 0) break;
    Expr q = build(quotient);
    Sum rest = result.rest;
    rest.add(q * divisor, -1);
    size_t before = result.rest.terms.size() + (result.rest.constant != 0);
    if (rest.overflow || rest.terms.size() + (rest.constant != 0) >= before) break;
    result.quotient = result.quotient + q;
    result.rest = std::move(rest);
  }
  return result;
}

// Parts of a divisor that is one monomial: candidates to divide by first.
std::vector<Expr> partial_divisors(const Expr& divisor) {
  if (divisor.kind() != ExprKind::Mul) return {};
  std::span<const Expr> parts = divisor.args();
  std::vector<Expr> result;
  if (parts.size() > 5) return result;
  for (uint32_t subset = (1u << parts.size()) - 2; subset > 0; --subset) {
    Expr product(1);
    for (size_t i = 0; i < parts.size(); ++i)
      if (subset >> i & 1) product = product * parts[i];
    result.push_back(product);
  }
  return result;
}

struct DivMod {
  Expr quotient;
  Expr remainder;
};

struct SymbolicGroup {
  Expr g;
  Expr divisor;   // the original one by g
  Expr quotient;  // of the terms that g divides
  Sum rest;       // the others, known to be in [0, g)
};

std::optional<SymbolicGroup> group_symbolic(const Sum& rest, const Expr& divisor) {
  for (const Expr& g : partial_divisors(divisor)) {
    Sum gs(g);
    SymbolicGroup result{g, Expr(1), Expr(0), {}};
    Sum quotient;
    result.rest.constant = rest.constant;
    for (const Term& term : rest.terms) {
      std::optional<Expr> q;
      if (gs.terms.empty()) {
        if (term.coefficient % gs.constant == 0) q = scaled(term.monomial, term.coefficient / gs.constant);
      } else if (term.coefficient % gs.terms[0].coefficient == 0) {
        q = divide_monomials(term.monomial, gs.terms[0].monomial);
        if (q) q = *q * Expr(term.coefficient / gs.terms[0].coefficient);
      }
      if (q) quotient.add(*q, 1);
      if (!q) result.rest.add_term(term.monomial, term.coefficient);
    }
    if (quotient.terms.empty() && quotient.constant == 0) continue;
    if (!prove_within(result.rest, Sum(), gs)) continue;
    Term whole = split_coefficient(divisor);
    if (gs.terms.empty()) {
      result.divisor = scaled(whole.monomial, whole.coefficient / gs.constant);
    } else {
      auto left = divide_monomials(whole.monomial, gs.terms[0].monomial);
      if (!left || whole.coefficient % gs.terms[0].coefficient != 0) continue;
      result.divisor = *left * Expr(whole.coefficient / gs.terms[0].coefficient);
    }
    result.quotient = build(quotient);
    return result;
  }
  return std::nullopt;
}

// The quotient of terms that the divisor does not divide.
Expr divide_symbolic(const Sum& rest, const Expr& divisor) {
  if (auto grouped = group_symbolic(rest, divisor)) return floordiv(grouped->quotient, grouped->divisor);
  if (const Term* division = lone_division(rest)) {
    Sum others = rest;
    others.add_term(division->monomial, -1);
    const Expr& d = division->monomial.args()[1];
    return floordiv(build(std::move(others)) * d + division->monomial.args()[0], d * divisor);
  }
  Expr dividend = build(rest);
  if (dividend.kind() == ExprKind::Mod) {
    Split split = split_terms(Sum(dividend.args()[1]), divisor);
    if (split.rest.terms.empty() && split.rest.constant == 0)
      return mod(floordiv(dividend.args()[0], divisor), split.quotient);
  }
  return make_node(ExprKind::FloorDiv, {dividend, divisor});
}

Expr remainder_symbolic(const Sum& rest, const Expr& divisor) {
  if (auto grouped = group_symbolic(rest, divisor))
    return grouped->g * mod(grouped->quotient, grouped->divisor) + build(grouped->rest);
  Expr dividend = build(rest);
  if (dividend.kind() == ExprKind::Mod) {
    Split split = split_terms(Sum(dividend.args()[1]), divisor);
    if (split.rest.terms.empty() && split.rest.constant == 0) return mod(dividend.args()[0], divisor);
  }
  return make_node(ExprKind::Mod, {dividend, divisor});
}

DivMod divide_by_expression(const Expr& a, const Expr& divisor, Wanted wanted) {
  Split split = split_terms(Sum(a), divisor);
  Sum d(divisor);
  if (prove_within(split.rest, Sum(), d)) return {split.quotient, build(split.rest)};
  Sum minus = negated(d);
  if (prove_within(split.rest, minus, d)) return {split.quotient - Expr(1), build(split.rest) + divisor};
  if (mostly_negative(split.rest)) {
    // (-1 - x) // d == -1 - x // d
    Sum flipped = negated(split.rest, -1);
    if (!flipped.overflow) {
      DivMod inner = divide_by_expression(build(std::move(flipped)), divisor, wanted);
      return {split.quotient - Expr(1) - inner.quotient, divisor - Expr(1) - inner.remainder};
    }
  }
  if (wanted == Wanted::Quotient) return {split.quotient + divide_symbolic(split.rest, divisor), Expr(0)};
  return {Expr(0), remainder_symbolic(split.rest, divisor)};
}

void check_divisor(const char* operation, const Expr& a, const Expr& b) {
  if (b.hi() <= 0) throw ValueError(text(operation, ": the divisor of ", a, " should be positive, not ", b));
}

}  // namespace

Expr floordiv(const Expr& a, const Expr& b) {
  check_divisor("floordiv", a, b);
  Expr divisor = folded(b);
  if (a.is_const() && divisor.is_const()) return Expr(floor_div(a.value(), divisor.value()));
  if (divisor.is_const()) return divide_by_constant(Sum(a), divisor.value());
  return divide_by_expression(a, divisor, Wanted::Quotient).quotient;
}

Expr mod(const Expr& a, const Expr& b) {
  check_divisor("mod", a, b);
  Expr divisor = folded(b);
  if (a.is_const() && divisor.is_const()) return Expr(floor_mod(a.value(), divisor.value()));
  if (divisor.is_const()) return remainder_of_constant(Sum(a), divisor.value());
  return divide_by_expression(a, divisor, Wanted::Remainder).remainder;
}

Expr ceildiv(const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const() && b.value() > 0)
    return Expr(floor_div(a.value(), b.value()) + (floor_mod(a.value(), b.value()) != 0));
  return floordiv(a + b - Expr(1), b);
}

}  // namespace heddle
