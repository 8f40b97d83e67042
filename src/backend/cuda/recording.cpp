#include "backend/cuda/recording.h"

namespace heddle::cuda {
namespace {

// The driver's description of a call; `parameters` receives the addresses it refers to.
KernelNode describe(Call& call, SmallVector<void*, 8>& parameters) {
  parameters.clear();
  for (uint64_t& word : call.words) parameters.push_back(&word);
  return {
      call.function, {call.blocks, 1, 1}, {call.threads, 1, 1}, call.shared_bytes, parameters.data(), nullptr, nullptr,
      nullptr};
}

}  // namespace

Recording::~Recording() {
  if (driver_.cuCtxSetCurrent(context_) == kSuccess) clear();
}

void Recording::clear() {
  if (exec_) driver_.cuGraphExecDestroy(exec_);
  if (graph_) driver_.cuGraphDestroy(graph_);
  exec_ = nullptr;
  graph_ = nullptr;
  nodes_.clear();
}

Result Recording::make(std::vector<Call>& calls) {
  clear();
  Result result = driver_.cuGraphCreate(&graph_, 0);
  SmallVector<void*, 8> parameters;
  for (size_t i = 0; i < calls.size() && result == kSuccess; ++i) {
    KernelNode node = describe(calls[i], parameters);
    GraphNode made = nullptr;
    result = driver_.cuGraphAddKernelNode_v2(&made, graph_, i > 0 ? &nodes_.back() : nullptr, i > 0 ? 1 : 0, &node);
    nodes_.push_back(made);
  }
  if (result == kSuccess) result = driver_.cuGraphInstantiateWithFlags(&exec_, graph_, 0);
  if (result != kSuccess) clear();
  return result;
}

Result Recording::update(std::vector<Call>& calls) {
  SmallVector<void*, 8> parameters;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i] == calls_[i]) continue;
    KernelNode node = describe(calls[i], parameters);
    if (Result result = driver_.cuGraphExecKernelNodeSetParams_v2(exec_, nodes_[i], &node); result != kSuccess)
      return result;
  }
  return kSuccess;
}

Result Recording::run(std::vector<Call> calls, std::vector<std::shared_ptr<DeviceBuffer>> keep, Stream stream) {
  // What the driver cannot change in place it makes anew.
  if (!exec_ || calls.size() != calls_.size() || update(calls) != kSuccess)
    if (Result result = make(calls); result != kSuccess) return result;
  calls_ = std::move(calls);
  keep_ = std::move(keep);
  return driver_.cuGraphLaunch(exec_, stream);
}

}  // namespace heddle::cuda
