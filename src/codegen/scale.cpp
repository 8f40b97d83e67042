// The op scale: a * 2^floor(n), rounded once.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>

#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

// a * 2^floor(n) by products that are exact but for the last. Floats take one, in double.
llvm::Value* scale_by_products(Emitter& emitter, llvm::Value* a, llvm::Value* n) {
  auto& b = emitter.b;
  llvm::Type* wide = shaped(b.getDoubleTy(), a);
  llvm::Type* word = shaped(b.getInt64Ty(), a);
  bool is_double = a->getType() == wide;
  auto between = [&](llvm::Value* v, double low, double high) {
    v = b.CreateSelect(b.CreateFCmpOLT(v, number(v, high)), v, number(v, high));
    return b.CreateSelect(b.CreateFCmpOGT(v, number(v, low)), v, number(v, low));
  };
  // The sum has the exponent field in its low bits.
  auto power = [&](llvm::Value* exponent) {
    llvm::Value* bits = b.CreateBitCast(b.CreateFAdd(exponent, number(exponent, 0x1.8p52 + 1023)), word);
    return b.CreateBitCast(b.CreateShl(bits, llvm::ConstantInt::get(word, 52)), wide);
  };
  double limit = is_double ? 2200 : 300;  // what takes every number to zero or infinity
  llvm::Value* left = b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, between(n, -limit, limit));
  llvm::Value* result = nullptr;
  if (is_double) {
    // The last factor is as large as it can be: what the earlier ones round, it takes to zero.
    llvm::Value* last = between(left, -1022, 1023);
    left = b.CreateFSub(left, last);
    llvm::Value* middle = between(left, -1022, 1023);
    result = b.CreateFMul(a, power(b.CreateFSub(left, middle)));
    result = b.CreateFMul(b.CreateFMul(result, power(middle)), power(last));
  } else {
    result = b.CreateFMul(b.CreateFPExt(a, wide), power(b.CreateFPExt(left, wide)));
    result = b.CreateFPTrunc(result, a->getType());
  }
  llvm::Value* size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, n);
  llvm::Value* infinity = llvm::ConstantFP::getInfinity(a->getType());
  llvm::Value* count_nan_as_one = b.CreateSelect(b.CreateFCmpUNO(a, a), number(a, 1), a);
  llvm::Value* factor = b.CreateSelect(b.CreateFCmpOLT(n, number(n, 0)), number(n, 0), n);
  return b.CreateSelect(b.CreateFCmpUEQ(size, infinity), b.CreateFMul(count_nan_as_one, factor), result);
}

llvm::Value* part_of(Emitter& emitter, llvm::Value* v, int64_t first, int64_t count) {
  std::vector<int> order(static_cast<size_t>(count), -1);
  for (int64_t k = 0; k < count && first + k < lanes_of(v); ++k)
    order[static_cast<size_t>(k)] = static_cast<int>(first + k);
  return emitter.b.CreateShuffleVector(v, order);
}

// a and n fill a register of AVX-512, or a half or a quarter of one.
llvm::Value* scale_register(Emitter& emitter, llvm::Value* a, llvm::Value* n) {
  namespace ids = llvm::Intrinsic;
  auto& b = emitter.b;
  bool is_double = a->getType()->getScalarType()->isDoubleTy();
  int64_t lanes = lanes_of(a), bits = lanes * (is_double ? 64 : 32);
  llvm::Value* all = llvm::Constant::getAllOnesValue(b.getIntNTy(lanes > 8 ? 16 : 8));
  llvm::Value* unused = llvm::Constant::getNullValue(a->getType());
  if (bits == 512)  // 4: rounds as the machine is set to
    return b.CreateIntrinsic(is_double ? ids::x86_avx512_mask_scalef_pd_512 : ids::x86_avx512_mask_scalef_ps_512, {},
                             {a, n, unused, all, b.getInt32(4)});
  ids::ID half = is_double ? ids::x86_avx512_mask_scalef_pd_256 : ids::x86_avx512_mask_scalef_ps_256;
  ids::ID quarter = is_double ? ids::x86_avx512_mask_scalef_pd_128 : ids::x86_avx512_mask_scalef_ps_128;
  return b.CreateIntrinsic(bits == 256 ? half : quarter, {}, {a, n, unused, all});
}

}  // namespace

llvm::Value* scale(Emitter& emitter, llvm::Value* a, llvm::Value* n) {
  if (!emitter.traits.scale) return scale_by_products(emitter, a, n);
  auto& b = emitter.b;
  const int64_t lanes = lanes_of(a), whole = a->getType()->getScalarType()->isDoubleTy() ? 8 : 16;
  if (!a->getType()->isVectorTy()) {
    auto* vector = llvm::FixedVectorType::get(a->getType(), static_cast<unsigned>(whole / 4));
    auto first = [&](llvm::Value* v) { return b.CreateInsertElement(llvm::PoisonValue::get(vector), v, uint64_t{0}); };
    return b.CreateExtractElement(scale_register(emitter, first(a), first(n)), uint64_t{0});
  }
  if (lanes > whole) {
    int64_t half = (lanes + 1) / 2;
    llvm::Value* low = scale(emitter, part_of(emitter, a, 0, half), part_of(emitter, n, 0, half));
    llvm::Value* high = scale(emitter, part_of(emitter, a, half, half), part_of(emitter, n, half, half));
    std::vector<int> order(static_cast<size_t>(lanes));
    std::iota(order.begin(), order.end(), 0);
    return b.CreateShuffleVector(low, high, order);
  }
  int64_t size = lanes * 4 <= whole ? whole / 4 : lanes * 2 <= whole ? whole / 2 : whole;
  if (size == lanes) return scale_register(emitter, a, n);
  llvm::Value* scaled = scale_register(emitter, part_of(emitter, a, 0, size), part_of(emitter, n, 0, size));
  return part_of(emitter, scaled, 0, lanes);
}

}  // namespace heddle::codegen
