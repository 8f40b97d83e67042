#include "count_allocations.h"

#include <cstdlib>
#include <new>

#include "base/sanitizers.h"

namespace {
thread_local long calls = 0;
}
long heddle::testing::allocations() { return calls; }

// Sanitizers have their own, and want all forms of new and delete to be from one hand.
#if !HD_ADDRESS_SANITIZER && !HD_THREAD_SANITIZER
void* operator new(std::size_t bytes) {
  ++calls;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
