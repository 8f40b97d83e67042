#include "base/intern.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/hash.h"

namespace heddle {
namespace {

std::atomic<int> alive{0};

struct Pair {
  uint64_t hash;
  std::atomic<uint32_t> refs{1};
  int value;
  Pair* child;

  Pair(int v, Pair* c, uint64_t h) : hash(h), value(v), child(c) { ++alive; }
  ~Pair() { --alive; }
  bool same(const Pair& other) const { return value == other.value && child == other.child; }
  template <class Sink>
  void drop_children(Sink sink) {
    if (child) sink(child);
  }
};

// Takes over the caller's reference to child.
Pair* make(Interner<Pair>& table, int value, Pair* child = nullptr, uint64_t hash = 0) {
  if (hash == 0) hash = hash_combine(static_cast<uint64_t>(value), reinterpret_cast<uintptr_t>(child));
  Pair probe(value, child, hash);
  bool fresh = false;
  Pair* result = table.intern(probe, [&] {
    fresh = true;
    return new Pair(value, child, hash);
  });
  if (!fresh && child) table.release(child);
  return result;
}

TEST(Interner, EqualValuesAreOneObject) {
  Interner<Pair> table;
  Pair *a = make(table, 1), *b = make(table, 1), *c = make(table, 2);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(table.size(), 2u);
  table.release(a);
  EXPECT_EQ(table.size(), 2u);
  table.release(b);
  EXPECT_EQ(table.size(), 1u);
  table.release(c);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(alive, 0);
}

TEST(Interner, LongChainsDieWithoutRecursion) {
  Interner<Pair> table;
  Pair* chain = nullptr;
  for (int i = 0; i < 300000; ++i) chain = make(table, i, chain);
  EXPECT_EQ(table.size(), 300000u);
  table.release(chain);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(alive, 0);
}

TEST(Interner, CollidingHashesStayApartThroughErasure) {
  Interner<Pair> table;
  std::vector<Pair*> all;
  for (int i = 0; i < 200; ++i) all.push_back(make(table, i, nullptr, 64 + (i % 3) * 256));  // one shard, three homes
  for (int i = 0; i < 200; i += 2) table.release(all[i]);
  for (int i = 1; i < 200; i += 2) {
    Pair* again = make(table, i, nullptr, 64 + (i % 3) * 256);
    EXPECT_EQ(again, all[i]);
    table.release(again);
    table.release(all[i]);
  }
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(alive, 0);
}

TEST(Interner, ThreadsMakeAndDropTheSameValues) {
  Interner<Pair> table;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        Pair* a = make(table, i % 16, make(table, i % 5));
        Pair* b = make(table, i % 16, make(table, i % 5));
        EXPECT_EQ(a, b);
        table.release(a);
        table.release(b);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace heddle
