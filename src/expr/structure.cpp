#include "expr/structure.h"

#include <algorithm>

namespace heddle {
namespace {

bool is_commutative(ExprKind kind) {
  switch (kind) {
    case ExprKind::Add:
    case ExprKind::Mul:
    case ExprKind::Min:
    case ExprKind::Max:
    case ExprKind::Eq:
    case ExprKind::And:
    case ExprKind::Or: return true;
    case ExprKind::Const:
    case ExprKind::Var:
    case ExprKind::FloorDiv:
    case ExprKind::Mod:
    case ExprKind::Lt:
    case ExprKind::Not:
    case ExprKind::Select: return false;
  }
  __builtin_unreachable();
}

}  // namespace

void ExprWriter::write(const Expr& e) {
  const ExprKind kind = e.kind();
  words_.push_back(static_cast<uint64_t>(kind));
  if (kind == ExprKind::Const) {
    words_.push_back(static_cast<uint64_t>(e.value()));
  } else if (kind == ExprKind::Var) {
    variable(e);
  } else if (is_commutative(kind)) {
    sorted(e);
  } else {
    for (const Expr& arg : e.args()) write(arg);
  }
}

void ExprWriter::declare(const Expr& var) {
  if (var.is_var()) numbers_.erase(var.id());
  write(var);
}

void ExprWriter::variable(const Expr& var) {
  auto [number, fresh] = numbers_.try_emplace(var.id(), next_);
  next_ += fresh;
  words_.push_back(number->second << 1 | static_cast<uint64_t>(fresh));
  if (!fresh) return;
  words_.push_back(var.is_symbol());
  if (!var.is_symbol()) return write(var.extent());
  for (int64_t word : {var.lo(), var.hi(), var.multiple()}) words_.push_back(static_cast<uint64_t>(word));
}

// Longer ones than pairs of some kinds are nested.
void ExprWriter::operands(const Expr& e, ExprKind kind, std::vector<size_t>& begins) {
  for (const Expr& arg : e.args()) {
    if (arg.kind() == kind && kind != ExprKind::Eq) {
      operands(arg, kind, begins);
      continue;
    }
    begins.push_back(words_.size());
    write(arg);
  }
}

void ExprWriter::sorted(const Expr& e) {
  const size_t count = words_.size();
  words_.push_back(0);
  std::vector<size_t> begins;
  operands(e, e.kind(), begins);
  words_[count] = begins.size();
  std::vector<std::vector<uint64_t>> parts;
  for (size_t i = 0; i < begins.size(); ++i) {
    const size_t end = i + 1 < begins.size() ? begins[i + 1] : words_.size();
    parts.emplace_back(words_.begin() + static_cast<std::ptrdiff_t>(begins[i]),
                       words_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  if (std::is_sorted(parts.begin(), parts.end())) return;
  std::sort(parts.begin(), parts.end());
  auto to = words_.begin() + static_cast<std::ptrdiff_t>(begins[0]);
  for (const std::vector<uint64_t>& part : parts) to = std::copy(part.begin(), part.end(), to);
}

}  // namespace heddle
