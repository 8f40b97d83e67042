#include <unordered_map>

#include "fuzz/check.h"
#include "fuzz/transform.h"
#include "runtime/plan.h"

namespace heddle::fuzz {

using testing::RandomGraph;

namespace {

// The same graph over memory of the device.
std::vector<NodeRef> on_device(const RandomGraph& graph, Device& home) {
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
  try {
    done = realize(on_device(graph, device(device_name)));
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
