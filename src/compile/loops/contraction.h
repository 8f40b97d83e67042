// Recognises sums of products: what a matrix unit, a register-blocked kernel or packing can be used for.
#pragma once

#include <optional>
#include <unordered_map>

#include "compile/loops/loops.h"

namespace heddle {

// The stage reduces `a * b` with add. The axes are numbered as in a Schedule: outer ones first, then inner.
struct Contraction {
  kernel::Value a, b;
  std::vector<bool> a_axes, b_axes;  // which axes each factor depends on
  // The last outer or kept axis that only a (only b) follows; -1 if there is none.
  int a_axis = -1, b_axis = -1;
  bool is_matmul() const { return a_axis >= 0 && b_axis >= 0; }
  kernel::Value factor(int operand) const { return operand == 0 ? a : b; }
  int axis(int operand) const { return operand == 0 ? a_axis : b_axis; }
  const std::vector<bool>& axes(int operand) const { return operand == 0 ? a_axes : b_axes; }
};

// For every value of the stage's body, and every result of any stage, the axes that it depends on. Results follow all
// outer axes, and those that they are kept along.
std::unordered_map<kernel::Value, std::vector<bool>> dependences(const Loops& loops, const Stage& stage);

// Factors are ordered so that a_axis < b_axis.
std::optional<Contraction> find_contraction(const Loops& loops, const Stage& stage);

// The narrow numbers (bf16 for a sum of f32, i8 for one of i32) that the factor is cast from, if they are loaded.
std::optional<kernel::Value> narrow_factor(const Loops& loops, const Stage& stage, kernel::Value factor);
// Of those, how many make a word of four bytes.
int64_t numbers_per_word(const Loops& loops, kernel::Value narrow);

}  // namespace heddle
