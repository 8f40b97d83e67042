#include "backend/cuda/recording.h"

#include <algorithm>

namespace heddle::cuda {
namespace {

KernelNode describe(const Call& call, std::vector<void*>& parameters) {
  return {
      call.function, {call.blocks, 1, 1}, {call.threads, 1, 1}, call.shared_bytes, parameters.data(), nullptr, nullptr,
      nullptr};
}

constexpr Result kOtherOrder = -1;  // no answer of the driver's

// In longer rows every launch waits for the one before: finding out more would take too long.
constexpr size_t kMostCalls = 256;

bool collide(std::span<const Touch> a, std::span<const Touch> b) {
  for (const Touch& x : a)
    for (const Touch& y : b)
      if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end) return true;
  return false;
}

}  // namespace

void Row::clear() {
  nodes_.clear();
  before_.clear();
}

std::vector<size_t> Row::wait_for(const Calls& calls, size_t number) {
  if (calls.calls.size() > kMostCalls) return number > 0 ? std::vector{number - 1} : std::vector<size_t>();
  std::vector<size_t> found;
  std::vector<bool>& done = before_.emplace_back(number, false);
  const std::span<const Touch> mine = calls.touched_by(calls.calls[number]);
  for (size_t i = number; i-- > 0;) {
    if (done[i] || !collide(mine, calls.touched_by(calls.calls[i]))) continue;
    found.push_back(i);
    done[i] = true;
    for (size_t k = 0; k < i; ++k) done[k] = done[k] || before_[i][k];
  }
  return found;
}

bool Row::in_order(const Calls& calls, size_t number) const {
  if (before_.empty()) return true;
  const std::span<const Touch> mine = calls.touched_by(calls.calls[number]);
  for (size_t i = 0; i < calls.calls.size(); ++i) {
    const bool ordered = i == number || (i < number ? before_[number][i] : before_[i][number]);
    if (!ordered && collide(mine, calls.touched_by(calls.calls[i]))) return false;
  }
  return true;
}

Result Row::add(const Driver& driver, Graph graph, Calls& calls, bool early) {
  std::vector<void*> parameters;
  Result result = kSuccess;
  for (size_t number = 0; number < calls.calls.size() && result == kSuccess; ++number) {
    calls.addresses(calls.calls[number], parameters);
    KernelNode node = describe(calls.calls[number], parameters);
    std::vector<GraphNode> before;
    for (size_t i : wait_for(calls, number)) before.push_back(nodes_[i]);
    const bool is_early = early && before.size() == 1;
    GraphNode made = nullptr;
    result = driver.cuGraphAddKernelNode_v2(&made, graph, before.data(), is_early ? 0 : before.size(), &node);
    nodes_.push_back(made);
    const GraphEdge edge;
    if (result == kSuccess && is_early)
      result = driver.cuGraphAddDependencies_v2(graph, before.data(), &made, &edge, 1);
  }
  return result;
}

Recording::~Recording() {
  if (!driver_.is_inherited() && driver_.cuCtxSetCurrent(context_) == kSuccess) clear();
}

void Recording::clear() {
  if (exec_) driver_.cuGraphExecDestroy(exec_);
  if (graph_) driver_.cuGraphDestroy(graph_);
  exec_ = nullptr;
  graph_ = nullptr;
  row_.clear();
}

Result Recording::make(Calls& calls) {
  clear();
  Result result = driver_.cuGraphCreate(&graph_, 0);
  if (result == kSuccess) result = row_.add(driver_, graph_, calls, early_);
  if (result == kSuccess) result = driver_.cuGraphInstantiateWithFlags(&exec_, graph_, 0);
  if (result != kSuccess) clear();
  return result;
}

Result Recording::update(Calls& calls) {
  thread_local std::vector<void*> parameters;
  auto changed = [&](size_t i) {
    const Call &now = calls.calls[i], &before = calls_.calls[i];
    return now.function != before.function || now.blocks != before.blocks ||
           !std::ranges::equal(calls.words_of(now), calls_.words_of(before));
  };
  for (size_t i = 0; i < calls.calls.size(); ++i)
    if (changed(i) && !row_.in_order(calls, i)) return kOtherOrder;
  for (size_t i = 0; i < calls.calls.size(); ++i) {
    const Call& now = calls.calls[i];
    if (!changed(i)) continue;
    calls.addresses(now, parameters);
    KernelNode node = describe(now, parameters);
    if (Result result = driver_.cuGraphExecKernelNodeSetParams_v2(exec_, row_.nodes()[i], &node); result != kSuccess)
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
