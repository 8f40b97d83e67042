// Arithmetic on arrays of elements: core/ops.h's apply(), with the choice of op and dtype made once for an array
// where that is easy.
#pragma once

#include "kernel/interpreter_memory.h"

namespace heddle::kernel {

// An operand as read by a result of another shape: element e of the result reads data[table ? table[e] : e * step].
struct Operand {
  const Cell* data = nullptr;
  const int32_t* table = nullptr;
  int64_t step = 1;  // 0 for a single element

  Cell at(int64_t e) const { return data[table ? table[e] : e * step]; }
};

// `dtype` is that of the first operand but for where, of the second.
void apply_elements(ScalarOp op, DType dtype, std::span<const Operand> operands, Cell* out, int64_t count);
Cell apply_two(ScalarOp op, DType dtype, Cell a, Cell b);
// acc + a * b in the dtype of acc, each step rounded.
Cell multiply_add(DType acc_dtype, DType dtype, Cell acc, Cell a, Cell b);

// The combine of a reducer, ready to run on single elements.
class ReducerProgram {
 public:
  explicit ReducerProgram(const Reducer& reducer);
  // Folds `right` into `left`.
  void combine(Cell* left, const Cell* right) const;
  Cell identity(size_t i) const { return cell(reducer_->identity[i]); }
  size_t width() const { return reducer_->width(); }

 private:
  const Reducer* reducer_;
  std::optional<ScalarOp> simple_;
  mutable std::vector<Scalar> values_;  // scratch of combine()
};

}  // namespace heddle::kernel
