// The scalar ops of core/ops.def on LLVM scalars and vectors, with exactly the meaning that core's apply() gives them.
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

using llvm::Intrinsic::ID;
using Args = std::span<llvm::Value* const>;

// Rounded once, without the instruction. The product of two floats is exact in double; rounding its sum with c to odd
// leaves enough behind for the final rounding to be right.
llvm::Value* fma_in_double(Emitter& emitter, Args x) {
  auto& b = emitter.b;
  llvm::Type* wide = shaped(b.getDoubleTy(), x[0]);
  llvm::Type* word = shaped(b.getInt64Ty(), x[0]);
  llvm::Value* p = b.CreateFMul(b.CreateFPExt(x[0], wide), b.CreateFPExt(x[1], wide));
  llvm::Value* c = b.CreateFPExt(x[2], wide);
  llvm::Value* sum = b.CreateFAdd(p, c);
  // Knuth's two-sum: sum + error == p + c.
  llvm::Value* c_part = b.CreateFSub(sum, p);
  llvm::Value* p_part = b.CreateFSub(sum, c_part);
  llvm::Value* error = b.CreateFAdd(b.CreateFSub(p, p_part), b.CreateFSub(c, c_part));
  llvm::Value* bits = b.CreateBitCast(sum, word);
  llvm::Value* even = b.CreateIsNull(b.CreateAnd(bits, integer_like(bits, 1)));
  llvm::Value* inexact = b.CreateFCmpONE(error, number(error, 0));
  // Away from zero when the error has the sum's sign, else towards it; either neighbour is odd.
  llvm::Value* same = b.CreateICmpSGE(b.CreateXor(bits, b.CreateBitCast(error, word)), integer_like(bits, 0));
  llvm::Value* step = b.CreateSelect(same, integer_like(bits, 1), integer_like(bits, -1));
  llvm::Value* odd = b.CreateSelect(b.CreateAnd(even, inexact), b.CreateAdd(bits, step), bits);
  return b.CreateFPTrunc(b.CreateBitCast(odd, wide), x[0]->getType());
}

llvm::Value* fma(Emitter& emitter, Args x) {
  if (!emitter.traits.fma && x[0]->getType()->getScalarType()->isFloatTy()) return fma_in_double(emitter, x);
  return emitter.b.CreateIntrinsic(x[0]->getType(), llvm::Intrinsic::fma, {x[0], x[1], x[2]});
}

// C's fmod: exact. Subtracts multiples of y scaled by powers of two, 22 (51) bits of the quotient at a time.
llvm::Value* exact_fmod(Emitter& emitter, llvm::Value* x, llvm::Value* y) {
  auto& b = emitter.b;
  llvm::Type* type = x->getType();
  bool is_double = type->getScalarType()->isDoubleTy();
  unsigned mantissa = is_double ? 52 : 23;
  int64_t bias = is_double ? 1023 : 127;
  llvm::Type* word = shaped(b.getIntNTy(is_double ? 64 : 32), x);
  auto absolute = [&](llvm::Value* v) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  // The exponent of a positive number, subnormal ones included.
  auto exponent = [&](llvm::Value* v) {
    llvm::Value* tiny = b.CreateFCmpOLT(v, number(v, is_double ? 0x1p-1022 : 0x1p-126));
    llvm::Value* scaled = b.CreateFMul(v, number(v, is_double ? 0x1p52 : 0x1p23));
    llvm::Value* bits = b.CreateBitCast(b.CreateSelect(tiny, scaled, v), word);
    llvm::Value* e = b.CreateLShr(bits, integer_like(bits, mantissa));
    return b.CreateSub(e, b.CreateSelect(tiny, integer_like(bits, mantissa), integer_like(bits, 0)));
  };
  auto power = [&](llvm::Value* k) {
    return b.CreateBitCast(b.CreateShl(b.CreateAdd(k, integer_like(k, bias)), integer_like(k, mantissa)), type);
  };
  llvm::Value* divisor = absolute(y);
  llvm::Value* dividend = absolute(x);
  llvm::Value* valid = b.CreateAnd(b.CreateFCmpOLT(dividend, llvm::ConstantFP::getInfinity(type)),
                                   b.CreateFCmpOGT(divisor, number(y, 0)));
  llvm::Value* divisor_exponent = exponent(divisor);

  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* head = llvm::BasicBlock::Create(emitter.context, "fmod", function);
  auto* body = llvm::BasicBlock::Create(emitter.context, "fmod.step", function);
  auto* after = llvm::BasicBlock::Create(emitter.context, "fmod.end", function);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode* rest = b.CreatePHI(type, 2);
  rest->addIncoming(dividend, before);
  llvm::Value* active = b.CreateAnd(valid, b.CreateFCmpOGE(rest, divisor));
  b.CreateCondBr(lanes_of(x) > 1 ? b.CreateOrReduce(active) : active, body, after);
  b.SetInsertPoint(body);
  llvm::Value* shift =
      b.CreateSub(b.CreateSub(exponent(rest), divisor_exponent), integer_like(divisor_exponent, mantissa - 1));
  shift = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, shift, integer_like(shift, 0));
  // Three factors, for one alone may overflow.
  llvm::Value* third = b.CreateLShr(b.CreateMul(shift, integer_like(shift, 21846)), integer_like(shift, 16));
  llvm::Value* last = b.CreateSub(shift, b.CreateAdd(third, third));
  llvm::Value* unit = b.CreateFMul(b.CreateFMul(b.CreateFMul(divisor, power(third)), power(third)), power(last));
  llvm::Value* quotient = b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b.CreateFDiv(rest, unit));
  llvm::Value* fma_args[] = {b.CreateFNeg(quotient), unit, rest};
  llvm::Value* left = fma(emitter, fma_args);
  left = b.CreateSelect(b.CreateFCmpOLT(left, number(left, 0)), b.CreateFAdd(left, unit), left);
  rest->addIncoming(b.CreateSelect(active, left, rest), b.GetInsertBlock());
  b.CreateBr(head);
  b.SetInsertPoint(after);
  llvm::Value* signed_rest = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, x);
  llvm::Value* not_a_number = b.CreateFAdd(b.CreateFAdd(x, y), llvm::ConstantFP::getNaN(type));
  return b.CreateSelect(valid, signed_rest, not_a_number);
}

// The sign of the divisor.
llvm::Value* float_mod(Emitter& emitter, llvm::Value* x, llvm::Value* y) {
  auto& b = emitter.b;
  llvm::Value* zero = number(x, 0);
  // NaN divisors pass through exact_fmod's comparison with the divisor: valid is false for them.
  llvm::Value* rest = exact_fmod(emitter, x, y);
  llvm::Value* other_side = b.CreateXor(b.CreateFCmpOLT(rest, zero), b.CreateFCmpOLT(y, zero));
  llvm::Value* moved = b.CreateSelect(other_side, b.CreateFAdd(rest, y), rest);
  llvm::Value* signed_zero = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, y);
  return b.CreateSelect(b.CreateFCmpOEQ(rest, zero), signed_zero, moved);
}

bool is_number(llvm::Value* v) {
  llvm::ConstantFP* number = constant_number(v);
  return number && !number->isNaN();
}

// LLVM 19 takes lanes of a quotient for zeros where both operands are known to be zero, as masked lanes of loads are,
// and leaves out what would replace 0 / 0 there. Behind a fence nothing is known.
llvm::Value* quotient_of(Emitter& emitter, llvm::Value* x, llvm::Value* y) {
  auto& b = emitter.b;
  if (lanes_of(y) > 1 && !llvm::isa<llvm::Constant>(y))
    y = b.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {y->getType()}, {y});
  return b.CreateFDiv(x, y);
}

llvm::Value* divide(Emitter& emitter, Args x) {
  llvm::ConstantFP* one = constant_number(x[0]);
  if (emitter.traits.reciprocal && one && one->getType()->isFloatTy() && one->isExactlyValue(1.0))
    return emitter.traits.reciprocal(emitter, x[1]);
  return quotient_of(emitter, x[0], x[1]);
}

// minimum and maximum, a NaN operand giving NaN. `a > b ? a : b` is one instruction on x86, which gives b whenever
// either is a NaN; so only a NaN in a needs care. Which zero comes out of two does not matter.
llvm::Value* extreme(Emitter& emitter, ScalarOp op, Args x) {
  auto& b = emitter.b;
  bool largest = op == ScalarOp::maximum;
  if (emitter.traits.nan_minmax)
    return b.CreateBinaryIntrinsic(largest ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, x[0], x[1]);
  bool swap = is_number(x[1]);
  llvm::Value *first = swap ? x[1] : x[0], *second = swap ? x[0] : x[1];
  llvm::Value* chosen =
      b.CreateSelect(largest ? b.CreateFCmpOGT(first, second) : b.CreateFCmpOLT(first, second), first, second);
  return is_number(first) ? chosen : b.CreateSelect(b.CreateFCmpUNO(first, first), first, chosen);
}

llvm::Value* float_op(Emitter& emitter, ScalarOp op, Args x) {
  auto& b = emitter.b;
  auto unary = [&](ID id) { return b.CreateUnaryIntrinsic(id, x[0]); };
  switch (op) {
    case ScalarOp::neg: return b.CreateFNeg(x[0]);
    case ScalarOp::abs: return unary(llvm::Intrinsic::fabs);
    case ScalarOp::sqrt: return unary(llvm::Intrinsic::sqrt);
    case ScalarOp::floor: return unary(llvm::Intrinsic::floor);
    case ScalarOp::ceil: return unary(llvm::Intrinsic::ceil);
    case ScalarOp::trunc: return unary(llvm::Intrinsic::trunc);
    case ScalarOp::round: return unary(llvm::Intrinsic::roundeven);
    case ScalarOp::add: return b.CreateFAdd(x[0], x[1]);
    case ScalarOp::sub: return b.CreateFSub(x[0], x[1]);
    case ScalarOp::mul: return b.CreateFMul(x[0], x[1]);
    case ScalarOp::div: return divide(emitter, x);
    case ScalarOp::floordiv: return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, quotient_of(emitter, x[0], x[1]));
    case ScalarOp::mod: return float_mod(emitter, x[0], x[1]);
    case ScalarOp::minimum:
    case ScalarOp::maximum: return extreme(emitter, op, x);
    case ScalarOp::eq: return b.CreateFCmpOEQ(x[0], x[1]);
    case ScalarOp::ne: return b.CreateFCmpUNE(x[0], x[1]);
    case ScalarOp::lt: return b.CreateFCmpOLT(x[0], x[1]);
    case ScalarOp::le: return b.CreateFCmpOLE(x[0], x[1]);
    case ScalarOp::where: return b.CreateSelect(x[0], x[1], x[2]);
    case ScalarOp::scale: return scale(emitter, x[0], x[1]);
    case ScalarOp::fma: return fma(emitter, x);
    case ScalarOp::bit_not:
    case ScalarOp::bit_and:
    case ScalarOp::bit_or:
    case ScalarOp::bit_xor:
    case ScalarOp::shl:
    case ScalarOp::shr: return nullptr;  // not for floats
    case ScalarOp::exp2: return emitter.traits.exp2 ? emitter.traits.exp2(emitter, x[0]) : nullptr;
    case ScalarOp::exp:
    case ScalarOp::expm1:
    case ScalarOp::log:
    case ScalarOp::log2:
    case ScalarOp::log1p:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tanh:
    case ScalarOp::erf:
    case ScalarOp::tan:
    case ScalarOp::asin:
    case ScalarOp::acos:
    case ScalarOp::atan:
    case ScalarOp::sinh:
    case ScalarOp::cosh:
    case ScalarOp::asinh:
    case ScalarOp::acosh:
    case ScalarOp::atanh:
    case ScalarOp::erfinv:
    case ScalarOp::cbrt:
    case ScalarOp::log10:
    case ScalarOp::atan2:
    case ScalarOp::pow: return nullptr;  // kernel/math expands them
  }
  return nullptr;
}

// Quotient towards zero and divisor as they are, divisors of 0 and -1 excepted: those are the caller's.
llvm::Value* truncating_divide(Emitter& emitter, bool is_sign, llvm::Value* x, llvm::Value* y) {
  auto& b = emitter.b;
  unsigned bits = x->getType()->getScalarSizeInBits();
  if (lanes_of(x) > 1 && bits <= 32 && !llvm::isa<llvm::Constant>(y)) {
    // No machine divides vectors of integers. In double the quotient of two 32-bit integers cannot round up to the
    // next integer, as it is at least 2^-32 away.
    llvm::Type* wide = shaped(b.getDoubleTy(), x);
    auto widen = [&](llvm::Value* v) { return is_sign ? b.CreateSIToFP(v, wide) : b.CreateUIToFP(v, wide); };
    llvm::Value* quotient = b.CreateFDiv(widen(x), widen(y));
    return is_sign ? b.CreateFPToSI(quotient, x->getType()) : b.CreateFPToUI(quotient, x->getType());
  }
  return is_sign ? b.CreateSDiv(x, y) : b.CreateUDiv(x, y);
}

llvm::Value* integer_divide(Emitter& emitter, bool is_sign, llvm::Value* x, llvm::Value* y, bool remainder) {
  auto& b = emitter.b;
  llvm::Value* zero = integer_like(x, 0);
  llvm::Value* by_zero = b.CreateICmpEQ(y, zero);
  llvm::Value* unsafe = by_zero;
  llvm::Value* by_minus_one = nullptr;
  if (is_sign) {
    by_minus_one = b.CreateICmpEQ(y, integer_like(y, -1));
    unsafe = b.CreateOr(by_zero, by_minus_one);
  }
  llvm::Value* divisor = b.CreateSelect(unsafe, integer_like(y, 1), y);
  llvm::Value* quotient = truncating_divide(emitter, is_sign, x, divisor);
  llvm::Value* rest = b.CreateSub(x, b.CreateMul(quotient, divisor));
  if (!is_sign) return b.CreateSelect(by_zero, zero, remainder ? rest : quotient);
  llvm::Value* other_side = b.CreateICmpSLT(b.CreateXor(rest, divisor), zero);
  llvm::Value* below = b.CreateAnd(b.CreateICmpNE(rest, zero), other_side);
  if (remainder) {
    rest = b.CreateSelect(below, b.CreateAdd(rest, divisor), rest);
    return b.CreateSelect(unsafe, zero, rest);
  }
  quotient = b.CreateAdd(quotient, b.CreateSExt(below, x->getType()));
  quotient = b.CreateSelect(by_minus_one, b.CreateNeg(x), quotient);
  return b.CreateSelect(by_zero, zero, quotient);
}

// Integers and bool (an i1, unsigned).
llvm::Value* integer_op(Emitter& emitter, ScalarOp op, bool is_sign, Args x) {
  auto& b = emitter.b;
  auto binary = [&](ID if_signed, ID if_unsigned) {
    return b.CreateBinaryIntrinsic(is_sign ? if_signed : if_unsigned, x[0], x[1]);
  };
  unsigned bits = x[0]->getType()->getScalarSizeInBits();
  switch (op) {
    case ScalarOp::neg: return b.CreateNeg(x[0]);
    case ScalarOp::abs: return is_sign ? b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x[0], b.getFalse()) : x[0];
    case ScalarOp::bit_not: return b.CreateNot(x[0]);
    case ScalarOp::add: return b.CreateAdd(x[0], x[1]);
    case ScalarOp::sub: return b.CreateSub(x[0], x[1]);
    case ScalarOp::mul: return b.CreateMul(x[0], x[1]);
    case ScalarOp::floordiv: return integer_divide(emitter, is_sign, x[0], x[1], false);
    case ScalarOp::mod: return integer_divide(emitter, is_sign, x[0], x[1], true);
    case ScalarOp::minimum:
      return bits == 1 ? b.CreateAnd(x[0], x[1]) : binary(llvm::Intrinsic::smin, llvm::Intrinsic::umin);
    case ScalarOp::maximum:
      return bits == 1 ? b.CreateOr(x[0], x[1]) : binary(llvm::Intrinsic::smax, llvm::Intrinsic::umax);
    case ScalarOp::eq: return b.CreateICmpEQ(x[0], x[1]);
    case ScalarOp::ne: return b.CreateICmpNE(x[0], x[1]);
    case ScalarOp::lt: return is_sign ? b.CreateICmpSLT(x[0], x[1]) : b.CreateICmpULT(x[0], x[1]);
    case ScalarOp::le: return is_sign ? b.CreateICmpSLE(x[0], x[1]) : b.CreateICmpULE(x[0], x[1]);
    case ScalarOp::bit_and: return b.CreateAnd(x[0], x[1]);
    case ScalarOp::bit_or: return b.CreateOr(x[0], x[1]);
    case ScalarOp::bit_xor: return b.CreateXor(x[0], x[1]);
    case ScalarOp::shl:
    case ScalarOp::shr: {
      llvm::Value* inside = b.CreateICmpULT(x[1], integer_like(x[1], bits));
      if (op == ScalarOp::shr && is_sign)
        return b.CreateAShr(x[0], b.CreateSelect(inside, x[1], integer_like(x[1], bits - 1)));
      llvm::Value* count = b.CreateSelect(inside, x[1], integer_like(x[1], 0));
      llvm::Value* shifted = op == ScalarOp::shl ? b.CreateShl(x[0], count) : b.CreateLShr(x[0], count);
      return b.CreateSelect(inside, shifted, integer_like(x[0], 0));
    }
    case ScalarOp::where: return b.CreateSelect(x[0], x[1], x[2]);
    case ScalarOp::sqrt:
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::trunc:
    case ScalarOp::round:
    case ScalarOp::div:
    case ScalarOp::scale:
    case ScalarOp::fma:
    case ScalarOp::exp:
    case ScalarOp::exp2:
    case ScalarOp::expm1:
    case ScalarOp::log:
    case ScalarOp::log2:
    case ScalarOp::log1p:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tanh:
    case ScalarOp::erf:
    case ScalarOp::tan:
    case ScalarOp::asin:
    case ScalarOp::acos:
    case ScalarOp::atan:
    case ScalarOp::sinh:
    case ScalarOp::cosh:
    case ScalarOp::asinh:
    case ScalarOp::acosh:
    case ScalarOp::atanh:
    case ScalarOp::erfinv:
    case ScalarOp::cbrt:
    case ScalarOp::log10:
    case ScalarOp::atan2:
    case ScalarOp::pow: return nullptr;  // floats only
  }
  return nullptr;
}

}  // namespace

llvm::ConstantFP* constant_number(llvm::Value* v) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(v);
  if (constant && v->getType()->isVectorTy()) constant = constant->getSplatValue();
  return llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
}

llvm::Value* Emitter::op(ScalarOp op, DType dtype, std::span<llvm::Value* const> args) {
  const bool by_machine = op == ScalarOp::exp2 && dtype == DType::f32 && traits.exp2;
  if (!info(op).native && !by_machine)
    fail(text("op ", info(op).name, " on ", dtype, " must be expanded (pass expand_math) before machine code is made"));
  int64_t lanes = 1;
  for (llvm::Value* v : args) lanes = std::max(lanes, lanes_of(v));
  Values x;
  bool small = is_float(dtype) && dtype != compute_dtype(dtype) && op != ScalarOp::where;
  for (llvm::Value* v : args) x.push_back(splat(small ? cast(v, dtype, compute_dtype(dtype)) : v, lanes));
  bool as_float = is_float(dtype) && op != ScalarOp::where;
  llvm::Value* result = as_float ? float_op(*this, op, x) : integer_op(*this, op, is_signed(dtype), x);
  if (!result) fail(text("op ", info(op).name, " does not take ", dtype));
  if (small && info(op).rule != OpRule::Compare) result = cast(result, compute_dtype(dtype), dtype);
  return result;
}

}  // namespace heddle::codegen
