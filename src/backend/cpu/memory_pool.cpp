#include "backend/cpu/memory_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sanitizers.h"

#if HD_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace heddle {
namespace {

// Cached memory is out of bounds for everybody: the address sanitizer should say so.
void poison([[maybe_unused]] void* address, [[maybe_unused]] uint64_t size) {
#if HD_ADDRESS_SANITIZER
  ASAN_POISON_MEMORY_REGION(address, size);
#endif
}
void unpoison([[maybe_unused]] void* address, [[maybe_unused]] uint64_t size) {
#if HD_ADDRESS_SANITIZER
  ASAN_UNPOISON_MEMORY_REGION(address, size);
#endif
}

// Sizes of small blocks: multiples of 64 up to 512, then eight steps to each doubling.
int size_class(uint64_t bytes) {
  uint64_t units = std::max<uint64_t>(1, (bytes + 63) / 64);
  if (units <= 8) return static_cast<int>(units - 1);
  int shift = std::bit_width(units - 1) - 4;  // (units - 1) >> shift is 8..15
  return static_cast<int>(8 + shift * 8 + static_cast<int>((units - 1) >> shift) - 8);
}

uint64_t class_size(int c) {
  if (c < 8) return 64 * static_cast<uint64_t>(c + 1);
  int shift = (c - 8) / 8;
  return static_cast<uint64_t>(9 + (c - 8) % 8) << (shift + 6);
}

constexpr uint64_t kGranule = 64 << 10;

void* map_large(uint64_t size) {
  // Map more than needed and give the ends back, so that the block starts on a huge page.
  uint64_t padded = size + MemoryPool::kLarge;
  void* mapped = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto begin = reinterpret_cast<uintptr_t>(mapped);
  uintptr_t start = (begin + MemoryPool::kLarge - 1) / MemoryPool::kLarge * MemoryPool::kLarge;
  if (start > begin) munmap(mapped, start - begin);
  if (uintptr_t rest = begin + padded - (start + size)) munmap(reinterpret_cast<void*>(start + size), rest);
  void* address = reinterpret_cast<void*>(start);
  madvise(address, size, MADV_HUGEPAGE);
  return address;
}

std::string amount(uint64_t bytes) {
  if (bytes < (10 << 10)) return text(bytes, " bytes");
  const char* unit = "KiB";
  double value = static_cast<double>(bytes) / 1024;
  for (const char* larger : {"MiB", "GiB", "TiB", "PiB", "EiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = larger;
  }
  return text(bytes, " bytes (", value, " ", unit, ")");
}

}  // namespace

uint64_t physical_memory() {
  uint64_t memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    uint64_t bytes = 0;
    if (file >> bytes && bytes > 0) memory = std::min(memory, bytes);  // "max" is no number: no limit
  }
  return memory;
}

MemoryPool::MemoryPool(uint64_t limit) : limit_(std::min<uint64_t>(limit, std::numeric_limits<int64_t>::max())) {}

MemoryPool::~MemoryPool() { free_cached(); }

uint64_t MemoryPool::cached() const {
  // Two counters read one after the other while others move them: never report a negative difference.
  uint64_t held = held_.load(std::memory_order_relaxed), in_use = used();
  return held > in_use ? held - in_use : 0;
}

void MemoryPool::count_used(uint64_t size) {
  uint64_t now = used_.fetch_add(size, std::memory_order_relaxed) + size;
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {}
}

void* MemoryPool::fresh(uint64_t size) {
  if (held_.fetch_add(size, std::memory_order_relaxed) + size <= limit_) {
    void* address = size >= kLarge ? map_large(size) : std::aligned_alloc(kAlignment, size);
    if (address) return address;
  }
  held_.fetch_sub(size, std::memory_order_relaxed);
  return nullptr;
}

void* MemoryPool::take_small(int c, uint64_t size) {
  SizeClass& list = classes_[c];
  std::lock_guard guard(list.lock);
  FreeBlock* block = list.first;
  if (!block) return nullptr;
  unpoison(block, size);
  list.first = block->next;
  return block;
}

MemoryPool::Block MemoryPool::take_large(uint64_t size) {
  std::lock_guard guard(large_lock_);
  auto best = large_.lower_bound(size);
  if (best == large_.end() || best->first > size + size / 4) return {};
  Block block{best->second.address, best->first};
  large_.erase(best);
  unpoison(block.address, block.size);
  return block;
}

// A program whose sizes drift would collect blocks that never fit again: give the oldest back to the system once we
// hold clearly more than was ever needed at one time.
void MemoryPool::trim_large(uint64_t incoming) {
  std::vector<Block> gone;
  {
    std::lock_guard guard(large_lock_);
    uint64_t enough = std::max(peak(), used() + incoming) / 2 * 3 + (64 << 20);
    uint64_t held = held_.load(std::memory_order_relaxed) + incoming;
    while (held > enough && !large_.empty()) {
      auto oldest = std::min_element(large_.begin(), large_.end(),
                                     [](const auto& a, const auto& b) { return a.second.time < b.second.time; });
      gone.push_back({oldest->second.address, oldest->first});
      held -= oldest->first;
      large_.erase(oldest);
    }
  }
  for (const Block& block : gone) {
    unpoison(block.address, block.size);
    munmap(block.address, block.size);
    held_.fetch_sub(block.size, std::memory_order_relaxed);
  }
}

MemoryPool::Block MemoryPool::allocate(uint64_t bytes) {
  Block block;
  if (bytes <= limit_) {
    int c = -1;
    uint64_t size = 0;
    if (bytes <= class_size(kClasses - 1)) {
      c = size_class(bytes);
      size = class_size(c);
    }
    // The last classes reach kLarge and are mapped like the sizes above.
    if (c < 0 || size >= kLarge) {
      size = (std::max(bytes, kLarge) + kGranule - 1) / kGranule * kGranule;
      block = take_large(size);
      if (!block.address) trim_large(size);
    } else {
      block = {take_small(c, size), size};
    }
    if (!block.address) {
      block = {fresh(size), size};
      if (!block.address) {
        free_cached();
        block.address = fresh(size);
      }
    }
  }
  if (!block.address)
    throw OutOfMemory(text("cpu: out of memory: wanted ", amount(bytes), " with ", amount(used()),
                           " in use of at most ", amount(limit_)));
  count_used(block.size);
  return block;
}

void MemoryPool::release(Block block) noexcept {
  if (!block.address) return;
  used_.fetch_sub(block.size, std::memory_order_relaxed);
  if (block.size >= kLarge) {
    try {
      std::lock_guard guard(large_lock_);
      large_.emplace(block.size, LargeBlock{block.address, ++clock_});
      poison(block.address, block.size);
    } catch (const std::bad_alloc&) {
      munmap(block.address, block.size);
      held_.fetch_sub(block.size, std::memory_order_relaxed);
    }
  } else {
    SizeClass& list = classes_[size_class(block.size)];
    auto* entry = static_cast<FreeBlock*>(block.address);
    std::lock_guard guard(list.lock);
    entry->next = list.first;
    poison(entry + 1, block.size - sizeof *entry);  // the link itself stays visible to the leak checker
    list.first = entry;
  }
}

void MemoryPool::free_cached() noexcept {
  for (int c = 0; c < kClasses; ++c) {
    FreeBlock* block;
    {
      std::lock_guard guard(classes_[c].lock);
      block = std::exchange(classes_[c].first, nullptr);
    }
    uint64_t size = class_size(c);
    while (block) {
      unpoison(block, size);
      FreeBlock* next = block->next;
      std::free(block);
      held_.fetch_sub(size, std::memory_order_relaxed);
      block = next;
    }
  }
  std::multimap<uint64_t, LargeBlock> large;
  {
    std::lock_guard guard(large_lock_);
    large.swap(large_);
  }
  for (const auto& [size, block] : large) {
    unpoison(block.address, size);
    munmap(block.address, size);
    held_.fetch_sub(size, std::memory_order_relaxed);
  }
}

}  // namespace heddle
