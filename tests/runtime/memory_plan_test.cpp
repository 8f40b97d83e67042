#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace heddle {
namespace {

bool overlap_in_time(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// The most that is alive at any one step.
uint64_t lower_bound(const std::vector<Lifetime>& lives) {
  uint64_t most = 0;
  for (const Lifetime& at : lives) {
    uint64_t alive = 0;
    for (const Lifetime& life : lives)
      if (life.first <= at.first && at.first <= life.last) alive += rounded(life.bytes);
    most = std::max(most, alive);
  }
  return most;
}

void expect_disjoint(const std::vector<Lifetime>& lives, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), lives.size());
  for (size_t i = 0; i < lives.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0u);
    EXPECT_LE(plan.offsets[i] + lives[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      if (!overlap_in_time(lives[i], lives[j]) || lives[i].bytes == 0 || lives[j].bytes == 0) continue;
      EXPECT_TRUE(plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                  plan.offsets[j] + lives[j].bytes <= plan.offsets[i])
          << i << " and " << j;
    }
  }
}

TEST(MemoryPlan, nothing_needs_nothing) {
  EXPECT_EQ(plan_memory({}).bytes, 0u);
  std::vector<Lifetime> empty{{0, 0, 3}};
  EXPECT_EQ(plan_memory(empty).bytes, 0u);
}

TEST(MemoryPlan, a_chain_alternates_between_two_places) {
  std::vector<Lifetime> lives;
  for (int i = 0; i < 100; ++i) lives.push_back({1000, i, i + 1});
  MemoryPlan plan = plan_memory(lives);
  expect_disjoint(lives, plan);
  EXPECT_EQ(plan.bytes, 2u * 1024);
}

TEST(MemoryPlan, memory_is_reused_only_after_the_last_step) {
  std::vector<Lifetime> lives{{64, 0, 2}, {64, 2, 3}, {64, 3, 4}};
  MemoryPlan plan = plan_memory(lives);
  expect_disjoint(lives, plan);
  EXPECT_EQ(plan.bytes, 128u);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(MemoryPlan, random_lives_are_disjoint_and_near_the_lower_bound) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    std::vector<Lifetime> lives;
    int count = 1 + static_cast<int>(random() % (seed % 3 == 0 ? 600 : 60));
    for (int i = 0; i < count; ++i) {
      int first = static_cast<int>(random() % 50);
      lives.push_back({random() % 10000, first, first + static_cast<int>(random() % 8)});
    }
    MemoryPlan plan = plan_memory(lives);
    expect_disjoint(lives, plan);
    EXPECT_EQ(plan.lower_bound, lower_bound(lives)) << seed;
    EXPECT_LE(plan.bytes, lower_bound(lives) * 3 / 2 + 64) << seed;
  }
}

TEST(MemoryPlan, two_hundred_thousand_tensors_take_no_time) {
  std::vector<Lifetime> lives;
  for (int i = 0; i < 200'000; ++i) lives.push_back({static_cast<uint64_t>(64 + i % 977 * 64), i, i + 1 + i % 3});
  MemoryPlan plan = plan_memory(lives);  // a quadratic method would need minutes
  EXPECT_LE(plan.bytes, 64u * 977 * 5 * 2);
}

}  // namespace
}  // namespace heddle
