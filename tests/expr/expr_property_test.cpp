// Random expressions against brute force: every factory must keep the value, the bounds and the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "expr/expr.h"

namespace heddle {
namespace {

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// An expression together with its value under every assignment.
struct Tabled {
  Expr e;
  std::vector<int64_t> values;
};

struct World {
  std::vector<Expr> vars;
  std::vector<std::map<uint64_t, int64_t>> assignments;

  int64_t evaluate_at(const Expr& e, size_t assignment) const {
    return evaluate(e, [&](const Expr& v) { return assignments[assignment].at(v.id()); });
  }
};

// Variables: i < 3, j < 5, k < 8, m in [1, 4], n in {2, 4, 6}, x < m (symbolic extent).
World make_world() {
  World w;
  Expr i = Expr::index("i", 3), j = Expr::index("j", 5), k = Expr::index("k", 8);
  Expr m = Expr::symbol("m", 1, 4), n = Expr::symbol("n", 2, 6, 2), x = Expr::index("x", m);
  w.vars = {i, j, k, m, n, x};
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 5; ++b)
      for (int64_t c = 0; c < 8; ++c)
        for (int64_t d = 1; d <= 4; ++d)
          for (int64_t e = 2; e <= 6; e += 2)
            for (int64_t f = 0; f < d; ++f) {
              if ((a * 7 + b * 5 + c * 3 + d + e + f) % 3) continue;  // a third is plenty
              w.assignments.push_back({{i.id(), a}, {j.id(), b}, {k.id(), c}, {m.id(), d}, {n.id(), e}, {x.id(), f}});
            }
  return w;
}

class Generator {
 public:
  Generator(const World& world, uint64_t seed) : world_(world), random_(seed) {}

  Tabled leaf(bool only_indices = false) {
    Tabled t;
    if (pick(4) == 0) {
      int64_t value = static_cast<int64_t>(pick(13)) - 3;
      t.e = Expr(value);
      t.values.assign(world_.assignments.size(), value);
      return t;
    }
    t.e = world_.vars[pick(only_indices ? 3 : world_.vars.size())];
    for (const auto& a : world_.assignments) t.values.push_back(a.at(t.e.id()));
    return t;
  }

  // Sums, divisions and remainders only, as indices have them.
  Tabled combine_index(const Tabled& a, const Tabled& b) {
    static constexpr int64_t kNumbers[] = {2, 3, 4, 6, 8, 12, 16, 24, 5, 7};
    int64_t c = kNumbers[pick(10)];
    switch (pick(7)) {
      case 0:
      case 1: return apply(a, b, a.e * c + b.e, [=](int64_t x, int64_t y) { return x * c + y; });
      case 2: return apply(a, b, a.e + b.e * c, [=](int64_t x, int64_t y) { return x + y * c; });
      case 3: return apply(a, b, a.e - b.e, [](int64_t x, int64_t y) { return x - y; });
      case 4: return apply(a, b, floordiv(a.e, Expr(c)), [=](int64_t x, int64_t) { return floor_quotient(x, c); });
      case 5: return apply(a, b, mod(a.e, Expr(c)), [=](int64_t x, int64_t) { return x - c * floor_quotient(x, c); });
      default: return pick(4) ? combine_symbolic(a, b) : guard(a, b);
    }
  }

  Tabled combine_symbolic(const Tabled& a, const Tabled& b) {
    if (too_large(a) || too_large(b)) return a;
    Tabled s = product(variable(3 + pick(3)), pick(2) ? variable(3 + pick(2)) : variable(pick(3)));
    if (pick(2)) s = variable(3 + pick(2));
    switch (pick(3)) {
      case 0: return apply(product(a, s), b, a.e * s.e + b.e, [](int64_t x, int64_t y) { return x + y; });
      case 1:
        if (s.e.lo() < 1) return a;
        return apply(a, s, floordiv(a.e, s.e), floor_quotient);
      default:
        if (s.e.lo() < 1) return a;
        return apply(a, s, mod(a.e, s.e), [](int64_t x, int64_t y) { return x - y * floor_quotient(x, y); });
    }
  }

  Tabled variable(size_t which) {
    Tabled t{world_.vars[which], {}};
    for (const auto& a : world_.assignments) t.values.push_back(a.at(t.e.id()));
    return t;
  }

  Tabled product(const Tabled& a, const Tabled& b) {
    return apply(a, b, a.e * b.e, [](int64_t x, int64_t y) { return x * y; });
  }

  Tabled combine(const Tabled& a, const Tabled& b, const Tabled& c) {
    static constexpr int64_t kDivisors[] = {2, 3, 4, 5, 6, 8, 12};
    switch (pick(17)) {
      case 0:
      case 1: return apply(a, b, a.e + b.e, [](int64_t x, int64_t y) { return x + y; });
      case 2: return apply(a, b, a.e - b.e, [](int64_t x, int64_t y) { return x - y; });
      case 3:
      case 4: {
        int64_t factor = static_cast<int64_t>(pick(9)) - 2;
        return apply(a, a, a.e * Expr(factor), [=](int64_t x, int64_t) { return x * factor; });
      }
      case 5:
        if (too_large(a) || too_large(b)) return a;
        return apply(a, b, a.e * b.e, [](int64_t x, int64_t y) { return x * y; });
      case 6:
      case 7: {
        int64_t d = kDivisors[pick(7)];
        return apply(a, a, floordiv(a.e, Expr(d)), [=](int64_t x, int64_t) { return floor_quotient(x, d); });
      }
      case 8:
      case 9: {
        int64_t d = kDivisors[pick(7)];
        return apply(a, a, mod(a.e, Expr(d)), [=](int64_t x, int64_t) { return x - d * floor_quotient(x, d); });
      }
      case 10: {
        if (too_large(a)) return a;
        const Expr& d = world_.vars[3 + pick(2)];
        Tabled t{pick(2) ? floordiv(a.e, d) : mod(a.e, d), {}};
        bool quotient = t.e == floordiv(a.e, d);
        for (size_t s = 0; s < a.values.size(); ++s) {
          int64_t divisor = world_.assignments[s].at(d.id());
          int64_t q = floor_quotient(a.values[s], divisor);
          t.values.push_back(quotient ? q : a.values[s] - divisor * q);
        }
        return t;
      }
      case 11: return apply(a, b, min(a.e, b.e), [](int64_t x, int64_t y) { return std::min(x, y); });
      case 12: return apply(a, b, max(a.e, b.e), [](int64_t x, int64_t y) { return std::max(x, y); });
      case 13: return guard(a, b);
      case 14:
        return apply(a, b,
                     pick(2) ? logical_not(logical_or(logical_not(a.e), logical_not(b.e))) : logical_and(a.e, b.e),
                     [](int64_t x, int64_t y) { return int64_t{x && y}; });
      case 15: return apply(a, b, logical_or(a.e, b.e), [](int64_t x, int64_t y) { return int64_t{x || y}; });
      default: {
        Tabled t{select(a.e, b.e, c.e), {}};
        for (size_t s = 0; s < a.values.size(); ++s) t.values.push_back(a.values[s] ? b.values[s] : c.values[s]);
        return t;
      }
    }
  }

  Tabled guard(const Tabled& a, const Tabled& b) {
    switch (pick(6)) {
      case 0: return apply(a, b, eq(a.e, b.e), [](int64_t x, int64_t y) { return int64_t{x == y}; });
      case 1: return apply(a, b, ne(a.e, b.e), [](int64_t x, int64_t y) { return int64_t{x != y}; });
      case 2: return apply(a, b, le(a.e, b.e), [](int64_t x, int64_t y) { return int64_t{x <= y}; });
      case 3: return apply(a, b, gt(a.e, b.e), [](int64_t x, int64_t y) { return int64_t{x > y}; });
      case 4: return apply(a, b, ge(a.e, b.e), [](int64_t x, int64_t y) { return int64_t{x >= y}; });
      default: return apply(a, b, lt(a.e, b.e), [](int64_t x, int64_t y) { return int64_t{x < y}; });
    }
  }

  // A pool of growing expressions; each step combines earlier ones.
  std::vector<Tabled> pool(size_t size, bool only_indices) {
    bool index_like = pick(2);
    std::vector<Tabled> pool;
    for (int s = 0; s < 6; ++s) pool.push_back(leaf(only_indices));
    while (pool.size() < size) {
      auto any = [&] {
        return pick(3) ? pool[pool.size() - 1 - pick(std::min<size_t>(pool.size(), 6))] : leaf(only_indices);
      };
      Tabled t = index_like ? combine_index(any(), any()) : combine(any(), any(), any());
      if (to_string(t.e).size() < 400) pool.push_back(std::move(t));
      if (pick(12) == 0) pool.push_back(leaf(only_indices));
    }
    return pool;
  }

  size_t pick(size_t n) { return random_() % n; }

 private:
  static bool too_large(const Tabled& t) { return t.e.lo() < -100000 || t.e.hi() > 100000; }

  template <class F>
  Tabled apply(const Tabled& a, const Tabled& b, Expr e, F f) {
    Tabled t{std::move(e), {}};
    for (size_t s = 0; s < a.values.size(); ++s) t.values.push_back(f(a.values[s], b.values[s]));
    return t;
  }

  const World& world_;
  std::mt19937_64 random_;
};

Expr reparse(const World& w, const Expr& e) {
  return parse_expr(to_string(e), [&](const std::string& name) {
    for (const Expr& v : w.vars)
      if (v.name() == name) return v;
    throw ParseError("unknown name " + name);
  });
}

// Raise for a longer search; the suite has to stay quick.
constexpr uint64_t kSeeds = 40;
constexpr size_t kPoolSize = 60;

TEST(ExprProperty, BuiltExpressionsKeepValueBoundsAndMultiple) {
  World w = make_world();
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const Tabled& t : Generator(w, seed).pool(kPoolSize, seed % 2)) {
      int64_t multiple = t.e.multiple();
      for (size_t s = seed % 3; s < w.assignments.size(); s += 3) {
        ASSERT_EQ(w.evaluate_at(t.e, s), t.values[s]) << t.e << " seed " << seed;
        ASSERT_LE(t.e.lo(), t.values[s]) << t.e << " seed " << seed;
        ASSERT_GE(t.e.hi(), t.values[s]) << t.e << " seed " << seed;
        ASSERT_EQ(multiple == 0 ? t.values[s] : t.values[s] % multiple, 0) << t.e << " seed " << seed;
      }
    }
  }
}

TEST(ExprProperty, TextParsesBackToTheSameExpression) {
  World w = make_world();
  for (uint64_t seed = 1; seed <= 4 * kSeeds; ++seed)
    for (const Tabled& t : Generator(w, seed).pool(kPoolSize, seed % 2))
      ASSERT_EQ(reparse(w, t.e), t.e) << t.e << "\n  reparsed: " << reparse(w, t.e) << "\n  seed " << seed;
}

TEST(ExprProperty, SubstituteAgreesWithEvaluation) {
  World w = make_world();
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Generator g(w, seed);
    std::vector<Tabled> pool = g.pool(kPoolSize, true);
    for (size_t n = 6; n < pool.size(); ++n) {
      // i := k // 3 keeps i within its range; k := 7 - k swaps around.
      const Expr &i = w.vars[0], &k = w.vars[2];
      Expr replaced = substitute(pool[n].e, {{i, floordiv(k, 3)}, {k, 7 - k}});
      for (size_t s = n % 7; s < w.assignments.size(); s += 7) {
        int64_t expected = evaluate(pool[n].e, [&](const Expr& v) {
          int64_t old_k = w.assignments[s].at(k.id());
          return v == i ? old_k / 3 : v == k ? 7 - old_k : w.assignments[s].at(v.id());
        });
        ASSERT_EQ(w.evaluate_at(replaced, s), expected) << pool[n].e << " became " << replaced << " seed " << seed;
      }
    }
  }
}

TEST(ExprProperty, SimplifyGivenAgreesWhereTheConditionHolds) {
  World w = make_world();
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Generator g(w, seed);
    std::vector<Tabled> pool = g.pool(kPoolSize, seed % 3 != 0);
    for (size_t n = 6; n < pool.size(); ++n) {
      Tabled left = g.guard(pool[g.pick(n)], g.leaf()), right = g.guard(g.leaf(), pool[g.pick(6)]);
      Expr condition = g.pick(3) ? logical_and(left.e, right.e) : left.e;
      Expr simple = simplify_given(pool[n].e, condition);
      for (size_t s = 0; s < w.assignments.size(); s += 2) {
        if (!w.evaluate_at(condition, s)) continue;
        ASSERT_EQ(w.evaluate_at(simple, s), pool[n].values[s])
            << pool[n].e << " given " << condition << " became " << simple << " seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace heddle
