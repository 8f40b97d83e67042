#include "kernel/interpreter_expr.h"

#include <algorithm>

#include "base/error.h"
#include "base/small_vector.h"

namespace heddle::kernel {
namespace {

// Divisors are positive where the result matters. A symbolic size that is zero may occur in an address behind a guard
// that is false; like compiled code this takes it for one.
int64_t floor_division(int64_t a, int64_t b) {
  b = std::max<int64_t>(b, 1);
  int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

// Wraps on overflow: an absurd address is then reported by the bounds check.
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace

IndexProgram::IndexProgram(const Expr& e, const SlotOf& slot_of) { compile(e, slot_of, 1); }

void IndexProgram::compile(const Expr& e, const SlotOf& slot_of, int depth) {
  depth_ = std::max(depth_, depth);
  if (e.is_const()) {
    steps_.push_back({ExprKind::Const, true, e.value()});
  } else if (e.is_var()) {
    steps_.push_back({ExprKind::Var, false, slot_of(e)});
  } else {
    std::span<const Expr> args = e.args();
    ExprKind kind = e.kind();
    compile(args[0], slot_of, depth);
    if (kind == ExprKind::Not) {
      steps_.push_back({kind, false, 0});
    } else if (kind == ExprKind::Select) {
      compile(args[1], slot_of, depth + 1);
      compile(args[2], slot_of, depth + 2);
      steps_.push_back({kind, false, 0});
    } else {
      for (size_t i = 1; i < args.size(); ++i) {
        compile(args[i], slot_of, depth + 1);
        steps_.push_back({kind, false, 0});
      }
    }
  }
}

int64_t IndexProgram::run(const int64_t* slots) const {
  if (steps_.size() == 1) return steps_[0].push ? steps_[0].value : slots[steps_[0].value];
  SmallVector<int64_t, 32> stack(static_cast<size_t>(depth_) + 1);
  int64_t* top = stack.data();  // the last value pushed; the first place stays unused
  for (const Step& s : steps_) {
    switch (s.kind) {
      case ExprKind::Const: *++top = s.value; continue;
      case ExprKind::Var: *++top = slots[s.value]; continue;
      case ExprKind::Not: *top = *top == 0; continue;
      case ExprKind::Select:
        top -= 2;
        *top = *top != 0 ? top[1] : top[2];
        continue;
      default: break;
    }
    --top;
    int64_t a = top[0], b = top[1];
    switch (s.kind) {
      case ExprKind::Add: *top = wrapping_add(a, b); break;
      case ExprKind::Mul: *top = wrapping_mul(a, b); break;
      case ExprKind::FloorDiv: *top = floor_division(a, b); break;
      case ExprKind::Mod: *top = a - floor_division(a, b) * b; break;
      case ExprKind::Min: *top = std::min(a, b); break;
      case ExprKind::Max: *top = std::max(a, b); break;
      case ExprKind::Lt: *top = a < b; break;
      case ExprKind::Eq: *top = a == b; break;
      case ExprKind::And: *top = a != 0 && b != 0; break;
      case ExprKind::Or: *top = a != 0 || b != 0; break;
      default: break;
    }
  }
  return *top;
}

AddressProgram::AddressProgram(const Expr& e, std::span<const Expr> coords, const IndexProgram::SlotOf& slot_of) {
  Expr rest = e;
  linear = true;
  for (const Expr& c : coords) {
    std::optional<Linear> part;
    if (c.is_var())
      part = linear_in(rest, c);
    else
      part = Linear{0, rest};
    if (!part) {
      linear = false;
      break;
    }
    coefficients.push_back(part->coefficient);
    rest = part->rest;
  }
  if (linear)
    base = IndexProgram(rest, slot_of);
  else
    whole = IndexProgram(e, slot_of);
}

}  // namespace heddle::kernel
