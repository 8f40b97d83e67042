// Memory for machine code, pooled: thousands of kernels share a few large mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace heddle::codegen {

// Whole pages: written once, then made executable. No page is ever writable and executable. The memory is private, so
// that a child of fork() has its own.
struct CodeBlock {
  uint8_t* begin = nullptr;
  size_t bytes = 0;
};

// Writable. The block is freed with the last reference. Thread-safe. Throws OutOfMemory.
std::shared_ptr<const CodeBlock> allocate_code(size_t bytes);
// From now on it can be executed, and no longer written. Throws CompileError where the system forbids that.
void make_executable(const CodeBlock& block);

}  // namespace heddle::codegen
