// Plans for the regions of control flow.
#include "runtime/control.h"

#include <algorithm>

#include "base/error.h"
#include "graph/graph.h"

namespace heddle {
namespace {

using Result = RegionPlan::Result;

Result result_of(const NodeRef& root, const RegionPlan& plan, const GraphKey& key, const Region& region) {
  auto parameter = [&](const Node* node) {
    auto found = std::find_if(region.parameters.begin(), region.parameters.end(),
                              [&](const NodeRef& p) { return p.get() == node; });
    HD_ASSERT(found != region.parameters.end(), "a region uses what is no parameter of it: ", name(node->op));
    return Result{Result::Kind::Parameter, static_cast<size_t>(found - region.parameters.begin())};
  };
  if (is_provided(*root)) return parameter(root.get());
  const std::vector<PlanOutput>& outputs = plan.cached->plan.outputs;
  size_t output = key.number(root.get());
  while (outputs[output].same_as >= 0) output = static_cast<size_t>(outputs[output].same_as);
  if (outputs[output].leaf >= 0) return parameter(key.leaves[static_cast<size_t>(outputs[output].leaf)]);
  if (outputs[output].argument >= 0) return {Result::Kind::Argument, static_cast<size_t>(outputs[output].argument)};
  if (bytes_of(*root).is_const(0)) return {Result::Kind::Nothing};
  return {Result::Kind::Output, output};
}

// `carried`: so many results take the places of the parameters of the same numbers.
RegionPlan plan_region(const Region& region, size_t carried, const GraphKey& around, Backend& device) {
  std::vector<StateUpdate> updates;
  for (size_t i = 0; i < carried; ++i) {
    const NodeRef &before = region.parameters[i], &after = region.results[i];
    if (is_provided(*before) && !is_provided(*after)) updates.push_back({before.get(), after.get()});
  }
  GraphKey key;
  key.read_region(region, updates, around.modes, device);
  RegionPlan plan;
  plan.cached = plan_for(region.results, key);
  plan.numbers = key.numbers;
  for (const Expr& symbol : key.symbols) {
    auto found = std::find(around.symbols.begin(), around.symbols.end(), symbol);
    HD_ASSERT(found != around.symbols.end(), "a region has a size of its own: ", symbol);
    plan.symbols.push_back(static_cast<size_t>(found - around.symbols.begin()));
  }
  for (const Node* leaf : key.leaves) {
    auto found = std::find_if(region.parameters.begin(), region.parameters.end(),
                              [&](const NodeRef& p) { return p.get() == leaf; });
    HD_ASSERT(found != region.parameters.end(), "a region uses what is no parameter of it: ", name(leaf->op));
    plan.leaves.push_back(static_cast<size_t>(found - region.parameters.begin()));
  }
  std::vector<bool> taken(plan.cached->plan.outputs.size(), false);
  for (size_t r = 0; r < region.results.size(); ++r) {
    Result result = result_of(region.results[r], plan, key, region);
    if (result.kind == Result::Kind::Output) {
      result.repeats = taken[result.index];
      taken[result.index] = true;
      const int leaf = plan.cached->plan.outputs[result.index].donated_leaf;
      result.in_place = r < carried && !result.repeats && leaf >= 0 && plan.leaves[static_cast<size_t>(leaf)] == r;
    }
    plan.results.push_back(result);
  }
  return plan;
}

// The body of a loop with whether to go on as one more carried value. `masked`: where it does not go on, nothing
// changes.
Region with_condition(const Region& body, const Region& condition, size_t carried, bool masked) {
  std::unordered_map<const Node*, NodeRef> after;
  for (size_t i = 0; i < condition.parameters.size(); ++i)
    after[condition.parameters[i].get()] = i < carried ? body.results[i] : body.parameters[i];
  Region both = body;
  const auto place = static_cast<std::ptrdiff_t>(carried);
  const NodeRef going_on = make_placeholder(DType::boolean, Shape{});
  both.parameters.insert(both.parameters.begin() + place, going_on);
  both.results.insert(both.results.begin() + place, replace(condition.results, after)[0]);
  for (size_t i = 0; masked && i <= carried; ++i) {
    const Shape& shape = both.results[i]->shape;
    NodeRef chosen[] = {make_expand(make_reshape(going_on, Shape(shape.size(), Expr(1))), shape), both.results[i],
                        both.parameters[i]};
    both.results[i] = make_scalar(ScalarOp::where, chosen);
  }
  return both;
}

// Rounds that take about as long as it takes to look whether to go on.
int64_t rounds_ahead(const Plan& body) {
  double bytes = 0, flops = 0;
  for (const Launch& launch : body.launches) {
    if (launch.control) return 1;
    bytes += static_cast<double>(launch.needed.read + launch.needed.written);
    flops += static_cast<double>(launch.needed.flops);
  }
  constexpr double kLook = 100, kLaunch = 2, kBytes = 2e6, kFlops = 1e7;  // microseconds, and in one of them
  const double round = kLaunch * static_cast<double>(body.launches.size()) + std::max(bytes / kBytes, flops / kFlops);
  return std::clamp<int64_t>(static_cast<int64_t>(kLook / round) / 2 * 2, 1, 64);
}

}  // namespace

std::shared_ptr<const ControlStep> plan_control(const Node& node, std::span<const Node* const> results,
                                                const GraphKey& around, Backend& device) {
  const Control& control = *node.control;
  auto step = std::make_shared<ControlStep>();
  step->loop = node.op == NodeOp::Loop;
  step->carried = control.carried;
  step->stacked = control.stacked;
  step->length = control.length;
  step->reverse = control.reverse;
  step->conditional = step->loop && control.condition();
  step->outputs = control.body().results.size() - control.carried;
  step->written.assign(control.body().results.size(), -1);
  for (size_t r = 0; r < results.size(); ++r)
    step->written[static_cast<size_t>(results[r]->attrs[0].value())] = static_cast<int>(r);
  for (const NodeRef& result : control.body().results) step->bytes.push_back(bytes_of(*result));
  for (size_t i = control.carried; i < control.carried + control.stacked; ++i)
    step->part_bytes.push_back(bytes_of(*control.body().parameters[i]));
  if (!step->loop) {
    for (const Region& branch : control.regions) step->regions.push_back(plan_region(branch, 0, around, device));
  } else if (const Region* condition = control.condition()) {
    auto plan_body = [&](bool masked) {
      return plan_region(with_condition(control.body(), *condition, control.carried, masked), control.carried + 1,
                         around, device);
    };
    step->regions.push_back(plan_body(device.records()));
    step->ahead = device.records() ? rounds_ahead(step->regions[0].cached->plan) : 1;
    // An index that is out of range may be one of a round that is none.
    if (device.records() && (step->ahead == 1 || step->regions[0].cached->plan.last_check >= 0)) {
      step->regions[0] = plan_body(false);
      step->ahead = 1;
    }
    step->regions.push_back(plan_region(*condition, 0, around, device));
    step->bytes.push_back(1);
    step->written.push_back(-1);
    ++step->carried;
  } else {
    step->regions.push_back(plan_region(control.body(), control.carried, around, device));
  }
  return step;
}

bool has_checks(const ControlStep& step) {
  return std::ranges::any_of(step.regions, [](const RegionPlan& r) { return r.cached->plan.last_check >= 0; });
}

}  // namespace heddle
