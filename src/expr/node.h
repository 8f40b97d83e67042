// What stands behind an Expr handle. Only this folder includes it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/intern.h"
#include "base/small_vector.h"
#include "expr/expr.h"
#include "expr/integer.h"

namespace heddle {

struct Variable {
  std::string name;
  uint64_t id;
  Expr extent;  // of an index: it is below this
  bool is_index;
  uint64_t family;               // the id; of a bound symbol that of the symbol it was made from
  std::optional<int64_t> value;  // of a bound symbol
};

using ExprArgs = SmallVector<Expr, 3>;

struct ExprNode {
  ExprNode(ExprKind k, ExprArgs a, uint64_t h) : hash(h), kind(k), args(std::move(a)) {}
  ExprNode(ExprNode&& other) noexcept
      : hash(other.hash),
        kind(other.kind),
        symbolic(other.symbolic),
        lo(other.lo),
        hi(other.hi),
        multiple(other.multiple),
        args(std::move(other.args)),
        variable(std::move(other.variable)) {}

  uint64_t hash;
  std::atomic<uint32_t> refs{1};
  ExprKind kind;
  bool symbolic = false;  // ranges alone may not decide: symbolic extents, divisors or products are inside
  int64_t lo = 0;
  int64_t hi = 0;
  int64_t multiple = 1;
  ExprArgs args;
  std::unique_ptr<Variable> variable;  // of kind Var

  bool same(const ExprNode& other) const {
    if (kind != other.kind) return false;
    if (kind == ExprKind::Var)
      return variable->family == other.variable->family && variable->value == other.variable->value;
    if (kind == ExprKind::Const) return lo == other.lo;
    return args == other.args;
  }

  template <class Sink>
  void drop_children(Sink sink) {
    auto drop = [&](Expr& child) {
      if (child.bits_ & 1) return;
      sink(const_cast<ExprNode*>(child.node()));
      child.bits_ = 1;
    };
    for (Expr& arg : args) drop(arg);
    if (variable) drop(variable->extent);
  }

  static const ExprNode* of(const Expr& e) { return e.bits_ & 1 ? nullptr : e.node(); }
};

// The interned node with these operands as they are: the caller has brought them into canonical form.
Expr make_node(ExprKind kind, ExprArgs args);

// True if ranges alone may not decide questions about e.
inline bool is_symbolic(const Expr& e) { return ExprNode::of(e) && ExprNode::of(e)->symbolic; }

// For an index variable true; its extent() is then the symbolic bound.
inline bool is_index_variable(const Expr& e) { return e.is_var() && ExprNode::of(e)->variable->is_index; }

// A total order that depends on structure and on the order in which variables were made, never on addresses. Bound
// symbols stand where the symbols stand that they were made from, so that another value leaves the order alone.
int compare(const Expr& a, const Expr& b);

// The range of an operation whose operands have these ranges.
Range range_of_operation(ExprKind kind, std::span<const Expr> args, std::span<const Range> ranges);

[[noreturn]] void throw_overflow(const char* operation, const Expr& a, const Expr& b);

}  // namespace heddle
