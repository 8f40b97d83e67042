#include "tensor/contract.h"

#include <algorithm>

#include "base/error.h"

namespace heddle {
namespace {

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

// x with an axis for every label of `order`: of size 1 where it has none.
Tensor aligned(const Labelled& a, const Labels& order) {
  Labels present;
  Shape shape;
  for (int label : order)
    if (has(a.labels, label)) present.push_back(label);
  NodeRef x = in_order(a, present).node();
  size_t next = 0;
  for (int label : order) shape.push_back(has(a.labels, label) ? x->shape[next++] : Expr(1));
  return Tensor(make_reshape(x, shape));
}

}  // namespace

Tensor in_order(const Labelled& a, const Labels& order) {
  std::vector<int> axes;
  for (int label : order)
    axes.push_back(static_cast<int>(std::find(a.labels.begin(), a.labels.end(), label) - a.labels.begin()));
  return Tensor(make_permute(a.x.node(), axes));
}

Labelled sum_labels(const Labelled& a, const Labels& wanted) {
  std::vector<int> axes;
  Labels rest;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    if (has(wanted, a.labels[i]))
      rest.push_back(a.labels[i]);
    else
      axes.push_back(static_cast<int>(i));
  }
  return {axes.empty() ? a.x : Tensor(make_reduce(ReduceOp::Sum, a.x.node(), axes)), rest};
}

Labelled contract(const Labelled& a, const Labelled& b, const Labels& wanted) {
  // What only one operand has and nobody wants is summed before the product.
  Labels need_a = wanted, need_b = wanted;
  need_a.insert(need_a.end(), b.labels.begin(), b.labels.end());
  need_b.insert(need_b.end(), a.labels.begin(), a.labels.end());
  Labelled left = sum_labels(a, need_a), right = sum_labels(b, need_b);
  Labels common, only_left, only_right, summed;
  for (int label : left.labels) {
    if (!has(right.labels, label))
      only_left.push_back(label);
    else
      (has(wanted, label) ? common : summed).push_back(label);
  }
  for (int label : right.labels)
    if (!has(left.labels, label)) only_right.push_back(label);
  Labels result = common;
  result.insert(result.end(), only_left.begin(), only_left.end());
  result.insert(result.end(), only_right.begin(), only_right.end());
  Labels all = result;
  all.insert(all.end(), summed.begin(), summed.end());
  return sum_labels({mul(aligned(left, all), aligned(right, all)), all}, result);
}

std::vector<Tensor> product_operands(const char* op, const std::vector<Tensor>& operands) {
  DType dtype = operands[0].dtype();
  for (const Tensor& x : operands) dtype = promote(dtype, x.dtype());
  if (dtype == kBool) throw DTypeError(text(op, ": not defined on bool; cast first"));
  std::vector<Tensor> result;
  for (const Tensor& x : operands) result.push_back(cast(x, dtype));
  return result;
}

}  // namespace heddle
