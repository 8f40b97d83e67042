#include <unordered_map>

#include "fuzz/check.h"
#include "fuzz/transform.h"
#include "runtime/plan.h"

namespace heddle::fuzz {

using testing::RandomGraph;

namespace {

// The same graph over memory of the device.
std::vector<NodeRef> on_device(const RandomGraph& graph, Backend& home) {
  std::unordered_map<const Node*, NodeRef> with;
  for (const NodeRef& leaf : graph.leaves) {
    uint64_t bytes = leaf->storage->bytes();
    std::shared_ptr<DeviceBuffer> memory = home.allocate(bytes);
    home.copy_from_host(*memory, leaf->storage->host_data(), bytes);
    with[leaf.get()] = make_buffer(memory, leaf->dtype, leaf->shape);
  }
  return replace(graph.roots, with);
}

}  // namespace

RandomGraph spread(const RandomGraph& graph, uint64_t seed) {
  testing::Random random(seed ^ 0x73707265);
  const char* const names[] = {"cpu", "simulated", "simulated:1"};
  auto draw = [&] { return device(names[random.between(0, 2)]).number(); };
  // Few devices in a row, so that parts are more than one node; some graphs change at every node.
  const double changes = random.chance(0.2) ? 1 : 0.25;
  DeviceNumber here = draw();
  RandomGraph result = graph;
  result.roots = rebuild_graph(graph.roots, [&](const Node& node, std::span<const NodeRef> inputs) {
    if (node.is_leaf()) return random.chance(0.3) ? make_to(NodeRef::share(&node), draw()) : NodeRef::share(&node);
    if (random.chance(changes)) here = draw();
    if (node.op == NodeOp::Get) return NodeRef();  // of a node that has several results, where that is
    std::vector<NodeRef> there;
    for (const NodeRef& input : inputs) there.push_back(make_to(input, here));
    return rebuild(node, there);
  });
  return result;
}

HostArray to_array(const void* data, DType dtype, const std::vector<int64_t>& shape) {
  HostArray array{dtype, shape, {}, {}};
  int64_t count = array.numel();
  for (int64_t i = 0; i < count; ++i) {
    Scalar element = load_scalar(data, i, dtype);
    if (is_float(dtype))
      array.floats.push_back(element.f);
    else
      array.integers.push_back(element.u);
  }
  return array;
}

std::vector<HostArray> run_realize(const RandomGraph& graph, const std::vector<HostArray>& want, bool bad_indices,
                                   const std::string& device_name) {
  std::vector<NodeRef> done;
  Backend& home = device(device_name);
  HomeScope constants_too(home.number(), false);
  try {
    done = realize(on_device(graph, home));
  } catch (const IndexError&) {
    if (bad_indices) return want;
    throw;
  }
  std::vector<HostArray> results;
  for (size_t i = 0; i < done.size(); ++i) {
    const Storage& storage = *done[i]->storage;
    uint64_t bytes = static_cast<uint64_t>(want[i].numel()) * static_cast<uint64_t>(size_of(done[i]->dtype));
    if (storage.bytes() < bytes) throw Failure{text("root ", i, " has ", storage.bytes(), " bytes"), ""};
    std::vector<uint8_t> copy(bytes);
    const auto& memory = dynamic_cast<const DeviceBuffer&>(storage);
    memory.device().copy_to_host(copy.data(), memory, bytes);
    results.push_back(to_array(copy.data(), done[i]->dtype, want[i].shape));
  }
  return results;
}

}  // namespace heddle::fuzz
