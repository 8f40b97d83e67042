// Checks: a test of all lanes at once, and code off the common path that writes down one value that failed.
#include <llvm/IR/MDBuilder.h>

#include "codegen/emit.h"

namespace heddle::codegen {

void Emitter::check(const kernel::Inst& inst, const Values& body_values) {
  const kernel::Type& type = kernel.values[inst.args[0]];
  int64_t lanes = lanes_of(type);
  Place at = place(inst, lanes, body_values);
  if (at.never) return;
  llvm::Value* failed = at.condition;
  if (at.mask) {
    llvm::Value* any = b.CreateOrReduce(at.mask);
    failed = failed ? b.CreateAnd(failed, any) : any;
  }
  auto write_down = [&] {
    llvm::Value* v = body_values[inst.args[0]];
    if (lanes_of(v) > 1) {
      llvm::Value* lane = b.getInt64(0);
      if (at.mask) {
        llvm::Value* bits = b.CreateBitCast(at.mask, b.getIntNTy(static_cast<unsigned>(lanes)));
        lane = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, b.CreateZExt(bits, b.getInt64Ty()), b.getTrue());
      }
      v = b.CreateExtractElement(v, lane);
    }
    v = b.CreateIntCast(v, b.getInt64Ty(), is_signed(type.dtype));
    annotate(b.CreateAlignedStore(v, at.pointer, llvm::Align(8)), inst);
  };
  llvm::BasicBlock* before = b.GetInsertBlock();
  when(failed, write_down);
  if (!failed) return;
  llvm::MDNode* unlikely = llvm::MDBuilder(context).createBranchWeights(1, 1 << 20);
  before->getTerminator()->setMetadata(llvm::LLVMContext::MD_prof, unlikely);
}

}  // namespace heddle::codegen
