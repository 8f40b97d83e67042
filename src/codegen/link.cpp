#include "codegen/link.h"

#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "codegen/code_memory.h"

namespace heddle::codegen {
namespace {

// Puts all sections of an object into one block of code memory. Callbacks come from LLVM, which exceptions must not
// pass: failures leave a message.
class Sections : public llvm::RuntimeDyld::MemoryManager {
 public:
  std::shared_ptr<const CodeBlock> block;
  std::string error;

  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, llvm::Align code_align, uintptr_t constants, llvm::Align constants_align,
                              uintptr_t data, llvm::Align data_align) override {
    // Room to align each section, of which there are a few of each kind.
    size_t slack = 8 * (code_align.value() + constants_align.value() + data_align.value());
    try {
      block = allocate_code(code + constants + data + slack);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  }
  uint8_t* allocateCodeSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef) override {
    return take(size, align);
  }
  uint8_t* allocateDataSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef name,
                               bool read_only) override {
    // The table of addresses of called functions is written by the linker only.
    if (!read_only && name != ".got") error = "the code has a writable section " + name.str();
    return take(size, align);
  }
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}
  bool finalizeMemory(std::string*) override { return false; }

 private:
  uint8_t* take(uintptr_t size, unsigned align) {
    if (!block) return nullptr;
    size_t start = (used_ + align - 1) / align * align;
    if (start + size > block->bytes) {
      if (error.empty()) error = "its sections do not fit into the memory reserved";
      return nullptr;
    }
    used_ = start + size;
    return block->begin + start;
  }

  size_t used_ = 0;
};

// The only functions that generated code may call: x86 without the instruction needs fma, and LLVM may turn a loop of
// stores into memset or memcpy.
class Resolver : public llvm::LegacyJITSymbolResolver {
 public:
  std::string missing;

  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }
  llvm::JITSymbol findSymbol(const std::string& name) override {
    auto exported = [](auto* function) {
      return llvm::JITSymbol(reinterpret_cast<uint64_t>(function), llvm::JITSymbolFlags::Exported);
    };
    if (name == "fma") return exported(static_cast<double (*)(double, double, double)>(::fma));
    if (name == "memcpy") return exported(&::memcpy);
    if (name == "memset") return exported(&::memset);
    missing += name + " ";
    return nullptr;
  }
};

}  // namespace

Linked link(const std::string& kernel, llvm::MemoryBufferRef object, std::span<const std::string> names) {
  auto fail = [&](const std::string& why) { throw CompileError(text("kernel ", kernel, ": cannot link: ", why)); };
  Sections sections;
  Resolver resolver;
  auto file = llvm::object::ObjectFile::createObjectFile(object);
  if (!file) fail(llvm::toString(file.takeError()));
  llvm::RuntimeDyld linker(sections, resolver);
  linker.loadObject(**file);
  if (!sections.error.empty()) fail(sections.error);
  if (linker.hasError()) fail(linker.getErrorString().str());
  linker.resolveRelocations();
  if (linker.hasError()) fail(linker.getErrorString().str() + " " + resolver.missing);
  make_executable(*sections.block);
  Linked result{sections.block, {}};
  for (const std::string& name : names) {
    uint64_t address = linker.getSymbol(name).getAddress();
    if (address == 0) fail("no symbol " + name);
    result.symbols.push_back(reinterpret_cast<void*>(address));
  }
  return result;
}

}  // namespace heddle::codegen
