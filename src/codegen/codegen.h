// Thread-level kernels to machine code of the CPU we run on. Other machines: generator.h, and a header for each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compile/target/target.h"
#include "kernel/ir.h"

namespace heddle {

// The target of the machine we run on, or the one config().target forces. Throws ValueError for one this machine lacks.
const Target& host_target();
// This machine used as an "avx512", "avx2" or "sse" one. Throws ValueError for unknown names and for what it lacks.
Target cpu_target(const std::string& name);

// One phase of a kernel on a CPU: runs blocks [begin, end) of its grid (blocks in row-major order of the grid).
// buffers: pointers in order of Kernel::buffers (entries of Shared ones unused); symbols: values of Kernel::symbols;
// scratch: CompiledKernel::scratch_bytes bytes, 64-byte aligned, private to the calling thread.
using PhaseFunction = void (*)(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end, void* scratch);

// Owns the code; it is unmapped with the last reference.
struct CompiledKernel {
  std::vector<PhaseFunction> phases;
  int64_t scratch_bytes = 0;
  std::shared_ptr<void> code;
};

// Compiles for the host with LLVM. Thread-safe. Throws CompileError. `object` receives the object file if it is not
// null.
CompiledKernel compile_host(const kernel::Kernel& kernel, const Target& target, std::string* object = nullptr);
// What compile_host() returned for the same kernel and target, of its object file: takes a hundredth of the time.
CompiledKernel load_host(const kernel::Kernel& kernel, const std::string& object);
// The version of what makes object files.
std::string code_generator();
// Texts for people. Throw CompileError.
std::string llvm_ir(const kernel::Kernel& kernel, const Target& target);
std::string host_assembly(const kernel::Kernel& kernel, const Target& target);
// Executable memory now mapped by compiled kernels, for leak tests and `heddle info`.
struct CodeMemory {
  size_t kernels, bytes, mappings;
};
CodeMemory code_memory();

}  // namespace heddle
