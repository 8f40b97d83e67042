// Gradients of random graphs: against differences in double precision, and through the real pipeline.
#include <unordered_map>

#include "fuzz/check.h"
#include "fuzz/differences.h"
#include "fuzz/transform.h"
#include "graph/build.h"
#include "graph/gradient.h"

namespace heddle::fuzz {

using testing::Random;
using testing::RandomGraph;
using testing::RandomGraphOptions;

GradientCounts& gradient_counts() {
  static GradientCounts counts;
  return counts;
}

namespace {

// Mostly one float dtype, so that only stores round.
RandomGraphOptions float_options(const Check& check, Random& random) {
  RandomGraphOptions options = options_of(check);
  DType real = random.chance(0.5) ? DType::f64 : DType::f32;
  options.max_nodes = 60;
  options.max_elements = std::min<int64_t>(options.max_elements, 300);
  options.bits_of_floats = false;
  options.dtypes = {DType::i32, DType::i64, DType::boolean};
  options.dtypes.resize(12, real);
  return options;
}

// Numbers without data behind them: ones, or the sine of a ramp, here and there with zeros.
NodeRef random_cotangent(const NodeRef& x, Random& random) {
  if (random.chance(0.2)) return make_const(Scalar::of(x->dtype, 1), x->shape);
  NodeRef ramp = testing::number(DType::f64, random.uniform() * 6, x->shape);
  for (int axis = 0; axis < x->shape.rank(); ++axis) {
    NodeRef position = make_cast(make_iota(DType::i64, x->shape, axis), DType::f64);
    NodeRef slope = testing::number(DType::f64, 0.5 + random.uniform(), x->shape);
    ramp = testing::scalar_node(ScalarOp::fma, {position, slope, ramp});
  }
  NodeRef wave = testing::scalar_node(ScalarOp::sin, {ramp});
  if (random.chance(0.2))
    wave = testing::scalar_node(ScalarOp::maximum, {wave, testing::number(DType::f64, 0, x->shape)});
  return make_cast(wave, x->dtype);
}

Problem differentiate(const std::vector<NodeRef>& outputs, const std::vector<NodeRef>& leaves, Random& random) {
  Problem problem{outputs, {}, leaves, {}};
  for (const NodeRef& output : outputs) problem.cotangents.push_back(random_cotangent(output, random));
  problem.gradients = gradient(problem.outputs, problem.cotangents, leaves);
  for (size_t i = 0; i < leaves.size(); ++i)
    if (const NodeRef& g = problem.gradients[i]; g && (g->dtype != leaves[i]->dtype || g->shape != leaves[i]->shape))
      throw Failure{text("the gradient of ", leaves[i]->dtype, leaves[i]->shape, " is ", g->dtype, g->shape), ""};
  return problem;
}

// The roots that have gradients, or else the last node inside that has.
std::vector<NodeRef> differentiable_outputs(const RandomGraph& graph, const std::vector<NodeRef>& leaves) {
  auto leads = [&](const NodeRef& output) {
    if (!is_float(output->dtype) || output->result_count() > 1) return false;
    NodeRef one = make_const(Scalar::of(output->dtype, 1), output->shape);
    return !without_null(gradient(std::span(&output, 1), std::span(&one, 1), leaves)).empty();
  };
  std::vector<NodeRef> result;
  for (const NodeRef& root : graph.roots)
    if (leads(root)) result.push_back(root);
  std::vector<const Node*> inside = topological(graph.roots);
  for (size_t i = inside.size(); i-- > 0 && result.empty();)
    if (NodeRef node = NodeRef::share(inside[i]); leads(node)) result.push_back(node);
  return result;
}

// ---- the pipeline ----

bool rounds(const Node& node) {
  if (!is_float(node.dtype)) return false;
  switch (node.op) {
    case NodeOp::Scalar:
      return node.scalar_op != ScalarOp::neg && node.scalar_op != ScalarOp::abs && node.scalar_op != ScalarOp::where &&
             node.scalar_op != ScalarOp::maximum && node.scalar_op != ScalarOp::minimum;
    case NodeOp::Cast: return is_float(node.inputs[0]->dtype);
    case NodeOp::Reduce:
    case NodeOp::Scan: return node.reduce_op == ReduceOp::Sum || node.reduce_op == ReduceOp::Prod;
    case NodeOp::Scatter: return node.scatter_op == ScatterOp::Add || node.scatter_op == ScatterOp::Mul;
    case NodeOp::Unwindow: return true;
    default: return false;
  }
}

// The graph with a relative error at every node that rounds, another one for every value: what comes out says how far
// rounding may lead. Equal values of a node stay equal.
std::vector<NodeRef> rounded_at_random(const std::vector<NodeRef>& roots, Random& random) {
  std::unordered_map<const Node*, NodeRef> now;
  auto disturbed = [&](const NodeRef& x) {
    if (x->op == NodeOp::Const || !is_float(x->dtype)) return x;
    auto number = [&](double value) { return testing::number(x->dtype, value, x->shape); };
    NodeRef wave = testing::scalar_node(ScalarOp::fma, {x, number(997), number(random.uniform() * 6)});
    wave = testing::scalar_node(ScalarOp::sin, {wave});
    NodeRef factor = testing::scalar_node(ScalarOp::fma, {wave, number(testing::unit(x->dtype)), number(1)});
    return testing::scalar_node(ScalarOp::mul, {x, factor});
  };
  for (const Node* node : topological(roots)) {
    SmallVector<NodeRef, 4> inputs;
    bool rounding = rounds(*node), sums = rounding && node->op != NodeOp::Scalar;
    for (const NodeRef& input : node->inputs) inputs.push_back(sums ? disturbed(now[input.get()]) : now[input.get()]);
    NodeRef same = rebuild(*node, inputs);
    now[node] = rounding ? disturbed(same) : same;
  }
  std::vector<NodeRef> result;
  for (const NodeRef& root : roots) result.push_back(now[root.get()]);
  return result;
}

double largest(const HostArray& a) {
  double most = 0;
  for (double x : a.floats) most = std::max(most, std::abs(x));
  return most;
}

void check_pipeline(const Problem& problem, const RandomGraph& from, Random& random) {
  RandomGraph graph{without_null(problem.gradients), {}, from.leaves, from.symbols};
  int64_t bad_indices = 0;
  std::vector<HostArray> want = evaluate(graph.roots, graph.symbols, {}, &bad_indices);
  std::vector<double> off(want.size(), 0);
  for (int draw = 0; draw < 3; ++draw) {
    std::vector<HostArray> other = evaluate(rounded_at_random(graph.roots, random), graph.symbols);
    for (size_t i = 0; i < want.size(); ++i)
      for (size_t k = 0; k < want[i].floats.size(); ++k)
        off[i] = std::max(off[i], std::abs(want[i].floats[k] - other[i].floats[k]));
  }
  std::vector<HostArray> got = run_realize(graph, want, bad_indices > 0);
  for (size_t i = 0; i < want.size(); ++i) {
    double size = largest(want[i]), tolerance = 8 * off[i] + 8 * testing::unit(want[i].dtype) * size;
    bool vague = !(tolerance <= 0.02 * size) && size > 0;
    ++(vague ? gradient_counts().vague : gradient_counts().realized);
    if (vague) continue;
    if (std::string wrong = testing::difference(want[i], got[i], tolerance); !wrong.empty())
      throw Failure{text("gradient ", i, ": ", wrong), ""};
  }
}

}  // namespace

void check_gradient(const Check& check) {
  Random random(check.seed ^ 0x67726164);
  std::string detail;
  GradientCounts& counts = gradient_counts();
  try {
    RandomGraph graph = testing::random_graph(check.seed, float_options(check, random));
    detail = print_graph(graph.roots);
    std::vector<NodeRef> leaves;
    for (const NodeRef& leaf : graph.leaves)
      if (is_float(leaf->dtype)) leaves.push_back(leaf);
    Problem problem = differentiate(differentiable_outputs(graph, leaves), leaves, random);
    if (std::vector<NodeRef> first = without_null(problem.gradients); !first.empty() && random.chance(0.25))
      if (Problem second = differentiate(first, leaves, random); !without_null(second.gradients).empty())
        problem = std::move(second);
    detail += "---- outputs and gradients\n" + print_graph(problem.outputs);
    if (std::vector<NodeRef> list = without_null(problem.gradients); !list.empty()) detail += print_graph(list);
    if (without_null(problem.gradients).empty()) {
      ++counts.constant;
      return;
    }
    Differences differences(problem, graph.symbols);
    bool smooth = differences.agree(random) || differences.agree(random) || differences.agree(random);
    ++(smooth ? counts.differences : counts.kinks);
    check_pipeline(problem, graph, random);
  } catch (Failure& failure) {
    failure.detail = detail;
    throw;
  } catch (const std::exception& error) {
    throw Failure{error.what(), detail};
  }
}

}  // namespace heddle::fuzz
