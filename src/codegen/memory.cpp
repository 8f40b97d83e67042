// Loads, stores and combines.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "codegen/emit.h"
#include "expr/runs.h"

namespace heddle::codegen {
namespace {

// The constant term of a sum.
Expr constant_term(const Expr& e) {
  if (e.is_const()) return e;
  if (e.kind() == ExprKind::Add)
    for (const Expr& term : e.args())
      if (term.is_const()) return term;
  return 0;
}

// Bytes that divide the address of element `e` of a buffer, 64 at most: buffers start at multiples of 64.
uint64_t alignment(const Expr& e, DType dtype) {
  // Sums such as x - x % 16 show it only when they are divided.
  auto is_rest = [](const Expr& term) {
    return term.kind() == ExprKind::Mod ||
           (term.kind() == ExprKind::Mul &&
            std::ranges::any_of(term.args(), [](const Expr& factor) { return factor.kind() == ExprKind::Mod; }));
  };
  if (e.kind() == ExprKind::Add && std::ranges::any_of(e.args(), is_rest))
    for (int64_t bytes = 64; bytes >= 16; bytes /= 2)
      if (mod(e, bytes / size_of(dtype)).is_const(0)) return static_cast<uint64_t>(bytes);
  uint64_t multiple = static_cast<uint64_t>(e.multiple());
  uint64_t elements = multiple == 0 ? 64 : std::min<uint64_t>(64, multiple & (~multiple + 1));
  return std::min<uint64_t>(64, elements * static_cast<uint64_t>(size_of(dtype)));
}

// Elements this close are loaded with those between them.
constexpr int64_t kNearStride = 4;
// So many runs of lanes are loaded one by one, each under a mask; more are gathered.
constexpr size_t kMostRuns = 4;

llvm::Value* both(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y) { return !x ? y : !y ? x : b.CreateAnd(x, y); }

}  // namespace

llvm::Value* Emitter::from_memory(llvm::Value* v, DType dtype) { return dtype == kBool ? b.CreateIsNotNull(v) : v; }

llvm::Value* Emitter::to_memory(llvm::Value* v, DType dtype) {
  return dtype == kBool ? b.CreateZExt(v, shaped(b.getInt8Ty(), v)) : v;
}

DType Emitter::accessed(const kernel::Inst& inst) const {
  return inst.op == kernel::Op::load ? kernel.values[inst.results[0]].dtype : kernel.buffers[inst.buffer].dtype;
}

llvm::Value* Emitter::pointer_to(const kernel::Inst& inst, const Expr& element) {
  llvm::Type* type = memory_element(accessed(inst));
  Expr constant = constant_term(element), rest = element - constant;
  llvm::Value* p = buffers[inst.buffer];
  if (!rest.is_const(0)) p = b.CreateGEP(type, p, emit(rest, 64).value);
  if (!constant.is_const(0)) p = b.CreateGEP(type, p, b.getInt64(static_cast<uint64_t>(constant.value())));
  return p;
}

// Rows of an image that follow each other as columns of a product: a vector meets the end of a row, or a few. Each part
// is in order.
bool Emitter::place_runs(Place& at, const kernel::Inst& inst, int64_t lanes, const Formula& formula) {
  const DType dtype = accessed(inst);
  if (!traits.gather || !traits.shuffle || size_of(dtype) < 4 || lanes < 4 || formula.lanes_differ) return false;
  std::vector<Expr> guard;
  Expr end = lanes;
  for (const Expr& part : conjuncts(formula.guard)) {
    if (!varies(part)) continue;
    guard.push_back(part);
    if (part.kind() != ExprKind::Lt) continue;
    std::optional<Linear> form = linear_in(part.args()[0] - part.args()[1], formula.lane);
    if (form && form->coefficient > 0) end = min(end, ceildiv(-form->rest, form->coefficient));
  }
  // No lane may ask for memory that does not exist, even one that is masked: that would be right, and very slow.
  std::optional<Runs> runs = runs_of(formula.address, formula.lane, end, kMostRuns);
  if (!runs || runs->stride < 1 || runs->stride > kNearStride) return false;
  for (const Expr& element : runs->address)
    if (varies(element)) return false;
  for (size_t j = 0; j < runs->first.size(); ++j) {
    std::vector<Expr> inside = guard;
    if (j > 0) inside.push_back(ge(formula.lane, runs->first[j]));
    if (j + 1 < runs->first.size()) inside.push_back(lt(formula.lane, runs->first[j + 1]));
    Place run;
    run.condition = at.condition;
    run.mask = splat(condition(conjunction(inside)), lanes);
    run.pointer = pointer_to(inst, runs->address[j]);
    if (run.condition) run.pointer = b.CreateSelect(run.condition, run.pointer, buffers[inst.buffer]);
    run.align = static_cast<uint64_t>(size_of(dtype));
    run.pattern = Place::Pattern::Forward;
    if (runs->stride > 1) {
      run.pattern = Place::Pattern::Scattered;
      run.stride = runs->stride;
      run.indices = b.CreateMul(iota(32, lanes), splat(b.getInt32(static_cast<uint32_t>(runs->stride)), lanes));
    }
    if (j == 0)
      at = run;
    else
      at.runs.push_back(run);
  }
  return true;
}

Place Emitter::place(const kernel::Inst& inst, int64_t lanes, const Values& body_values, bool in_runs) {
  DType dtype = accessed(inst);
  Place result;
  Formula formula = open_formula(inst, lanes, body_values);
  result.never = formula.guard.is_const(0);
  std::vector<Expr> uniform, varying;
  for (const Expr& part : conjuncts(formula.guard)) (varies(part) ? varying : uniform).push_back(part);
  if (!uniform.empty()) result.condition = condition(conjunction(uniform));
  if (!varying.empty()) result.mask = splat(condition(conjunction(varying)), lanes);

  const Expr& address = formula.address;
  std::optional<Linear> form;
  if (!varies(address)) {
    form = Linear{0, address};
  } else if (form = linear_in(address, formula.lane); form && varies(form->rest)) {
    form.reset();
  }
  if (form) {
    int64_t step = form->coefficient;
    Expr first = step == -1 ? form->rest - (lanes - 1) : form->rest;
    result.pointer = pointer_to(inst, first);
    result.align = alignment(first, dtype);
    if (result.mask) {
      const Expr lowest = step < -1 ? first + (lanes - 1) * step : first;
      const kernel::Buffer& buffer = kernel.buffers[inst.buffer];
      const Expr size = floordiv(buffer.size * size_of(buffer.dtype), size_of(dtype));
      const int64_t reach = (lanes - 1) * std::abs(step) + 1;
      result.strays = !(provably_true(gt(lowest + reach, 0)) && provably_true(lt(lowest, size)));
    }
    result.pattern = step == 0    ? Place::Pattern::Uniform
                     : step == 1  ? Place::Pattern::Forward
                     : step == -1 ? Place::Pattern::Backward
                                  : Place::Pattern::Scattered;
    if (result.pattern == Place::Pattern::Scattered) {
      bool narrow = std::abs(step) < (int64_t{1} << 31) / lanes;
      llvm::Value* lane = iota(narrow ? 32 : 64, lanes);
      auto* factor = llvm::ConstantInt::get(lane->getType(), static_cast<uint64_t>(step), true);
      result.indices = b.CreateMul(lane, factor);
      result.stride = step;
    }
  } else if (!in_runs || !place_runs(result, inst, lanes, formula)) {
    result.pattern = Place::Pattern::Scattered;
    result.pointer = buffers[inst.buffer];
    result.indices = splat(integer(address), lanes);
  }
  if (result.pattern == Place::Pattern::Scattered) result.align = static_cast<uint64_t>(size_of(dtype));
  close_scope();
  return result;
}

// `pointer`, or that of the buffer if no lane of `mask` is on. A processor that finds masked lanes in memory that does
// not exist takes hundreds of cycles to see that nobody wants them.
llvm::Value* Emitter::kept_inside(const kernel::Inst& inst, const Place& at, llvm::Value* pointer, llvm::Value* mask) {
  if (!at.strays || !traits.read_zeros) return pointer;
  return b.CreateSelect(b.CreateOrReduce(mask), pointer, buffers[inst.buffer]);
}

// What lies at `at.pointer` where `flag` (null: true) holds, else 0.
llvm::Value* Emitter::guarded_load(const kernel::Inst& inst, llvm::Type* type, const Place& at, llvm::Value* flag) {
  auto load_from = [&](llvm::Value* pointer) {
    llvm::LoadInst* v = annotate(b.CreateAlignedLoad(type, pointer, llvm::Align(at.align)), inst);
    if (never_written_[inst.buffer] && !traits.early)
      v->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
    return v;
  };
  if (!flag) return load_from(at.pointer);
  if (traits.read_zeros) {
    uint64_t bytes = std::bit_ceil<uint64_t>(module.getDataLayout().getTypeStoreSize(type).getFixedValue());
    std::string name = text("zeros", std::max<uint64_t>(bytes, 64));
    llvm::GlobalVariable* zeros = module.getNamedGlobal(name);
    if (!zeros) {
      llvm::Type* array = llvm::ArrayType::get(b.getInt8Ty(), std::max<uint64_t>(bytes, 64));
      zeros = new llvm::GlobalVariable(module, array, true, llvm::GlobalValue::PrivateLinkage,
                                       llvm::Constant::getNullValue(array), name);
      zeros->setAlignment(llvm::Align(64));
    }
    return load_from(b.CreateSelect(flag, at.pointer, zeros));
  }
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* inside = nullptr;
  llvm::Value* v = nullptr;
  when(flag, [&] {
    v = load_from(at.pointer);
    inside = b.GetInsertBlock();
  });
  llvm::PHINode* result = b.CreatePHI(type, 2);
  result->addIncoming(v, inside);
  result->addIncoming(llvm::Constant::getNullValue(type), before);
  return result;
}

llvm::Value* Emitter::gather(const kernel::Inst& inst, llvm::Type* type, const Place& at) {
  int64_t lanes = lanes_of(at.indices);
  llvm::Type* scalar = type->getScalarType();
  llvm::Value* mask = at.mask;
  if (at.condition) mask = both(b, mask, splat(at.condition, lanes));
  bool native = traits.gather && scalar->getPrimitiveSizeInBits() >= 32;
  if (native || !mask || !traits.read_zeros) {
    llvm::Value* pointers = b.CreateGEP(scalar, at.pointer, at.indices);
    if (!mask)
      mask = llvm::ConstantInt::getTrue(
          llvm::VectorType::get(b.getInt1Ty(), llvm::ElementCount::getFixed(static_cast<unsigned>(lanes))));
    llvm::Value* otherwise = llvm::Constant::getNullValue(type);
    return annotate(b.CreateMaskedGather(type, pointers, llvm::Align(at.align), mask, otherwise), inst);
  }
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (uint64_t lane = 0; lane < static_cast<uint64_t>(lanes); ++lane) {
    Place one = at;
    one.pointer = b.CreateGEP(scalar, at.pointer, b.CreateExtractElement(at.indices, lane));
    llvm::Value* v = guarded_load(inst, scalar, one, b.CreateExtractElement(mask, lane));
    result = b.CreateInsertElement(result, v, lane);
  }
  return result;
}

// Every second, third or fourth element, in either direction: loads everything between the first and the last of them,
// and leaves out what is not wanted. With a mask only the wanted elements themselves are loaded.
llvm::Value* Emitter::pick(const kernel::Inst& inst, llvm::Type* type, const Place& at) {
  const int64_t lanes = lanes_of(at.indices), apart = std::abs(at.stride), last = (lanes - 1) * apart;
  llvm::Value* lowest = at.pointer;
  if (at.stride < 0) lowest = b.CreateGEP(type->getScalarType(), lowest, b.getInt64(static_cast<uint64_t>(-last)));
  auto lane_of = [&](int64_t element) {
    return static_cast<int>(at.stride < 0 ? lanes - 1 - element / apart : element / apart);
  };
  llvm::Value* mask = at.mask && at.condition ? both(b, at.mask, splat(at.condition, lanes)) : at.mask;
  llvm::Value* result = nullptr;
  for (int64_t part = 0; part < apart; ++part) {
    // The last vector ends with the last element wanted: what lies behind may not exist.
    const int64_t start = std::min(part * lanes, last + 1 - lanes);
    Place here = at;
    here.pointer = b.CreateGEP(type->getScalarType(), lowest, b.getInt64(static_cast<uint64_t>(start)));
    llvm::Value* loaded = nullptr;
    if (mask) {
      std::vector<int> from;
      for (int64_t e = start; e < start + lanes; ++e)
        from.push_back(e % apart == 0 ? lane_of(e) : static_cast<int>(lanes));
      llvm::Value* wanted = b.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), from);
      loaded = annotate(b.CreateMaskedLoad(type, kept_inside(inst, at, here.pointer, wanted), llvm::Align(at.align),
                                           wanted, llvm::Constant::getNullValue(type)),
                        inst);
    } else {
      loaded = guarded_load(inst, type, here, at.condition);
    }
    std::vector<int> order;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t element = (at.stride < 0 ? lanes - 1 - lane : lane) * apart;
      const bool inside = element >= part * lanes && element < (part + 1) * lanes;
      order.push_back(static_cast<int>(inside ? lanes + element - start : lane));
    }
    result = b.CreateShuffleVector(result ? result : llvm::PoisonValue::get(type), loaded, order);
  }
  return result;
}

llvm::Value* Emitter::load(const kernel::Inst& inst, const Values& body_values) {
  int64_t lanes = lanes_of(kernel.values[inst.results[0]]);
  DType dtype = accessed(inst);
  llvm::Type* scalar = memory_element(dtype);
  llvm::Type* type = lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
  if (inst.guard.is_const(0)) return from_memory(llvm::Constant::getNullValue(type), dtype);
  Place at = place(inst, lanes, body_values, true);
  if (at.never) return from_memory(llvm::Constant::getNullValue(type), dtype);
  // Into the second level: the first is full of what the block works on.
  if (inst.hint == kernel::Hint::Prefetch && traits.stream && at.pattern == Place::Pattern::Forward) {
    llvm::Value* next = b.CreateGEP(scalar, at.pointer, b.getInt64(static_cast<uint64_t>(int64_t{inst.immediate})));
    b.CreateIntrinsic(llvm::Intrinsic::prefetch, {b.getPtrTy()}, {next, b.getInt32(0), b.getInt32(2), b.getInt32(1)});
  }
  llvm::Value* v = load_run(inst, type, at, nullptr);
  for (const Place& run : at.runs) v = load_run(inst, type, run, v);
  return from_memory(v, dtype);
}

llvm::Value* Emitter::load_run(const kernel::Inst& inst, llvm::Type* type, const Place& at, llvm::Value* otherwise) {
  const DType dtype = accessed(inst);
  const int64_t lanes = type->isVectorTy() ? llvm::cast<llvm::FixedVectorType>(type)->getNumElements() : 1;
  llvm::Value* v = nullptr;
  switch (at.pattern) {
    case Place::Pattern::Uniform: {
      llvm::Value* flag = at.mask ? both(b, at.condition, b.CreateOrReduce(at.mask)) : at.condition;
      v = splat(guarded_load(inst, type->getScalarType(), at, flag), lanes);
      if (at.mask) v = b.CreateSelect(at.mask, v, llvm::Constant::getNullValue(type));
      break;
    }
    case Place::Pattern::Forward:
    case Place::Pattern::Backward: {
      bool backward = at.pattern == Place::Pattern::Backward;
      if (!at.mask) {
        v = guarded_load(inst, type, at, at.condition);
      } else {
        llvm::Value* mask = at.condition ? both(b, at.mask, splat(at.condition, lanes)) : at.mask;
        if (backward) mask = b.CreateVectorReverse(mask);
        v = annotate(b.CreateMaskedLoad(type, kept_inside(inst, at, at.pointer, mask), llvm::Align(at.align), mask,
                                        otherwise ? otherwise : llvm::Constant::getNullValue(type)),
                     inst);
      }
      if (backward) v = b.CreateVectorReverse(v);
      break;
    }
    case Place::Pattern::Scattered: {
      const int64_t apart = std::abs(at.stride);
      // Masked loads of small elements would be taken apart.
      bool maskable = !at.mask || (traits.gather && size_of(dtype) >= 4);
      bool near = traits.shuffle && maskable && apart >= 2 && apart <= kNearStride && lanes >= 4;
      v = near ? pick(inst, type, at) : gather(inst, type, at);
      if (otherwise) v = b.CreateSelect(at.mask, v, otherwise);
      break;
    }
  }
  return v;
}

void Emitter::store(const kernel::Inst& inst, const Values& body_values) {
  const kernel::Type& value_type = kernel.values[inst.args[0]];
  int64_t lanes = lanes_of(value_type);
  DType dtype = kernel.buffers[inst.buffer].dtype;
  Place at = place(inst, lanes, body_values, true);
  if (at.never) return;
  llvm::Value* v = to_memory(splat(body_values[inst.args[0]], lanes), dtype);
  store_run(inst, v, at);
  for (const Place& run : at.runs) store_run(inst, v, run);
}

void Emitter::store_run(const kernel::Inst& inst, llvm::Value* v, Place at) {
  const int64_t lanes = lanes_of(v);
  const DType dtype = kernel.buffers[inst.buffer].dtype;
  llvm::Type* type = v->getType();
  if (lanes > 1 && at.pattern == Place::Pattern::Uniform) {  // the last lane wins
    at.pattern = Place::Pattern::Scattered;
    at.indices = llvm::Constant::getNullValue(shaped(b.getInt32Ty(), v));
    at.align = static_cast<uint64_t>(size_of(dtype));
  }
  llvm::Value* mask = at.mask;
  if (at.condition && mask) mask = both(b, mask, splat(at.condition, lanes));
  if (at.pattern == Place::Pattern::Scattered) {
    if (!mask) mask = llvm::ConstantInt::getTrue(shaped(b.getInt1Ty(), v));
    llvm::Value* only_if = at.mask ? nullptr : at.condition;
    return when(only_if, [&] {
      llvm::Value* pointers = b.CreateGEP(type->getScalarType(), at.pointer, at.indices);
      annotate(b.CreateMaskedScatter(v, pointers, llvm::Align(at.align), mask), inst);
    });
  }
  if (at.pattern == Place::Pattern::Backward) {
    v = b.CreateVectorReverse(v);
    if (mask) mask = b.CreateVectorReverse(mask);
  }
  if (mask) {
    annotate(b.CreateMaskedStore(v, kept_inside(inst, at, at.pointer, mask), llvm::Align(at.align), mask), inst);
    return;
  }
  when(at.condition, [&] {
    llvm::StoreInst* access = annotate(b.CreateAlignedStore(v, at.pointer, llvm::Align(at.align)), inst);
    uint64_t bytes = module.getDataLayout().getTypeStoreSize(type).getFixedValue();
    bool whole = bytes % 16 == 0 && std::has_single_bit(bytes) && at.align >= std::min<uint64_t>(bytes, 64);
    if (inst.hint == kernel::Hint::Stream && traits.stream && whole) {
      llvm::Metadata* one = llvm::ConstantAsMetadata::get(b.getInt32(1));
      access->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context, one));
      streamed = true;
    }
  });
}

namespace {

std::optional<llvm::AtomicRMWInst::BinOp> atomic_op(ScalarOp op, DType dtype) {
  using llvm::AtomicRMWInst;
  bool is_sign = is_signed(dtype);
  if (is_float(dtype)) {
    if (op == ScalarOp::add && (dtype == kF32 || dtype == kF64)) return AtomicRMWInst::FAdd;
    return std::nullopt;
  }
  switch (op) {
    case ScalarOp::add: return AtomicRMWInst::Add;
    case ScalarOp::bit_and: return AtomicRMWInst::And;
    case ScalarOp::bit_or: return AtomicRMWInst::Or;
    case ScalarOp::bit_xor: return AtomicRMWInst::Xor;
    case ScalarOp::maximum: return is_sign ? AtomicRMWInst::Max : AtomicRMWInst::UMax;
    case ScalarOp::minimum: return is_sign ? AtomicRMWInst::Min : AtomicRMWInst::UMin;
    default: return std::nullopt;
  }
}

}  // namespace

// *pointer = reducer(*pointer, v) where flag (null: true) holds.
void Emitter::combine_lane(const kernel::Inst& inst, llvm::Value* pointer, llvm::Value* v, llvm::Value* flag) {
  const kernel::Buffer& buffer = kernel.buffers[inst.buffer];
  DType dtype = buffer.dtype;
  llvm::Type* type = memory_element(dtype);
  llvm::Align align(static_cast<uint64_t>(size_of(dtype)));
  auto combined = [&](llvm::Value* old) {
    llvm::Value* left[] = {from_memory(old, dtype)};
    llvm::Value* right[] = {v};
    return to_memory(apply(*inst.reducer, left, right)[0], dtype);
  };
  when(flag, [&] {
    bool atomic = buffer.space != kernel::Space::Shared || traits.shared_by_threads;
    if (!atomic) {
      llvm::Value* old = annotate(b.CreateAlignedLoad(type, pointer, align), inst);
      annotate(b.CreateAlignedStore(combined(old), pointer, align), inst);
      return;
    }
    constexpr auto kOrder = llvm::AtomicOrdering::Monotonic;
    std::optional<ScalarOp> simple = kernel::simple_op(*inst.reducer);
    if (auto native = simple ? atomic_op(*simple, dtype) : std::nullopt) {
      annotate(b.CreateAtomicRMW(*native, pointer, to_memory(v, dtype), align, kOrder), inst);
      return;
    }
    const bool half = dtype == kF16 && traits.atomic_half, bfloat = dtype == kBF16 && traits.atomic_bfloat;
    if (simple == ScalarOp::add && (half || bfloat)) {
      llvm::Value* number = b.CreateBitCast(to_memory(v, dtype), half ? b.getHalfTy() : b.getBFloatTy());
      annotate(b.CreateAtomicRMW(llvm::AtomicRMWInst::FAdd, pointer, number, align, kOrder), inst);
      return;
    }
    // Compare and swap until nobody came between.
    llvm::Type* word = b.getIntNTy(static_cast<unsigned>(size_of(dtype)) * 8);
    llvm::LoadInst* first = annotate(b.CreateAlignedLoad(word, pointer, align), inst);
    first->setAtomic(kOrder);
    llvm::BasicBlock* before = b.GetInsertBlock();
    llvm::Function* function = before->getParent();
    auto* again = llvm::BasicBlock::Create(context, "swap", function);
    auto* done = llvm::BasicBlock::Create(context, "swapped", function);
    b.CreateBr(again);
    b.SetInsertPoint(again);
    llvm::PHINode* old = b.CreatePHI(word, 2);
    old->addIncoming(first, before);
    llvm::Value* fresh = b.CreateBitCast(combined(b.CreateBitCast(old, type)), word);
    auto* swap = annotate(b.CreateAtomicCmpXchg(pointer, old, fresh, align, kOrder, kOrder), inst);
    old->addIncoming(b.CreateExtractValue(swap, 0), b.GetInsertBlock());
    b.CreateCondBr(b.CreateExtractValue(swap, 1), done, again);
    b.SetInsertPoint(done);
  });
}

// Lane after lane, for lanes may meet in one element.
void Emitter::combine(const kernel::Inst& inst, const Values& body_values) {
  const kernel::Buffer& buffer = kernel.buffers[inst.buffer];
  int64_t lanes = lanes_of(kernel.values[inst.args[0]]);
  llvm::Type* type = memory_element(buffer.dtype);
  Place at = place(inst, lanes, body_values);
  if (at.never) return;
  llvm::Value* v = splat(body_values[inst.args[0]], lanes);
  if (lanes == 1) return combine_lane(inst, at.pointer, v, at.condition);

  auto element_number = [&](llvm::Value* lane) -> llvm::Value* {
    switch (at.pattern) {
      case Place::Pattern::Uniform: return b.getInt64(0);
      case Place::Pattern::Forward: return lane;
      case Place::Pattern::Backward: return b.CreateSub(b.getInt64(static_cast<uint64_t>(lanes - 1)), lane);
      case Place::Pattern::Scattered: break;
    }
    return b.CreateExtractElement(at.indices, lane);
  };
  when(at.condition, [&] {
    if (traits.shared_by_threads || lanes <= 4) {
      for (int64_t k = 0; k < lanes; ++k) {
        llvm::Value* lane = b.getInt64(static_cast<uint64_t>(k));
        llvm::Value* pointer = b.CreateGEP(type, at.pointer, element_number(lane));
        combine_lane(inst, pointer, b.CreateExtractElement(v, lane),
                     at.mask ? b.CreateExtractElement(at.mask, lane) : nullptr);
      }
      return;
    }
    counted_loop("lanes", b.getInt64(0), b.getInt64(static_cast<uint64_t>(lanes)), true, {},
                 [&](llvm::Value* lane, const Values&) -> Values {
                   llvm::Value* pointer = b.CreateGEP(type, at.pointer, element_number(lane));
                   llvm::Value* flag = at.mask ? b.CreateExtractElement(at.mask, lane) : nullptr;
                   combine_lane(inst, pointer, b.CreateExtractElement(v, lane), flag);
                   return {};
                 });
  });
}

}  // namespace heddle::codegen
