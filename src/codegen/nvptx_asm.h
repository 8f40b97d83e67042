// What the code for NVIDIA's matrix units shares: assembly text, numbers of 32 bits, places in shared memory.
#pragma once

#include "codegen/emit.h"

namespace heddle::codegen {

constexpr unsigned kSharedSpace = 3;
// Of 64 rows, as one copy moves them.
constexpr int64_t kBox = kernel::kMatrixRows * kernel::kMatrixBytes;

// Calls assembly text with operands $0, $1, ...: results first. `constraints` of results, then of arguments. `effects`:
// it is not moved, and neither is what touches memory.
llvm::Value* assemble(Emitter& emitter, llvm::Type* result, const std::string& code, std::string constraints,
                      llvm::ArrayRef<llvm::Value*> args, bool effects = true);
void assemble(Emitter& emitter, const std::string& code, const std::string& constraints = "",
              llvm::ArrayRef<llvm::Value*> args = {});

llvm::Value* word(Emitter& emitter, const Expr& e);
// Of element 0. Swizzled blocks begin at multiples of 1024; so do large buffers.
llvm::Value* shared_address(Emitter& emitter, int buffer);

// Ways for Traits (nvptx_math.cpp).
llvm::Value* exp2_by_instruction(Emitter& emitter, llvm::Value* x);
llvm::Value* reciprocal_by_instruction(Emitter& emitter, llvm::Value* x);
// The body of a phase: where it uses the matrix unit, some threads copy for the others (nvptx_matrix.cpp).
void emit_phase(Emitter& emitter, const kernel::Phase& phase);
void barrier_of_workers(Emitter& emitter);

}  // namespace heddle::codegen
