// NVIDIA's matrix unit as single warps use it: copies into shared memory that arrive later, fragments, products. From
// sm_80 on.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "base/error.h"
#include "codegen/nvptx_asm.h"

namespace heddle::codegen {
namespace {

llvm::Value* pointer(Emitter& emitter, int buffer, const Expr& element) {
  kernel::Inst inst;
  inst.op = kernel::Op::store;
  inst.buffer = buffer;
  return emitter.pointer_to(inst, element);
}

llvm::Type* words(Emitter& emitter, unsigned count) {
  return llvm::FixedVectorType::get(emitter.b.getInt32Ty(), count);
}

const char* mma_kind(DType factor) {
  switch (factor) {
    case DType::f16: return "m16n8k16.row.col.f32.f16.f16.f32";
    case DType::bf16: return "m16n8k16.row.col.f32.bf16.bf16.f32";
    case DType::f32: return "m16n8k8.row.col.f32.tf32.tf32.f32";
    case DType::i8: return "m16n8k32.row.col.s32.s8.s8.s32";
    case DType::f8e4m3: return "m16n8k32.row.col.f32.e4m3.e4m3.f32";
    case DType::f8e5m2: return "m16n8k32.row.col.f32.e5m2.e5m2.f32";
    default: return nullptr;
  }
}

}  // namespace

void Emitter::copy(const kernel::Inst& inst) {
  if (!traits.fragments) fail("copies that arrive later exist only on NVIDIA's machines from sm_80 on");
  llvm::Value* to = pointer(*this, inst.panels[0].buffer, inst.panels[0].address);
  llvm::Value* from = pointer(*this, inst.panels[1].buffer, inst.panels[1].address);
  const int64_t size = size_of(kernel.buffers[static_cast<size_t>(inst.panels[0].buffer)].dtype);
  if (inst.guard.is_const(1) && inst.extent.is_const(16 / size)) {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16, {}, {to, from});
    return;
  }
  llvm::Value* bytes = b.CreateTrunc(integer(inst.extent * size), b.getInt32Ty());
  if (!inst.guard.is_const(1)) bytes = b.CreateSelect(condition(inst.guard), bytes, b.getInt32(0));
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s, {}, {to, from, bytes});
}

void Emitter::copy_fence(const kernel::Inst& inst) {
  if (!traits.fragments) fail("copies that arrive later exist only on NVIDIA's machines from sm_80 on");
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {});
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {b.getInt32(static_cast<uint32_t>(inst.immediate))});
}

llvm::Value* Emitter::load_matrix(const kernel::Inst& inst) {
  if (!traits.fragments) fail("fragments exist only on NVIDIA's machines from sm_80 on");
  llvm::Value* address = b.CreatePtrToInt(pointer(*this, inst.buffer, inst.address), b.getInt32Ty());
  auto* four = llvm::StructType::get(context, llvm::SmallVector<llvm::Type*, 4>(4, b.getInt32Ty()));
  llvm::Value* loaded = assemble(
      *this, four,
      text("ldmatrix.sync.aligned.m8n8.x4", inst.axis == 1 ? ".trans" : "", ".shared.b16 {$0, $1, $2, $3}, [$4];"),
      "=r,=r,=r,=r,r", {address}, true);
  const DType dtype = kernel.buffers[static_cast<size_t>(inst.buffer)].dtype;
  llvm::Value* result = llvm::PoisonValue::get(words(*this, 4));
  for (unsigned i = 0; i < 4; ++i) {
    llvm::Value* part = b.CreateExtractValue(loaded, i);
    if (dtype == DType::f32)
      part = assemble(*this, b.getInt32Ty(), "cvt.rna.tf32.f32 $0, $1;", "=r,f",
                      {b.CreateBitCast(part, b.getFloatTy())}, false);
    result = b.CreateInsertElement(result, part, i);
  }
  return b.CreateBitCast(result,
                         llvm::FixedVectorType::get(element(dtype), static_cast<unsigned>(16 / size_of(dtype))));
}

// Two instructions of 16 x 8 sums. Each takes two neighbouring registers of the right fragment: others would have to be
// moved beside each other, once for every instruction.
void Emitter::mma(const kernel::Inst& inst, Values& body_values) {
  const DType factor = kernel.values[inst.args[0]].dtype;
  const char* kind = mma_kind(factor);
  if (!traits.fragments || !kind) fail(text("this machine has no products of fragments of ", factor));
  const bool integer = factor == DType::i8;
  llvm::Type* sum = integer ? b.getInt32Ty() : b.getFloatTy();
  auto* four = llvm::StructType::get(context, llvm::SmallVector<llvm::Type*, 4>(4, sum));
  llvm::Value* parts[2];
  for (size_t n : {0, 1}) parts[n] = b.CreateBitCast(body_values[inst.args[n]], words(*this, 4));
  const std::string constraints = integer ? "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r" : "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f";
  for (unsigned half : {0u, 1u}) {
    std::vector<llvm::Value*> args;
    for (unsigned i = 0; i < 4; ++i) args.push_back(b.CreateExtractElement(parts[0], i));
    for (unsigned i : {2 * half, 2 * half + 1}) args.push_back(b.CreateExtractElement(parts[1], i));
    for (unsigned i = 0; i < 4; ++i)
      args.push_back(b.CreateExtractElement(splat(body_values[inst.args[2 + 2 * half + i / 2]], 2), i % 2));
    llvm::Value* sums = assemble(
        *this, four,
        text("mma.sync.aligned.", kind, " {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, ", "{$10, $11, $12, $13};"),
        constraints, args, false);
    for (unsigned v : {0u, 1u}) {
      llvm::Value* two = llvm::PoisonValue::get(llvm::FixedVectorType::get(sum, 2));
      for (unsigned e : {0u, 1u}) two = b.CreateInsertElement(two, b.CreateExtractValue(sums, 2 * v + e), e);
      body_values[inst.results[2 * half + v]] = two;
    }
  }
}

}  // namespace heddle::codegen
