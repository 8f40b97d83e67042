// Graphs through fuse, schedule, tile and the lowerings, against the evaluator.
#include "leaves.h"
#include "run_program.h"

namespace heddle {
namespace {

using testing::How;
using testing::leaf;
using testing::op;

NodeRef reduce(ReduceOp o, const NodeRef& x, std::vector<int> axes) { return make_reduce(o, x, axes); }
NodeRef spread(const NodeRef& x, const Shape& shape, size_t axis) {
  Shape kept = shape;
  kept[axis] = 1;
  return make_expand(make_reshape(x, kept), shape);
}
NodeRef softmax(const NodeRef& x, int axis) {
  NodeRef m = spread(reduce(ReduceOp::Max, x, {axis}), x->shape, static_cast<size_t>(axis));
  NodeRef e = op(ScalarOp::exp, {op(ScalarOp::sub, {x, m})});
  return op(ScalarOp::div, {e, spread(reduce(ReduceOp::Sum, e, {axis}), x->shape, static_cast<size_t>(axis))});
}
NodeRef matmul(const NodeRef& a, const NodeRef& b) {
  Shape all{a->shape[0], b->shape[1], a->shape[1]};
  NodeRef x = make_expand(make_reshape(a, Shape{a->shape[0], 1, a->shape[1]}), all);
  NodeRef y =
      make_expand(make_reshape(make_permute(b, std::vector<int>{1, 0}), Shape{1, b->shape[1], b->shape[0]}), all);
  return reduce(ReduceOp::Sum, op(ScalarOp::mul, {x, y}), {2});
}

struct Case {
  std::string name;
  std::vector<NodeRef> roots;
  int launches;
  double tolerance = 2e-5;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  NodeRef x = leaf({37, 50}, 1), y = leaf({37, 50}, 2), w = leaf({50}, 3), big = leaf({70, 130}, 4);
  NodeRef one = make_const(Scalar::of(kF32, 1.0), x->shape);
  list.push_back({"add", {op(ScalarOp::add, {x, y})}, 1});
  list.push_back({"chain", {op(ScalarOp::tanh, {op(ScalarOp::add, {op(ScalarOp::mul, {x, y}), one})})}, 1});
  list.push_back({"broadcast", {op(ScalarOp::add, {x, spread(w, x->shape, 0)})}, 1});
  list.push_back({"transpose", {make_permute(big, std::vector<int>{1, 0})}, 1});
  list.push_back({"sum_rows", {reduce(ReduceOp::Sum, x, {1})}, 1});
  list.push_back({"sum_columns", {reduce(ReduceOp::Sum, x, {0})}, 1});
  list.push_back({"sum_all", {reduce(ReduceOp::Sum, leaf({450, 301}, 5), {0, 1})}, 1, 1e-3});
  list.push_back({"max_min", {reduce(ReduceOp::Max, x, {1}), reduce(ReduceOp::Min, x, {1})}, 1});
  list.push_back({"softmax_rows", {softmax(leaf({100, 50}, 6), 1)}, 1});
  list.push_back({"softmax_columns", {softmax(leaf({50, 100}, 7), 0)}, 1});
  list.push_back({"matmul", {matmul(leaf({37, 29}, 8), leaf({29, 70}, 9))}, 1});
  NodeRef product = matmul(leaf({37, 29}, 8), leaf({29, 50}, 9));
  list.push_back({"matmul_bias_relu",
                  {op(ScalarOp::maximum, {op(ScalarOp::add, {product, spread(w, x->shape, 0)}),
                                          make_const(Scalar::of(kF32, 0.0), x->shape)})},
                  1});
  list.push_back(
      {"argmax",
       {make_get(make_arg_reduce(ReduceOp::Max, x, 1), 1), make_get(make_arg_reduce(ReduceOp::Max, x, 1), 0)},
       1});
  auto scan = [](ReduceOp op_, const NodeRef& v, int axis) { return make_scan(op_, v, axis); };
  list.push_back({"cumsum_rows", {scan(ReduceOp::Sum, x, 1)}, 1});
  list.push_back({"cumsum_columns", {op(ScalarOp::add, {scan(ReduceOp::Sum, op(ScalarOp::mul, {x, y}), 0), one})}, 1});
  list.push_back({"cumsum_long", {scan(ReduceOp::Sum, leaf({2, 9001}, 17), 1)}, 1, 1e-4});
  list.push_back({"cummax_and_sum", {scan(ReduceOp::Max, x, 0), scan(ReduceOp::Sum, y, 0)}, 2});
  list.push_back({"two_scans", {op(ScalarOp::add, {scan(ReduceOp::Max, x, 1), scan(ReduceOp::Sum, y, 1)})}, 1});
  list.push_back({"scan_of_scan", {scan(ReduceOp::Sum, scan(ReduceOp::Min, big, 1), 1)}, 1, 1e-4});
  list.push_back({"scan_across", {scan(ReduceOp::Sum, scan(ReduceOp::Sum, x, 1), 0)}, 2, 1e-4});
  std::vector<int> last_axis = {1};
  list.push_back({"cumsum_backwards", {make_flip(scan(ReduceOp::Sum, make_flip(x, last_axis), 1), last_axis)}, 1});
  list.push_back({"gather_of_cumsum", {make_gather_along(scan(ReduceOp::Sum, x, 0), leaf({37, 50}, 18, kI32), 1)}, 2});
  list.push_back({"cumsum_softmax", {scan(ReduceOp::Sum, softmax(leaf({100, 50}, 6), 1), 1)}, 1});
  list.push_back({"pad", {make_pad(x, std::vector<Expr>{1, 2}, std::vector<Expr>{3, 4}, Scalar::of(kF32, 7.0))}, 1});
  list.push_back({"flip", {make_flip(x, std::vector<int>{1})}, 1});
  list.push_back({"window", {reduce(ReduceOp::Max, make_window(x, 1, 5, 2, 1), {2})}, 1});
  list.push_back({"unwindow", {make_unwindow(make_window(x, 1, 5, 2, 1), 1, 5, 2, 1, 50)}, 1});
  list.push_back({"cat", {make_cat(std::vector<NodeRef>{x, y}, 1)}, 1});
  list.push_back({"gather", {make_gather(x, leaf({4, 6}, 10, kI32), 0)}, 1});
  auto unchecked = [](const NodeRef& from, const NodeRef& index) {
    return make_gather(from, index, 0, kUncheckedIndex);
  };
  NodeRef few = unchecked(x, leaf({7}, 19, kI32)), more = unchecked(y, leaf({9}, 20, kI32));
  list.push_back({"gathers_without_checks", {few, more}, 2});
  NodeRef rows = make_gather(x, leaf({6}, 17, kI32), 0);
  NodeRef both = op(ScalarOp::tanh, {make_cat(std::vector<NodeRef>{rows, rows}, 0)});
  list.push_back({"gather_cut_off", {make_shrink(both, std::vector<Expr>{0, 0}, std::vector<Expr>{6, 50})}, 1});
  // Data may choose a part without the scan, in a row that the scan does not have.
  NodeRef line = leaf({1, 3, 5}, 18);
  NodeRef parts = make_cat(std::vector<NodeRef>{make_scan(ReduceOp::Min, line, 1), line, op(ScalarOp::neg, {line})}, 0);
  NodeRef chosen = op(ScalarOp::mod, {leaf({}, 19, kI32), make_const(Scalar::of(kI32, 3), Shape{})});
  list.push_back({"scan_in_a_part_that_data_chooses", {make_gather(op(ScalarOp::asinh, {parts}), chosen, 0)}, 2});
  list.push_back(
      {"bf16", {make_cast(op(ScalarOp::mul, {leaf({33, 20}, 11, kBF16), leaf({33, 20}, 12, kBF16)}), kF32)}, 1});
  NodeRef n = make_const(Scalar::of(kF32, 1.0 / 50), Shape{100});
  NodeRef z = leaf({100, 50}, 13);
  NodeRef mean = op(ScalarOp::mul, {reduce(ReduceOp::Sum, z, {1}), n});
  NodeRef centred = op(ScalarOp::sub, {z, spread(mean, z->shape, 1)});
  NodeRef var = op(ScalarOp::mul, {reduce(ReduceOp::Sum, op(ScalarOp::mul, {centred, centred}), {1}), n});
  list.push_back({"mean_variance", {mean, var}, 1});
  NodeRef scale = op(ScalarOp::sqrt, {op(ScalarOp::add, {var, n})});
  list.push_back({"layernorm", {op(ScalarOp::div, {centred, spread(scale, z->shape, 1)})}, 1});
  auto logsumexp = [](const NodeRef& v, int axis) {
    NodeRef most = reduce(ReduceOp::Max, v, {axis});
    auto all = [&](double value) { return make_const(Scalar::of(kF32, value), most->shape); };
    NodeRef finite = op(ScalarOp::lt, {op(ScalarOp::abs, {most}), all(std::numeric_limits<double>::infinity())});
    NodeRef shift = op(ScalarOp::where, {finite, most, all(0)});
    NodeRef terms = op(ScalarOp::exp, {op(ScalarOp::sub, {v, spread(shift, v->shape, axis)})});
    return op(ScalarOp::add, {op(ScalarOp::log, {reduce(ReduceOp::Sum, terms, {axis})}), shift});
  };
  list.push_back({"logsumexp_rows", {logsumexp(z, 1)}, 1});
  list.push_back({"logsumexp_columns", {logsumexp(leaf({900, 300}, 21), 0)}, 1});
  list.push_back({"logsumexp_of_a_long_row", {logsumexp(leaf({1, 150000}, 22), 1)}, 1});
  list.push_back({"logsumexp_of_narrow_columns", {logsumexp(leaf({20001, 8}, 23), 0)}, 1});
  NodeRef twice = matmul(op(ScalarOp::tanh, {matmul(leaf({40, 30}, 14), leaf({30, 20}, 15))}), leaf({20, 40}, 16));
  list.push_back({"mlp", {twice}, 2});
  return list;
}

class Pipeline : public ::testing::TestWithParam<size_t> {};

TEST_P(Pipeline, agrees_with_the_evaluator_under_default_and_random_schedules) {
  Case c = cases()[GetParam()];
  SCOPED_TRACE(c.name);
  testing::expect_like_evaluator(c.roots, c.launches, c.tolerance, [](How) { return 5; });
}

INSTANTIATE_TEST_SUITE_P(Graphs, Pipeline, ::testing::Range<size_t>(0, cases().size()),
                         [](const auto& test) { return cases()[test.param].name; });

}  // namespace
}  // namespace heddle
