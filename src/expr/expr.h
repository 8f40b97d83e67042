// Integer expressions: tensor dimensions, loop bounds, element indices and guards.
//
// An Expr is a value of eight bytes. Constants live inside it; everything else is an interned, immutable node,
// so equal expressions are equal handles. Building an expression simplifies it: the factories below always
// return the canonical form, with sums as sorted linear combinations.
//
// Arithmetic is on int64. Division and remainder round towards minus infinity (divisors are positive).
// Comparisons give 0 or 1; guards are expressions of that kind.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

enum class ExprKind : uint8_t { Const, Var, Add, Mul, FloorDiv, Mod, Min, Max, Lt, Eq, And, Or, Not, Select };

struct ExprNode;

class Expr {
 public:
  Expr() : Expr(int64_t{0}) {}
  Expr(int64_t value);
  Expr(int value) : Expr(int64_t{value}) {}
  Expr(const Expr& other) : bits_(other.bits_) {
    if (!(bits_ & 1)) retain();
  }
  Expr(Expr&& other) noexcept : bits_(other.bits_) { other.bits_ = 1; }
  Expr& operator=(const Expr& other) { return *this = Expr(other); }
  Expr& operator=(Expr&& other) noexcept {
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~Expr() {
    if (!(bits_ & 1)) release();
  }

  // A symbol of a program (a size bound at run time): lo <= value <= hi, a multiple of `multiple`.
  // Two calls give two different symbols, whatever their names.
  static Expr symbol(std::string name, int64_t lo, int64_t hi, int64_t multiple = 1);
  // The size `symbol` where it is `value`: a symbol of its own that brings its value along. Equal calls give equal
  // handles. Name, bounds and divisor are those of `symbol`; nothing but known_value() looks at the value, so what is
  // built of it holds for every other value too.
  static Expr bound(const Expr& symbol, int64_t value);
  // A loop or tile coordinate: 0 <= value < extent. The extent may hold symbols.
  static Expr index(std::string name, const Expr& extent);

  ExprKind kind() const;
  bool is_const() const { return (bits_ & 1) || is_large_const(); }
  bool is_const(int64_t value) const { return is_const() && this->value() == value; }
  bool is_var() const { return kind() == ExprKind::Var; }
  bool is_symbol() const;  // a variable that is no index
  int64_t value() const;   // of a constant
  // Operands. Add and Mul have two or more in canonical order, a constant last; a term of a sum with a
  // coefficient is a Mul that ends in it. Everything else is binary (longer And, Or, Min, Max nest to the left)
  // but Not (one) and Select (three). Not occurs only around Eq.
  std::span<const Expr> args() const;
  const std::string& name() const;  // of a variable
  uint64_t id() const;              // of a variable: unique in the process
  Expr extent() const;              // of an index variable; for a symbol hi() + 1

  // Bounds known from the bounds of variables; saturated at the ends of int64.
  int64_t lo() const;
  int64_t hi() const;
  // The largest known divisor of every value (0 for the constant 0).
  int64_t multiple() const;

  uint64_t hash() const;
  // Canonical forms are interned, so this is a comparison of handles. Use eq() to build a comparison expression.
  friend bool operator==(const Expr& a, const Expr& b) { return a.bits_ == b.bits_; }

 private:
  friend struct ExprNode;
  friend Expr expr_from_node(const ExprNode*);
  const ExprNode* node() const { return reinterpret_cast<const ExprNode*>(bits_); }
  bool is_large_const() const;
  void retain() const;
  void release() const;
  // Low bit set: a constant of 63 bits. Else an owned ExprNode*. Constants outside 63 bits are nodes too.
  uintptr_t bits_;
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr operator*(const Expr& a, const Expr& b);
Expr floordiv(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
Expr ceildiv(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr lt(const Expr& a, const Expr& b);
Expr le(const Expr& a, const Expr& b);
Expr gt(const Expr& a, const Expr& b);
Expr ge(const Expr& a, const Expr& b);
Expr eq(const Expr& a, const Expr& b);
Expr ne(const Expr& a, const Expr& b);
Expr logical_and(const Expr& a, const Expr& b);
Expr logical_or(const Expr& a, const Expr& b);
Expr logical_not(const Expr& a);
Expr select(const Expr& condition, const Expr& if_true, const Expr& if_false);

// A variable that can have one value only is that value.
inline Expr folded(const Expr& e) { return e.is_var() && e.lo() == e.hi() ? Expr(e.lo()) : e; }

// Replaces variables (matched as handles) everywhere, simplifying again. Linear in the size of the expression.
using Substitution = std::vector<std::pair<Expr, Expr>>;
Expr substitute(const Expr& e, const Substitution& replacements);

// Simplifies e knowing that `condition` holds (for instance an index under its guard).
Expr simplify_given(const Expr& e, const Expr& condition);

// The value of e where value_of gives that of each variable.
int64_t evaluate(const Expr& e, const std::function<int64_t(const Expr& var)>& value_of);

// The value of e where every variable in it is a bound symbol (or there is none).
std::optional<int64_t> known_value(const Expr& e);

bool depends_on(const Expr& e, const Expr& var);
std::vector<Expr> variables(const Expr& e);  // each once, in the order in which they were made

// e == coefficient * var + rest, rest free of var; nothing when e is not of that form with a constant coefficient.
struct Linear {
  int64_t coefficient;
  Expr rest;
};
std::optional<Linear> linear_in(const Expr& e, const Expr& var);

// The conjuncts of a guard: And split into its parts; the constant true has none.
std::vector<Expr> conjuncts(const Expr& guard);
Expr conjunction(std::span<const Expr> parts);

// True only if it can be shown for all values of the variables.
bool provably_true(const Expr& condition);
bool provably_equal(const Expr& a, const Expr& b);

// Text with the usual operators: "i * 4 + (j // 2) % 3 < n". Names come from the variables.
std::string to_string(const Expr& e);
std::ostream& operator<<(std::ostream& out, const Expr& e);
// The inverse; `find` maps a name to its variable and throws for unknown ones.
Expr parse_expr(std::string_view text, const std::function<Expr(const std::string& name)>& find);

// Nodes alive in the process, for leak tests.
size_t live_expr_nodes();

}  // namespace heddle

template <>
struct std::hash<heddle::Expr> {
  size_t operator()(const heddle::Expr& e) const { return e.hash(); }
};
