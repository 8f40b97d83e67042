// Memory for machine code, pooled: thousands of kernels share a few large mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace heddle::codegen {

// The same bytes seen twice: no page is ever writable and executable at one address.
struct CodeBlock {
  uint8_t* write = nullptr;
  const uint8_t* execute = nullptr;
  size_t bytes = 0;
};

// 64-byte aligned. The block is freed with the last reference. Thread-safe. Throws OutOfMemory.
std::shared_ptr<const CodeBlock> allocate_code(size_t bytes);

}  // namespace heddle::codegen
