// Kernels for the CPU we run on: entry functions, compilation, texts.
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "codegen/codegen.h"
#include "codegen/emit.h"
#include "codegen/generate.h"
#include "codegen/link.h"
#include "kernel/structure.h"

namespace heddle {
namespace codegen {

namespace {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

constexpr int64_t kSharedAlign = 64;

// Where each Shared buffer lies in the scratch memory of a thread, and how much of that there is.
std::vector<int64_t> scratch_offsets(const kernel::Kernel& kernel, int64_t& bytes) {
  std::vector<int64_t> offsets;
  bytes = 0;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    offsets.push_back(bytes);
    if (buffer.space != kernel::Space::Shared) continue;
    HD_ASSERT(buffer.size.is_const(), buffer.name);
    bytes += (buffer.size.value() * size_of(buffer.dtype) + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
  }
  return offsets;
}

// The number of the first phase that does the same, for each phase: they share a function.
std::vector<size_t> first_alike(const kernel::Kernel& kernel) {
  std::unordered_map<Structure, size_t> seen;
  std::vector<size_t> first;
  for (const kernel::Phase& phase : kernel.phases) {
    Structure structure;
    kernel::StructureWriter writer(structure, kernel.values, kernel::Variables::Scoped);
    writer.exprs(kernel.symbols);
    writer.write(kernel.thread);
    writer.declare(phase.blocks);
    writer.write(phase.body);
    first.push_back(seen.try_emplace(std::move(structure), first.size()).first->second);
  }
  return first;
}

// Making one takes long and using one is not thread-safe: each thread keeps its own.
llvm::TargetMachine& target_machine(const Target& target) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[target.name + target.llvm_cpu + target.llvm_features];
  if (machine) return *machine;
  initialize_llvm();
  std::string triple = target.llvm_triple.empty() ? llvm::sys::getProcessTriple() : target.llvm_triple;
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    throw CompileError(text("target ", target.name, ": LLVM has no code generator for ", triple, ": ", error));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine.reset(found->createTargetMachine(triple, target.llvm_cpu, target.llvm_features, options, llvm::Reloc::PIC_,
                                           llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, true));
  if (!machine) throw CompileError(text("target ", target.name, ": LLVM cannot generate code for ", triple));
  return *machine;
}

void emit(const kernel::Kernel& kernel, const Target& target, CodeUnit& unit) {
  emit_host(kernel, target, unit.module());
  if (log_enabled(Log::Llvm)) log_write(Log::Llvm, text_of(unit.module()));
}

}  // namespace

void emit_host(const kernel::Kernel& kernel, const Target& target, llvm::Module& module) {
  if (target.machine != Machine::Simd)
    throw CompileError(text("kernel ", kernel.name, ": target ", target.name, " is not a CPU"));
  if (kernel.threads != 1)
    throw CompileError(text("kernel ", kernel.name, ": a block has ", kernel.threads, " threads, on a CPU it has one"));
  Traits traits;
  traits.gather = traits.scale = target.vector_bytes >= 64;
  traits.fma = target.fma;
  traits.half = converts(target, DType::f16);
  traits.bfloat = converts(target, DType::bf16);
  traits.pairs = find_instruction(target, MatrixLayout::Packed, DType::bf16) && traits.bfloat;
  traits.bytes = find_instruction(target, MatrixLayout::Packed, DType::i8) &&
                 target.llvm_features.find("+avx512vnni") != std::string::npos;
  traits.matrix = find_instruction(target, MatrixLayout::Panels) != nullptr;
  traits.read_zeros = traits.stream = traits.shuffle = true;
  Emitter emitter(kernel, module, traits);
  auto& b = emitter.b;

  int64_t scratch_bytes = 0;
  std::vector<int64_t> offsets = scratch_offsets(kernel, scratch_bytes);

  llvm::Type* pointer = b.getPtrTy();
  llvm::Type* word = b.getInt64Ty();
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, word, word, pointer}, false);
  const std::vector<size_t> first = first_alike(kernel);
  for (size_t phase = 0; phase < kernel.phases.size(); ++phase) {
    if (first[phase] != phase) continue;
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol_name(kernel, phase), module);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    std::string width = std::to_string(target.vector_bytes * 8);
    function->addFnAttr("prefer-vector-width", width);
    function->addFnAttr("min-legal-vector-width", width);
    for (unsigned k : {0u, 1u, 4u}) function->addParamAttr(k, llvm::Attribute::NoAlias);
    emitter.begin_function(function);
    {
      // Pointers and sizes are read once, at the head of the function.
      llvm::IRBuilder<>::InsertPointGuard guard(b);
      b.SetInsertPoint(emitter.scopes[0].head->getTerminator());
      for (size_t k = 0; k < kernel.buffers.size(); ++k) {
        if (kernel.buffers[k].space == kernel::Space::Shared) {
          emitter.buffers[k] =
              b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), function->getArg(4), static_cast<uint64_t>(offsets[k]));
        } else {
          emitter.buffers[k] = b.CreateLoad(pointer, b.CreateConstInBoundsGEP1_64(pointer, function->getArg(0), k));
          emitter.buffers[k]->setName(kernel.buffers[k].name);
        }
      }
      for (size_t k = 0; k < kernel.symbols.size(); ++k)
        emitter.bind(kernel.symbols[k], b.CreateLoad(word, b.CreateConstInBoundsGEP1_64(word, function->getArg(1), k)));
      emitter.bind(kernel.thread, b.getInt64(0));
    }
    const kernel::Phase& code = kernel.phases[phase];
    if (uses_matrix_unit(code)) configure_matrix_unit(emitter);
    emitter.counted_loop("block", function->getArg(2), function->getArg(3), false, {},
                         [&](llvm::Value* block, const Emitter::Values&) -> Emitter::Values {
                           emitter.bind_blocks(code, block);
                           emitter.emit_body(code.body, emitter.values);
                           return {};
                         });
    if (uses_matrix_unit(code)) b.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
    // Stores that bypassed the caches are not ordered by the barrier that follows the phase.
    if (emitter.streamed) b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    emitter.end_function();
  }
}

}  // namespace codegen

CompiledKernel compile_host(const kernel::Kernel& kernel, const Target& target, std::string* object) {
  NoFork whole;  // LLVM has locks of its own
  using namespace codegen;
  CodeUnit unit(kernel, target_machine(target));
  emit(kernel, target, unit);
  if (log_enabled(Log::Asm)) log_write(Log::Asm, host_assembly(kernel, target));
  std::string made = unit.generate(llvm::CodeGenFileType::ObjectFile);
  CompiledKernel result = load_host(kernel, made);
  if (object) *object = std::move(made);
  return result;
}

std::string code_generator() { return "LLVM " LLVM_VERSION_STRING; }

CompiledKernel load_host(const kernel::Kernel& kernel, const std::string& object) {
  NoFork whole;
  using namespace codegen;
  CompiledKernel result;
  scratch_offsets(kernel, result.scratch_bytes);
  std::vector<std::string> names;
  for (size_t phase : first_alike(kernel)) names.push_back(symbol_name(kernel, phase));
  Linked linked = link(kernel.name, llvm::MemoryBufferRef(object, kernel.name), names);
  for (void* symbol : linked.symbols) result.phases.push_back(reinterpret_cast<PhaseFunction>(symbol));
  result.code = std::const_pointer_cast<void>(linked.code);
  return result;
}

std::string host_assembly(const kernel::Kernel& kernel, const Target& target) {
  NoFork whole;
  using namespace codegen;
  CodeUnit unit(kernel, target_machine(target));
  emit(kernel, target, unit);
  return unit.generate(llvm::CodeGenFileType::AssemblyFile);
}

std::string llvm_ir(const kernel::Kernel& kernel, const Target& target) {
  NoFork whole;
  using namespace codegen;
  CodeUnit unit(kernel, target_machine(target));
  emit(kernel, target, unit);
  return text_of(unit.module());
}

}  // namespace heddle
