#include "zoo/evaluated.h"

#include "tensor/recording.h"

namespace heddle::testing {
namespace {

HostArray array_of(const Tensor& x) {
  HostArray result{x.dtype(), x.shape(), {}, {}};
  if (is_float(x.dtype())) {
    result.floats = x.to_vector<double>();
  } else {
    for (int64_t value : x.to_vector<int64_t>()) result.integers.push_back(static_cast<uint64_t>(value));
  }
  return result;
}

void assign(Tensor x, const HostArray& value) {
  if (is_float(x.dtype())) return x.assign(from_vector(value.floats, value.shape).cast(x.dtype()).realize());
  std::vector<int64_t> integers(value.integers.begin(), value.integers.end());
  x.assign(from_vector(integers, value.shape).cast(x.dtype()).realize());
}

}  // namespace

std::vector<HostArray> evaluated(const std::function<TensorList()>& f) {
  Capture capture("evaluated()");
  std::vector<NodeRef> roots;
  current_capture = &capture;
  try {
    TensorList results = f();
    for (const Tensor& result : results) roots.push_back(capture.value(result));
  } catch (...) {
    current_capture = nullptr;
    throw;
  }
  current_capture = nullptr;
  const size_t results = roots.size();
  std::unordered_map<const Node*, HostArray> inputs;
  std::vector<Tensor> assigned;
  for (size_t i = 0; i < capture.inputs.size(); ++i) {
    const Tensor& tensor = **capture.inputs[i].tensor;
    inputs[capture.input_nodes[i].get()] = array_of(tensor);
    if (capture.values[i] == capture.input_nodes[i]) continue;
    roots.push_back(capture.values[i]);
    assigned.push_back(tensor);
  }
  std::vector<HostArray> values = evaluate(roots, {}, inputs);
  for (size_t i = 0; i < assigned.size(); ++i) assign(assigned[i], values[results + i]);
  values.resize(results);
  return values;
}

}  // namespace heddle::testing
