// Handles, simplification rules with their exact results, and analyses.
#include "expr/expr.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace heddle {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

// Variables of the tables below, by name.
struct Names {
  Expr i = Expr::index("i", 6), j = Expr::index("j", 4), k = Expr::index("k", 3), x = Expr::index("x", 100);
  Expr y = Expr::symbol("y", -50, 50), b = Expr::index("b", 2), one = Expr::index("one", 1);
  Expr n = Expr::symbol("n", 1, 1000), m = Expr::symbol("m", 1, 1000), h = Expr::symbol("h", 8, 4096, 8);
  Expr p = Expr::index("p", n), q = Expr::index("q", m), r = Expr::index("r", n* m), s = Expr::index("s", n + 1);

  Expr parse(const std::string& text) const {
    return parse_expr(text, [&](const std::string& name) -> Expr {
      for (const Expr& v : {i, j, k, x, y, b, one, n, m, h, p, q, r, s})
        if (v.name() == name) return v;
      throw ValueError("no variable is called " + name);
    });
  }
};

struct Rule {
  const char* input;
  const char* expected;
};

void check(const std::vector<Rule>& rules) {
  Names names;
  for (const Rule& rule : rules) EXPECT_EQ(to_string(names.parse(rule.input)), rule.expected) << rule.input;
}

TEST(Expr, ConstantsLiveInTheHandle) {
  size_t before = live_expr_nodes();
  Expr a(5), c(int64_t{-7});
  EXPECT_TRUE(a.is_const(5));
  EXPECT_EQ(c.value(), -7);
  EXPECT_EQ((a * c + 1).value(), -34);
  EXPECT_EQ(live_expr_nodes(), before);
  EXPECT_EQ(sizeof(Expr), 8u);
}

TEST(Expr, ConstantsOfAll64BitsWork) {
  for (int64_t value : {kMax, kMin, kMax / 2, kMax / 2 + 1, kMin / 2, kMin / 2 - 1}) {
    Expr e(value);
    EXPECT_TRUE(e.is_const());
    EXPECT_EQ(e.kind(), ExprKind::Const);
    EXPECT_EQ(e.value(), value);
    EXPECT_EQ(e.lo(), value);
    EXPECT_EQ(e, Expr(value));
    EXPECT_EQ(to_string(e), std::to_string(value));
    EXPECT_EQ(parse_expr(to_string(e), [](const std::string&) { return Expr(0); }), e);
  }
}

TEST(Expr, MovedFromHandlesAreZero) {
  Expr i = Expr::index("i", 4);
  Expr moved = std::move(i);
  EXPECT_TRUE(Expr(i).is_const(0));  // NOLINT(bugprone-use-after-move): this is what the test is about
  EXPECT_EQ(moved.name(), "i");
  moved = *&moved;
  EXPECT_EQ(moved.name(), "i");
}

TEST(Expr, VariablesKnowTheirBounds) {
  Expr n = Expr::symbol("n", 3, 21, 4);
  EXPECT_EQ(n.lo(), 4);
  EXPECT_EQ(n.hi(), 20);
  EXPECT_EQ(n.multiple(), 4);
  EXPECT_EQ(n.extent(), Expr(21));
  Expr i = Expr::index("i", n * 2);
  EXPECT_EQ(i.hi(), 39);
  EXPECT_EQ(i.extent(), n * 2);
  EXPECT_EQ((n * 6 + 8).multiple(), 8);
  EXPECT_EQ((n * 6 + 8).lo(), 32);
  EXPECT_FALSE(Expr::symbol("n", 1, 2) == Expr::symbol("n", 1, 2));
  EXPECT_EQ(Expr(0).multiple(), 0);
}

TEST(Expr, BadVariablesAreRefused) {
  EXPECT_THROW(Expr::symbol("n", 4, 3), ValueError);
  EXPECT_THROW(Expr::symbol("n", 1, 3, 4), ValueError);
  EXPECT_THROW(Expr::symbol("n", 1, 3, 0), ValueError);
  EXPECT_THROW(Expr::index("i", -1), ValueError);
}

TEST(Expr, SumsAreLinearCombinations) {
  check({{"i + j + i", "i * 2 + j"},
         {"i + j - i", "j"},
         {"(i + j) * 3 - j * 3", "i * 3"},
         {"2 * (i * 4 + 1) - 8 * i", "2"},
         {"i - 3 - j", "i - j - 3"},
         {"-(i + 2)", "-i - 2"},
         {"3 - i", "3 - i"},
         {"-(i * 2)", "-i * 2"},
         {"one * 7 + i", "i"},
         {"(i + 1) * (j + 1)", "i * j + i + j + 1"},
         {"(p * m + q) * n", "n * m * p + n * q"},
         {"i * 4096 + j", "i * 4096 + j"}});
}

TEST(Expr, DivisionSplitsOffMultiples) {
  check({{"(i * 4 + j) // 4", "i"},
         {"(i * 4 + j) % 4", "j"},
         {"(i * 8 + j + 9) // 4", "i * 2 + (j + 1) // 4 + 2"},
         {"(i * 4 + 2) // 8", "i // 2"},
         {"(x * 4 + 2) // 24", "x // 6"},
         {"(x * 4 + 2) % 24", "(x % 6) * 4 + 2"},
         {"(x * 6 + j) // 12", "x // 2"},
         {"(x // 4) // 3", "x // 12"},
         {"((x + 5) // 4 + 2) // 3", "(x + 1) // 12 + 1"},
         {"(x % 12) // 4", "(x // 4) % 3"},
         {"(x % 12) % 4", "x % 4"},
         {"(x + 7) % 4", "(x + 3) % 4"},
         {"(x - 1) // 4", "(x + 3) // 4 - 1"},
         {"(7 - i - j) // 8", "-((i + j) // 8)"},
         {"(99 - x) // 4", "24 - x // 4"},
         {"(99 - x) % 4", "3 - x % 4"},
         {"y // 1", "y"},
         {"y % 1", "0"},
         {"x // 100", "0"},
         {"x % 100", "x"},
         {"i % 6 + i // 6", "i"},
         {"h // 8 * 8", "h"},
         {"h % 8", "0"},
         {"(h + i) // 8", "h // 8"},
         {"(h + i) % 8", "i"},
         {"h // 16 * 16", "(h // 16) * 16"},
         {"h // 8 * 4", "h // 2"}});
}

TEST(Expr, DivisionAndRemainderRecombine) {
  check({{"(x // 4) * 4 + x % 4", "x"},
         {"(x // 4) * 12 + (x % 4) * 3", "x * 3"},
         {"(x // 12) * 12 + ((x // 4) % 3) * 4 + x % 4", "x"},
         {"((x // 4) % 3) * 4 + x % 4", "x % 12"},
         {"x - (x // 4) * 4", "x % 4"},
         {"(y // 5) * 10 + (y % 5) * 2 + i", "y * 2 + i"},
         {"(y // 60) * 60 + (y // 20) % 3 * 20 + (y // 5) % 4 * 5 + y % 5", "y"},
         {"((x + y) // 7) * 7 + (x + y) % 7", "x + y"},
         {"(r // m) * m + r % m", "r"},
         {"(r // m) * m * 4 + r % m * 4 + j", "r * 4 + j"}});
}

TEST(Expr, SymbolicExtentsDecide) {
  check({{"(p * m + q) // m", "p"},
         {"(p * m + q) % m", "q"},
         {"q < m", "1"},
         {"m - 1 < q", "0"},
         {"p * m + q < n * m", "1"},
         {"p * m + q < 3 * m", "p < 3"},
         {"(p * m * 4 + q * 4 + j) // 4", "m * p + q"},
         {"(p * m * 4 + q * 4 + j) // (m * 4)", "p"},
         {"(p * m * 4 + q * 4 + j) % (m * 4)", "q * 4 + j"},
         {"(r * 4 + j) // (m * 4)", "r // m"},
         {"r // m < n", "1"},
         {"r // m // n", "0"},
         {"(s * (m + 1) + q) // (m + 1)", "s"},
         {"(s * (m + 1) + q) % (m + 1)", "q"},
         {"(n * m - 1 - r) // m + r // m", "n - 1"},
         {"(m - 1 - q) // m", "0"},
         {"(m * p + m - 1 - q) % m", "m - q - 1"},
         {"n * m < n", "0"},
         {"n - n * m < 1", "1"}});
}

TEST(Expr, ComparisonsMoveEverythingToOneSide) {
  check({{"i + 3 < j + 5", "i < j + 2"},
         {"i * 4 < 10", "i < 3"},
         {"i * 4 + j < 12", "i < 3"},
         {"i * 4 + j < 24", "1"},
         {"x // 4 < 3", "x < 12"},
         {"x // 4 >= 3", "11 < x"},
         {"i // 2 < j", "i < j * 2"},
         {"i >= 2", "1 < i"},
         {"i > 5", "0"},
         {"i <= 5", "1"},
         {"i == 6", "0"},
         {"i == i", "1"},
         {"i * 2 == 3", "0"},
         {"i * 4 + j == 9", "i == 2 && j == 1"},
         {"h == 12", "0"},
         {"i != j", "i != j"},
         {"!(i == j)", "i != j"},
         {"!(i != j)", "i == j"},
         {"(i < 3) == 0", "2 < i"},
         {"(i < 3) == 1", "i < 3"},
         {"0 < (i < 3)", "i < 3"},
         {"j == i", "i == j"},
         {"-i == 0 - j", "i == j"}});
}

TEST(Expr, GuardsMergeBounds) {
  check({{"i < 3 && i < 5", "i < 3"},
         {"i < 3 && 1 < i", "i == 2"},
         {"i < 3 && 3 < i", "0"},
         {"i < 3 || 2 < i", "1"},
         {"i < 3 || i < 5", "i < 5"},
         {"i < 3 && j < 2 && i < 3", "i < 3 && j < 2"},
         {"i == 2 && i < 3", "i == 2"},
         {"i == 2 && i < 1", "0"},
         {"i != 2 && i == 2", "0"},
         {"i != 4 && i < 3", "i < 3"},
         {"i != 2 && i < 3", "i < 2"},
         {"!(i < 3 && j < 2)", "1 < j || 2 < i"},
         {"i < 3 && (j < 2 || 1 < j)", "i < 3"},
         {"b && b", "b"},
         {"!b", "b == 0"},
         {"!!b", "b"},
         {"x && 1", "x != 0"},
         {"i + j < 5 && i + j < 4", "i + j < 4"},
         {"i - j < 1 && j - i < 1", "i == j"}});
}

TEST(Expr, MinMaxAndSelectUseRanges) {
  check({{"min(i, 7)", "i"},
         {"max(i, 7)", "7"},
         {"min(i + 3, i + 5)", "i + 3"},
         {"max(min(i, j), 0)", "min(i, j)"},
         {"min(min(i, j), i)", "min(i, j)"},
         {"min(j, i)", "min(i, j)"},
         {"min(q, m)", "q"},
         {"select(i < 7, j, k)", "j"},
         {"select(i < 3, j, j)", "j"},
         {"select(i < 3, 1, 0)", "i < 3"},
         {"select(i < 3, 0, 1)", "2 < i"},
         {"select(i != 3, j, k)", "select(i == 3, k, j)"},
         {"select(i < 3, select(i < 3, j, k), 9)", "select(i < 3, j, 9)"},
         {"select(i < 3, j < 2, 0)", "i < 3 && j < 2"}});
}

TEST(Expr, ConditionsSimplifyWhatTheyGuard) {
  Names names;
  struct Case {
    const char* e;
    const char* condition;
    const char* expected;
  };
  for (const Case& c : std::vector<Case>{
           {"x // 10", "x < 10", "0"},
           {"x % 10", "x < 10", "x"},
           {"x % 10", "9 < x && x < 20", "x - 10"},
           {"select(x < 20, j, k)", "x < 10", "j"},
           {"select(x < 20 && j < 2, j, k)", "x < 10", "select(j < 2, j, k)"},
           {"x < 20", "x // 4 < 5", "1"},
           {"x == 3", "x != 3", "0"},
           {"x + i", "x == 3", "i + 3"},
           {"(x + i) // 8", "x + i < 8", "0"},
           {"(x * 4 + i * 4 + j) // 32", "x + i < 8", "0"},
           {"x // 8", "x + i < 8", "0"},
           {"max(x - 3, 0)", "3 <= x", "x - 3"},
           {"min(y, 0)", "y < 0", "y"},
           {"x % 4 + i", "x % 4 == 0", "i"},
           {"p < n", "q < 3", "1"},
           {"x < m", "x + 1 < m", "1"},
           {"x < m", "x < n && n < m", "x < m"},
           {"(x - 1) % m", "0 < x && x <= m", "x - 1"},
           {"b * 4 + i", "b", "i + 4"},
           {"b * 4 + i", "!b", "i"},
           {"x", "0", "x"},
           {"x // 10", "1", "x // 10"},
       })
    EXPECT_EQ(to_string(simplify_given(names.parse(c.e), names.parse(c.condition))), c.expected)
        << c.e << " given " << c.condition;
}

TEST(Expr, SubstituteReplacesEverywhereAtOnce) {
  Names v;
  EXPECT_EQ(substitute(v.i * 4 + v.j, {{v.i, v.j}, {v.j, v.i}}), v.j * 4 + v.i);
  EXPECT_EQ(substitute(floordiv(v.x, 4), {{v.x, v.i * 4 + v.j}}), v.i);
  EXPECT_EQ(substitute(v.i, {{v.i, 3}}), Expr(3));
  EXPECT_EQ(substitute(v.i * 4 + v.j, {{v.k, 3}}), v.i * 4 + v.j);
}

TEST(Expr, SharedExpressionsAreVisitedOnce) {
  // Each step uses the one before it twice: 2^64 paths.
  Expr x = Expr::symbol("x", 0, 3);
  Expr e = x;
  for (int level = 0; level < 64; ++level) e = mod(max(e + x, 7 - e) + min(e, x + level), 1000 + level);
  Expr replaced = substitute(e, {{x, Expr::symbol("z", 0, 3)}});
  EXPECT_FALSE(replaced == e);
  EXPECT_EQ(substitute(e, {{x, 2}}).value(), evaluate(e, [](const Expr&) { return 2; }));
  EXPECT_EQ(evaluate(e, [](const Expr&) { return 2; }), evaluate(replaced, [](const Expr&) { return 2; }));
  EXPECT_EQ(variables(e).size(), 1u);
  simplify_given(e, lt(x, 2));
}

TEST(Expr, LinearIn) {
  Names v;
  auto linear = linear_in(v.i * 4 + v.j * v.n + 3, v.i);
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->coefficient, 4);
  EXPECT_EQ(linear->rest, v.j * v.n + 3);
  EXPECT_FALSE(linear_in(v.j * v.n, v.j));
  EXPECT_FALSE(linear_in(floordiv(v.i + v.j, 3), v.i));
  EXPECT_EQ(linear_in(v.j, v.i)->coefficient, 0);
}

TEST(Expr, ConjunctsAndVariables) {
  Names v;
  Expr guard = v.parse("i < 3 && j < 2 && k < 1");
  EXPECT_EQ(conjuncts(guard).size(), 3u);
  EXPECT_TRUE(conjuncts(Expr(1)).empty());
  EXPECT_EQ(conjunction(conjuncts(guard)), guard);
  EXPECT_EQ(conjunction({}), Expr(1));
  EXPECT_EQ(variables(guard), (std::vector<Expr>{v.i, v.j, v.k}));
  EXPECT_TRUE(depends_on(guard, v.j));
  EXPECT_FALSE(depends_on(guard, v.x));
  EXPECT_TRUE(provably_true(lt(v.i, 6)));
  EXPECT_FALSE(provably_true(lt(v.i, 5)));
  EXPECT_TRUE(provably_equal(v.i + v.j, v.j + v.i));
  EXPECT_FALSE(provably_equal(v.i, v.j));
}

TEST(Expr, OverflowIsAnErrorNeverAWrongValue) {
  Names v;
  EXPECT_THROW(Expr(kMax) + 1, ValueError);
  EXPECT_THROW(Expr(kMin) - 1, ValueError);
  EXPECT_THROW(-Expr(kMin), ValueError);
  EXPECT_THROW(Expr(kMax) * 2, ValueError);
  EXPECT_THROW((v.i * kMax) * 2, ValueError);
  EXPECT_THROW((v.i + kMax) + 1, ValueError);
  EXPECT_THROW(ceildiv(v.i + kMax, 2), ValueError);
  try {
    Expr(kMax) + 1;
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("integer overflow in addition"), std::string::npos);
  }
  // Bounds saturate; comparisons at the ends of the range are still right.
  Expr any = Expr::symbol("any", kMin, kMax);
  EXPECT_EQ((any * 4).hi(), kMax);
  EXPECT_EQ((any + any).lo(), kMin);
  for (const Expr& guard : {lt(any, kMin), lt(any, kMax), le(any, kMax), lt(kMin, any), eq(any, kMin), ne(any, kMax)}) {
    for (int64_t value : {kMin, kMin + 1, int64_t{0}, kMax - 1, kMax}) {
      int64_t expected = guard == lt(any, kMin)   ? 0
                         : guard == lt(any, kMax) ? value < kMax
                         : guard == le(any, kMax) ? 1
                         : guard == lt(kMin, any) ? value > kMin
                         : guard == eq(any, kMin) ? value == kMin
                                                  : value != kMax;
      EXPECT_EQ(evaluate(guard, [&](const Expr&) { return value; }), expected) << guard << " at " << value;
      EXPECT_EQ(evaluate(logical_not(guard), [&](const Expr&) { return value; }), !expected)
          << guard << " at " << value;
    }
  }
  EXPECT_THROW(evaluate(any * 2, [](const Expr&) { return kMax; }), ValueError);
}

TEST(Expr, DivisorsMustBePositive) {
  Names v;
  EXPECT_THROW(floordiv(v.x, 0), ValueError);
  EXPECT_THROW(mod(v.x, -2), ValueError);
  Expr maybe = Expr::symbol("maybe", 0, 4);
  EXPECT_THROW(evaluate(floordiv(v.x, maybe), [](const Expr&) { return 0; }), ValueError);
}

TEST(Expr, TextHasTheUsualOperators) {
  check({{"i*4 + (j//2)%3 < n", "i * 8 + j < n * 2"},
         {"x * 4 + (x // 2) % 3 < n", "x * 4 + (x // 2) % 3 < n"},
         {"(x // 7) * 5 - (y % 3) * 2", "(x // 7) * 5 - (y % 3) * 2"},
         {"-x // 3", "-((x + 2) // 3)"},
         {"-(x // 3)", "-(x // 3)"},
         {"x - -3", "x + 3"}});
  Names v;
  for (const char* bad : {"", "i +", "(i", "i j", "i ** 2", "99999999999999999999", "max(i)", "f(i, j)", "i <", "i )"})
    EXPECT_THROW(v.parse(bad), ParseError) << bad;
  EXPECT_THROW(v.parse("unknown + 1"), ValueError);
  EXPECT_THROW(v.parse(std::string(100000, '(')), ParseError);
  EXPECT_THROW(v.parse(std::string(100000, '-') + "("), ParseError);
  std::ostringstream out;
  out << v.i + 1;
  EXPECT_EQ(out.str(), "i + 1");
}

TEST(Expr, NodesDieWithTheirLastHandle) {
  size_t before = live_expr_nodes();
  {
    Names v;
    Expr e = floordiv(v.x * 7 + v.i * v.n, 5) + mod(v.r, v.m) + select(lt(v.i, v.j), v.k, Expr(kMax));
    EXPECT_GT(live_expr_nodes(), before);
    simplify_given(e, lt(v.x, 3));
    substitute(e, {{v.x, v.i}});
    EXPECT_THROW(e * kMax * kMax, ValueError);
  }
  EXPECT_EQ(live_expr_nodes(), before);
  {
    Expr chain = Expr::symbol("x", 0, 9);
    for (int i = 0; i < 200000; ++i) chain = max(mod(chain, 100), Expr(i % 7)) + i % 3;
  }
  EXPECT_EQ(live_expr_nodes(), before);
}

TEST(Expr, ThreadsShareOneNodePerValue) {
  size_t before = live_expr_nodes();
  {
    Names v;
    constexpr int kThreads = 4, kValues = 200, kRounds = 20;
    std::vector<std::vector<Expr>> results(kThreads);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        ++ready;
        while (ready < kThreads) std::this_thread::yield();
        for (int round = 0; round < kRounds; ++round) {
          results[t].clear();
          for (int c = 1; c <= kValues; ++c)
            results[t].push_back(floordiv(v.x * c + v.i, c + 3) +
                                 mod(v.y, c + 1) * select(lt(v.i, v.j + c % 3), 2, v.k));
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (int t = 1; t < kThreads; ++t) EXPECT_EQ(results[t], results[0]);
  }
  EXPECT_EQ(live_expr_nodes(), before);
}

TEST(ExprBound, is_one_handle_for_each_value) {
  Expr n = Expr::symbol("n", 2, 64, 2);
  EXPECT_EQ(Expr::bound(n, 8), Expr::bound(n, 8));
  EXPECT_NE(Expr::bound(n, 8), Expr::bound(n, 10));
  EXPECT_NE(Expr::bound(n, 8), n);
  EXPECT_TRUE(Expr::bound(n, 8).is_symbol());
  EXPECT_EQ(Expr::bound(n, 8).lo(), 2);
  EXPECT_EQ(Expr::bound(n, 8).hi(), 64);
  EXPECT_EQ(Expr::bound(n, 8).multiple(), 2);
  EXPECT_EQ(to_string(Expr::bound(n, 8) * 3), "n * 3");
}

TEST(ExprBound, brings_the_value_along_but_nothing_is_simplified_by_it) {
  Expr n = Expr::symbol("n", 1, 64), m = Expr::symbol("m", 1, 64);
  Expr a = Expr::bound(n, 5), b = Expr::bound(m, 7);
  EXPECT_EQ(known_value(a * b + floordiv(a, 2)), 37);
  EXPECT_EQ(known_value(Expr(3)), 3);
  EXPECT_EQ(known_value(a + m), std::nullopt);
  EXPECT_EQ(known_value(Expr::index("i", a)), std::nullopt);
  EXPECT_FALSE(lt(a, b).is_const());
  EXPECT_FALSE(eq(a, 5).is_const());
  EXPECT_FALSE(provably_equal(a, Expr(5)));
}

TEST(ExprBound, other_values_keep_the_order_of_terms) {
  Expr n = Expr::symbol("n", 1, 64), m = Expr::symbol("m", 1, 64);
  Expr late = Expr::bound(m, 3), early = Expr::bound(n, 9);  // made in the other order
  EXPECT_EQ(to_string(late * early), "n * m");
  EXPECT_EQ(variables(late + early), (std::vector<Expr>{early, late}));
}

TEST(ExprBound, refuses_values_that_the_symbol_cannot_have) {
  Expr n = Expr::symbol("n", 2, 64, 2);
  EXPECT_THROW(Expr::bound(n, 7), ValueError);
  EXPECT_THROW(Expr::bound(n, 0), ValueError);
  EXPECT_THROW(Expr::bound(n, 66), ValueError);
  EXPECT_THROW(Expr::bound(Expr::bound(n, 8), 8), ValueError);
  EXPECT_THROW(Expr::bound(Expr::index("i", 4), 2), ValueError);
}

}  // namespace
}  // namespace heddle
