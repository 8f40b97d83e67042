// Kernels for NVIDIA GPUs, as PTX.
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include <map>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "codegen/codegen.h"
#include "codegen/emit.h"

namespace heddle {
namespace codegen {
namespace {

constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

llvm::Value* shuffle_xor(Emitter& emitter, llvm::Value* word, int mask) {
  auto& b = emitter.b;
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                           {b.getInt32(~0u), word, b.getInt32(static_cast<uint32_t>(mask)), b.getInt32(31)});
}

void barrier(Emitter& emitter) { emitter.b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }

llvm::TargetMachine& target_machine(const Target& target) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[target.llvm_cpu + target.llvm_features];
  if (machine) return *machine;
  initialize_llvm();
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.llvm_triple, error);
  if (!found) throw CompileError(text("target ", target.name, ": this LLVM makes no PTX: ", error));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine.reset(found->createTargetMachine(target.llvm_triple, target.llvm_cpu, target.llvm_features, options,
                                           llvm::Reloc::PIC_));
  return *machine;
}

}  // namespace

void emit_nvptx(const kernel::Kernel& kernel, llvm::Module& module) {
  Traits traits;
  traits.half = traits.fma = traits.nan_minmax = traits.shared_local = true;
  traits.shuffle_xor = shuffle_xor;
  traits.barrier = barrier;
  Emitter emitter(kernel, module, traits);
  auto& b = emitter.b;
  llvm::LLVMContext& context = emitter.context;
  llvm::Type* word = b.getInt64Ty();

  std::vector<llvm::Type*> parameters;
  for (const kernel::Buffer& buffer : kernel.buffers)
    if (buffer.space != kernel::Space::Local) parameters.push_back(llvm::PointerType::get(context, kGlobalSpace));
  size_t pointers = parameters.size();
  parameters.resize(pointers + kernel.symbols.size(), word);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), parameters, false);

  std::vector<llvm::GlobalVariable*> locals;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    locals.push_back(nullptr);
    if (buffer.space != kernel::Space::Local) continue;
    HD_ASSERT(buffer.size.is_const(), buffer.name);
    auto* array =
        llvm::ArrayType::get(emitter.memory_element(buffer.dtype), static_cast<uint64_t>(buffer.size.value()));
    locals.back() = new llvm::GlobalVariable(module, array, false, llvm::GlobalValue::InternalLinkage,
                                             llvm::UndefValue::get(array), "local_" + std::to_string(locals.size()),
                                             nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
    locals.back()->setAlignment(llvm::Align(64));
  }

  llvm::NamedMDNode* annotations = module.getOrInsertNamedMetadata("nvvm.annotations");
  auto annotate = [&](llvm::Function* function, const char* key, int value) {
    annotations->addOperand(
        llvm::MDNode::get(context, {llvm::ValueAsMetadata::get(function), llvm::MDString::get(context, key),
                                    llvm::ConstantAsMetadata::get(b.getInt32(static_cast<uint32_t>(value)))}));
  };
  for (size_t phase = 0; phase < kernel.phases.size(); ++phase) {
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol_name(kernel, phase), module);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    annotate(function, "kernel", 1);
    annotate(function, "maxntidx", kernel.threads);
    emitter.begin_function(function);
    llvm::Value* cell = nullptr;
    {
      llvm::IRBuilder<>::InsertPointGuard guard(b);
      b.SetInsertPoint(emitter.scopes[0].head->getTerminator());
      unsigned next = 0;
      for (size_t k = 0; k < kernel.buffers.size(); ++k) {
        if (locals[k]) {
          emitter.buffers[k] = locals[k];
          continue;
        }
        llvm::Argument* argument = function->getArg(next++);
        argument->addAttr(llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
        emitter.buffers[k] = argument;
      }
      for (const Expr& symbol : kernel.symbols) emitter.bind(symbol, function->getArg(next++));
      llvm::Value* thread = b.getInt64(0);
      if (kernel.threads > 1)
        thread = b.CreateZExt(b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {}), word);
      emitter.bind(kernel.thread, thread);
      cell = b.CreateZExt(b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {}), word);
    }
    emitter.bind_cells(kernel.phases[phase], cell);
    emitter.block(kernel.phases[phase].body, emitter.values);
    emitter.end_function();
  }
}

}  // namespace codegen

Target nvidia_target(const std::string& arch) {
  if (!arch.starts_with("sm_")) throw ValueError(text("nvidia_target: ", arch, " is not of the form sm_90a"));
  Target target;
  target.name = arch;
  target.machine = Machine::Simt;
  target.llvm_triple = "nvptx64-nvidia-cuda";
  target.llvm_cpu = arch;
  target.llvm_features = "+ptx83";
  target.vector_bytes = 16;
  return target;
}

std::string ptx(const kernel::Kernel& kernel, const Target& target) {
  using namespace codegen;
  if (target.machine != Machine::Simt)
    throw CompileError(text("kernel ", kernel.name, ": target ", target.name, " is no GPU"));
  int64_t local_bytes = 0;
  for (const kernel::Buffer& buffer : kernel.buffers)
    if (buffer.space == kernel::Space::Local)
      local_bytes += (buffer.size.value() * size_of(buffer.dtype) + 63) / 64 * 64;
  if (local_bytes > target.local_bytes)
    throw CompileError(text("kernel ", kernel.name, ": a cell needs ", local_bytes, " bytes of local memory, ",
                            target.name, " has ", target.local_bytes));
  llvm::TargetMachine& machine = target_machine(target);
  llvm::LLVMContext context;
  llvm::Module module(kernel.name, context);
  module.setTargetTriple(target.llvm_triple);
  module.setDataLayout(machine.createDataLayout());
  emit_nvptx(kernel, module);
  if (config().check_kernels) check_module(kernel, module);
  if (log_enabled(Log::Llvm)) log_write(Log::Llvm, text_of(module));
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    throw CompileError(text("kernel ", kernel.name, ": LLVM cannot make PTX for ", target.name));
  passes.run(module);
  std::string result(bytes.data(), bytes.size());
  if (log_enabled(Log::Asm)) log_write(Log::Asm, result);
  return result;
}

}  // namespace heddle
