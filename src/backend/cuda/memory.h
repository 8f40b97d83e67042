// Device memory, kept for reuse when it is given back: asking the driver takes as long as a small kernel, and waits for
// everything that runs.
#pragma once

#include <map>
#include <mutex>

#include "backend/cuda/driver.h"
#include "base/lock.h"

namespace heddle::cuda {

// A block that is given back may be handed out at once: whoever uses it next comes after whoever used it last, because
// kernels are all in one stream, and who works beside that stream looks at `last_use`.
class MemoryPool {
 public:
  struct Block {
    Address address = 0;
    uint64_t size = 0;      // what the pool gave
    uint64_t last_use = 0;  // by whoever had it before: the number of a piece of the stream's work
  };

  MemoryPool(const Driver& driver, std::string device, uint64_t limit)
      : driver_(driver), device_(std::move(device)), limit_(limit) {}

  // The context must be current. Throws OutOfMemory after freeing the cache and trying again.
  Block allocate(uint64_t bytes);
  void release(Block block) noexcept;
  void free_cached();

  struct Use {
    uint64_t used, cached, peak, limit;
  };
  Use use() const;

 private:
  const Driver& driver_;
  const std::string device_;  // for messages
  const uint64_t limit_;
  mutable Mutex lock_;
  std::multimap<uint64_t, Block> free_;  // by size
  uint64_t used_ = 0, cached_ = 0, peak_ = 0;
};

}  // namespace heddle::cuda
