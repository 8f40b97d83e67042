// Expressions as text, and back.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <ostream>

#include "base/error.h"
#include "expr/expr.h"
#include "expr/sum.h"

namespace heddle {
namespace {

enum Precedence { kOr = 1, kAnd, kCompare, kAdd, kMultiply, kUnary, kAtom };

void print(std::string& out, const Expr& e, int context);

void print_binary(std::string& out, const Expr& e, const char* op, int own, int left, int right, int context) {
  if (own < context) out += '(';
  print(out, e.args()[0], left);
  out += op;
  print(out, e.args()[1], right);
  if (own < context) out += ')';
}

void print_call(std::string& out, const char* name, const Expr& e) {
  out += name;
  const char* separator = "(";
  for (const Expr& arg : e.args()) {
    out += separator;
    print(out, arg, 0);
    separator = ", ";
  }
  out += ')';
}

struct PrintedTerm {
  Term term;
  size_t degree;
};

// A coefficient's size, which has no int64 for the smallest one.
uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

bool prints_minus(const Term& term) { return term.coefficient < 0 && term.coefficient != kMinInt; }

// Without its sign. `tight`: something that binds stronger than // stands in front.
void print_monomial(std::string& out, const Term& term, bool tight) {
  bool first = true;
  bool alone = !tight && factors(term.monomial).size() == 1 && magnitude(term.coefficient) == 1;
  for (const Expr& factor : factors(term.monomial)) {
    if (!first) out += " * ";
    print(out, factor, alone ? kMultiply : kUnary);
    first = false;
  }
  if (term.coefficient == kMinInt) {
    out += " * (" + std::to_string(kMinInt) + ")";
  } else if (magnitude(term.coefficient) != 1) {
    out += " * " + std::to_string(magnitude(term.coefficient));
  }
}

// As people write an index: products first, then large strides before small ones, positive terms before negative.
void print_sum(std::string& out, const Expr& e, int context) {
  std::vector<PrintedTerm> terms;
  int64_t constant = 0;
  for (const Expr& arg : e.args()) {
    if (arg.is_const()) {
      constant = arg.value();
      continue;
    }
    Term term = split_coefficient(arg);
    size_t degree = factors(term.monomial).size();
    terms.push_back({std::move(term), degree});
  }
  std::sort(terms.begin(), terms.end(), [](const PrintedTerm& a, const PrintedTerm& b) {
    bool negative_a = prints_minus(a.term), negative_b = prints_minus(b.term);
    if (negative_a != negative_b) return negative_b;
    if (a.degree != b.degree) return a.degree > b.degree;
    if (magnitude(a.term.coefficient) != magnitude(b.term.coefficient))
      return magnitude(a.term.coefficient) > magnitude(b.term.coefficient);
    return compare(a.term.monomial, b.term.monomial) < 0;
  });
  if (kAdd < context) out += '(';
  bool constant_first = constant > 0 && prints_minus(terms[0].term);
  if (constant_first) out += std::to_string(constant);
  for (size_t i = 0; i < terms.size(); ++i) {
    bool negative = prints_minus(terms[i].term), leading = i == 0 && !constant_first;
    if (i > 0 || constant_first) {
      out += negative ? " - " : " + ";
    } else if (negative) {
      out += "-";
    }
    print_monomial(out, terms[i].term, negative && leading);
  }
  if (constant == kMinInt) {
    out += " + (" + std::to_string(constant) + ")";
  } else if (constant != 0 && !constant_first) {
    out += constant < 0 ? " - " : " + ";
    out += std::to_string(magnitude(constant));
  }
  if (kAdd < context) out += ')';
}

void print(std::string& out, const Expr& e, int context) {
  switch (e.kind()) {
    case ExprKind::Const: {
      bool wrap = e.value() < 0 && context > kAdd;
      out += wrap ? "(" + std::to_string(e.value()) + ")" : std::to_string(e.value());
      return;
    }
    case ExprKind::Var: out += e.name(); return;
    case ExprKind::Add: return print_sum(out, e, context);
    case ExprKind::Mul: {
      Term term = split_coefficient(e);
      // A leading minus belongs to the sum level.
      bool negative = prints_minus(term);
      int own = negative ? kAdd : kMultiply;
      if (own < context) out += '(';
      if (negative) out += '-';
      print_monomial(out, term, negative);
      if (own < context) out += ')';
      return;
    }
    case ExprKind::FloorDiv: return print_binary(out, e, " // ", kMultiply, kUnary, kUnary, context);
    case ExprKind::Mod: return print_binary(out, e, " % ", kMultiply, kUnary, kUnary, context);
    case ExprKind::Lt: return print_binary(out, e, " < ", kCompare, kAdd, kAdd, context);
    case ExprKind::Eq: return print_binary(out, e, " == ", kCompare, kAdd, kAdd, context);
    case ExprKind::And: return print_binary(out, e, " && ", kAnd, kAnd, kCompare, context);
    case ExprKind::Or: return print_binary(out, e, " || ", kOr, kOr, kCompare, context);
    case ExprKind::Not: return print_binary(out, e.args()[0], " != ", kCompare, kAdd, kAdd, context);
    case ExprKind::Min: return print_call(out, "min", e);
    case ExprKind::Max: return print_call(out, "max", e);
    case ExprKind::Select: return print_call(out, "select", e);
  }
}

class Parser {
 public:
  Parser(std::string_view text, const std::function<Expr(const std::string&)>& find) : text_(text), find_(find) {}

  Expr parse() {
    Expr e = parse_or();
    skip_space();
    if (at_ != text_.size()) fail("an operator or the end");
    return e;
  }

 private:
  static constexpr int kDepthLimit = 200;

  [[noreturn]] void fail(const char* expected) const {
    throw ParseError(text("expression '", text_, "', column ", at_ + 1, ": expected ", expected));
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token, const char* expected) {
    if (!accept(token)) fail(expected);
  }

  Expr parse_or() {
    if (++depth_ > kDepthLimit) fail("fewer nested parentheses");
    Expr left = parse_and();
    while (accept("||")) left = logical_or(left, parse_and());
    --depth_;
    return left;
  }

  Expr parse_and() {
    Expr left = parse_comparison();
    while (accept("&&")) left = logical_and(left, parse_comparison());
    return left;
  }

  Expr parse_comparison() {
    Expr left = parse_sum();
    if (accept("<=")) return le(left, parse_sum());
    if (accept(">=")) return ge(left, parse_sum());
    if (accept("==")) return eq(left, parse_sum());
    if (accept("!=")) return ne(left, parse_sum());
    if (accept("<")) return lt(left, parse_sum());
    if (accept(">")) return gt(left, parse_sum());
    return left;
  }

  // Terms are added up at once: parts of a canonical sum need not be canonical sums themselves.
  Expr parse_sum() {
    Sum sum;
    sum.add(parse_product(), 1);
    for (;;) {
      if (accept("+")) {
        sum.add(parse_product(), 1);
      } else if (accept("-")) {
        sum.add(parse_product(), -1);
      } else {
        return build(std::move(sum));
      }
    }
  }

  Expr parse_product() {
    Expr left = parse_unary();
    for (;;) {
      if (accept("*")) {
        left = left * parse_unary();
      } else if (accept("//")) {
        left = floordiv(left, parse_unary());
      } else if (accept("%")) {
        left = mod(left, parse_unary());
      } else {
        return left;
      }
    }
  }

  Expr parse_unary() {
    bool minus = false;
    while (accept("-")) minus = !minus;
    if (accept("!")) {
      if (++depth_ > kDepthLimit) fail("fewer nested operators");
      Expr e = logical_not(parse_unary());
      --depth_;
      return minus ? -e : e;
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) return parse_number(minus);
    Expr e = parse_atom();
    return minus ? -e : e;
  }

  Expr parse_number(bool minus) {
    uint64_t value = 0;
    auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    uint64_t limit = static_cast<uint64_t>(kMaxInt) + (minus ? 1 : 0);
    if (status != std::errc() || value > limit) fail("a number that fits 64 bits");
    at_ = static_cast<size_t>(end - text_.data());
    return Expr(static_cast<int64_t>(minus ? 0 - value : value));
  }

  Expr parse_atom() {
    if (accept("(")) {
      Expr e = parse_or();
      expect(")", "')'");
      return e;
    }
    auto is_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
    };
    size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (begin == at_) fail("a number, a name or '('");
    std::string name(text_.substr(begin, at_ - begin));
    size_t after = at_;
    if (!accept("(")) {
      at_ = after;
      return find_(name);
    }
    return parse_call(name);
  }

  Expr parse_call(const std::string& name) {
    std::vector<Expr> args;
    do args.push_back(parse_or());
    while (accept(","));
    expect(")", "',' or ')'");
    if (name == "min" && args.size() == 2) return min(args[0], args[1]);
    if (name == "max" && args.size() == 2) return max(args[0], args[1]);
    if (name == "select" && args.size() == 3) return select(args[0], args[1], args[2]);
    fail("min(a, b), max(a, b) or select(c, a, b) before this place");
  }

  std::string_view text_;
  const std::function<Expr(const std::string&)>& find_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string to_string(const Expr& e) {
  std::string out;
  print(out, e, 0);
  return out;
}

std::ostream& operator<<(std::ostream& out, const Expr& e) { return out << to_string(e); }

Expr parse_expr(std::string_view text, const std::function<Expr(const std::string& name)>& find) {
  return Parser(text, find).parse();
}

}  // namespace heddle
