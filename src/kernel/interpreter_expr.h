// Integer expressions compiled to a postfix program over numbered variable slots, so that the interpreter can
// evaluate addresses and guards for millions of elements.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "expr/expr.h"

namespace heddle::kernel {

class IndexProgram {
 public:
  using SlotOf = std::function<int(const Expr& variable)>;

  IndexProgram() : IndexProgram(Expr(0), {}) {}
  IndexProgram(const Expr& e, const SlotOf& slot_of);

  // Throws DeviceError on a division by something that is not positive.
  int64_t run(const int64_t* slots) const;
  bool is_const(int64_t value) const { return steps_.size() == 1 && steps_[0].push && steps_[0].value == value; }

 private:
  struct Step {
    ExprKind kind;
    bool push;      // a constant
    int64_t value;  // the constant or the slot
  };
  void compile(const Expr& e, const SlotOf& slot_of, int depth);

  std::vector<Step> steps_;
  int depth_ = 0;
};

// An element's address: when it is linear in the coordinates, the part free of them is evaluated only once.
struct AddressProgram {
  bool linear = false;
  IndexProgram whole;                 // when not linear
  IndexProgram base;                  // when linear
  std::vector<int64_t> coefficients;  // one for each coordinate

  AddressProgram() = default;
  AddressProgram(const Expr& e, std::span<const Expr> coords, const IndexProgram::SlotOf& slot_of);
};

}  // namespace heddle::kernel
