#include "runtime/plan_cache.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "base/lock.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

constexpr size_t kMostPlans = 4096;
constexpr size_t kShards = 16;
// A graph with this many plans for different constants gets one in which all of them are arguments.
constexpr size_t kMostVariants = 8;

struct Variant {
  std::shared_ptr<const CachedPlan> plan;
  uint64_t last_use;
};

// All plans of one graph, which differ in what they know of its float constants.
struct Entry {
  Device* device;
  std::vector<uint64_t> words;
  std::vector<Variant> variants;
};

struct alignas(64) Shard {
  Mutex lock;
  std::unordered_multimap<uint64_t, Entry> entries;
  size_t plans = 0;
  uint64_t clock = 0;

  Entry* find(const GraphKey& key) {
    auto [begin, end] = entries.equal_range(key.hash);
    for (auto it = begin; it != end; ++it)
      if (it->second.device == key.device && it->second.words == key.words) return &it->second;
    return nullptr;
  }
  // Removes the plan that was not used for the longest time.
  std::shared_ptr<const CachedPlan> evict() {
    auto where = entries.end();
    size_t which = 0;
    uint64_t oldest = UINT64_MAX;
    for (auto it = entries.begin(); it != entries.end(); ++it)
      for (size_t v = 0; v < it->second.variants.size(); ++v)
        if (it->second.variants[v].last_use < oldest) {
          oldest = it->second.variants[v].last_use;
          where = it;
          which = v;
        }
    auto& variants = where->second.variants;
    std::shared_ptr<const CachedPlan> gone = std::move(variants[which].plan);
    variants.erase(variants.begin() + static_cast<std::ptrdiff_t>(which));
    if (variants.empty()) entries.erase(where);
    --plans;
    return gone;
  }
};

// Never destroyed: what plans hold may need parts of the compiler that end earlier.
Shard* shards() {
  static Shard* instance = new Shard[kShards];
  return instance;
}
[[maybe_unused]] const Shard* made_at_start = shards();
Shard& shard_of(const GraphKey& key) { return shards()[key.hash % kShards]; }

bool serves(const CachedPlan& plan, const std::vector<uint64_t>& floats) {
  size_t next = 0;
  for (size_t i = 0; i < floats.size(); ++i) {
    if (next < plan.arguments.size() && plan.arguments[next] == i)
      ++next;
    else if (plan.floats[i] != floats[i])
      return false;
  }
  return true;
}

Variant* serving(Entry& entry, const std::vector<uint64_t>& floats) {
  for (Variant& variant : entry.variants)
    if (serves(*variant.plan, floats)) return &variant;
  return nullptr;
}

}  // namespace

std::shared_ptr<const CachedPlan> find_plan(const GraphKey& key) {
  Shard& shard = shard_of(key);
  std::lock_guard guard(shard.lock);
  Entry* entry = shard.find(key);
  Variant* variant = entry ? serving(*entry, key.floats) : nullptr;
  if (!variant) return nullptr;
  variant->last_use = ++shard.clock;
  return variant->plan;
}

std::vector<uint32_t> changing_constants(const GraphKey& key) {
  std::vector<bool> changes(key.floats.size(), false);
  {
    Shard& shard = shard_of(key);
    std::lock_guard guard(shard.lock);
    if (Entry* entry = shard.find(key)) {
      for (const Variant& variant : entry->variants) {
        for (uint32_t i : variant.plan->arguments) changes[i] = true;
        for (size_t i = 0; i < key.floats.size(); ++i)
          if (variant.plan->floats[i] != key.floats[i]) changes[i] = true;
      }
      if (entry->variants.size() >= kMostVariants) changes.assign(changes.size(), true);
    }
  }
  std::vector<uint32_t> arguments;
  for (size_t i = 0; i < changes.size(); ++i)
    if (changes[i]) arguments.push_back(static_cast<uint32_t>(i));
  return arguments;
}

std::shared_ptr<const CachedPlan> keep_plan(const GraphKey& key, CachedPlan made) {
  auto plan = std::make_shared<const CachedPlan>(std::move(made));
  std::shared_ptr<const CachedPlan> gone;  // destroyed after the lock is released
  Shard& shard = shard_of(key);
  std::lock_guard guard(shard.lock);
  Entry* entry = shard.find(key);
  if (!entry) entry = &shard.entries.emplace(key.hash, Entry{key.device, key.words, {}})->second;
  if (Variant* other = serving(*entry, key.floats)) {
    other->last_use = ++shard.clock;
    return other->plan;
  }
  entry->variants.push_back({plan, ++shard.clock});
  if (++shard.plans > kMostPlans / kShards) gone = shard.evict();
  return plan;
}

void clear_plan_cache() {
  for (size_t i = 0; i < kShards; ++i) {
    std::unordered_multimap<uint64_t, Entry> gone;
    std::lock_guard guard(shards()[i].lock);
    gone.swap(shards()[i].entries);
    shards()[i].plans = 0;
  }
  clear_kernel_cache();
}

size_t plan_cache_size() {
  size_t total = 0;
  for (size_t i = 0; i < kShards; ++i) {
    std::lock_guard guard(shards()[i].lock);
    total += shards()[i].plans;
  }
  return total;
}

}  // namespace heddle
