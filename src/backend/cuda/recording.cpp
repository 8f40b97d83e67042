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

bool differs(const Calls& a, const Calls& b, size_t number) {
  const Call &now = a.calls[number], &before = b.calls[number];
  return now.function != before.function || now.blocks != before.blocks ||
         !std::ranges::equal(a.words_of(now), b.words_of(before));
}

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
  if (driver_.is_inherited() || driver_.cuCtxSetCurrent(context_) != kSuccess) return;
  for (Made& made : made_) clear(made);
}

void Recording::clear(Made& made) {
  if (made.exec) driver_.cuGraphExecDestroy(made.exec);
  if (made.graph) driver_.cuGraphDestroy(made.graph);
  made.exec = nullptr;
  made.graph = nullptr;
  made.row.clear();
}

Result Recording::make(Made& made, Calls& calls) {
  clear(made);
  Result result = driver_.cuGraphCreate(&made.graph, 0);
  if (result == kSuccess) result = made.row.add(driver_, made.graph, calls, early_);
  if (result == kSuccess) result = driver_.cuGraphInstantiateWithFlags(&made.exec, made.graph, 0);
  if (result != kSuccess) clear(made);
  return result;
}

Result Recording::update(Made& made, Calls& calls) {
  thread_local std::vector<void*> parameters;
  auto changed = [&](size_t i) { return differs(calls, made.calls, i); };
  for (size_t i = 0; i < calls.calls.size(); ++i)
    if (changed(i) && !made.row.in_order(calls, i)) return kOtherOrder;
  for (size_t i = 0; i < calls.calls.size(); ++i) {
    const Call& now = calls.calls[i];
    if (!changed(i)) continue;
    calls.addresses(now, parameters);
    KernelNode node = describe(now, parameters);
    if (Result result = driver_.cuGraphExecKernelNodeSetParams_v2(made.exec, made.row.nodes()[i], &node);
        result != kSuccess)
      return result;
  }
  return kSuccess;
}

Recording::Made& Recording::choose(const Calls& calls) {
  auto same = std::ranges::find_if(made_, [&](const Made& made) {
    if (!made.exec || made.calls.calls.size() != calls.calls.size()) return false;
    for (size_t i = 0; i < calls.calls.size(); ++i)
      if (differs(calls, made.calls, i)) return false;
    return true;
  });
  if (same != made_.end()) return *same;
  if (made_.size() < kMemories) return made_.emplace_back();
  return *std::ranges::min_element(made_, {}, &Made::last_use);
}

Result Recording::run(Calls& calls, Stream stream) {
  Made& made = choose(calls);
  made.last_use = ++clock_;
  // What the driver cannot change in place is made anew.
  if (!made.exec || calls.calls.size() != made.calls.calls.size() || update(made, calls) != kSuccess)
    if (Result result = make(made, calls); result != kSuccess) return result;
  std::swap(made.calls, calls);
  return driver_.cuGraphLaunch(made.exec, stream);
}

}  // namespace heddle::cuda
