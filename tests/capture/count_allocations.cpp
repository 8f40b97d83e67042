#include "count_allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long calls = 0;
}
long heddle::testing::allocations() { return calls; }

// Sanitizers have their own, and want all forms of new and delete to be from one hand.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HD_COUNT_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HD_COUNT_ALLOCATIONS 0
#endif
#endif
#ifndef HD_COUNT_ALLOCATIONS
#define HD_COUNT_ALLOCATIONS 1
#endif

#if HD_COUNT_ALLOCATIONS
void* operator new(std::size_t bytes) {
  ++calls;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
