#include "runtime/captured.h"

#include <cstring>

#include "base/error.h"

namespace heddle {

CapturedGraph read_captured(std::span<const NodeRef> roots, std::span<const StateUpdate> updates, GraphKey& key) {
  key.read_captured(roots, updates);
  CapturedGraph graph;
  graph.words = key.words;
  graph.floats = key.floats;
  graph.symbols = key.symbol_values;
  for (const Node* constant : key.constants) graph.float_types.push_back(constant->dtype);
  for (const Node* leaf : key.leaves) {
    if (leaf->op == NodeOp::Input)
      graph.leaves.push_back({leaf->attrs[0].value(), NodeRef()});
    else
      graph.leaves.push_back({-1, NodeRef::share(leaf)});
  }
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

NodeRef copied_to_device(Device& device, const void* from, uint64_t bytes, DType dtype, const Shape& shape) {
  std::shared_ptr<DeviceBuffer> memory = device.allocate(bytes);
  if (bytes > 0) device.copy_from_host(*memory, from, bytes);
  return make_buffer(std::move(memory), dtype, shape);
}

}  // namespace

void plan_captured(CapturedGraph& graph, std::span<const NodeRef> roots, GraphKey& key, Device& device) {
  using Kind = CapturedGraph::Root::Kind;
  if (key.device && key.device != &device)
    throw ValueError(text("jit: data on ", key.device->name(), " and ", device.name(), " meet in one function"));
  key.device = &device;
  graph.cached = plan_for(roots, key);
  const Plan& plan = graph.cached->plan;
  for (CapturedGraph::Root& root : graph.roots) {
    if (root.kind != Kind::Output) continue;
    const PlanOutput* output = &plan.outputs[static_cast<size_t>(root.index)];
    while (output->same_as >= 0) {
      root.index = output->same_as;
      output = &plan.outputs[static_cast<size_t>(root.index)];
    }
    uint64_t bytes = size_now(output->shape.numel(), plan, graph.symbols) * static_cast<uint64_t>(size_of(root.dtype));
    if (output->leaf >= 0) {
      const CapturedGraph::Leaf& leaf = graph.leaves[static_cast<size_t>(output->leaf)];
      root.kind = leaf.input >= 0 ? Kind::Input : Kind::Data;
      root.index = leaf.input;
      root.data = leaf.data;
    } else if (output->argument >= 0) {
      const uint64_t bits = graph.floats[graph.cached->arguments[static_cast<size_t>(output->argument)]];
      root.kind = Kind::Data;
      root.data = copied_to_device(device, &bits, bytes, root.dtype, root.shape);
    } else if (bytes == 0) {
      root.kind = Kind::Data;
      root.data = copied_to_device(device, nullptr, 0, root.dtype, root.shape);
    }
  }
}

namespace {

std::string float_text(DType dtype, uint64_t bits) { return text(Scalar::from_bits(dtype, bits).as_double()); }

std::string different_words(const CapturedGraph& before, const CapturedGraph& now) {
  constexpr uint64_t kPlausible = 1'000'000'000;
  size_t at = 0;
  while (before.words[at] == now.words[at]) ++at;
  auto a = static_cast<int64_t>(before.words[at]), b = static_cast<int64_t>(now.words[at]);
  if (static_cast<uint64_t>(std::abs(a)) < kPlausible && static_cast<uint64_t>(std::abs(b)) < kPlausible)
    return text("a whole number (a constant, a size or an axis) was ", a, " and is ", b, " now");
  return "other operators, dtypes or shapes were recorded";
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
  if (before.words.size() != now.words.size() || before.floats.size() != now.floats.size() ||
      before.roots.size() != now.roots.size())
    return text("another graph was recorded: ", before.roots.size(), " results from ", before.leaves.size(),
                " inputs, now ", now.roots.size(), " from ", now.leaves.size());
  if (before.words != now.words) return different_words(before, now);
  for (size_t i = 0; i < before.floats.size(); ++i)
    if (before.floats[i] != now.floats[i])
      return text("a number closed over by the function was ", float_text(before.float_types[i], before.floats[i]),
                  " and is ", float_text(now.float_types[i], now.floats[i]), " now");
  for (size_t i = 0; i < before.leaves.size(); ++i) {
    const CapturedGraph::Leaf &a = before.leaves[i], &b = now.leaves[i];
    if ((a.input < 0) != (b.input < 0)) return "what was made inside of the function is taken from outside now";
    if (a.input < 0 && !same_data(a.data, b.data)) return data_text(b.data);
  }
  using Kind = CapturedGraph::Root::Kind;
  for (size_t i = 0; i < before.roots.size(); ++i) {
    const CapturedGraph::Root &a = before.roots[i], &b = now.roots[i];
    if (a.recorded_kind != b.recorded_kind || (b.recorded_kind == Kind::Output && a.recorded_index != b.recorded_index))
      return "the results are other values of the graph";
    if (b.recorded_kind == Kind::Data && !same_data(a.data, b.data)) return data_text(b.data);
  }
  return "";
}

}  // namespace heddle
