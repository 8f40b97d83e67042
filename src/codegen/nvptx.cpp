// Kernels for NVIDIA GPUs, as PTX.
#include "codegen/nvptx.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "codegen/generate.h"
#include "codegen/generator.h"
#include "codegen/nvptx_asm.h"
#include "kernel/shared_memory.h"
#include "kernel/tensor_maps.h"

namespace heddle {
namespace codegen {
namespace {

constexpr unsigned kGlobalSpace = 1;
constexpr int kWarp = 32;

llvm::Value* shuffle_xor(Emitter& emitter, llvm::Value* word, int mask) {
  auto& b = emitter.b;
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                           {b.getInt32(~0u), word, b.getInt32(static_cast<uint32_t>(mask)), b.getInt32(kWarp - 1)});
}

llvm::Value* round_pair(Emitter& emitter, llvm::Value* low, llvm::Value* high) {
  auto& b = emitter.b;
  return b.CreateBitCast(b.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, {}, {high, low}), b.getInt32Ty());
}

void barrier(Emitter& emitter) {
  if (emitter.working > 0) return barrier_of_workers(emitter);
  emitter.b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
}

int capability(const Target& target) { return std::atoi(target.llvm_cpu.c_str() + 3); }  // 90 of "sm_90a"

// Products of f8 need a newer language, and with it a newer driver, than everything else.
bool multiplies_f8(const kernel::Kernel& kernel) {
  bool found = false;
  for (const kernel::Phase& phase : kernel.phases)
    kernel::visit(phase.body, [&](const kernel::Inst& inst) {
      if (inst.op != kernel::Op::mma) return;
      const DType factor = kernel.values[static_cast<size_t>(inst.args[0])].dtype;
      found |= factor == DType::f8e4m3 || factor == DType::f8e5m2;
    });
  return found;
}

llvm::TargetMachine& target_machine(const Target& target, bool f8) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  const std::string features = f8 ? "+ptx84" : target.llvm_features;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[target.llvm_cpu + features];
  if (machine) return *machine;
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.llvm_triple, error);
  if (!found) throw CompileError(text("target ", target.name, ": this LLVM makes no PTX: ", error));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine.reset(found->createTargetMachine(target.llvm_triple, target.llvm_cpu, features, options, llvm::Reloc::PIC_));
  return *machine;
}

}  // namespace

namespace {

// Entries of a module. Parameters are pointers, symbols and what the entry itself needs.
class Entries {
 public:
  Entries(const kernel::Kernel& kernel, llvm::Module& module, Emitter& emitter, bool early)
      : kernel_(kernel), module_(module), emitter_(emitter), b_(emitter.b), context_(emitter.context), early_(early) {
    for (const kernel::Buffer& buffer : kernel.buffers) pointers_ += buffer.space != kernel::Space::Shared;
    maps_ = kernel::tensor_maps(kernel).size();
    kernel::SharedMemory shared = kernel::shared_memory(kernel);
    offsets_ = std::move(shared.offsets);
    if (std::ranges::none_of(offsets_, [](int64_t offset) { return offset >= 0; })) return;
    auto* array = llvm::ArrayType::get(b_.getInt8Ty(), 0);
    shared_ = new llvm::GlobalVariable(module, array, false, llvm::GlobalValue::ExternalLinkage, nullptr, "shared",
                                       nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
    shared_->setAlignment(llvm::Align(1024));
  }

  void emit(size_t phase, bool many) {
    llvm::Type *word = b_.getInt64Ty(), *pointer = llvm::PointerType::get(context_, kGlobalSpace);
    std::vector<llvm::Type*> parameters;
    if (many) {
      parameters = {pointer, word};
    } else {
      parameters.assign(pointers_, pointer);
      parameters.resize(pointers_ + kernel_.symbols.size() + kernel_.rounds, word);
      parameters.resize(parameters.size() + maps_, llvm::PointerType::get(context_, 0));
    }
    auto* function = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), parameters, false),
                                            llvm::Function::ExternalLinkage,
                                            symbol_name(kernel_, phase) + (many ? "_many" : ""), module_);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    annotate(function, "kernel", 1);
    annotate(function, "maxntidx", kernel_.threads);
    if (maps_ > 0) annotate(function, "minctasm", 1);  // else registers cannot go from some threads to others
    if (!many) annotate_tensor_maps(function);
    emitter_.begin_function(function);
    llvm::Value* block = nullptr;
    {
      llvm::IRBuilder<>::InsertPointGuard guard(b_);
      b_.SetInsertPoint(emitter_.scopes[0].head->getTerminator());
      llvm::Value* thread = b_.getInt64(0);
      if (kernel_.threads > 1)
        thread = b_.CreateZExt(b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {}), word);
      emitter_.bind(kernel_.thread, thread);
      block = b_.CreateZExt(b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {}), word);
      block = many ? bind_row(function, phase, block) : bind_parameters(function, block);
      for (size_t k = 0; k < offsets_.size(); ++k)
        if (offsets_[k] >= 0)
          emitter_.buffers[k] = b_.CreateGEP(b_.getInt8Ty(), shared_, b_.getInt64(static_cast<uint64_t>(offsets_[k])));
    }
    emitter_.bind_blocks(kernel_.phases[phase], block);
    if (early_) wait_for_others();
    emit_phase(emitter_, kernel_.phases[phase]);
    emitter_.end_function();
  }

 private:
  // Until here nothing of what other kernels write was read. The next kernel may now start: it waits here as well.
  void wait_for_others() {
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), false);
    for (const char* text : {"griddepcontrol.wait;", "griddepcontrol.launch_dependents;"})
      b_.CreateCall(type, llvm::InlineAsm::get(type, text, "~{memory}", true));
  }

  void annotate(llvm::Function* function, const char* key, int value) {
    module_.getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(
            llvm::MDNode::get(context_, {llvm::ValueAsMetadata::get(function), llvm::MDString::get(context_, key),
                                         llvm::ConstantAsMetadata::get(b_.getInt32(static_cast<uint32_t>(value)))}));
  }

  // Descriptors of matrices are passed as they are, as the last parameters, and read where they lie.
  void annotate_tensor_maps(llvm::Function* function) {
    llvm::Type* bytes = llvm::ArrayType::get(b_.getInt8Ty(), 128);
    std::vector<llvm::Metadata*> numbers;
    for (size_t k = function->arg_size() - maps_; k < function->arg_size(); ++k) {
      const auto number = static_cast<unsigned>(k);
      function->addParamAttr(number, llvm::Attribute::getWithByValType(context_, bytes));
      function->addParamAttr(number, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
      numbers.push_back(llvm::ConstantAsMetadata::get(b_.getInt32(number + 1)));
    }
    if (numbers.empty()) return;
    module_.getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(
            context_, {llvm::ValueAsMetadata::get(function), llvm::MDString::get(context_, "grid_constant"),
                       llvm::MDNode::get(context_, numbers)}));
  }

  // Buffers, symbols and descriptors from parameters; gives the block.
  llvm::Value* bind_parameters(llvm::Function* function, llvm::Value* block) {
    unsigned next = 0;
    for (size_t k = 0; k < offsets_.size(); ++k) {
      if (offsets_[k] >= 0) continue;
      llvm::Argument* argument = function->getArg(next++);
      argument->addAttr(llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
      emitter_.buffers[k] = argument;
    }
    for (const Expr& symbol : kernel_.symbols) emitter_.bind(symbol, function->getArg(next++));
    if (kernel_.rounds) block = b_.CreateAdd(block, function->getArg(next++));
    emitter_.tensor_maps.clear();
    for (size_t k = 0; k < maps_; ++k) emitter_.tensor_maps.push_back(function->getArg(next++));
    return block;
  }

  // The same from the row of a table; gives the block within the segment.
  llvm::Value* bind_row(llvm::Function* function, size_t phase, llvm::Value* block) {
    llvm::Type* word = b_.getInt64Ty();
    llvm::Value *table = function->getArg(0), *rows = function->getArg(1);
    const uint64_t stride = kernel_.phases.size() + pointers_ + kernel_.symbols.size();
    auto load = [&](llvm::Value* row, uint64_t column) {
      llvm::Value* place = b_.CreateAdd(b_.CreateMul(row, b_.getInt64(stride)), b_.getInt64(column));
      llvm::LoadInst* loaded = b_.CreateAlignedLoad(word, b_.CreateGEP(word, table, place), llvm::Align(8));
      loaded->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
      return loaded;
    };
    // The last row with no more blocks before it than this one's number.
    llvm::Value *row = b_.getInt64(0), *last = b_.CreateSub(rows, b_.getInt64(1));
    for (uint64_t step = kMostSegments / 2; step > 0; step /= 2) {
      llvm::Value* next = b_.CreateAdd(row, b_.getInt64(step));
      llvm::Value* inside = b_.CreateICmpULE(next, last);
      llvm::Value* before = load(b_.CreateSelect(inside, next, last), phase);
      row = b_.CreateSelect(b_.CreateAnd(inside, b_.CreateICmpULE(before, block)), next, row);
    }
    uint64_t column = kernel_.phases.size();
    for (size_t k = 0; k < offsets_.size(); ++k)
      if (offsets_[k] < 0)
        emitter_.buffers[k] = b_.CreateIntToPtr(load(row, column++), llvm::PointerType::get(context_, kGlobalSpace));
    for (const Expr& symbol : kernel_.symbols) emitter_.bind(symbol, load(row, column++));
    return b_.CreateSub(block, load(row, phase));
  }

  const kernel::Kernel& kernel_;
  llvm::Module& module_;
  Emitter& emitter_;
  llvm::IRBuilder<>& b_;
  llvm::LLVMContext& context_;
  bool early_;
  size_t pointers_ = 0, maps_ = 0;
  std::vector<int64_t> offsets_;  // of Shared buffers; -1 for others
  llvm::GlobalVariable* shared_ = nullptr;
};

void emit_nvptx(const kernel::Kernel& kernel, const Target& target, llvm::Module& module, bool many) {
  Traits traits;
  if (kernel.threads > 1 && kernel.warp != kWarp)
    throw CompileError(
        text("kernel ", kernel.name, ": warps of ", kernel.warp, " threads; ", target.name, " has ", kWarp));
  traits.nan_minmax = traits.shared_by_threads = true;
  traits.fma = target.fma;
  traits.half = converts(target, DType::f16);
  traits.narrow = target.index_bits == 32;
  traits.atomic_half = adds_to_memory(target, DType::f16);
  traits.atomic_bfloat = adds_to_memory(target, DType::bf16);
  traits.shuffle_xor = shuffle_xor;
  traits.barrier = barrier;
  if (has_exp2(target)) traits.exp2 = exp2_by_instruction;
  if (native(target, ScalarOp::div, DType::f32, 0.5)) traits.reciprocal = reciprocal_by_instruction;
  if (converts(target, DType::bf16)) traits.round_pair = round_pair;
  traits.early = starts_early(target);
  traits.fragments = find_instruction(target, MatrixLayout::Fragments) != nullptr;
  Emitter emitter(kernel, module, traits);
  Entries entries(kernel, module, emitter, traits.early);
  for (size_t phase = 0; phase < kernel.phases.size(); ++phase) entries.emit(phase, many);
}

}  // namespace
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
  target.warp = codegen::kWarp;
  target.index_bits = 32;
  const int version = std::atoi(arch.c_str() + 3);
  target.converts = {DType::f16};
  if (version >= 80) target.converts.push_back(DType::bf16);
  if (version >= 70) target.atomic_adds.push_back(DType::f16);
  if (version >= 90) target.atomic_adds.push_back(DType::bf16);
  target.math = {{ScalarOp::exp2, DType::f32, 2}, {ScalarOp::div, DType::f32, 0.5}};
  if (version >= 80) add_instructions(target, kFragments);
  if (version >= 89) add_instructions(target, kFragmentsOfF8);
  if (arch == "sm_90a") add_instructions(target, kShared);
  // HEDDLE_MATRIX_UNIT: fewer ways to multiply, to compare them.
  if (!config().matrix_unit.empty()) remove_instructions(target, MatrixLayout::Shared);
  if (config().matrix_unit == "none") remove_instructions(target, MatrixLayout::Fragments);
  // Shared memory that a block may have, by compute capability.
  static constexpr std::pair<const char*, int64_t> kSharedBytes[] = {
      {"sm_90", 232448}, {"sm_10", 232448}, {"sm_80", 166912}, {"sm_87", 166912}, {"sm_7", 65536}};
  target.shared_bytes = 101376;
  for (auto [prefix, bytes] : kSharedBytes)
    if (arch.starts_with(prefix)) target.shared_bytes = bytes;
  return target;
}

bool starts_early(const Target& target) {
  constexpr int kControlsGrids = 90;  // the first with the instructions
  return codegen::capability(target) >= kControlsGrids;
}

std::string entry_name(const kernel::Kernel& kernel, int phase) {
  return codegen::symbol_name(kernel, static_cast<size_t>(phase));
}

int64_t shared_bytes(const kernel::Kernel& kernel) { return kernel::shared_memory(kernel).bytes; }

std::string ptx(const kernel::Kernel& kernel, const Target& target, bool many) {
  NoFork whole;
  using namespace codegen;
  if (target.machine != Machine::Simt)
    throw CompileError(text("kernel ", kernel.name, ": target ", target.name, " is no GPU"));
  if (shared_bytes(kernel) > target.shared_bytes)
    throw CompileError(text("kernel ", kernel.name, ": a block needs ", shared_bytes(kernel),
                            " bytes of shared memory, ", target.name, " has ", target.shared_bytes));
  CodeUnit unit(kernel, target_machine(target, multiplies_f8(kernel)));
  emit_nvptx(kernel, target, unit.module(), many);
  if (log_enabled(Log::Llvm)) log_write(Log::Llvm, text_of(unit.module()));
  std::string result = unit.generate(llvm::CodeGenFileType::AssemblyFile);
  if (log_enabled(Log::Asm)) log_write(Log::Asm, result);
  return result;
}

namespace {

struct Registrar {
  Registrar() {
    register_generator({[](const std::string& machine) { return machine.starts_with("sm_"); },
                        [](const std::string& machine) { return nvidia_target(machine); },
                        [](const kernel::Kernel& kernel, const Target& target) { return ptx(kernel, target); },
                        ".ptx"});
  }
} registrar;

}  // namespace

}  // namespace heddle
