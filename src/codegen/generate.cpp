// Runs LLVM's code generator. What it has to say stays off the screen, and its faults are exceptions.
#include "codegen/generate.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <cstdio>
#include <mutex>

#include "base/error.h"
#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

struct Fatal {
  std::string reason;
};
thread_local bool generating = false;

// LLVM ends the process when this returns. Its functions pass exceptions on without noticing them.
void on_fatal_error(void*, const char* reason, bool) {
  if (generating) throw Fatal{reason};
  std::fprintf(stderr, "LLVM ERROR: %s\n", reason);
}

void on_diagnostic(const llvm::DiagnosticInfo* info, void* errors) {
  if (info->getSeverity() != llvm::DS_Error) return;
  llvm::raw_string_ostream out(*static_cast<std::string*>(errors));
  llvm::DiagnosticPrinterRawOStream printer(out);
  out << (out.str().empty() ? "" : "\n");
  info->print(printer);
}

}  // namespace

CodeUnit::CodeUnit(const kernel::Kernel& kernel, llvm::TargetMachine& machine)
    : kernel_(kernel),
      machine_(machine),
      context_(std::make_unique<llvm::LLVMContext>()),
      module_(std::make_unique<llvm::Module>(kernel.name, *context_)) {
  static std::once_flag once;
  std::call_once(once, [] { llvm::install_fatal_error_handler(on_fatal_error); });
  context_->setDiagnosticHandlerCallBack(on_diagnostic, &errors_);
  module_->setTargetTriple(machine.getTargetTriple().str());
  module_->setDataLayout(machine.createDataLayout());
}

CodeUnit::~CodeUnit() = default;

std::string CodeUnit::generate(llvm::CodeGenFileType kind) {
  check_module(kernel_, *module_);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  auto passes = std::make_unique<llvm::legacy::PassManager>();
  llvm::MCContext* unused = nullptr;
  const bool failed = kind == llvm::CodeGenFileType::ObjectFile
                          ? machine_.addPassesToEmitMC(*passes, unused, out)
                          : machine_.addPassesToEmitFile(*passes, out, nullptr, kind);
  if (failed) throw CompileError(text("kernel ", kernel_.name, ": LLVM has no code generator for this target"));
  struct Generating {
    Generating() { generating = true; }
    ~Generating() { generating = false; }
  };
  try {
    Generating now;
    passes->run(*module_);
  } catch (const Fatal& fatal) {
    // They stopped halfway: nobody knows whether they can be destroyed.
    static_cast<void>(passes.release());
    static_cast<void>(module_.release());
    static_cast<void>(context_.release());
    throw CompileError(text("kernel ", kernel_.name, ": LLVM gives up: ", fatal.reason));
  }
  if (!errors_.empty()) throw CompileError(text("kernel ", kernel_.name, ": LLVM reports ", errors_));
  return std::string(bytes.data(), bytes.size());
}

}  // namespace heddle::codegen
