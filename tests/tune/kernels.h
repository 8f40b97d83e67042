// Kernels of different kinds, for search.
#pragma once

#include <string>
#include <vector>

#include "../graph/host_storage.h"
#include "compile/fuse/fuse.h"
#include "tune/workload.h"

namespace heddle::testing {

inline Workload workload_of_root(const NodeRef& root) {
  Program program = fuse(std::span(&root, 1));
  if (program.steps.size() != 1 || program.steps[0].direct) std::abort();
  return workload_of(program.steps[0]);
}

inline NodeRef product(int64_t m, int64_t k, int64_t n) {
  NodeRef a = counting(kF32, {m, k, 1}), b = counting(kF32, {1, k, n});
  NodeRef all = scalar_node(ScalarOp::mul, {make_expand(a, Shape{m, k, n}), make_expand(b, Shape{m, k, n})});
  return reduced(ReduceOp::Sum, all, {1});
}

struct NamedWorkload {
  std::string name;
  Workload workload;
};

inline std::vector<NamedWorkload> workloads() {
  NodeRef x = counting(kF32, {60, 70}), y = counting(kF32, {60, 70}), h = counting(kBF16, {33, 130});
  NodeRef sums = make_reshape(reduced(ReduceOp::Sum, x, {1}), Shape{60, 1});
  int transposed[] = {1, 0};
  NodeRef m = product(40, 50, 48);
  return {
      {"elementwise", workload_of_root(scalar_node(ScalarOp::add, {x, y}))},
      {"rows", workload_of_root(reduced(ReduceOp::Max, x, {1}))},
      {"columns", workload_of_root(reduced(ReduceOp::Sum, h, {0}))},
      {"everything", workload_of_root(reduced(ReduceOp::Sum, counting(kF32, {300, 700}), {0, 1}))},
      {"normalised rows", workload_of_root(scalar_node(ScalarOp::div, {x, make_expand(sums, Shape{60, 70})}))},
      {"transposed", workload_of_root(scalar_node(ScalarOp::neg, {make_permute(x, transposed)}))},
      {"scan", workload_of_root(make_scan(ReduceOp::Sum, x, 1))},
      {"product", workload_of_root(scalar_node(ScalarOp::add, {m, m}))},
  };
}

}  // namespace heddle::testing
