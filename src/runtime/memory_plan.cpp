#include "runtime/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace heddle {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr size_t kFew = 256;  // up to here quadratic methods are cheap

uint64_t rounded(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Free room below the end of the arena, by place and by size.
class FreeRoom {
 public:
  uint64_t take(uint64_t bytes) {
    auto best = by_size_.lower_bound({bytes, 0});
    if (best != by_size_.end()) {
      auto [size, offset] = *best;
      erase(offset, size);
      if (size > bytes) insert(offset + bytes, size - bytes);
      return offset;
    }
    // Grow at the end, starting in the free room that may lie there.
    uint64_t offset = end_;
    if (!by_offset_.empty()) {
      auto [last, size] = *by_offset_.rbegin();
      if (last + size == end_) {
        offset = last;
        erase(last, size);
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void give(uint64_t offset, uint64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      bytes += next->second;
      erase(next->first, next->second);
    }
    auto before = by_offset_.lower_bound(offset);
    if (before != by_offset_.begin()) {
      auto [start, size] = *--before;
      if (start + size == offset) {
        erase(start, size);
        offset = start;
        bytes += size;
      }
    }
    insert(offset, bytes);
  }
  uint64_t end() const { return end_; }

 private:
  void insert(uint64_t offset, uint64_t size) {
    by_offset_[offset] = size;
    by_size_.insert({size, offset});
  }
  void erase(uint64_t offset, uint64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }
  std::map<uint64_t, uint64_t> by_offset_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;
  uint64_t end_ = 0;
};

// In order of time, each in the smallest hole that fits.
MemoryPlan by_time(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size()), endings(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  endings = order;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (lifetimes[a].first != lifetimes[b].first) return lifetimes[a].first < lifetimes[b].first;
    if (lifetimes[a].bytes != lifetimes[b].bytes) return lifetimes[a].bytes > lifetimes[b].bytes;
    return a < b;
  });
  std::sort(endings.begin(), endings.end(),
            [&](size_t a, size_t b) { return std::pair(lifetimes[a].last, a) < std::pair(lifetimes[b].last, b); });
  FreeRoom room;
  size_t ended = 0;
  for (size_t i : order) {
    // Everything that ended before this begins has been placed: it began earlier still.
    for (; ended < endings.size() && lifetimes[endings[ended]].last < lifetimes[i].first; ++ended)
      if (uint64_t bytes = rounded(lifetimes[endings[ended]].bytes)) room.give(plan.offsets[endings[ended]], bytes);
    if (uint64_t bytes = rounded(lifetimes[i].bytes)) plan.offsets[i] = room.take(bytes);
  }
  plan.bytes = room.end();
  return plan;
}

// Those of the largest weight first, each at the lowest place that is free during its life.
template <class Weight>
MemoryPlan by_weight(std::span<const Lifetime> lifetimes, Weight&& weight) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weight(lifetimes[a]) > weight(lifetimes[b]); });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const Lifetime& life = lifetimes[i];
    uint64_t bytes = rounded(life.bytes), offset = 0;
    for (size_t other : placed) {
      if (lifetimes[other].last < life.first || life.last < lifetimes[other].first) continue;
      if (offset + bytes <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + rounded(lifetimes[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    auto place = std::upper_bound(placed.begin(), placed.end(), i,
                                  [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
    placed.insert(place, i);
  }
  return plan;
}

uint64_t most_alive(std::span<const Lifetime> lifetimes) {
  std::vector<std::pair<int, int64_t>> changes;  // when, and how many bytes more
  for (const Lifetime& life : lifetimes) {
    auto bytes = static_cast<int64_t>(rounded(life.bytes));
    changes.emplace_back(life.first, bytes);
    changes.emplace_back(life.last + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, most = 0;
  for (const auto& [when, more] : changes) most = std::max(most, now += more);
  return static_cast<uint64_t>(most);
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan = by_time(lifetimes);
  plan.lower_bound = most_alive(lifetimes);
  auto try_weight = [&](auto&& weight) {
    if (lifetimes.size() > kFew || plan.bytes <= plan.lower_bound) return;
    MemoryPlan other = by_weight(lifetimes, weight);
    if (other.bytes >= plan.bytes) return;
    other.lower_bound = plan.lower_bound;
    plan = std::move(other);
  };
  try_weight([](const Lifetime& l) { return l.bytes; });
  try_weight([](const Lifetime& l) { return l.bytes * static_cast<uint64_t>(l.last - l.first + 1); });
  try_weight([](const Lifetime& l) { return l.last - l.first; });
  return plan;
}

}  // namespace heddle
