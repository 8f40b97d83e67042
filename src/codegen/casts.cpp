// Conversions between dtypes, with exactly the meaning of core's cast() and bitcast().
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

// Machines that round two numbers into one word keep them there: both halves are made of the word.
llvm::Value* widen_pairs(Emitter& emitter, llvm::Value* v) {
  auto& b = emitter.b;
  const auto pairs = static_cast<unsigned>(lanes_of(v) / 2);
  llvm::Value* words = b.CreateBitCast(v, llvm::FixedVectorType::get(b.getInt32Ty(), pairs));
  llvm::Value* result = llvm::PoisonValue::get(shaped(b.getFloatTy(), v));
  for (uint64_t k = 0; k < pairs; ++k) {
    llvm::Value* word = b.CreateExtractElement(words, k);
    llvm::Value *low = b.CreateShl(word, b.getInt32(16)), *high = b.CreateAnd(word, b.getInt32(0xffff0000));
    result = b.CreateInsertElement(result, b.CreateBitCast(low, b.getFloatTy()), 2 * k);
    result = b.CreateInsertElement(result, b.CreateBitCast(high, b.getFloatTy()), 2 * k + 1);
  }
  return result;
}

llvm::Value* widen_bfloat(Emitter& emitter, llvm::Value* v) {
  if (emitter.traits.round_pair && lanes_of(v) % 2 == 0) return widen_pairs(emitter, v);
  auto& b = emitter.b;
  llvm::Value* bits = b.CreateZExt(v, shaped(b.getInt32Ty(), v));
  return b.CreateBitCast(b.CreateShl(bits, integer_like(bits, 16)), shaped(b.getFloatTy(), v));
}

// To nearest even; a NaN stays one, quiet.
llvm::Value* round_to_bfloat(Emitter& emitter, llvm::Value* v) {
  auto& b = emitter.b;
  llvm::Value* bits = b.CreateBitCast(v, shaped(b.getInt32Ty(), v));
  llvm::Value* high = b.CreateLShr(bits, integer_like(bits, 16));
  llvm::Value* to_even = b.CreateAnd(high, integer_like(bits, 1));
  llvm::Value* rounded = b.CreateAdd(b.CreateAdd(bits, integer_like(bits, 0x7fff)), to_even);
  rounded = b.CreateLShr(rounded, integer_like(bits, 16));
  llvm::Value* quiet = b.CreateOr(high, integer_like(bits, 0x40));
  llvm::Value* result = b.CreateSelect(b.CreateFCmpUNO(v, v), quiet, rounded);
  return b.CreateTrunc(result, shaped(b.getInt16Ty(), v));
}

// The machine's instruction does the same, but takes subnormal numbers for zero. They are rare: a vector with one of
// them goes the long way.
llvm::Value* narrow_to_bfloat(Emitter& emitter, llvm::Value* v) {
  if (emitter.traits.round_pair) {
    auto& b = emitter.b;
    const auto count = static_cast<uint64_t>(lanes_of(v));
    llvm::Value* zero = llvm::Constant::getNullValue(b.getFloatTy());
    if (count == 1) return b.CreateTrunc(emitter.traits.round_pair(emitter, v, zero), b.getInt16Ty());
    const auto pairs = static_cast<unsigned>((count + 1) / 2);
    llvm::Value* words = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getInt32Ty(), pairs));
    for (uint64_t k = 0; k < pairs; ++k) {
      llvm::Value* other = 2 * k + 1 < count ? b.CreateExtractElement(v, 2 * k + 1) : zero;
      words =
          b.CreateInsertElement(words, emitter.traits.round_pair(emitter, b.CreateExtractElement(v, 2 * k), other), k);
    }
    llvm::Value* result = b.CreateBitCast(words, llvm::FixedVectorType::get(b.getInt16Ty(), 2 * pairs));
    if (count % 2 == 0) return result;
    std::vector<int> all(count);
    std::iota(all.begin(), all.end(), 0);
    return b.CreateShuffleVector(result, all);
  }
  auto& b = emitter.b;
  const int64_t lanes = lanes_of(v);
  if (!emitter.traits.bfloat || lanes < 4 || lanes % 4 != 0 || (lanes & (lanes - 1)) != 0)
    return round_to_bfloat(emitter, v);
  if (lanes > 16) {
    std::vector<int> half(static_cast<size_t>(lanes / 2)), all(static_cast<size_t>(lanes));
    std::iota(all.begin(), all.end(), 0);
    std::iota(half.begin(), half.end(), 0);
    llvm::Value* low = narrow_to_bfloat(emitter, b.CreateShuffleVector(v, half));
    std::iota(half.begin(), half.end(), static_cast<int>(lanes / 2));
    llvm::Value* high = narrow_to_bfloat(emitter, b.CreateShuffleVector(v, half));
    return b.CreateShuffleVector(low, high, all);
  }
  constexpr int kSubnormal = 0x20;
  llvm::Intrinsic::ID classify = lanes == 16  ? llvm::Intrinsic::x86_avx512_fpclass_ps_512
                                 : lanes == 8 ? llvm::Intrinsic::x86_avx512_fpclass_ps_256
                                              : llvm::Intrinsic::x86_avx512_fpclass_ps_128;
  llvm::Value* subnormal = b.CreateIntrinsic(classify, {}, {v, b.getInt32(kSubnormal)});
  llvm::Value* quick = nullptr;
  llvm::Type* small = shaped(b.getInt16Ty(), v);
  if (lanes == 4) {
    // Gives eight elements, the upper ones zero.
    llvm::Type* eight = llvm::FixedVectorType::get(b.getBFloatTy(), 8);
    quick = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_mask_cvtneps2bf16_128, {},
                              {v, llvm::Constant::getNullValue(eight),
                               llvm::ConstantInt::getTrue(llvm::FixedVectorType::get(b.getInt1Ty(), 4))});
    const int first[] = {0, 1, 2, 3};
    quick = b.CreateShuffleVector(quick, first);
  } else {
    quick = b.CreateIntrinsic(lanes == 16 ? llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512
                                          : llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_256,
                              {}, {v});
  }
  quick = b.CreateBitCast(quick, small);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* rare = llvm::BasicBlock::Create(emitter.context, "subnormal", function);
  auto* after = llvm::BasicBlock::Create(emitter.context, "narrowed", function);
  b.CreateCondBr(b.CreateOrReduce(subnormal), rare, after,
                 llvm::MDBuilder(emitter.context).createBranchWeights(1, 1000));
  b.SetInsertPoint(rare);
  llvm::Value* exact = round_to_bfloat(emitter, v);
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* result = b.CreatePHI(small, 2);
  result->addIncoming(quick, before);
  result->addIncoming(exact, rare);
  return result;
}

llvm::Value* widen_half(Emitter& emitter, llvm::Value* v) {
  auto& b = emitter.b;
  llvm::Type* wide = shaped(b.getFloatTy(), v);
  if (emitter.traits.half) return b.CreateFPExt(b.CreateBitCast(v, shaped(b.getHalfTy(), v)), wide);
  llvm::Value* bits = b.CreateZExt(v, shaped(b.getInt32Ty(), v));
  llvm::Value* sign = b.CreateShl(b.CreateAnd(bits, integer_like(bits, 0x8000)), integer_like(bits, 16));
  llvm::Value* magnitude = b.CreateAnd(bits, integer_like(bits, 0x7fff));
  llvm::Value* shifted = b.CreateShl(magnitude, integer_like(bits, 13));
  // Multiplying corrects the exponent's bias, for subnormal numbers too.
  llvm::Value* finite = b.CreateFMul(b.CreateBitCast(shifted, wide), llvm::ConstantFP::get(wide, 0x1p112));
  llvm::Value* special = b.CreateOr(shifted, integer_like(bits, 0x7f800000));
  llvm::Value* is_special = b.CreateICmpUGE(magnitude, integer_like(bits, 0x7c00));
  llvm::Value* result = b.CreateSelect(is_special, special, b.CreateBitCast(finite, bits->getType()));
  return b.CreateBitCast(b.CreateOr(result, sign), wide);
}

llvm::Value* narrow_to_half(Emitter& emitter, llvm::Value* v) {
  auto& b = emitter.b;
  llvm::Type* small = shaped(b.getInt16Ty(), v);
  if (emitter.traits.half) return b.CreateBitCast(b.CreateFPTrunc(v, shaped(b.getHalfTy(), v)), small);
  llvm::Type* word = shaped(b.getInt32Ty(), v);
  llvm::Value* bits = b.CreateBitCast(v, word);
  auto at_least = [&](llvm::Value* x, uint64_t bound) { return b.CreateICmpUGE(x, integer_like(x, bound)); };
  llvm::Value* sign = b.CreateAnd(b.CreateLShr(bits, integer_like(bits, 16)), integer_like(bits, 0x8000));
  llvm::Value* magnitude = b.CreateAnd(bits, integer_like(bits, 0x7fffffff));
  llvm::Value* to_even = b.CreateAnd(b.CreateLShr(magnitude, integer_like(bits, 13)), integer_like(bits, 1));
  llvm::Value* normal = b.CreateAdd(b.CreateSub(magnitude, integer_like(bits, 0x38000000 - 0xfff)), to_even);
  normal = b.CreateLShr(normal, integer_like(bits, 13));
  // Adding 0.5 lets the float unit round at a subnormal half's last place.
  llvm::Value* aligned =
      b.CreateFAdd(b.CreateBitCast(magnitude, v->getType()), llvm::ConstantFP::get(v->getType(), 0.5));
  llvm::Value* subnormal = b.CreateSub(b.CreateBitCast(aligned, word), integer_like(bits, 0x3f000000));
  llvm::Value* payload = b.CreateAnd(b.CreateLShr(magnitude, integer_like(bits, 13)), integer_like(bits, 0x3ff));
  llvm::Value* not_a_number = b.CreateOr(payload, integer_like(bits, 0x7e00));
  llvm::Value* result = b.CreateSelect(at_least(magnitude, 0x38800000), normal, subnormal);
  result = b.CreateSelect(at_least(magnitude, 0x477ff000), integer_like(bits, 0x7c00), result);
  result = b.CreateSelect(at_least(magnitude, 0x7f800001), not_a_number, result);
  return b.CreateTrunc(b.CreateOr(result, sign), small);
}

// Floats of eight bits: see Format8 in core/dtype.cpp, whose steps these are.
struct Format8 {
  int digits, bias;
  uint64_t above, overflow;
};
Format8 format8(DType dtype) {
  return dtype == kF8E4M3 ? Format8{3, 7, 0x43f00000, 0x7f} : Format8{2, 15, 0x47800000, 0x7c};
}

llvm::Value* widen_float8(Emitter& emitter, llvm::Value* v, DType from) {
  auto& b = emitter.b;
  Format8 format = format8(from);
  llvm::Type* wide = shaped(b.getFloatTy(), v);
  llvm::Value* bits = b.CreateZExt(v, shaped(b.getInt32Ty(), v));
  llvm::Value* sign = b.CreateShl(b.CreateAnd(bits, integer_like(bits, 0x80)), integer_like(bits, 24));
  llvm::Value* magnitude = b.CreateAnd(bits, integer_like(bits, 0x7f));
  llvm::Value* shifted = b.CreateShl(magnitude, integer_like(bits, static_cast<uint64_t>(23 - format.digits)));
  // Multiplying corrects the exponent's bias, for subnormal numbers too.
  llvm::Value* finite =
      b.CreateFMul(b.CreateBitCast(shifted, wide), llvm::ConstantFP::get(wide, std::ldexp(1.0, 127 - format.bias)));
  llvm::Value* is_special = b.CreateICmpUGE(magnitude, integer_like(bits, format.overflow));
  llvm::Value* special = b.CreateOr(shifted, integer_like(bits, 0x7f800000));
  llvm::Value* result = b.CreateSelect(is_special, special, b.CreateBitCast(finite, bits->getType()));
  return b.CreateBitCast(b.CreateOr(result, sign), wide);
}

llvm::Value* narrow_to_float8(Emitter& emitter, llvm::Value* v, DType to) {
  auto& b = emitter.b;
  Format8 format = format8(to);
  unsigned dropped = static_cast<unsigned>(23 - format.digits);
  llvm::Type* word = shaped(b.getInt32Ty(), v);
  llvm::Value* bits = b.CreateBitCast(v, word);
  auto number = [&](uint64_t n) { return integer_like(bits, n); };
  auto at_least = [&](llvm::Value* x, uint64_t bound) { return b.CreateICmpUGE(x, number(bound)); };
  llvm::Value* sign = b.CreateAnd(b.CreateLShr(bits, number(24)), number(0x80));
  llvm::Value* magnitude = b.CreateAnd(bits, number(0x7fffffff));
  llvm::Value* to_even = b.CreateAnd(b.CreateLShr(magnitude, number(dropped)), number(1));
  uint64_t rebias = static_cast<uint64_t>(127 - format.bias) << 23, half_less = (uint64_t{1} << (dropped - 1)) - 1;
  llvm::Value* normal = b.CreateAdd(b.CreateSub(magnitude, number(rebias - half_less)), to_even);
  normal = b.CreateLShr(normal, number(dropped));
  uint64_t anchor = static_cast<uint64_t>(127 + 24 - format.bias - format.digits) << 23;
  llvm::Value* aligned =
      b.CreateFAdd(b.CreateBitCast(magnitude, v->getType()), b.CreateBitCast(number(anchor), v->getType()));
  llvm::Value* subnormal = b.CreateSub(b.CreateBitCast(aligned, word), number(anchor));
  llvm::Value* result = b.CreateSelect(at_least(magnitude, rebias + (1u << 23)), normal, subnormal);
  result = b.CreateSelect(at_least(magnitude, format.above), number(format.overflow), result);
  if (to == kF8E5M2) {
    llvm::Value* payload = b.CreateAnd(b.CreateLShr(magnitude, number(21)), number(3));
    result = b.CreateSelect(at_least(magnitude, 0x7f800001), b.CreateOr(payload, number(0x7e)), result);
  }
  return b.CreateTrunc(b.CreateOr(result, sign), shaped(b.getInt8Ty(), v));
}

// To the f32 beside it whose last digit is odd, unless it is one itself: rounding that further is rounding once.
llvm::Value* narrow_to_odd(Emitter& emitter, llvm::Value* v) {
  auto& b = emitter.b;
  llvm::Type* word = shaped(b.getInt32Ty(), v);
  llvm::Value* near = b.CreateFPTrunc(v, shaped(b.getFloatTy(), v));
  llvm::Value* back = b.CreateFPExt(near, v->getType());
  llvm::Value* bits = b.CreateBitCast(near, word);
  llvm::Value* even = b.CreateIsNull(b.CreateAnd(bits, integer_like(bits, 1)));
  llvm::Value* inexact = b.CreateFCmpONE(back, v);  // false for NaN
  llvm::Value* beyond = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                        b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v));
  llvm::Value* step = b.CreateSelect(beyond, integer_like(bits, ~uint64_t{0}), integer_like(bits, 1));
  llvm::Value* odd = b.CreateSelect(b.CreateAnd(even, inexact), b.CreateAdd(bits, step), bits);
  return b.CreateBitCast(odd, near->getType());
}

bool is_float8(DType dtype) { return dtype == kF8E4M3 || dtype == kF8E5M2; }

llvm::Value* to_f32(Emitter& emitter, llvm::Value* v, DType from) {
  if (is_float8(from)) return widen_float8(emitter, v, from);
  if (from == kBF16) return widen_bfloat(emitter, v);
  if (from == kF16) return widen_half(emitter, v);
  return v;
}

llvm::Value* float_to_float(Emitter& emitter, llvm::Value* v, DType from, DType to) {
  auto& b = emitter.b;
  v = to_f32(emitter, v, from);
  if (to == kF64) return b.CreateFPExt(v, shaped(b.getDoubleTy(), v));
  // f16 and bf16 are rounded from f32, whatever came before.
  if (from == kF64 && is_float8(to)) return narrow_to_float8(emitter, narrow_to_odd(emitter, v), to);
  if (from == kF64) v = b.CreateFPTrunc(v, shaped(b.getFloatTy(), v));
  if (to == kBF16) return narrow_to_bfloat(emitter, v);
  if (to == kF16) return narrow_to_half(emitter, v);
  if (is_float8(to)) return narrow_to_float8(emitter, v, to);
  return v;
}

}  // namespace

llvm::Value* Emitter::constant(const Scalar& value) {
  llvm::Type* type = element(value.dtype);
  if (value.dtype == kBool) return b.getInt1(value.as_bool());
  uint64_t bits = value.bits();
  if (type->isIntegerTy()) return llvm::ConstantInt::get(type, bits);
  llvm::APInt raw(type->getPrimitiveSizeInBits(), bits);
  return llvm::ConstantFP::get(context, llvm::APFloat(type->getFltSemantics(), raw));
}

llvm::Value* Emitter::cast(llvm::Value* v, DType from, DType to) {
  if (from == to) return v;
  llvm::Type* type = shaped(element(to), v);
  if (is_float(from) && is_float(to)) return float_to_float(*this, v, from, to);
  if (is_float(from)) {
    v = to_f32(*this, v, from);
    if (to == kBool) return b.CreateFCmpUNE(v, llvm::Constant::getNullValue(v->getType()));
    auto id = is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b.CreateIntrinsic(id, {type, v->getType()}, {v});
  }
  if (to == kBool) return b.CreateIsNotNull(v);
  if (is_float(to)) {
    bool small = to != kF64;
    llvm::Type* wide = shaped(small ? b.getFloatTy() : b.getDoubleTy(), v);
    v = is_signed(from) ? b.CreateSIToFP(v, wide) : b.CreateUIToFP(v, wide);
    return small ? float_to_float(*this, v, kF32, to) : v;
  }
  return b.CreateIntCast(v, type, is_signed(from));
}

llvm::Value* Emitter::bitcast(llvm::Value* v, DType from, DType to) {
  if (from == to) return v;
  if (from == kBool) v = b.CreateZExt(v, shaped(b.getInt8Ty(), v));
  if (to == kBool) return b.CreateIsNotNull(v);
  return b.CreateBitCast(v, shaped(element(to), v));
}

}  // namespace heddle::codegen
