// Guards (and, or, not), selection, minimum and maximum.
#include <algorithm>

#include "expr/expr.h"
#include "expr/facts.h"
#include "expr/sum.h"

namespace heddle {
namespace {

bool is_zero_or_one(const Expr& e) { return e.lo() >= 0 && e.hi() <= 1; }

// e as 0 or 1.
Expr truth(const Expr& e) {
  Range range = range_of(e);
  if (range.lo > 0 || range.hi < 0) return Expr(1);
  if (range.lo == 0 && range.hi == 0) return Expr(0);
  if (is_guard(e) || (is_zero_or_one(e) && e.kind() != ExprKind::Add)) return e;
  return ne(e, Expr(0));
}

void flatten(ExprKind kind, const Expr& e, std::vector<Expr>& parts) {
  if (e.kind() != kind) {
    parts.push_back(e);
    return;
  }
  for (const Expr& arg : e.args()) flatten(kind, arg, parts);
}

// Everything a conjunction says about one linear form (leading coefficient positive, no constant).
struct FormBounds {
  Expr form;
  Range range;  // from the conjuncts
  std::vector<int64_t> excluded;
  bool equality = false;  // one of the conjuncts is ==
};

struct Conjunction {
  std::vector<FormBounds> forms;
  std::vector<Expr> others;
  bool contradiction = false;

  FormBounds& bounds_of(const Expr& form) {
    for (FormBounds& f : forms)
      if (f.form == form) return f;
    forms.push_back({form, {kMinInt, kMaxInt}, {}, false});
    return forms.back();
  }

  // left < right, left == right or left != right. False when it cannot be put as a bound.
  bool add_relation(ExprKind kind, const Expr& left, const Expr& right) {
    Sum sum(left);
    sum.add(right, -1);
    if (sum.overflow || sum.terms.empty() || sum.constant <= kMinInt + 1 || sum.constant == kMaxInt) return false;
    int64_t k = sum.constant;
    sum.constant = 0;
    bool flipped = sum.terms[0].coefficient < 0;
    if (flipped) sum = negated(sum);
    if (sum.overflow) return false;
    FormBounds& f = bounds_of(build(sum));
    int64_t value = flipped ? k : -k;
    if (kind == ExprKind::Not) {
      f.excluded.push_back(value);
    } else if (kind == ExprKind::Eq) {
      f.range = intersect(f.range, {value, value});
      f.equality = true;
    } else if (flipped) {  // k < form
      f.range = intersect(f.range, {k + 1, kMaxInt});
    } else {  // form < -k
      f.range = intersect(f.range, {kMinInt, -k - 1});
    }
    return true;
  }

  void add(const Expr& part) {
    if (part.is_const()) {
      contradiction |= part.is_const(0);
      return;
    }
    const Expr& relation = part.kind() == ExprKind::Not ? part.args()[0] : part;
    bool related = relation.kind() == ExprKind::Lt || relation.kind() == ExprKind::Eq;
    if (related && add_relation(part.kind(), relation.args()[0], relation.args()[1])) return;
    if (std::find(others.begin(), others.end(), part) == others.end()) others.push_back(part);
  }

  void emit(FormBounds& f, std::vector<Expr>& out) {
    Range given = range_of(f.form);
    Range r = intersect(f.range, given);
    std::sort(f.excluded.begin(), f.excluded.end());
    for (int64_t value : f.excluded)
      if (value == r.lo) ++r.lo;
    for (size_t i = f.excluded.size(); i-- > 0;)
      if (f.excluded[i] == r.hi) --r.hi;
    if (r.lo > r.hi) {
      contradiction = true;
      return;
    }
    if (r.lo == r.hi && (f.equality || (r.lo > given.lo && r.hi < given.hi))) {
      out.push_back(eq(f.form, Expr(r.lo)));
      return;
    }
    bool edge_low = std::find(f.excluded.begin(), f.excluded.end(), r.lo - 1) != f.excluded.end() && r.lo > given.lo;
    bool edge_high = std::find(f.excluded.begin(), f.excluded.end(), r.hi + 1) != f.excluded.end() && r.hi < given.hi;
    // One value cut off at an end of the range stays an inequality of the kind it was.
    if (edge_low && r.lo - 1 == given.lo && f.range.lo <= given.lo) {
      out.push_back(ne(f.form, Expr(given.lo)));
    } else if (r.lo > given.lo) {
      out.push_back(lt(Expr(r.lo - 1), f.form));
    }
    if (edge_high && r.hi + 1 == given.hi && f.range.hi >= given.hi) {
      out.push_back(ne(f.form, Expr(given.hi)));
    } else if (r.hi < given.hi) {
      out.push_back(lt(f.form, Expr(r.hi + 1)));
    }
    int64_t previous = kMinInt;
    for (int64_t value : f.excluded) {
      if (value > r.lo && value < r.hi && value != previous) out.push_back(ne(f.form, Expr(value)));
      previous = value;
    }
  }
};

// Brings the parts of a conjunction into canonical form. False if they contradict each other.
bool normalise(std::vector<Expr>& parts) {
  Conjunction all;
  for (const Expr& part : parts) all.add(part);
  std::vector<Expr> out;
  for (FormBounds& f : all.forms) all.emit(f, out);
  if (all.contradiction) return false;
  for (const Expr& part : all.others) {
    Expr opposite = logical_not(part);
    if (std::find(all.others.begin(), all.others.end(), opposite) != all.others.end()) return false;
    out.push_back(part);
  }
  std::vector<Expr> flat;
  for (const Expr& part : out) flatten(ExprKind::And, part, flat);
  for (const Expr& part : flat)
    if (part.is_const(0)) return false;
  std::erase_if(flat, [](const Expr& e) { return e.is_const(); });
  std::sort(flat.begin(), flat.end(), [](const Expr& a, const Expr& b) { return compare(a, b) < 0; });
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  parts = std::move(flat);
  return true;
}

Expr chain(ExprKind kind, const std::vector<Expr>& parts, int64_t if_none) {
  if (parts.empty()) return Expr(if_none);
  Expr result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) result = make_node(kind, {result, parts[i]});
  return result;
}

Expr conjunction_of(std::vector<Expr> parts) {
  if (!normalise(parts)) return Expr(0);
  return chain(ExprKind::And, parts, 1);
}

// a or b is not (not a and not b): the rules for conjunctions serve both.
Expr disjunction_of(const std::vector<Expr>& parts) {
  std::vector<Expr> opposites;
  for (const Expr& part : parts) flatten(ExprKind::And, logical_not(part), opposites);
  if (!normalise(opposites)) return Expr(1);
  for (Expr& part : opposites) part = logical_not(part);
  std::sort(opposites.begin(), opposites.end(), [](const Expr& a, const Expr& b) { return compare(a, b) < 0; });
  return chain(ExprKind::Or, opposites, 0);
}

Expr negate_list(ExprKind kind, const Expr& e) {
  std::vector<Expr> parts;
  flatten(kind, e, parts);
  for (Expr& part : parts) part = logical_not(part);
  return kind == ExprKind::And ? disjunction_of(parts) : conjunction_of(std::move(parts));
}

bool at_most(const Expr& a, const Expr& b) {
  Sum difference(b);
  difference.add(a, -1);
  return prove_nonnegative(difference);
}

// The smaller (or larger) of two values; keep(a, b) says that a makes b needless.
template <class Keep>
Expr extreme(ExprKind kind, const Expr& a, const Expr& b, Keep keep) {
  std::vector<Expr> parts, kept;
  flatten(kind, a, parts);
  flatten(kind, b, parts);
  for (const Expr& part : parts) {
    if (std::any_of(kept.begin(), kept.end(), [&](const Expr& other) { return keep(other, part); })) continue;
    std::erase_if(kept, [&](const Expr& other) { return keep(part, other); });
    kept.push_back(part);
  }
  std::sort(kept.begin(), kept.end(), [](const Expr& x, const Expr& y) { return compare(x, y) < 0; });
  return chain(kind, kept, 0);
}

}  // namespace

Expr min(const Expr& a, const Expr& b) { return extreme(ExprKind::Min, folded(a), folded(b), at_most); }

Expr max(const Expr& a, const Expr& b) {
  return extreme(ExprKind::Max, folded(a), folded(b), [](const Expr& x, const Expr& y) { return at_most(y, x); });
}

Expr logical_not(const Expr& e) {
  Expr t = truth(e);
  switch (t.kind()) {
    case ExprKind::Const: return Expr(t.is_const(0));
    case ExprKind::Lt: {
      Sum right(t.args()[0]);
      right.add_constant(1);
      // left < right is false where right < left + 1; past the end of int64 left is the largest number there is.
      if (right.overflow) return lt(t.args()[1] - Expr(1), t.args()[0]);
      return lt(t.args()[1], build(std::move(right)));
    }
    case ExprKind::Eq:
      if (t.args()[1].is_const(0) && is_zero_or_one(t.args()[0])) return t.args()[0];
      return make_node(ExprKind::Not, {t});
    case ExprKind::Not: return t.args()[0];
    case ExprKind::And:
    case ExprKind::Or: return negate_list(t.kind(), t);
    default: return make_node(ExprKind::Eq, {t, Expr(0)});
  }
}

Expr logical_and(const Expr& a, const Expr& b) {
  Expr x = truth(a), y = truth(b);
  if (x.is_const()) return x.is_const(0) ? x : y;
  if (y.is_const()) return y.is_const(0) ? y : x;
  if (x == y) return x;
  std::vector<Expr> parts;
  flatten(ExprKind::And, x, parts);
  flatten(ExprKind::And, y, parts);
  return conjunction_of(std::move(parts));
}

Expr logical_or(const Expr& a, const Expr& b) {
  Expr x = truth(a), y = truth(b);
  if (x.is_const()) return x.is_const(0) ? y : x;
  if (y.is_const()) return y.is_const(0) ? x : y;
  if (x == y) return x;
  std::vector<Expr> parts;
  flatten(ExprKind::Or, x, parts);
  flatten(ExprKind::Or, y, parts);
  return disjunction_of(parts);
}

Expr select(const Expr& condition, const Expr& if_true, const Expr& if_false) {
  Expr c = truth(condition), a = folded(if_true), b = folded(if_false);
  if (c.is_const()) return c.is_const(0) ? b : a;
  if (a == b) return a;
  if (c.kind() == ExprKind::Not) return select(c.args()[0], b, a);
  if (c.kind() == ExprKind::Eq && c.args()[1].is_const(0) && is_zero_or_one(c.args()[0]))
    return select(c.args()[0], b, a);
  if (a.kind() == ExprKind::Select && a.args()[0] == c) return select(c, a.args()[1], b);
  if (b.kind() == ExprKind::Select && b.args()[0] == c) return select(c, a, b.args()[2]);
  if (a.is_const(1) && b.is_const(0)) return c;
  if (a.is_const(0) && b.is_const(1)) return logical_not(c);
  if (is_guard(a) && b.is_const(0)) return logical_and(c, a);
  if (is_guard(b) && a.is_const(1)) return logical_or(c, b);
  return make_node(ExprKind::Select, {c, a, b});
}

std::vector<Expr> conjuncts(const Expr& guard) {
  std::vector<Expr> parts;
  flatten(ExprKind::And, guard, parts);
  std::erase_if(parts, [](const Expr& e) { return e.is_const() && !e.is_const(0); });
  return parts;
}

Expr conjunction(std::span<const Expr> parts) {
  std::vector<Expr> flat;
  for (const Expr& part : parts) flatten(ExprKind::And, truth(part), flat);
  return conjunction_of(std::move(flat));
}

bool provably_true(const Expr& condition) { return condition.lo() > 0 || condition.hi() < 0; }

bool provably_equal(const Expr& a, const Expr& b) {
  if (a == b) return true;
  return eq(a, b).is_const(1);
}

}  // namespace heddle
