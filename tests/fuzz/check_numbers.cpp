// Small graphs over numbers of all magnitudes, both zeros, subnormals, infinities and NaN: what the real pipeline gives
// must be what the graph says, up to the freedoms of docs/numbers.md.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "fuzz/check.h"
#include "fuzz/ranges.h"
#include "fuzz/transform.h"

namespace heddle::fuzz {

using testing::number;
using testing::Random;
using testing::RandomGraph;
using testing::scalar_node;

NumberCounts& number_counts() {
  static NumberCounts counts;
  return counts;
}

namespace {

bool is_sharp(const Range& r) {
  if (r.lo > r.hi || r.lo == r.hi) return r.lo > r.hi || !r.nan;
  return !r.nan && r.hi - r.lo <= 1e-4 * std::max(std::fabs(r.lo), std::fabs(r.hi));
}

class NumbersMaker {
 public:
  explicit NumbersMaker(const Check& check) : random_(check.seed ^ 0x6e756d62) {
    steps_ = static_cast<int>(random_.between(1, 8));
    if (check.steps >= 0) steps_ = check.steps;
  }

  RandomGraph make(Alternatives& alternatives) {
    alternatives_ = &alternatives;
    pool_.push_back(leaf());
    for (int i = 0; i < steps_; ++i) pool_.push_back(step());
    graph_.roots.push_back(pool_.back());
    if (random_.chance(0.3)) graph_.roots.push_back(random_.of(pool_));
    return std::move(graph_);
  }

 private:
  // All tensors are square, so that everything fits everything.
  Shape shape() const { return {size_, size_}; }

  double wild() {
    switch (random_.below(24)) {
      case 0: return 0.0;
      case 1: return -0.0;
      case 2: return random_.chance(0.5) ? INFINITY : -INFINITY;
      case 3: return NAN;
      case 4: return std::ldexp(static_cast<double>(random_.between(-9, 9)), -148);  // subnormal
      case 5: return std::ldexp(static_cast<double>(random_.between(-3, 3)), -9);
      case 6: return std::numeric_limits<float>::max() * (random_.chance(0.5) ? 1 : -1);
      case 7:
      case 8:
      case 9: return static_cast<double>(random_.between(-4, 4));
      case 10:
      case 11:
      case 12:
      case 13: return random_.uniform() * 4 - 2;
      default: return (random_.uniform() * 2 - 1) * std::pow(10.0, static_cast<double>(random_.between(-38, 38)));
    }
  }

  // Data of one magnitude, which mostly stays finite, or anything at all.
  NodeRef leaf() {
    bool any = random_.chance(0.4);
    double scale = std::pow(10.0, static_cast<double>(random_.between(-38, 37)));
    if (random_.chance(0.3)) scale = 1;
    std::vector<double> values;
    for (int64_t i = 0; i < size_ * size_; ++i) values.push_back(any ? wild() : (random_.uniform() * 2 - 1) * scale);
    NodeRef node = testing::buffer_of(DType::f32, shape(), values);
    graph_.leaves.push_back(node);
    return node;
  }

  NodeRef constant() {
    double value = random_.chance(0.5) ? std::ldexp(1.0, static_cast<int>(random_.between(-20, 20))) : wild();
    return number(DType::f32, value, shape());
  }
  NodeRef partner() {
    int64_t kind = random_.below(10);
    return kind < 6 ? random_.of(pool_) : kind < 8 ? leaf() : constant();
  }
  NodeRef apply(ScalarOp op, std::initializer_list<NodeRef> inputs) { return scalar_node(op, inputs); }
  // Along the last axis or the first, which is there again.
  NodeRef along(ReduceOp op, const NodeRef& x, int axis) {
    Shape kept = shape();
    kept[axis] = 1;
    return make_expand(make_reshape(make_reduce(op, x, std::span(&axis, 1)), kept), shape());
  }
  NodeRef transposed(const NodeRef& x) {
    const int transposed[] = {1, 0};
    return make_permute(x, transposed);
  }
  NodeRef product(const NodeRef& a, const NodeRef& b) {
    Shape left = {size_, 1, size_}, right = {1, size_, size_}, all = {size_, size_, size_};
    NodeRef columns = transposed(b);
    const int last = 2;
    NodeRef both =
        apply(ScalarOp::mul, {make_expand(make_reshape(a, left), all), make_expand(make_reshape(columns, right), all)});
    return make_reduce(ReduceOp::Sum, both, std::span(&last, 1));
  }
  // The weights, and what they are divided by.
  NodeRef softmax(const NodeRef& x, NodeRef& e, NodeRef& by) {
    e = apply(ScalarOp::exp, {apply(ScalarOp::sub, {x, along(ReduceOp::Max, x, 1)})});
    by = along(ReduceOp::Sum, e, 1);
    return apply(ScalarOp::div, {e, by});
  }

  NodeRef unary(const NodeRef& x) {
    static const std::vector<ScalarOp> ops = {ScalarOp::neg,  ScalarOp::abs,  ScalarOp::sqrt,  ScalarOp::exp,
                                              ScalarOp::exp2, ScalarOp::log,  ScalarOp::log1p, ScalarOp::expm1,
                                              ScalarOp::tanh, ScalarOp::atan, ScalarOp::abs,   ScalarOp::sqrt};
    return apply(random_.of(ops), {x});
  }
  NodeRef binary(const NodeRef& x, const NodeRef& y) {
    static const std::vector<ScalarOp> ops = {ScalarOp::add, ScalarOp::sub, ScalarOp::mul,     ScalarOp::mul,
                                              ScalarOp::div, ScalarOp::div, ScalarOp::maximum, ScalarOp::minimum};
    return apply(random_.of(ops), {x, y});
  }

  NodeRef step() {
    NodeRef x = random_.chance(0.6) ? pool_.back() : random_.of(pool_);
    int axis = static_cast<int>(random_.below(2));
    switch (random_.below(14)) {
      case 0:
      case 1: return unary(x);
      case 2:
      case 3:
      case 4: return binary(x, partner());
      case 5: return along(random_.of(std::vector{ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min}), x, axis);
      case 6: return apply(ScalarOp::div, {x, along(random_.of(std::vector{ReduceOp::Max, ReduceOp::Sum}), x, axis)});
      case 7: return apply(ScalarOp::mul, {x, along(ReduceOp::Max, partner(), axis)});
      case 8: return product(x, partner());
      case 9: return apply(ScalarOp::where, {apply(ScalarOp::lt, {x, partner()}), x, partner()});
      case 10: return transposed(x);
      case 11: {  // computed in a small float
        DType small = random_.of(std::vector{DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2});
        NodeRef narrow = make_cast(x, small), other = make_cast(partner(), small);
        if (random_.chance(0.3))
          other = number(small, std::ldexp(1.0, static_cast<int>(random_.between(-9, 8))), shape());
        return make_cast(random_.chance(0.3) ? narrow : binary(narrow, other), DType::f32);
      }
      case 12: {
        NodeRef e, by;
        return softmax(x, e, by);
      }
      default: {  // attention; divided before its sum, or after
        NodeRef e, by, scores = apply(ScalarOp::minimum, {x, number(DType::f32, 50, shape())});
        scores = apply(ScalarOp::maximum, {scores, number(DType::f32, -50, shape())});
        NodeRef values = partner(), weights = softmax(scores, e, by);
        NodeRef result = product(weights, values);
        (*alternatives_)[result.get()] = apply(ScalarOp::div, {product(e, values), by});
        return result;
      }
    }
  }

  Random random_;
  int steps_ = 0;
  int64_t size_ = 4;
  std::vector<NodeRef> pool_;
  Alternatives* alternatives_ = nullptr;
  RandomGraph graph_;
};

}  // namespace

void check_numbers(const Check& check) {
  Alternatives alternatives;
  RandomGraph graph = NumbersMaker(check).make(alternatives);
  try {
    std::vector<std::vector<Range>> want = ranges(graph.roots, alternatives);
    std::vector<HostArray> shapes = evaluate(graph.roots);
    std::vector<HostArray> got = run_realize(graph, shapes, false);
    for (size_t r = 0; r < want.size(); ++r)
      for (size_t i = 0; i < want[r].size(); ++i) {
        const Range& range = want[r][i];
        ++(is_sharp(range) ? number_counts().sharp : number_counts().vague);
        if (range.holds(got[r].floats[i])) continue;
        throw Failure{text("root ", r, ", element ", i, " is ", got[r].floats[i], " and not in [", range.lo, ", ",
                           range.hi, "]", range.nan ? " or NaN" : ""),
                      ""};
      }
  } catch (Failure& failure) {
    failure.detail = print_graph(graph.roots);
    throw;
  } catch (const std::exception& error) {
    throw Failure{error.what(), print_graph(graph.roots)};
  }
}

}  // namespace heddle::fuzz
