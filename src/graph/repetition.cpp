#include "graph/repetition.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/interrupt.h"
#include "graph/build.h"
#include "graph/graph.h"
#include "graph/match_steps.h"

namespace heddle {
namespace {

// Equal for nodes that compute the same down to a depth that spans a step, or two.
std::vector<uint64_t> cone_hashes(const std::vector<const Node*>& order, const NodeMap& number) {
  constexpr int kDepth = 16;
  std::vector<uint64_t> own(order.size()), now, next(order.size());
  std::vector<uint32_t> inputs;
  for (size_t i = 0; i < order.size(); ++i) {
    own[i] = own_hash(*order[i]);
    for (const NodeRef& input : order[i]->inputs) inputs.push_back(number.find(input.get()));
  }
  now = own;
  for (int depth = 0; depth < kDepth; ++depth) {
    size_t at = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      uint64_t hash = own[i];
      for (size_t k = 0; k < order[i]->inputs.size(); ++k) hash = hash_combine(hash, now[inputs[at++]]);
      next[i] = hash;
    }
    now.swap(next);
  }
  return now;
}

// The nearest node below this one that does the same; null if none is near. `budget`: nodes that may be looked at.
const Node* same_below(const Node* node, const std::vector<uint64_t>& hashes, const NodeMap& number, size_t& budget) {
  constexpr size_t kNear = 4096;
  const uint64_t wanted = hashes[number.find(node)];
  std::vector<const Node*> queue{node};
  std::unordered_set<const Node*> seen{node};
  for (size_t next = 0; next < queue.size() && next < kNear && budget > 0; ++next, --budget)
    for (const NodeRef& input : queue[next]->inputs) {
      if (!seen.insert(input.get()).second) continue;
      if (hashes[number.find(input.get())] == wanted) return input.get();
      queue.push_back(input.get());
    }
  return nullptr;
}

}  // namespace

std::optional<Repetition> find_repetition(std::span<const NodeRef> roots) {
  const std::vector<const Node*> order = topological(roots);
  if (order.size() < kFewestNodes) return {};
  NodeMap number;
  for (uint32_t i = 0; i < order.size(); ++i) number.insert(order[i], i);
  const std::vector<uint64_t> hashes = cone_hashes(order, number);
  std::unordered_map<uint64_t, size_t> count;
  for (size_t i = 0; i < order.size(); ++i)
    if (!order[i]->inputs.empty()) ++count[hashes[i]];
  // From the end, so that nothing of the last step is left over.
  size_t budget = 32 * order.size();
  for (size_t i = order.size(); i-- > 0 && budget > 0;) {
    interruption_point();
    auto found = count.find(hashes[i]);
    if (order[i]->inputs.empty() || found->second < kFewestSteps / 2) continue;
    found->second = 0;  // once
    std::vector<const Node*> chain{order[i]};
    while (const Node* before = same_below(chain.back(), hashes, number, budget)) chain.push_back(before);
    if (chain.size() < 2 || chain.size() + 2 < kFewestSteps) continue;
    if (std::optional<Repetition> result = match_steps(order, number, chain))
      if (result->steps >= kFewestSteps) return result;
    budget -= std::min(budget, order.size());
  }
  return {};
}

}  // namespace heddle
