// Sums of products over labelled axes: what einsum and its kin are made of. Private to src/tensor.
#pragma once

#include <vector>

#include "tensor/build.h"

namespace heddle {

// Labels tell axes apart; an operand has each at most once.
using Labels = std::vector<int>;
struct Labelled {
  Tensor x;
  Labels labels;
};

// Sums over the axes whose labels are not wanted.
Labelled sum_labels(const Labelled& a, const Labels& wanted);
// a * b, summed over the labels that are not wanted. The result has the common labels first, then those of a, then
// those of b. Sizes are equal or 1, and so are dtypes.
Labelled contract(const Labelled& a, const Labelled& b, const Labels& wanted);
// The axes in this order of labels.
Tensor in_order(const Labelled& a, const Labels& order);
// Operands in one dtype; DTypeError naming `op` if that is bool.
std::vector<Tensor> product_operands(const char* op, const std::vector<Tensor>& operands);

}  // namespace heddle
