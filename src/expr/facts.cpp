#include "expr/facts.h"

#include <algorithm>

#include "base/error.h"

namespace heddle {
namespace {

thread_local const Facts* active = nullptr;

Wide scaled_low(Range r, int64_t k) { return k >= 0 ? Wide{r.lo} * k : Wide{r.hi} * k; }
Wide scaled_high(Range r, int64_t k) { return k >= 0 ? Wide{r.hi} * k : Wide{r.lo} * k; }

// Upper bound (exclusive) of an atom as an expression: symbolic extents say more than ranges.
std::optional<Expr> symbolic_extent(const Expr& atom) {
  if (is_index_variable(atom)) return atom.extent();
  if (atom.kind() == ExprKind::Mod) return atom.args()[1];
  if (atom.kind() == ExprKind::FloorDiv && is_index_variable(atom.args()[0]))
    return ceildiv(atom.args()[0].extent(), atom.args()[1]);
  return std::nullopt;
}

// Atoms worth eliminating from a proof: with a symbolic extent, or inside a product.
std::vector<Expr> elimination_order(const Sum& sum) {
  std::vector<Expr> indices, others;
  auto remember = [](std::vector<Expr>& list, const Expr& e) {
    if (std::find(list.begin(), list.end(), e) == list.end()) list.push_back(e);
  };
  for (const Term& term : sum.terms) {
    std::span<const Expr> parts = factors(term.monomial);
    for (const Expr& atom : parts) {
      std::optional<Expr> extent = symbolic_extent(atom);
      if (extent && !extent->is_const()) {
        remember(indices, atom);
      } else if (parts.size() > 1) {
        remember(others, atom);
      }
    }
  }
  // Later variables may be bounded by earlier ones, never the other way round.
  std::sort(indices.begin(), indices.end(), [](const Expr& a, const Expr& b) { return compare(a, b) > 0; });
  indices.insert(indices.end(), others.begin(), others.end());
  return indices;
}

// sum == atom * coefficient + rest with rest free of atom as a factor; nothing for higher powers.
std::optional<std::pair<Sum, Sum>> coefficient_of(const Sum& sum, const Expr& atom) {
  Sum coefficient, rest;
  rest.constant = sum.constant;
  for (const Term& term : sum.terms) {
    auto left = divide_monomials(term.monomial, atom);
    if (!left) {
      rest.add_term(term.monomial, term.coefficient);
      continue;
    }
    if (!left->is_const() && divide_monomials(*left, atom)) return std::nullopt;
    coefficient.add(*left, term.coefficient);
  }
  return std::pair(std::move(coefficient), std::move(rest));
}

bool prove(const Sum& sum, int depth) {
  if (sum.overflow) return false;
  if (range_of(sum).lo >= 0) return true;
  if (depth == 0 || !is_symbolic(sum)) return false;
  Sum current = sum;
  for (const Expr& atom : elimination_order(sum)) {
    auto parts = coefficient_of(current, atom);
    if (!parts) continue;
    const Sum& coefficient = parts->first;
    if (coefficient.terms.empty() && coefficient.constant == 0) continue;
    std::optional<Expr> bound;
    if (prove(coefficient, depth - 1)) {
      if (range_of(atom).lo != kMinInt) bound = Expr(range_of(atom).lo);
    } else if (prove(negated(coefficient), depth - 1)) {
      auto extent = symbolic_extent(atom);
      if (extent && !extent->is_const()) {
        bound = *extent - Expr(1);
      } else if (range_of(atom).hi != kMaxInt) {
        bound = Expr(range_of(atom).hi);
      }
    }
    if (!bound) continue;
    Sum next = parts->second;
    Sum scale = coefficient;
    if (scale.overflow) return false;
    next.add(build(scale) * *bound, 1);
    if (next.overflow) return false;
    if (range_of(next).lo >= 0) return true;
    current = std::move(next);
  }
  return false;
}

// Proofs build expressions, whose rules ask for proofs: how deep this thread is in that.
thread_local int nesting = 0;
constexpr int kNestingLimit = 2;

struct Nested {
  Nested() { ++nesting; }
  ~Nested() { --nesting; }
};

bool prove_quietly(const Sum& sum) {
  if (nesting >= kNestingLimit) return !sum.overflow && range_of(sum).lo >= 0;
  Nested level;
  try {
    return prove(sum, 3);
  } catch (const Error&) {  // a bound left int64: nothing is shown
    return false;
  }
}

// c * sum with k * (x // c) replaced by k * x: differs from c * sum by k * (x % c).
std::optional<Sum> without_division(const Sum& sum, const Term& division) {
  const Expr& x = division.monomial.args()[0];
  Sum result;
  result.add(sum, division.monomial.args()[1].value());
  Sum change;
  change.add_term(division.monomial, division.coefficient);
  result.add(change, -division.monomial.args()[1].value());
  result.add(x, division.coefficient);
  if (result.overflow) return std::nullopt;
  return result;
}

// Terms outside a division often share variables with its dividend: (5 * i + j) // 4 is kept as
// i + (i + j) // 4. Bounds of the undivided sum say more than bounds of the parts.
template <class RangeOf>
Range tighten_by_divisions(const Sum& sum, Range known, RangeOf range) {
  for (const Term& term : sum.terms) {
    if (term.monomial.kind() != ExprKind::FloorDiv || !term.monomial.args()[1].is_const()) continue;
    std::optional<Sum> merged = without_division(sum, term);
    if (!merged) continue;
    int64_t c = term.monomial.args()[1].value();
    Wide slack = Wide{term.coefficient} * (c - 1);  // of k * (x % c)
    Range r = range(*merged);
    auto floor_wide = [](Wide a, Wide b) { return a / b - (a % b < 0); };
    Range tight{kMinInt, kMaxInt};
    if (r.lo != kMinInt) tight.lo = saturate(-floor_wide(-(Wide{r.lo} - std::max(slack, Wide{0})), c));
    if (r.hi != kMaxInt) tight.hi = saturate(floor_wide(Wide{r.hi} - std::min(slack, Wide{0}), c));
    Range both = intersect(known, tight);
    if (both.lo <= both.hi) known = both;
  }
  return known;
}

Range interval(const Sum& sum) {
  Wide lo = sum.constant, hi = sum.constant;
  for (const Term& term : sum.terms) {
    Range r{term.monomial.lo(), term.monomial.hi()};
    lo += scaled_low(r, term.coefficient);
    hi += scaled_high(r, term.coefficient);
  }
  return {saturate(lo), saturate(hi)};
}

}  // namespace

Range range_of(const Expr& e) { return active ? active->range(e) : Range{e.lo(), e.hi()}; }

Range range_of(const Sum& sum) {
  if (active) return active->range(sum);
  Range known = interval(sum);
  if (sum.terms.size() < 2) return known;
  return tighten_by_divisions(sum, known, interval);
}

bool prove_nonnegative(const Sum& sum) {
  if (prove_quietly(sum)) return true;
  if (!active) return false;
  for (const Sum& fact : active->nonnegative()) {
    Sum difference = sum;
    difference.add(fact, -1);
    if (prove_quietly(difference)) return true;
  }
  return false;
}

bool prove_within(const Sum& sum, const Sum& lo, const Sum& width) {
  Sum above = sum;
  above.add(lo, -1);
  if (!prove_nonnegative(above)) return false;
  Sum below = negated(above, -1);
  below.add(width, 1);
  return prove_nonnegative(below);
}

FactScope::FactScope(const Facts* facts) : outer_(active) { active = facts; }
FactScope::~FactScope() { active = outer_; }

Facts::Facts(const Expr& condition) {
  for (const Expr& part : conjuncts(condition)) learn(part);
  propagate();
  known_.clear();
}

void Facts::learn(const Expr& conjunct) {
  if (conjunct.is_const()) {
    contradictory_ |= conjunct.is_const(0);
    return;
  }
  truths_[conjunct] = true;
  truths_[logical_not(conjunct)] = false;
  if (conjunct.kind() == ExprKind::Lt) {
    // rhs - lhs - 1 >= 0
    Sum slack(conjunct.args()[1]);
    slack.add(conjunct.args()[0], -1);
    slack.add_constant(-1);
    if (slack.overflow) return;
    nonnegative_.push_back(slack);
    Sum form = slack;
    form.constant = 0;
    if (slack.constant != kMinInt) learn_range(std::move(form), {-slack.constant, kMaxInt});
  } else if (conjunct.kind() == ExprKind::Eq) {
    Sum difference(conjunct.args()[0]);
    difference.add(conjunct.args()[1], -1);
    if (difference.overflow || difference.constant == kMinInt) return;
    nonnegative_.push_back(difference);
    nonnegative_.push_back(negated(difference));
    Sum form = difference;
    form.constant = 0;
    learn_range(std::move(form), {-difference.constant, -difference.constant});
  } else if (conjunct.kind() != ExprKind::And && conjunct.kind() != ExprKind::Or && conjunct.kind() != ExprKind::Not) {
    if (conjunct.lo() >= 0 && conjunct.hi() <= 1) atoms_[conjunct] = {1, 1};
  }
}

void Facts::learn_range(Sum form, Range range) {
  if (form.terms.empty()) return;
  if (form.terms.size() > 1) {
    bounds_.push_back({std::move(form), range});
    return;
  }
  // k * atom within range
  int64_t k = form.terms[0].coefficient;
  const Expr& atom = form.terms[0].monomial;
  if (k == kMinInt || range.lo == kMinInt) return;
  auto divide = [](int64_t a, int64_t b) { return floor_div(a, b); };
  Range r;
  if (k > 0) {
    r.lo = saturate(-Wide{divide(-range.lo, k)});
    r.hi = range.hi == kMaxInt ? kMaxInt : divide(range.hi, k);
  } else {
    // atom <= floor(lo / k) for negative k: -lo // -k
    r.hi = divide(-range.lo, -k);
    r.lo = range.hi == kMaxInt ? kMinInt : saturate(-Wide{divide(range.hi, -k)});
  }
  auto [entry, fresh] = atoms_.try_emplace(atom, Range{atom.lo(), atom.hi()});
  entry->second = intersect(entry->second, r);
  contradictory_ |= entry->second.lo > entry->second.hi;
}

// Bounds on sums bound their terms too.
void Facts::propagate() {
  for (int round = 0; round < 2 && !contradictory_; ++round) {
    for (const Bound& bound : std::vector<Bound>(bounds_)) {
      for (const Term& term : bound.form.terms) {
        known_.clear();
        Sum others = bound.form;
        others.add_term(term.monomial, -term.coefficient);
        Range rest = plain_range(others);
        Range r{kMinInt + 1, kMaxInt};
        if (bound.range.lo != kMinInt && rest.hi != kMaxInt) r.lo = saturate(Wide{bound.range.lo} - rest.hi);
        if (bound.range.hi != kMaxInt && rest.lo != kMinInt) r.hi = saturate(Wide{bound.range.hi} - rest.lo);
        if (r.lo <= kMinInt + 1) r.lo = kMinInt + 1;
        Sum single;
        single.add_term(term.monomial, term.coefficient);
        learn_range(std::move(single), r);
        if (contradictory_) return;
      }
    }
  }
}

Range Facts::range(const Expr& e) const {
  if (e.is_const()) return {e.value(), e.value()};
  if (auto found = known_.find(e); found != known_.end()) return found->second;
  Range result{e.lo(), e.hi()};
  // The terms of a fact may contain e again: until this call ends they see the range without facts.
  known_.emplace(e, result);
  if (auto fact = atoms_.find(e); fact != atoms_.end()) result = intersect(result, fact->second);
  if (e.kind() == ExprKind::Add) {
    result = intersect(result, range(Sum(e)));
  } else if (!e.args().empty()) {
    SmallVector<Range, 4> ranges;
    for (const Expr& arg : e.args()) ranges.push_back(range(arg));
    result = intersect(result, range_of_operation(e.kind(), e.args(), ranges));
  }
  if (auto known = truth(e)) result = {*known, *known};
  if (result.lo > result.hi) result = {e.lo(), e.hi()};  // the condition is never met: nothing matters
  known_[e] = result;
  return result;
}

Range Facts::plain_range(const Sum& sum) const {
  Wide lo = sum.constant, hi = sum.constant;
  for (const Term& term : sum.terms) {
    Range r = range(term.monomial);
    lo += scaled_low(r, term.coefficient);
    hi += scaled_high(r, term.coefficient);
  }
  return {saturate(lo), saturate(hi)};
}

Range Facts::range(const Sum& sum) const {
  Range result = bounded_range(sum);
  if (sum.terms.size() < 2) return result;
  return tighten_by_divisions(sum, result, [this](const Sum& merged) { return bounded_range(merged); });
}

// Knows the facts about sums too.
Range Facts::bounded_range(const Sum& sum) const {
  Range result = plain_range(sum);
  for (const Bound& bound : bounds_) {
    const Term& first = bound.form.terms[0];
    for (const Term& term : sum.terms) {
      if (!(term.monomial == first.monomial) || term.coefficient % first.coefficient != 0) continue;
      int64_t scale = term.coefficient / first.coefficient;
      Sum rest = sum;
      rest.add(bound.form, -scale);
      if (rest.overflow) break;
      Range r = plain_range(rest);
      Wide lo = scaled_low(bound.range, scale) + r.lo, hi = scaled_high(bound.range, scale) + r.hi;
      bool open_low = r.lo == kMinInt || (scale > 0 ? bound.range.lo == kMinInt : bound.range.hi == kMaxInt);
      bool open_high = r.hi == kMaxInt || (scale > 0 ? bound.range.hi == kMaxInt : bound.range.lo == kMinInt);
      Range tight{open_low ? kMinInt : saturate(lo), open_high ? kMaxInt : saturate(hi)};
      Range both = intersect(result, tight);
      if (both.lo <= both.hi) result = both;
    }
  }
  return result;
}

std::optional<bool> Facts::truth(const Expr& guard) const {
  auto found = truths_.find(guard);
  if (found == truths_.end()) return std::nullopt;
  return found->second;
}

}  // namespace heddle
