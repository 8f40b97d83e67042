#include "capture/captured_graph.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace heddle {

namespace {

CapturedGraph::Step step_of(const Node& node, const GraphKey& key) {
  CapturedGraph::Step step{node.op, operator_name(node), node.dtype, node.shape, {}, {}, {}};
  for (const NodeRef& input : node.inputs) step.inputs.push_back(key.number(input.get()));
  // Where an Input is bound is compared by those who bind it.
  if (node.op != NodeOp::Input)
    for (const Expr& attribute : node.attrs) step.attrs.push_back(attribute);
  if (node.op == NodeOp::Const || node.op == NodeOp::Pad) step.literal = node.literal;
  return step;
}

}  // namespace

CapturedGraph read_captured(std::span<const NodeRef> roots, std::span<const StateUpdate> updates, GraphKey& key) {
  key.read_captured(roots, updates);
  CapturedGraph graph;
  graph.words = key.words;
  graph.numbers = key.numbers;
  graph.symbols = key.symbol_values;
  for (const Node* leaf : key.leaves) {
    if (leaf->op == NodeOp::Input)
      graph.leaves.push_back({leaf->attrs[0].value(), NodeRef()});
    else
      graph.leaves.push_back({-1, NodeRef::share(leaf)});
  }
  if (graph.symbols.empty())
    for (const Node* node : key.nodes) graph.steps.push_back(step_of(*node, key));
  for (const NodeRef& root : roots) {
    using Kind = CapturedGraph::Root::Kind;
    CapturedGraph::Root source{Kind::Output, 0, NodeRef(), root->dtype, root->shape, Kind::Output, 0};
    if (root->op == NodeOp::Input) {
      source.kind = Kind::Input;
      source.index = root->attrs[0].value();
    } else if (root->op == NodeOp::Buffer) {
      source.kind = Kind::Data;
      source.data = root;
    } else {
      source.index = key.number(root.get());
    }
    source.recorded_kind = source.kind;
    source.recorded_index = source.index;
    graph.roots.push_back(std::move(source));
  }
  return graph;
}

namespace {

NodeRef copied_to_device(Backend& device, const void* from, uint64_t bytes, DType dtype, const Shape& shape) {
  std::shared_ptr<DeviceBuffer> memory = device.allocate(bytes);
  if (bytes > 0) device.copy_from_host(*memory, from, bytes);
  return make_buffer(std::move(memory), dtype, shape);
}

}  // namespace

void plan_captured(CapturedGraph& graph, std::span<const NodeRef> roots, GraphKey& key, CompiledPlace& place) {
  using Kind = CapturedGraph::Root::Kind;
  graph.cached = plan_for(roots, key, &place);
  const Plan& plan = graph.cached->plan;
  for (CapturedGraph::Root& root : graph.roots) {
    if (root.kind != Kind::Output) continue;
    const PlanOutput* output = &plan.outputs[static_cast<size_t>(root.index)];
    while (output->same_as >= 0) {
      root.index = output->same_as;
      output = &plan.outputs[static_cast<size_t>(root.index)];
    }
    Backend& device = plan.device_of(*output);
    const uint64_t bytes = output_bytes(plan, static_cast<size_t>(root.index), graph.symbols);
    if (output->leaf >= 0) {
      const CapturedGraph::Leaf& leaf = graph.leaves[static_cast<size_t>(output->leaf)];
      root.kind = leaf.input >= 0 ? Kind::Input : Kind::Data;
      root.index = leaf.input;
      root.data = leaf.data;
    } else if (output->argument >= 0) {
      const uint64_t bits = graph.numbers[graph.cached->scalars[static_cast<size_t>(output->argument)]];
      root.kind = Kind::Data;
      root.data = copied_to_device(device, &bits, bytes, root.dtype, root.shape);
    } else if (bytes == 0) {
      root.kind = Kind::Data;
      root.data = copied_to_device(device, nullptr, 0, root.dtype, root.shape);
    }
  }
}

namespace {

using Step = CapturedGraph::Step;

// "x" of a step that another one uses.
std::string operand_text(const Step& step) {
  switch (step.op) {
    case NodeOp::Const: return text(step.literal);
    case NodeOp::Input: return text("a tensor ", step.dtype, step.shape, " from outside");
    case NodeOp::Buffer: return text("data ", step.dtype, step.shape, " made inside");
    default: return text(step.name, " ", step.dtype, step.shape);
  }
}

// "mul f32[2] of (a tensor f32[2] from outside, 3)".
std::string step_text(const CapturedGraph& graph, const Step& step, bool with_attributes) {
  std::string result = operand_text(step), list;
  if (step.op == NodeOp::Const) return text("the number ", result, " as ", step.dtype, step.shape);
  if (with_attributes)
    for (const Expr& attribute : step.attrs) list += text(list.empty() ? "" : ", ", attribute);
  if (!list.empty()) result += text(" {", list, "}");
  list.clear();
  for (uint32_t input : step.inputs) list += (list.empty() ? "" : ", ") + operand_text(graph.steps[input]);
  return list.empty() ? result : text(result, " of (", list, ")");
}

constexpr const char* kOutside = ". What decides between them is outside of the function: a number or a condition";

// ", in mul f32[2] of (a tensor f32[2] from outside, 3)": the first step that uses this one.
std::string user_text(const CapturedGraph& graph, size_t number) {
  for (const Step& user : graph.steps)
    if (std::find(user.inputs.begin(), user.inputs.end(), number) != user.inputs.end())
      return text(", in ", step_text(graph, user, true));
  return "";
}

// Two steps that differ in a number alone; empty if they differ in more, or in several ones.
std::string different_numbers(const CapturedGraph& before, size_t number, const Step& b) {
  const Step& a = before.steps[number];
  if (a.op != b.op || a.name != b.name || a.dtype != b.dtype || !(a.shape == b.shape)) return "";
  auto change = [](const auto& was, const auto& is) {
    return text("a number closed over by the function was ", was, " and is ", is, " now");
  };
  if (a.op == NodeOp::Const) return change(a.literal, b.literal) + user_text(before, number);
  if (!(a.inputs == b.inputs)) return "";
  if (a.op == NodeOp::Pad && !(a.literal == b.literal))
    return text(change(a.literal, b.literal), ", what fills ", step_text(before, a, true));
  const size_t stride = a.op == NodeOp::Pad ? 2 : 1;
  if (a.op != NodeOp::Pad && a.op != NodeOp::Shrink) return "";
  for (size_t i = 0; i < a.attrs.size(); i += stride)
    if (!(a.attrs[i] == b.attrs[i]))
      return text(change(a.attrs[i], b.attrs[i]), ", ",
                  a.op == NodeOp::Pad ? "what is put before" : "the first element", " along axis ", i / stride, " in ",
                  step_text(before, a, true));
  return "";
}

// The first step, from the results on, that is not the same; empty if there is none.
std::string different_steps(const CapturedGraph& before, const CapturedGraph& now) {
  for (size_t i = 0; i < std::min(before.steps.size(), now.steps.size()); ++i) {
    const Step &a = before.steps[i], &b = now.steps[i];
    if (a == b) continue;
    if (std::string numbers = different_numbers(before, i, b); !numbers.empty()) return numbers;
    bool alike = a.op == b.op && a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
    std::string was = step_text(before, a, alike), is = step_text(now, b, alike);
    if (was == is) return text("it uses other values in ", is, kOutside);
    return text("it recorded ", was, ", and now ", is, kOutside);
  }
  return "";
}

// What a root was when it was recorded.
std::string root_text(const CapturedGraph& graph, const CapturedGraph::Root& root) {
  using Kind = CapturedGraph::Root::Kind;
  if (root.recorded_kind == Kind::Output && !graph.steps.empty())
    return step_text(graph, graph.steps[static_cast<size_t>(root.recorded_index)], true);
  return text(root.recorded_kind == Kind::Input ? "a tensor " : "data ", root.dtype, root.shape,
              root.recorded_kind == Kind::Input ? " from outside, as it is" : " made inside");
}

// Both were made by the function while recording.
bool same_data(const NodeRef& a, const NodeRef& b) {
  if (a == b) return true;
  if (a->dtype != b->dtype || !(a->shape == b->shape)) return false;
  const void *from = a->storage->host_data(), *to = b->storage->host_data();
  auto bytes = static_cast<size_t>(a->shape.known_numel()) * static_cast<size_t>(size_of(a->dtype));
  return bytes == 0 || (from && to && std::memcmp(from, to, bytes) == 0);
}

std::string data_text(const NodeRef& data) {
  return text("the data of a ", data->dtype, data->shape,
              " that the function makes from host memory is not what it was: pass it as an argument");
}

}  // namespace

std::string difference(const CapturedGraph& before, const CapturedGraph& now) {
  if (before.roots.size() != now.roots.size())
    return text("it returned or changed ", before.roots.size(), " tensors, and now ", now.roots.size());
  for (size_t i = 0; i < before.roots.size(); ++i) {
    const CapturedGraph::Root &a = before.roots[i], &b = now.roots[i];
    if (a.recorded_kind != b.recorded_kind)
      return text("what it returned or assigned was ", root_text(before, a), ", and is ", root_text(now, b), kOutside);
  }
  if (std::string steps = different_steps(before, now); !steps.empty()) return steps;
  if (before.words != now.words || before.numbers != now.numbers)
    return "it returns or changes other values of its graph";
  for (size_t i = 0; i < before.leaves.size(); ++i) {
    const CapturedGraph::Leaf &a = before.leaves[i], &b = now.leaves[i];
    if ((a.input < 0) != (b.input < 0)) return "what was made inside of the function is taken from outside now";
    if (a.input < 0 && !same_data(a.data, b.data)) return data_text(b.data);
  }
  using Kind = CapturedGraph::Root::Kind;
  for (size_t i = 0; i < before.roots.size(); ++i) {
    const CapturedGraph::Root &a = before.roots[i], &b = now.roots[i];
    if (b.recorded_kind == Kind::Output && a.recorded_index != b.recorded_index)
      return "the results are other values of the graph";
    if (b.recorded_kind == Kind::Data && !same_data(a.data, b.data)) return data_text(b.data);
  }
  return "";
}

}  // namespace heddle
