// Narrow numbers packed several to a 32-bit word: their products, and panels of them on a matrix unit.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "base/error.h"
#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

// Rows and columns of a matrix register: 16 rows of 64 bytes.
constexpr int64_t kSide = 16;
constexpr uint64_t kWord = 4;

// One of the numbers of each word, from the bit `at` on.
llvm::Value* number_in(Emitter& emitter, llvm::Value* words, int at, bool pairs) {
  auto& b = emitter.b;
  llvm::Type* type = words->getType();
  auto bits = [&](uint64_t v) { return llvm::ConstantInt::get(type, v); };
  if (!pairs) return b.CreateAShr(b.CreateShl(words, bits(static_cast<uint64_t>(24 - at))), bits(24));
  llvm::Value* high = at == 0 ? b.CreateShl(words, bits(16)) : b.CreateAnd(words, bits(0xffff0000));
  return b.CreateBitCast(high, shaped(b.getFloatTy(), words));
}

}  // namespace

llvm::Value* Emitter::packed_dot(llvm::Value* x, llvm::Value* y, llvm::Value* acc) {
  const int64_t lanes = std::max({lanes_of(x), lanes_of(y), lanes_of(acc)});
  x = splat(x, lanes);
  y = splat(y, lanes);
  acc = splat(acc, lanes);
  const bool pairs = acc->getType()->getScalarType()->isFloatTy();
  if (pairs && traits.pairs && lanes == kSide) {
    auto* halves = llvm::FixedVectorType::get(b.getBFloatTy(), 2 * kSide);
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                             {acc, b.CreateBitCast(x, halves), b.CreateBitCast(y, halves)});
  }
  if (!pairs && traits.bytes && lanes == kSide) {
    // The machine takes unsigned bytes on the left: with 128 added to each the sum is too large by 128 for each on the
    // right. That is the same for all rows that meet these, and is computed once for them. Everything wraps, and
    // vpdpbusd does not saturate: exact.
    constexpr auto kAdd = llvm::Intrinsic::x86_avx512_vpdpbusd_512;
    llvm::Value* offset = llvm::ConstantInt::get(x->getType(), 0x80808080);
    auto add = [&](llvm::Value* to, llvm::Value* unsigned_bytes) {
      return b.CreateIntrinsic(kAdd, {}, {to, unsigned_bytes, y});
    };
    // Words that follow each other are corrected together.
    llvm::Value* excess = llvm::Constant::getNullValue(acc->getType());
    auto* corrected = llvm::dyn_cast<llvm::BinaryOperator>(acc);
    auto is_sum = [](llvm::Value* v) {
      auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(v);
      return call && call->getIntrinsicID() == kAdd;
    };
    if (corrected && corrected->getOpcode() == llvm::Instruction::Sub && corrected->getParent() == b.GetInsertBlock() &&
        is_sum(corrected->getOperand(0)) && is_sum(corrected->getOperand(1))) {
      acc = corrected->getOperand(0);
      excess = corrected->getOperand(1);
    }
    llvm::Value* sum = add(acc, b.CreateXor(x, offset));
    return b.CreateSub(sum, add(excess, offset));
  }
  for (int at = 0; at < 32; at += pairs ? 16 : 8) {
    llvm::Value* a = number_in(*this, x, at, pairs);
    llvm::Value* c = number_in(*this, y, at, pairs);
    if (!pairs)
      acc = b.CreateAdd(acc, b.CreateMul(a, c));
    else if (traits.fma)
      acc = b.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {a, c, acc});
    else
      acc = b.CreateFAdd(acc, b.CreateFMul(a, c));
  }
  return acc;
}

bool uses_matrix_unit(const kernel::Phase& phase) {
  bool found = false;
  kernel::visit(phase.body, [&](const kernel::Inst& inst) { found |= inst.op == kernel::Op::panel_dot; });
  return found;
}

// All eight registers have 16 rows of 64 bytes.
void configure_matrix_unit(Emitter& emitter) {
  if (!emitter.traits.matrix) emitter.fail("this machine has no matrix unit");
  std::vector<uint8_t> bytes(64, 0);
  bytes[0] = 1;  // the only palette
  for (size_t tile = 0; tile < 8; ++tile) {
    bytes[16 + 2 * tile] = 64;
    bytes[48 + tile] = kSide;
  }
  const char* name = "matrix_configuration";
  llvm::GlobalVariable* global = emitter.module.getNamedGlobal(name);
  if (!global) {
    llvm::Constant* data = llvm::ConstantDataArray::get(emitter.context, bytes);
    global =
        new llvm::GlobalVariable(emitter.module, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data, name);
    global->setAlignment(llvm::Align(64));
  }
  emitter.b.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {global});
}

// Registers 0 to 3 hold the sums, 4 and 5 two parts of the left factor, 6 and 7 two of the right one.
void Emitter::panel_dot(const kernel::Inst& inst) {
  namespace ids = llvm::Intrinsic;
  if (!traits.matrix) fail("this machine has no matrix unit");
  static_assert(kernel::kPanelRows == 2 * kSide && kernel::kPanelDepth == kSide);
  llvm::Value* base[3];
  llvm::Value* stride[3];
  for (size_t n = 0; n < 3; ++n) {
    const kernel::Panel& panel = inst.panels[n];
    base[n] = b.CreateGEP(b.getInt32Ty(), buffers[panel.buffer], integer(panel.address));
    stride[n] = b.getInt64(static_cast<uint64_t>(panel.stride) * kWord);
  }
  auto part = [&](llvm::Value* from, int64_t elements) {
    return b.CreateGEP(b.getInt32Ty(), from, b.getInt64(static_cast<uint64_t>(elements)));
  };
  auto reg = [&](int64_t n) { return b.getInt8(static_cast<uint8_t>(n)); };
  auto sum_at = [&](int64_t i, int64_t j) { return part(base[0], i * kSide * inst.panels[0].stride + j * kSide); };
  auto zero = [&] {
    for (int64_t n = 0; n < 4; ++n) b.CreateIntrinsic(ids::x86_tilezero, {}, {reg(n)});
  };
  auto read_sums = [&] {
    for (int64_t n = 0; n < 4; ++n)
      b.CreateIntrinsic(ids::x86_tileloadd64, {}, {reg(n), sum_at(n / 2, n % 2), stride[0]});
  };
  if (inst.guard.is_const(0)) {
    zero();
  } else if (inst.guard.is_const(1)) {
    read_sums();
  } else {
    llvm::Value* goes_on = condition(inst.guard);
    when(b.CreateNot(goes_on), zero);
    when(goes_on, read_sums);
  }
  const bool pairs = kernel.buffers[inst.panels[0].buffer].dtype == DType::f32;
  counted_loop("steps", b.getInt64(0), integer(inst.extent), inst.extent.lo() > 0, {},
               [&](llvm::Value* t, const Values&) -> Values {
                 llvm::Value* at[3] = {};
                 for (size_t n : {1, 2})
                   at[n] = b.CreateGEP(b.getInt32Ty(), base[n],
                                       b.CreateMul(t, b.getInt64(static_cast<uint64_t>(inst.panels[n].step))));
                 auto load_right = [&](int64_t k) {
                   b.CreateIntrinsic(ids::x86_tileloadd64, {}, {reg(6 + k), part(at[2], k * kSide), stride[2]});
                 };
                 // The left factor passes by once for each panel of the right one: it stays out of the first cache.
                 auto load_left = [&](int64_t k) {
                   llvm::Value* from = part(at[1], k * kSide * inst.panels[1].stride);
                   b.CreateIntrinsic(ids::x86_tileloaddt164, {}, {reg(4 + k), from, stride[1]});
                 };
                 auto multiply = [&](int64_t n) {
                   b.CreateIntrinsic(pairs ? ids::x86_tdpbf16ps : ids::x86_tdpbssd, {},
                                     {reg(n), reg(4 + n / 2), reg(6 + n % 2)});
                 };
                 load_left(0);
                 load_right(0);
                 multiply(0);
                 load_right(1);
                 multiply(1);
                 load_left(1);
                 multiply(2);
                 multiply(3);
                 return {};
               });
  for (int64_t n = 0; n < 4; ++n)
    b.CreateIntrinsic(ids::x86_tilestored64, {}, {reg(n), sum_at(n / 2, n % 2), stride[0]});
}

}  // namespace heddle::codegen
