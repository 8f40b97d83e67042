// From a module to code. Private to this folder.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Support/CodeGen.h>

#include <memory>
#include <string>

#include "kernel/ir.h"

namespace llvm {
class TargetMachine;
}

namespace heddle::codegen {

// A module to emit a kernel into, and the way from there to code.
class CodeUnit {
 public:
  CodeUnit(const kernel::Kernel& kernel, llvm::TargetMachine& machine);
  ~CodeUnit();
  CodeUnit(const CodeUnit&) = delete;
  CodeUnit& operator=(const CodeUnit&) = delete;

  llvm::Module& module() { return *module_; }
  // Once. Throws InternalError if the module is malformed, CompileError with what LLVM reports; it prints nothing, and
  // the process goes on after errors that LLVM would report and then exit.
  std::string generate(llvm::CodeGenFileType kind);

 private:
  const kernel::Kernel& kernel_;
  llvm::TargetMachine& machine_;
  std::string errors_;
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::Module> module_;
};

}  // namespace heddle::codegen
