#include "backend/cuda/recording.h"

#include <algorithm>

namespace heddle::cuda {
namespace {

KernelNode describe(const Call& call, std::vector<void*>& parameters) {
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

Result Recording::make(Calls& calls) {
  clear();
  Result result = driver_.cuGraphCreate(&graph_, 0);
  std::vector<void*> parameters;
  for (size_t i = 0; i < calls.calls.size() && result == kSuccess; ++i) {
    calls.addresses(calls.calls[i], parameters);
    KernelNode node = describe(calls.calls[i], parameters);
    GraphNode made = nullptr;
    result = driver_.cuGraphAddKernelNode_v2(&made, graph_, i > 0 ? &nodes_.back() : nullptr, i > 0 ? 1 : 0, &node);
    nodes_.push_back(made);
  }
  if (result == kSuccess) result = driver_.cuGraphInstantiateWithFlags(&exec_, graph_, 0);
  if (result != kSuccess) clear();
  return result;
}

Result Recording::update(Calls& calls) {
  thread_local std::vector<void*> parameters;
  for (size_t i = 0; i < calls.calls.size(); ++i) {
    const Call &now = calls.calls[i], &before = calls_.calls[i];
    if (now.function == before.function && now.blocks == before.blocks &&
        std::ranges::equal(calls.words_of(now), calls_.words_of(before)))
      continue;
    calls.addresses(now, parameters);
    KernelNode node = describe(now, parameters);
    if (Result result = driver_.cuGraphExecKernelNodeSetParams_v2(exec_, nodes_[i], &node); result != kSuccess)
      return result;
  }
  return kSuccess;
}

Result Recording::run(Calls& calls, Stream stream) {
  // What the driver cannot change in place is made anew.
  if (!exec_ || calls.calls.size() != calls_.calls.size() || update(calls) != kSuccess)
    if (Result result = make(calls); result != kSuccess) return result;
  std::swap(calls_, calls);
  return driver_.cuGraphLaunch(exec_, stream);
}

}  // namespace heddle::cuda
