#include "backend/cuda/memory.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace heddle::cuda {
namespace {

constexpr uint64_t kSmallest = 512, kLarge = uint64_t{2} << 20;

// Sizes are rounded up by an eighth at most, so that blocks fit again; large ones to pages.
uint64_t rounded(uint64_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  uint64_t step = std::min(std::bit_floor(bytes - 1) / 8, kLarge);
  return (bytes + step - 1) / step * step;
}

}  // namespace

MemoryPool::Block MemoryPool::allocate(uint64_t bytes) {
  if (bytes > limit_)
    throw OutOfMemory(text(device_, ": out of memory: wanted ", bytes, " bytes, the device has ", limit_));
  const uint64_t size = rounded(bytes);
  std::lock_guard guard(lock_);
  auto found = free_.lower_bound(size);
  Block block;
  if (found != free_.end() && found->first <= size + size / 8) {
    block = found->second;
    cached_ -= block.size;
    free_.erase(found);
  } else {
    block.size = size;
    Result result = driver_.cuMemAlloc_v2(&block.address, size);
    if (result == kOutOfMemory) {
      for (const auto& [unused, kept] : free_) driver_.cuMemFree_v2(kept.address);
      free_.clear();
      cached_ = 0;
      result = driver_.cuMemAlloc_v2(&block.address, size);
    }
    if (result == kOutOfMemory) {
      size_t left = 0, total = 0;
      driver_.cuMemGetInfo_v2(&left, &total);
      throw OutOfMemory(text(device_, ": out of memory: wanted ", bytes, " bytes; ", used_, " are in use here, ", left,
                             " of ", total, " are free"));
    }
    driver_.check(result, "allocating memory");
  }
  used_ += block.size;
  peak_ = std::max(peak_, used_);
  return block;
}

void MemoryPool::release(Block block) noexcept {
  std::lock_guard guard(lock_);
  used_ -= block.size;
  cached_ += block.size;
  free_.emplace(block.size, block);
}

void MemoryPool::free_cached() {
  std::lock_guard guard(lock_);
  for (const auto& [unused, kept] : free_) driver_.cuMemFree_v2(kept.address);  // waits for what still runs
  free_.clear();
  cached_ = 0;
}

MemoryPool::Use MemoryPool::use() const {
  std::lock_guard guard(lock_);
  return {used_, cached_, peak_, limit_};
}

}  // namespace heddle::cuda
