// From an object file in memory to callable code.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace llvm {
class MemoryBufferRef;
}

namespace heddle::codegen {

struct Linked {
  std::shared_ptr<const void> code;
  std::vector<void*> symbols;  // addresses of the names asked for
};

// Throws CompileError naming the kernel.
Linked link(const std::string& kernel, llvm::MemoryBufferRef object, std::span<const std::string> names);

}  // namespace heddle::codegen
