// Memory for buffers: blocks aligned to 64 bytes, kept for reuse when they are given back, because a fresh page costs
// more than computing on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/intern.h"
#include "base/lock.h"

namespace heddle {

class MemoryPool {
 public:
  struct Block {
    void* address = nullptr;
    uint64_t size = 0;  // what the pool gave, at least what was asked for
  };

  // At most `limit` bytes are held, cached ones included.
  explicit MemoryPool(uint64_t limit);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Throws OutOfMemory after freeing the cache and trying again.
  Block allocate(uint64_t bytes);
  void release(Block block) noexcept;
  void free_cached() noexcept;

  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t cached() const;
  uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }

  static constexpr uint64_t kAlignment = 64;
  static constexpr uint64_t kLarge = uint64_t{2} << 20;  // from here on blocks are mapped, on huge pages where possible

 private:
  // Small blocks: lists of blocks of equal size, linked through their first bytes.
  struct FreeBlock {
    FreeBlock* next;
  };
  struct alignas(64) SizeClass {
    SpinLock lock;
    FreeBlock* first = nullptr;
  };
  static constexpr int kClasses = 8 + 12 * 8;
  // Large blocks: by size, with the time they were given back.
  struct LargeBlock {
    void* address;
    uint64_t time;
  };

  void* take_small(int size_class, uint64_t size);
  Block take_large(uint64_t size);
  void trim_large(uint64_t incoming);
  void* fresh(uint64_t size);
  void count_used(uint64_t size);

  const uint64_t limit_;
  std::atomic<uint64_t> used_{0}, held_{0}, peak_{0};
  SizeClass classes_[kClasses];
  Mutex large_lock_;
  std::multimap<uint64_t, LargeBlock> large_;
  uint64_t clock_ = 0;
};

// What the machine, or the container the process lives in, has.
uint64_t physical_memory();

}  // namespace heddle
