// What NVIDIA's special function unit computes nearly, made as right as it has to be.
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <optional>

#include "codegen/nvptx_asm.h"
#include "kernel/math.h"

namespace heddle::codegen {
namespace {

// f of each lane; the instructions take scalars.
template <class Function>
llvm::Value* lane_by_lane(Emitter& emitter, llvm::Value* x, Function f) {
  auto& b = emitter.b;
  if (!x->getType()->isVectorTy()) return f(x);
  llvm::Value* result = llvm::PoisonValue::get(x->getType());
  for (uint64_t k = 0; k < static_cast<uint64_t>(lanes_of(x)); ++k)
    result = b.CreateInsertElement(result, f(b.CreateExtractElement(x, k)), k);
  return result;
}

// Where x is the maximum of something and a constant: both.
struct Bounded {
  llvm::Value* inner;
  float bound;
};
std::optional<Bounded> bounded(llvm::Value* x) {
  auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(x);
  if (!call || call->getIntrinsicID() != llvm::Intrinsic::maximum) return {};
  for (unsigned n : {0u, 1u})
    if (llvm::ConstantFP* bound = constant_number(call->getArgOperand(n)))
      return Bounded{call->getArgOperand(1 - n), bound->getValueAPF().convertToFloat()};
  return {};
}

}  // namespace

// The instruction that flushes subnormal results to zero is one for the machine, the other is four. The first is enough
// where a bound says that 2^x is a normal number, or may be 0 instead. A bound whose own power is flushed does nothing.
llvm::Value* exp2_by_instruction(Emitter& emitter, llvm::Value* x) {
  const std::optional<Bounded> known = bounded(x);
  const bool flushes = known && known->bound >= kernel::kExp2Flushes;
  if (flushes && known->bound < kernel::kLeastExponent) x = known->inner;
  auto id = flushes ? llvm::Intrinsic::nvvm_ex2_approx_ftz_f : llvm::Intrinsic::nvvm_ex2_approx_f;
  return lane_by_lane(emitter, x, [&](llvm::Value* lane) { return emitter.b.CreateIntrinsic(id, {}, {lane}); });
}

// A first guess within an ulp, and one step of Newton's, which rounds correctly. Where x or the result is no normal
// number the guess is far off: e says so. All lanes then take the long way, which PTX makes of a division, so that
// ordinary numbers cost one branch for all lanes.
llvm::Value* reciprocal_by_instruction(Emitter& emitter, llvm::Value* x) {
  auto& b = emitter.b;
  llvm::Type* type = x->getType();
  llvm::Value* one = llvm::ConstantFP::get(type, 1.0);
  llvm::Value* guess = lane_by_lane(emitter, x, [&](llvm::Value* lane) {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {}, {lane});
  });
  llvm::Value* e = b.CreateIntrinsic(type, llvm::Intrinsic::fma, {b.CreateFNeg(x), guess, one});
  llvm::Value* usual = b.CreateIntrinsic(type, llvm::Intrinsic::fma, {guess, e, guess});
  llvm::Value* largest = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, e);
  if (type->isVectorTy()) {
    llvm::Value* lanes = largest;
    largest = b.CreateExtractElement(lanes, uint64_t{0});
    for (uint64_t k = 1; k < static_cast<uint64_t>(lanes_of(x)); ++k)
      largest = b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, largest, b.CreateExtractElement(lanes, k));
  }
  llvm::Value* rare = b.CreateFCmpUGE(largest, llvm::ConstantFP::get(largest->getType(), 0x1p-10));  // or NaN
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* other = llvm::BasicBlock::Create(emitter.context, "reciprocal", before->getParent());
  auto* after = llvm::BasicBlock::Create(emitter.context, "reciprocal.end", before->getParent());
  b.CreateCondBr(rare, other, after);
  b.SetInsertPoint(other);
  llvm::Value* quotient = b.CreateFDiv(one, x);
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* result = b.CreatePHI(type, 2);
  result->addIncoming(usual, before);
  result->addIncoming(quotient, other);
  return result;
}

}  // namespace heddle::codegen
