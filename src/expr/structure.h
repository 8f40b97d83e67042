// Expressions as words of a Structure.
#pragma once

#include <unordered_map>

#include "base/structure.h"
#include "expr/expr.h"

namespace heddle {

// Writes expressions one after the other. A variable is known by its number: that of its first appearance, which also
// says its range. Operands whose order means nothing are written in an order of their own, so that it does not matter
// in which order variables were made, as long as each appears alone before it appears among others.
class ExprWriter {
 public:
  explicit ExprWriter(Structure& to) : words_(to.words) {}
  void write(const Expr& e);
  // What begins to stand for a variable here: from now on it is another one than before. May be a constant.
  void declare(const Expr& var);

 private:
  void variable(const Expr& var);
  void sorted(const Expr& e);
  void operands(const Expr& e, ExprKind kind, std::vector<size_t>& begins);

  std::vector<uint64_t>& words_;
  std::unordered_map<uint64_t, uint64_t> numbers_;  // of variables, by id
  uint64_t next_ = 0;
};

}  // namespace heddle
