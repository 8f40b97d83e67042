#include "codegen/nvptx_asm.h"

#include <llvm/IR/InlineAsm.h>

namespace heddle::codegen {

llvm::Value* assemble(Emitter& emitter, llvm::Type* result, const std::string& code, std::string constraints,
                      llvm::ArrayRef<llvm::Value*> args, bool effects) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* arg : args) types.push_back(arg->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  if (effects) constraints += constraints.empty() ? "~{memory}" : ",~{memory}";
  llvm::CallInst* call = emitter.b.CreateCall(type, llvm::InlineAsm::get(type, code, constraints, effects), args);
  call->addFnAttr(llvm::Attribute::Convergent);
  return call;
}

void assemble(Emitter& emitter, const std::string& code, const std::string& constraints,
              llvm::ArrayRef<llvm::Value*> args) {
  assemble(emitter, emitter.b.getVoidTy(), code, constraints, args);
}

llvm::Value* word(Emitter& emitter, const Expr& e) {
  return emitter.b.CreateTrunc(emitter.integer(e), emitter.b.getInt32Ty());
}

llvm::Value* shared_address(Emitter& emitter, int buffer) {
  llvm::Value* pointer = emitter.buffers[static_cast<size_t>(buffer)];
  return emitter.b.CreatePtrToInt(pointer, emitter.b.getInt32Ty());
}

}  // namespace heddle::codegen
