// Builders of control flow: closed regions, loops, conditions.
#include <algorithm>

#include "graph/build.h"
#include "graph/control.h"
#include "graph/custom.h"
#include "graph/graph.h"

namespace heddle {

Shape slice_shape(const Shape& stacked) { return Shape(stacked.begin() + 1, stacked.end()); }

Shape stacked_shape(const Expr& length, const Shape& slice) {
  Shape shape;
  shape.push_back(length);
  shape.append(slice.begin(), slice.end());
  return shape;
}

bool is_view_of_all(const Node& node) {
  return node.op == NodeOp::Reshape || node.op == NodeOp::Permute || node.op == NodeOp::Expand ||
         node.op == NodeOp::Flip;
}

int Node::result_count() const {
  if (custom) return static_cast<int>(custom->results.size());
  if (!control) return info(op).results;
  return static_cast<int>(control->body().results.size());
}

namespace {

NodeRef finish_control(NodeOp op, std::span<const NodeRef> inputs, std::shared_ptr<const Control> control) {
  const std::vector<NodeRef>& results = control->body().results;
  HD_ASSERT(!results.empty(), name(op), " without results");
  auto found = std::find_if(results.begin(), results.end(), [](const NodeRef& r) { return is_float(r->dtype); });
  NewNode node = new_node(op, (found == results.end() ? results[0] : *found)->dtype);
  for (const NodeRef& input : inputs) node->inputs.push_back(input);
  node->control = std::move(control);
  return finish_as_is(std::move(node));
}

void check_parameter(const NodeRef& parameter, const NodeRef& input, const Shape& shape) {
  HD_ASSERT(parameter->dtype == input->dtype && parameter->shape == shape, "a parameter ", parameter->dtype,
            parameter->shape, " stands for ", input->dtype, shape);
}

}  // namespace

NodeRef make_loop(std::span<const NodeRef> inputs, std::shared_ptr<const Control> control) {
  const Control& loop = *control;
  const Region& body = loop.body();
  HD_ASSERT(body.parameters.size() == inputs.size() && loop.carried + loop.stacked <= inputs.size(), "a loop of ",
            inputs.size(), " inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_operand("loop", inputs[i]);
    const bool stacked = i >= loop.carried && i < loop.carried + loop.stacked;
    check_parameter(body.parameters[i], inputs[i], stacked ? slice_shape(inputs[i]->shape) : inputs[i]->shape);
    HD_ASSERT(!stacked || same_dim(inputs[i]->shape[0], loop.length), "a loop of ", loop.length, " rounds over ",
              inputs[i]->shape);
  }
  for (size_t i = 0; i < loop.carried; ++i) check_parameter(body.parameters[i], body.results[i], inputs[i]->shape);
  return finish_control(NodeOp::Loop, inputs, std::move(control));
}

NodeRef make_cond(std::span<const NodeRef> inputs, std::shared_ptr<const Control> control) {
  HD_ASSERT(control->regions.size() == 2 && inputs[0]->dtype == DType::boolean && inputs[0]->shape.empty());
  const Region &then = control->regions[0], &otherwise = control->regions[1];
  if (inputs[0]->op == NodeOp::Const) {
    // One of them alone counts; a node all the same, for its results have numbers.
    const Region& taken = inputs[0]->literal.u ? then : otherwise;
    auto same = std::make_shared<Control>(Control{{taken, taken}});
    if (!(*same == *control)) return make_cond(inputs, same);
  }
  for (const NodeRef& input : inputs) check_operand("cond", input);
  for (size_t i = 0; i < then.results.size(); ++i)
    check_parameter(then.results[i], otherwise.results[i], otherwise.results[i]->shape);
  return finish_control(NodeOp::Cond, inputs, std::move(control));
}

ResultType control_result_type(const Node& node, int result) {
  const Control& control = *node.control;
  const Node& value = *control.body().results[static_cast<size_t>(result)];
  if (node.op == NodeOp::Cond || static_cast<size_t>(result) < control.carried) return {value.dtype, value.shape};
  return {value.dtype, stacked_shape(control.length, value.shape)};
}

NodeRef known_control_result(const Node& node, int result) {
  const Control& control = *node.control;
  const auto r = static_cast<size_t>(result);
  auto of_parameter = [&](const Region& region, const NodeRef& value, size_t skipped) -> NodeRef {
    auto found = std::find(region.parameters.begin(), region.parameters.end(), value);
    return found == region.parameters.end()
               ? NodeRef()
               : node.inputs[skipped + static_cast<size_t>(found - region.parameters.begin())];
  };
  if (node.op == NodeOp::Cond) {
    if (node.inputs[0]->op != NodeOp::Const) return {};
    const Region& taken = control.regions[0];
    std::unordered_map<const Node*, NodeRef> with;
    for (size_t i = 0; i < taken.parameters.size(); ++i) with[taken.parameters[i].get()] = node.inputs[i + 1];
    return replace(std::span(&taken.results[r], 1), with)[0];
  }
  if (r >= control.carried) return {};
  if (!control.condition() && control.length.is_const(0)) return node.inputs[r];
  // What stays as it is.
  if (control.body().results[r] == control.body().parameters[r])
    return of_parameter(control.body(), control.body().results[r], 0);
  return {};
}

namespace {

enum class Place : uint8_t {
  Free,     // made of constants: stays where it is
  Outside,  // to be taken in, if something inside uses it
  Inside,
};

// Whether a node may be computed though nobody needs it.
bool may_be_hoisted(const Node& node) {
  switch (node.op) {
    case NodeOp::Gather:
    case NodeOp::Scatter:  // an index could be out of range
    case NodeOp::Loop:
    case NodeOp::Cond:
    case NodeOp::Barrier: return false;
    default: return true;
  }
}

class Closing {
 public:
  Closing(const std::unordered_set<const Node*>& outside, bool hoist) : outside_(outside), hoist_(hoist) {}

  std::vector<NodeRef> taken;

  void look_at(const Region& region) {
    std::unordered_set<const Node*> ends = outside_;
    for (const NodeRef& parameter : region.parameters) ends.insert(parameter.get());
    std::unordered_map<const Node*, Place> place;
    for (const NodeRef& parameter : region.parameters) place[parameter.get()] = Place::Inside;
    for (const Node* node : topological(region.results, ends)) {
      if (place.contains(node)) continue;
      place[node] = place_of(*node, place);
      if (place[node] != Place::Inside) continue;
      for (const NodeRef& input : node->inputs)
        if (place.at(input.get()) == Place::Outside) take(input);
    }
    for (const NodeRef& result : region.results)
      if (place.at(result.get()) == Place::Outside) take(result);
  }

 private:
  Place place_of(const Node& node, const std::unordered_map<const Node*, Place>& place) const {
    if (node.op == NodeOp::Const || node.op == NodeOp::Iota) return Place::Free;
    if (node.is_leaf() || node.inputs.empty() || outside_.contains(&node)) return Place::Outside;
    Place result = Place::Free;
    for (const NodeRef& input : node.inputs) result = std::max(result, place.at(input.get()));
    if (result != Place::Outside || node.op == NodeOp::Get) return result;
    return hoist_ && may_be_hoisted(node) ? Place::Outside : Place::Inside;
  }
  void take(const NodeRef& value) {
    NodeRef source = value;
    while (is_view_of_all(*source)) source = source->inputs[0];
    if (source->op != NodeOp::Const && source->op != NodeOp::Iota && seen_.insert(source.get()).second)
      taken.push_back(source);
  }

  const std::unordered_set<const Node*>& outside_;
  const bool hoist_;
  std::unordered_set<const Node*> seen_;
};

}  // namespace

std::vector<NodeRef> close_regions(std::span<Region> regions, const std::unordered_set<const Node*>& outside,
                                   bool hoist) {
  Closing closing(outside, hoist);
  for (const Region& region : regions) closing.look_at(region);
  for (Region& region : regions) {
    std::unordered_map<const Node*, NodeRef> with;
    for (const NodeRef& value : closing.taken) {
      region.parameters.push_back(placeholder_like(*value));
      with[value.get()] = region.parameters.back();
    }
    region.results = replace(region.results, with);
  }
  return std::move(closing.taken);
}

}  // namespace heddle
