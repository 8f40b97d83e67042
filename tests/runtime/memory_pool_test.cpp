#include "backend/cpu/memory_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace heddle {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(MemoryPool, blocks_are_aligned_large_enough_and_disjoint) {
  MemoryPool pool(1 << 30);
  std::vector<MemoryPool::Block> blocks;
  for (uint64_t size : {0ul, 1ul, 63ul, 64ul, 65ul, 512ul, 513ul, 1000ul, 4096ul, 70000ul, kMiB, 2 * kMiB - 1, 2 * kMiB,
                        2 * kMiB + 1, 9 * kMiB}) {
    blocks.push_back(pool.allocate(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().address) % 64, 0u);
    EXPECT_GE(blocks.back().size, size);
    if (size >= 512) {
      EXPECT_LE(blocks.back().size, size + size / 8 + 65536);
    }
    std::memset(blocks.back().address, static_cast<int>(blocks.size()), blocks.back().size);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto* bytes = static_cast<unsigned char*>(blocks[i].address);
    EXPECT_EQ(bytes[0], i + 1);
    EXPECT_EQ(bytes[blocks[i].size - 1], i + 1);
    pool.release(blocks[i]);
  }
}

TEST(MemoryPool, every_size_gets_a_class_that_holds_it) {
  MemoryPool pool(1 << 30);
  for (uint64_t size = 1; size < 3 * kMiB; size = size + 1 + size / 37) {
    MemoryPool::Block block = pool.allocate(size);
    ASSERT_GE(block.size, size);
    pool.release(block);
    MemoryPool::Block again = pool.allocate(block.size);  // a block's own size asks for the same class
    EXPECT_EQ(again.size, block.size);
    EXPECT_EQ(again.address, block.address);
    pool.release(again);
  }
}

TEST(MemoryPool, freed_blocks_are_reused_and_counted) {
  MemoryPool pool(1 << 30);
  for (uint64_t size : {uint64_t{1000}, 5 * kMiB}) {
    MemoryPool::Block first = pool.allocate(size);
    EXPECT_EQ(pool.used(), first.size);
    EXPECT_EQ(pool.cached(), 0u);
    pool.release(first);
    EXPECT_EQ(pool.used(), 0u);
    EXPECT_EQ(pool.cached(), first.size);
    EXPECT_EQ(pool.peak(), first.size);
    MemoryPool::Block second = pool.allocate(size);
    EXPECT_EQ(second.address, first.address);
    EXPECT_EQ(pool.cached(), 0u);
    pool.release(second);
    pool.free_cached();
    EXPECT_EQ(pool.cached(), 0u);
  }
}

TEST(MemoryPool, a_large_block_serves_a_slightly_smaller_request_only) {
  MemoryPool pool(1 << 30);
  MemoryPool::Block block = pool.allocate(10 * kMiB);
  pool.release(block);
  MemoryPool::Block close = pool.allocate(9 * kMiB);
  EXPECT_EQ(close.address, block.address);
  EXPECT_EQ(close.size, block.size);
  pool.release(close);
  MemoryPool::Block small = pool.allocate(3 * kMiB);
  EXPECT_NE(small.address, block.address);
  pool.release(small);
}

TEST(MemoryPool, the_limit_counts_used_and_cached_and_the_program_goes_on) {
  MemoryPool pool(16 * kMiB);
  MemoryPool::Block a = pool.allocate(8 * kMiB);
  try {
    pool.allocate(12 * kMiB);
    FAIL() << "more than the limit was given";
  } catch (const OutOfMemory& e) {
    std::string message = e.what();
    EXPECT_NE(message.find(std::to_string(12 * kMiB)), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(8 * kMiB)), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(16 * kMiB)), std::string::npos) << message;
  }
  EXPECT_EQ(pool.used(), a.size);
  pool.release(a);
  EXPECT_EQ(pool.cached(), a.size);
  MemoryPool::Block b = pool.allocate(12 * kMiB);  // the cache makes room
  EXPECT_EQ(pool.cached(), 0u);
  pool.release(b);
}

TEST(MemoryPool, absurd_sizes_are_refused_at_once) {
  MemoryPool pool(physical_memory());
  MemoryPool::Block kept = pool.allocate(100);
  pool.release(kept);
  for (uint64_t size : {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63, uint64_t{1} << 50})
    EXPECT_THROW(pool.allocate(size), OutOfMemory);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.cached(), kept.size);  // hopeless requests do not cost the cache
}

TEST(MemoryPool, drifting_sizes_do_not_pile_up) {
  MemoryPool pool(uint64_t{4} << 30);
  for (uint64_t i = 0; i < 64; ++i) {
    MemoryPool::Block block = pool.allocate((4 + 3 * (i % 16) * (i % 16)) * kMiB);
    pool.release(block);
  }
  EXPECT_LE(pool.cached(), pool.peak() * 3 / 2 + 64 * kMiB);
}

TEST(MemoryPool, threads_share_it) {
  MemoryPool pool(uint64_t{1} << 30);
  std::vector<std::thread> users;
  std::atomic<int> clashes{0};
  for (unsigned u = 0; u < 4; ++u)
    users.emplace_back([&, u] {
      std::mt19937 random(u);
      std::vector<MemoryPool::Block> mine;
      for (int i = 0; i < 4000; ++i) {
        if (mine.size() < 20 && random() % 2) {
          uint64_t size = random() % 100 == 0 ? 3 * kMiB : 1 + random() % 5000;
          mine.push_back(pool.allocate(size));
          *static_cast<unsigned*>(mine.back().address) = u;
        } else if (!mine.empty()) {
          size_t at = random() % mine.size();
          if (*static_cast<unsigned*>(mine[at].address) != u) ++clashes;
          pool.release(mine[at]);
          mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
        }
        if (i % 1000 == 0) pool.free_cached();
      }
      for (MemoryPool::Block& block : mine) pool.release(block);
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(pool.used(), 0u);
  pool.free_cached();
  EXPECT_EQ(pool.cached(), 0u);
}

}  // namespace
}  // namespace heddle
