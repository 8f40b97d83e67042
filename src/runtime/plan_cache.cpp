#include "runtime/plan_cache.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/config.h"
#include "base/lock.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

constexpr size_t kMostPlans = 4096;
constexpr size_t kShards = 16;
// A graph with this many plans for different numbers gets one in which all floats are arguments, and all others that
// ever differed.
constexpr size_t kMostVariants = 8;

struct Variant {
  std::shared_ptr<const CachedPlan> plan;
  uint64_t last_use;
};

// All plans of one graph, which differ in what they know of its numbers.
struct PlansOfKey {
  Backend* device;
  std::vector<uint64_t> words;
  std::vector<Variant> variants;
};

struct alignas(64) Shard {
  Mutex lock;
  std::unordered_multimap<uint64_t, PlansOfKey> entries;
  size_t plans = 0;
  uint64_t clock = 0;

  PlansOfKey* find(const GraphKey& key) {
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
[[maybe_unused]] const Shard* shards_made_at_start = shards();
Shard& shard_of(const GraphKey& key) { return shards()[key.hash % kShards]; }

bool serves(const CachedPlan& plan, const std::vector<uint64_t>& numbers) {
  size_t next = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (next < plan.arguments.size() && plan.arguments[next] == i)
      ++next;
    else if (plan.numbers[i] != numbers[i])
      return false;
  }
  return true;
}

Variant* serving(PlansOfKey& entry, const std::vector<uint64_t>& numbers) {
  for (Variant& variant : entry.variants)
    if (serves(*variant.plan, numbers)) return &variant;
  return nullptr;
}

}  // namespace

std::shared_ptr<const CachedPlan> find_plan(const GraphKey& key) {
  Shard& shard = shard_of(key);
  std::lock_guard guard(shard.lock);
  PlansOfKey* entry = shard.find(key);
  Variant* variant = entry ? serving(*entry, key.numbers) : nullptr;
  if (!variant) return nullptr;
  variant->last_use = ++shard.clock;
  return variant->plan;
}

namespace {

// Whether a number should be an argument, after the plans that there are. The first plans for an integer, an offset or
// a filling know it: code for the number itself may be a good deal faster, and many a number has two values only.
bool is_changing(const PlansOfKey& entry, const GraphKey& key, size_t number) {
  if (key.places[number].kind == NumberPlace::Kind::Inside) return false;
  const bool is_float = key.places[number].kind == NumberPlace::Kind::Float,
             many = entry.variants.size() >= kMostVariants;
  if (is_float && many) return true;
  std::optional<uint64_t> other;
  for (const Variant& variant : entry.variants) {
    const CachedPlan& plan = *variant.plan;
    if (std::binary_search(plan.arguments.begin(), plan.arguments.end(), number)) return true;
    const uint64_t value = plan.numbers[number];
    if (value == key.numbers[number]) continue;
    if (is_float || many || (other && *other != value)) return true;
    other = value;
  }
  return false;
}

}  // namespace

std::vector<uint32_t> changing_numbers(const GraphKey& key) {
  std::vector<uint32_t> arguments;
  const bool all = config().all_arguments;
  Shard& shard = shard_of(key);
  std::lock_guard guard(shard.lock);
  const PlansOfKey* entry = shard.find(key);
  for (size_t i = 0; (entry || all) && i < key.numbers.size(); ++i)
    if (all ? key.places[i].kind != NumberPlace::Kind::Inside : is_changing(*entry, key, i))
      arguments.push_back(static_cast<uint32_t>(i));
  return arguments;
}

std::shared_ptr<const CachedPlan> keep_plan(const GraphKey& key, CachedPlan made) {
  auto plan = std::make_shared<const CachedPlan>(std::move(made));
  std::shared_ptr<const CachedPlan> gone;  // destroyed after the lock is released
  Shard& shard = shard_of(key);
  std::lock_guard guard(shard.lock);
  PlansOfKey* entry = shard.find(key);
  if (!entry) entry = &shard.entries.emplace(key.hash, PlansOfKey{key.device, key.words, {}})->second;
  if (Variant* other = serving(*entry, key.numbers)) {
    other->last_use = ++shard.clock;
    return other->plan;
  }
  entry->variants.push_back({plan, ++shard.clock});
  if (++shard.plans > kMostPlans / kShards) gone = shard.evict();
  return plan;
}

void clear_plan_cache() {
  for (size_t i = 0; i < kShards; ++i) {
    std::unordered_multimap<uint64_t, PlansOfKey> gone;
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
