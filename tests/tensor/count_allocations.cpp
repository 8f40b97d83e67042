#include "count_allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long calls = 0;
}
long heddle::testing::allocations() { return calls; }

void* operator new(std::size_t bytes) {
  ++calls;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
