// Hash-consing: one object per distinct value, held weakly by a sharded table.
//
// T must have:  uint64_t hash;  std::atomic<uint32_t> refs;  bool same(const T&) const;
//               void drop_children(F sink): hands every reference it holds to sink(T*) without releasing it.
// Objects are created by intern() and die when their last reference goes; death is iterative, so chains of
// any depth are safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/lock.h"

namespace heddle {

template <class T>
class Interner {
 public:
  // Returns the object equal to `probe`, with one reference added; calls make() for a new one (refs == 1)
  // when there is none.
  template <class Make>
  T* intern(const T& probe, Make make) {
    Shard& shard = shard_of(probe.hash);
    std::lock_guard guard(shard.lock);
    if (T* found = shard.find(probe)) return found;
    T* fresh = make();
    shard.insert(fresh);
    return fresh;
  }

  static void retain(T* object) { object->refs.fetch_add(1, std::memory_order_relaxed); }

  // Gives one reference back. Destroys what nobody holds any more, without recursion.
  void release(T* object) {
    if (object->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::vector<T*> dead;  // stays unallocated in the common case that no child dies too
    for (T* gone = object; gone;) {
      Shard& shard = shard_of(gone->hash);
      {
        std::lock_guard guard(shard.lock);
        shard.erase(gone);
      }
      gone->drop_children([&](T* child) {
        if (child->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) dead.push_back(child);
      });
      delete gone;
      gone = nullptr;
      if (dead.empty()) continue;
      gone = dead.back();
      dead.pop_back();
    }
  }

  size_t size() const {
    size_t total = 0;
    for (const Shard& shard : shards_) {
      std::lock_guard guard(shard.lock);
      total += shard.live;
    }
    return total;
  }

 private:
  // Open addressing with linear probing; erased slots are back-filled, so there are no tombstones. Hashes stand next to
  // the pointers: probing, growing and erasing touch no object but the one found.
  struct Slot {
    uint64_t hash;
    T* object;
  };
  struct alignas(64) Shard {
    mutable SpinLock lock;
    std::vector<Slot> slots = std::vector<Slot>(64, Slot{0, nullptr});
    size_t live = 0;

    size_t home(uint64_t hash) const { return (hash >> 8) & (slots.size() - 1); }

    // An object whose count already fell to zero is dying in another thread: it no longer counts as present.
    T* find(const T& probe) {
      for (size_t i = home(probe.hash);; i = (i + 1) & (slots.size() - 1)) {
        T* candidate = slots[i].object;
        if (!candidate) return nullptr;
        if (slots[i].hash != probe.hash || !candidate->same(probe)) continue;
        uint32_t refs = candidate->refs.load(std::memory_order_relaxed);
        while (refs != 0)
          if (candidate->refs.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) return candidate;
      }
    }
    void insert(T* object) {
      if (live * 2 >= slots.size()) grow();
      place({object->hash, object});
      ++live;
    }
    void place(Slot entry) {
      size_t i = home(entry.hash);
      while (slots[i].object) i = (i + 1) & (slots.size() - 1);
      slots[i] = entry;
    }
    void grow() {
      std::vector<Slot> old(slots.size() * 2, Slot{0, nullptr});
      old.swap(slots);
      for (const Slot& entry : old)
        if (entry.object) place(entry);
    }
    void erase(T* object) {
      size_t mask = slots.size() - 1;
      size_t hole = home(object->hash);
      while (slots[hole].object != object) hole = (hole + 1) & mask;
      for (size_t next = (hole + 1) & mask; slots[next].object; next = (next + 1) & mask) {
        // Move back every entry whose home is not cyclically inside (hole, next].
        if (((next - home(slots[next].hash)) & mask) >= ((next - hole) & mask)) {
          slots[hole] = slots[next];
          hole = next;
        }
      }
      slots[hole].object = nullptr;
      --live;
    }
  };

  static constexpr size_t kShards = 64;
  Shard& shard_of(uint64_t hash) { return shards_[hash % kShards]; }
  Shard shards_[kShards];
};

}  // namespace heddle
