// Where the temporaries of a plan live in its arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

// Something needed from step `first` to step `last`, both included.
struct Lifetime {
  uint64_t bytes;
  int first, last;
};

struct MemoryPlan {
  std::vector<uint64_t> offsets;  // in bytes, multiples of 64
  uint64_t bytes = 0;
  uint64_t lower_bound = 0;  // the most that lives at one time: no plan needs less
};

// Gives things whose lifetimes overlap disjoint places, and tries to need little room. O(n log n) for many things.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace heddle
