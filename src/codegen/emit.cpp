// The structure of a kernel: bodies, loops, branches, reductions.
#include "codegen/emit.h"

#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace heddle::codegen {

int64_t lanes_of(const kernel::Type& type) { return type.shape.empty() ? 1 : type.shape[0]; }

int64_t lanes_of(const llvm::Value* v) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector ? vector->getNumElements() : 1;
}

llvm::Type* shaped(llvm::Type* element, const llvm::Value* like) {
  int64_t lanes = lanes_of(like);
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

std::string symbol_name(const kernel::Kernel& kernel, size_t phase) {
  std::string name = kernel.name.empty() ? "kernel" : kernel.name;
  for (char& c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) c = '_';
  if (name[0] >= '0' && name[0] <= '9') name = "k" + name;
  return name + "_" + std::to_string(phase);
}

void check_module(const kernel::Kernel& kernel, llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream out(message);
  if (llvm::verifyModule(module, &out))
    throw InternalError(text("kernel ", kernel.name, ": LLVM rejects its code: ", message, "\n", text_of(module)));
}

std::string text_of(const llvm::Module& module) {
  std::string result;
  llvm::raw_string_ostream out(result);
  module.print(out, nullptr);
  return result;
}

namespace {

// An output may have been given the memory of an input of its size that is read for the last time here.
bool may_overlap(const kernel::Buffer& a, const kernel::Buffer& b) {
  using kernel::Space;
  auto pair = [](Space x, Space y) { return x == Space::In && (y == Space::Out || y == Space::InOut); };
  if (!pair(a.space, b.space) && !pair(b.space, a.space)) return false;
  Expr a_bytes = a.size * size_of(a.dtype), b_bytes = b.size * size_of(b.dtype);
  return !(a_bytes.is_const() && b_bytes.is_const() && !(a_bytes == b_bytes));
}

}  // namespace

Emitter::Emitter(const kernel::Kernel& kernel_, llvm::Module& module_, const Traits& traits_)
    : kernel(kernel_),
      module(module_),
      context(module_.getContext()),
      traits(traits_),
      b(context),
      types_(&kernel_.values) {
  if (kernel.level != kernel::Level::Thread) fail("machine code is made of thread-level kernels only");
  for (const kernel::Type& type : kernel.values)
    if (type.shape.size() > 1) fail(text("a thread has no value of type ", to_string(type)));
  // Buffers do not overlap, with the exceptions below. Say so with one alias scope per buffer.
  llvm::MDBuilder metadata(context);
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain(kernel.name);
  std::vector<llvm::Metadata*> own_scopes;
  for (const kernel::Buffer& buffer : kernel.buffers)
    own_scopes.push_back(metadata.createAnonymousAliasScope(domain, buffer.name));
  for (size_t k = 0; k < own_scopes.size(); ++k) {
    std::vector<llvm::Metadata*> others;
    bool shared = false;
    for (size_t other = 0; other < own_scopes.size(); ++other) {
      if (may_overlap(kernel.buffers[k], kernel.buffers[other])) {
        shared = true;
      } else if (other != k) {
        others.push_back(own_scopes[other]);
      }
    }
    scope_of_buffer_.push_back(llvm::MDNode::get(context, own_scopes[k]));
    others_of_buffer_.push_back(llvm::MDNode::get(context, others));
    never_written_.push_back(kernel.buffers[k].space == kernel::Space::In && !shared);
  }
}

void Emitter::fail(const std::string& what) const { throw CompileError(text("kernel ", kernel.name, ": ", what)); }

void Emitter::begin_function(llvm::Function* function) {
  values.assign(kernel.values.size(), nullptr);
  buffers.assign(kernel.buffers.size(), nullptr);
  scopes.clear();
  lane_variables_.clear();
  streamed = false;
  working = 0;
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  open_scope("start");
}

void Emitter::end_function() {
  b.CreateRetVoid();
  close_scope();
}

void Emitter::open_scope(const char* name) {
  llvm::BasicBlock* head = b.GetInsertBlock();
  llvm::BasicBlock* next = llvm::BasicBlock::Create(context, name, head->getParent());
  b.CreateBr(next);
  b.SetInsertPoint(next);
  scopes.push_back({head, {}});
}

void Emitter::bind_blocks(const kernel::Phase& phase, llvm::Value* block) {
  // The variables live at the head of the innermost scope, where `block` is known.
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  b.SetInsertPoint(scopes.back().head->getTerminator());
  for (size_t k = phase.blocks.size(); k-- > 0;) {
    if (!phase.blocks[k].is_var()) continue;  // a block of extent 1 is just 0
    Expr extent = phase.blocks[k].extent();
    if (k == 0) {
      bind(phase.blocks[k], block);
    } else if (extent.is_const(1)) {
      bind(phase.blocks[k], b.getInt64(0));
    } else {
      // With an empty grid there is no block, but the machine may divide before it finds out.
      llvm::Value* size = integer(max(extent, 1));
      bind(phase.blocks[k], b.CreateURem(block, size));
      block = b.CreateUDiv(block, size);
    }
  }
}

void Emitter::emit_body(const kernel::Body& code, Values& body_values) {
  for (const kernel::Inst& inst : code.insts) instruction(inst, body_values);
}

void Emitter::instruction(const kernel::Inst& inst, Values& body_values) {
  using kernel::Op;
  auto result = [&](llvm::Value* v) { body_values[inst.results[0]] = v; };
  // Inside a reducer values have another numbering; there the dtypes come from it.
  const std::vector<kernel::Type>& types = *types_;
  switch (inst.op) {
#define HD_OP(name, arity, rule, native) case Op::name:
#include "core/ops.def"
#undef HD_OP
    {
      Values args;
      for (kernel::Value v : inst.args) args.push_back(body_values[v]);
      return result(op(scalar_op(inst.op), types[inst.args.back()].dtype, args));
    }
    case Op::constant: return result(constant(inst.literal));
    case Op::cast: {
      DType to = types[inst.results[0]].dtype;
      return result(cast(body_values[inst.args[0]], types[inst.args[0]].dtype, to));
    }
    case Op::bitcast: {
      DType to = types[inst.results[0]].dtype;
      return result(bitcast(body_values[inst.args[0]], types[inst.args[0]].dtype, to));
    }
    case Op::index: return result(index(inst, body_values));
    case Op::load: return result(load(inst, body_values));
    case Op::store: return store(inst, body_values);
    case Op::combine: return combine(inst, body_values);
    case Op::check: return check(inst, body_values);
    case Op::reduce: return reduce(inst, body_values);
    case Op::scan: return scan(inst, body_values);
    case Op::dot: fail("dot must be lowered to fma before machine code is made");
    case Op::panel_dot: return panel_dot(inst);
    case Op::matrix_dot: return matrix_dot(inst, body_values);
    case Op::matrix_store: return matrix_store(inst, body_values);
    case Op::warp_dot: fail("warp_dot must be lowered to mma before machine code is made");
    case Op::copy: return copy(inst);
    case Op::copy_fence: return copy_fence(inst);
    case Op::load_matrix: return result(load_matrix(inst));
    case Op::mma: return mma(inst, body_values);
    case Op::packed_dot:
      return result(packed_dot(body_values[inst.args[0]], body_values[inst.args[1]], body_values[inst.args[2]]));
    case Op::loop: return loop(inst, body_values);
    case Op::branch: return branch(inst, body_values);
    case Op::barrier:
      if (traits.barrier) traits.barrier(*this);
      return;
    case Op::shuffle_xor: return shuffle(inst, body_values);
    case Op::transpose: return transpose(inst, body_values);
  }
}

namespace {
// Blocks belong to their function from the start, so that an exception cannot leak them; their place is found later.
void move_to_end(llvm::BasicBlock* block) {
  llvm::BasicBlock* last = &block->getParent()->back();
  if (last != block) block->moveAfter(last);
}
}  // namespace

Emitter::Values Emitter::counted_loop(const char* name, llvm::Value* begin, llvm::Value* end, bool runs, Values carried,
                                      const std::function<Values(llvm::Value* i, const Values& carried)>& body) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context, name, function);
  auto* after = llvm::BasicBlock::Create(context, llvm::Twine(name) + ".end", function);
  if (runs) {
    b.CreateBr(head);
  } else {
    b.CreateCondBr(b.CreateICmpSLT(begin, end), head, after);
  }
  b.SetInsertPoint(head);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  std::vector<llvm::PHINode*> phis;
  Values current;
  for (llvm::Value* v : carried) {
    phis.push_back(b.CreatePHI(v->getType(), 2));
    phis.back()->addIncoming(v, before);
    current.push_back(phis.back());
  }
  open_scope("body");
  Values next = body(i, current);
  close_scope();
  llvm::BasicBlock* latch = b.GetInsertBlock();
  llvm::Value* i_next = b.CreateAdd(i, b.getInt64(1), "", true, true);
  i->addIncoming(i_next, latch);
  for (size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(next[k], latch);
  b.CreateCondBr(b.CreateICmpSLT(i_next, end), head, after);
  move_to_end(after);
  b.SetInsertPoint(after);
  if (runs) return next;
  Values final_values;
  for (size_t k = 0; k < phis.size(); ++k) {
    llvm::PHINode* v = b.CreatePHI(phis[k]->getType(), 2);
    v->addIncoming(carried[k], before);
    v->addIncoming(next[k], latch);
    final_values.push_back(v);
  }
  return final_values;
}

void Emitter::loop(const kernel::Inst& inst, Values& body_values) {
  const kernel::Body& code = inst.bodies[0];
  Values carried;
  for (size_t k = 0; k < inst.args.size(); ++k)
    carried.push_back(splat(body_values[inst.args[k]], lanes_of(kernel.values[code.params[k]])));
  llvm::Value* end = integer(inst.extent);
  Values last = counted_loop("loop", b.getInt64(0), end, inst.extent.lo() > 0, carried,
                             [&](llvm::Value* i, const Values& current) {
                               bind(inst.var, i);
                               for (size_t k = 0; k < current.size(); ++k) body_values[code.params[k]] = current[k];
                               prefetch(inst, i, end, body_values);
                               emit_body(code, body_values);
                               Values next;
                               for (size_t k = 0; k < current.size(); ++k)
                                 next.push_back(splat(body_values[code.results[k]], lanes_of(current[k])));
                               return next;
                             });
  for (size_t k = 0; k < last.size(); ++k) body_values[inst.results[k]] = last[k];
}

void Emitter::when(llvm::Value* condition_, const std::function<void()>& body) {
  if (!condition_) return body();
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* then = llvm::BasicBlock::Create(context, "then", function);
  auto* after = llvm::BasicBlock::Create(context, "after", function);
  b.CreateCondBr(condition_, then, after);
  b.SetInsertPoint(then);
  body();
  b.CreateBr(after);
  move_to_end(after);
  b.SetInsertPoint(after);
}

void Emitter::branch(const kernel::Inst& inst, Values& body_values) {
  Formula formula = open_formula(inst, 1, body_values);
  llvm::Value* flag = condition(formula.guard);
  close_scope();
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* after = llvm::BasicBlock::Create(context, "after", function);
  llvm::BasicBlock* sides[2] = {llvm::BasicBlock::Create(context, "then", function), after};
  bool both = inst.bodies.size() > 1 && !(inst.bodies[1].insts.empty() && inst.results.empty());
  if (both) sides[1] = llvm::BasicBlock::Create(context, "else", function);
  llvm::BasicBlock* from = b.GetInsertBlock();
  b.CreateCondBr(flag, sides[0], sides[1]);
  std::vector<Values> results(2);
  llvm::BasicBlock* ends[2] = {from, from};
  for (size_t side = 0; side < (both ? 2 : 1); ++side) {
    b.SetInsertPoint(sides[side]);
    emit_body(inst.bodies[side], body_values);
    for (size_t k = 0; k < inst.results.size(); ++k)
      results[side].push_back(
          splat(body_values[inst.bodies[side].results[k]], lanes_of(kernel.values[inst.results[k]])));
    ends[side] = b.GetInsertBlock();
    b.CreateBr(after);
  }
  move_to_end(after);
  b.SetInsertPoint(after);
  for (size_t k = 0; k < inst.results.size(); ++k) {
    llvm::PHINode* v = b.CreatePHI(results[0][k]->getType(), 2);
    for (size_t side = 0; side < 2; ++side) v->addIncoming(results[side][k], ends[side]);
    body_values[inst.results[k]] = v;
  }
}

Emitter::Values Emitter::apply(const kernel::Reducer& reducer, std::span<llvm::Value* const> left,
                               std::span<llvm::Value* const> right) {
  Values inner(reducer.values.size(), nullptr);
  size_t width = reducer.width();
  for (size_t k = 0; k < width; ++k) {
    inner[reducer.combine.params[k]] = left[k];
    inner[reducer.combine.params[width + k]] = right[k];
  }
  const std::vector<kernel::Type>* outer_types = types_;
  types_ = &reducer.values;
  emit_body(reducer.combine, inner);
  types_ = outer_types;
  Values results;
  for (size_t k = 0; k < width; ++k) results.push_back(splat(inner[reducer.combine.results[k]], lanes_of(left[k])));
  return results;
}

// Halves the vector until one lane is left; an odd lane waits aside and joins at the end. Reducers are commutative.
void Emitter::reduce(const kernel::Inst& inst, Values& body_values) {
  const kernel::Reducer& reducer = *inst.reducer;
  size_t width = reducer.width();
  int64_t lanes = lanes_of(kernel.values[inst.args[0]]);
  Formula formula = open_formula(inst, lanes, body_values);
  llvm::Value* mask = formula.guard.is_const() ? nullptr : condition(formula.guard);
  if (formula.guard.is_const(0)) mask = b.getFalse();
  close_scope();
  Values state;
  for (size_t k = 0; k < width; ++k) {
    llvm::Value* v = splat(body_values[inst.args[k]], lanes);
    if (mask) v = b.CreateSelect(mask, v, splat(constant(reducer.identity[k]), lanes));
    state.push_back(v);
  }
  // Whether any lane, or every lane, is true: one instruction on masks.
  auto simple = kernel::simple_op(reducer);
  bool any = simple == ScalarOp::bit_or || simple == ScalarOp::maximum;
  bool all = simple == ScalarOp::bit_and || simple == ScalarOp::minimum;
  if (lanes > 1 && reducer.identity[0].dtype == kBool && (any || all)) {
    body_values[inst.results[0]] = any ? b.CreateOrReduce(state[0]) : b.CreateAndReduce(state[0]);
    return;
  }
  auto part = [&](const Values& from, int64_t first, int64_t count) {
    Values picked;
    std::vector<int> lane_numbers(static_cast<size_t>(count));
    std::iota(lane_numbers.begin(), lane_numbers.end(), static_cast<int>(first));
    for (llvm::Value* v : from)
      picked.push_back(count == 1 ? b.CreateExtractElement(v, static_cast<uint64_t>(first))
                                  : b.CreateShuffleVector(v, lane_numbers));
    return picked;
  };
  std::vector<Values> odd;
  while (lanes > 1) {
    if (lanes % 2) odd.push_back(part(state, lanes - 1, 1));
    lanes /= 2;
    state = apply(reducer, part(state, 0, lanes), part(state, lanes, lanes));
  }
  for (; !odd.empty(); odd.pop_back()) state = apply(reducer, state, odd.back());
  for (size_t k = 0; k < width; ++k) body_values[inst.results[k]] = state[k];
}

// Each step combines every lane with the one 1, 2, 4, ... before it. What came before the vector joins at the end: from
// one vector to the next only that has to be waited for.
void Emitter::scan(const kernel::Inst& inst, Values& body_values) {
  const kernel::Reducer& reducer = *inst.reducer;
  size_t width = reducer.width();
  int64_t lanes = lanes_of(kernel.values[inst.args[0]]);
  Formula formula = open_formula(inst, lanes, body_values);
  llvm::Value* mask = formula.guard.is_const() ? nullptr : condition(formula.guard);
  if (formula.guard.is_const(0)) mask = b.getFalse();
  close_scope();
  Values state, before, neutral;
  for (size_t k = 0; k < width; ++k) {
    neutral.push_back(splat(constant(kernel::neutral(reducer, k)), lanes));
    llvm::Value* v = splat(body_values[inst.args[k]], lanes);
    if (mask) v = b.CreateSelect(mask, v, neutral[k]);
    state.push_back(v);
    before.push_back(body_values[inst.args[width + k]]);
  }
  for (int64_t step = 1; step < lanes; step *= 2) {
    std::vector<int> from(static_cast<size_t>(lanes));
    for (int64_t lane = 0; lane < lanes; ++lane)
      from[static_cast<size_t>(lane)] = static_cast<int>(lane < step ? lanes + lane : lane - step);
    Values shifted;
    for (size_t k = 0; k < width; ++k) shifted.push_back(b.CreateShuffleVector(state[k], neutral[k], from));
    state = apply(reducer, shifted, state);
  }
  Values last, spread;
  for (size_t k = 0; k < width; ++k) {
    last.push_back(lanes == 1 ? state[k] : b.CreateExtractElement(state[k], static_cast<uint64_t>(lanes - 1)));
    spread.push_back(splat(before[k], lanes));
  }
  Values scanned = apply(reducer, spread, state), totals = apply(reducer, before, last);
  for (size_t k = 0; k < width; ++k) {
    body_values[inst.results[k]] = scanned[k];
    body_values[inst.results[width + k]] = totals[k];
  }
}

void Emitter::shuffle(const kernel::Inst& inst, Values& body_values) {
  if (!traits.shuffle_xor) fail("shuffle_xor exists only where threads form warps");
  llvm::Value* v = body_values[inst.args[0]];
  llvm::Type* type = v->getType();
  llvm::Type* word_type = b.getInt32Ty();
  int64_t lanes = lanes_of(v);
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    llvm::Value* x = lanes == 1 ? v : b.CreateExtractElement(v, static_cast<uint64_t>(lane));
    llvm::Type* element_type = x->getType();
    unsigned bits = element_type->getPrimitiveSizeInBits();
    x = b.CreateBitCast(x, b.getIntNTy(bits));
    if (bits == 64) {
      llvm::Value* low = traits.shuffle_xor(*this, b.CreateTrunc(x, word_type), inst.immediate);
      llvm::Value* high = traits.shuffle_xor(*this, b.CreateTrunc(b.CreateLShr(x, 32), word_type), inst.immediate);
      x = b.CreateOr(b.CreateZExt(low, b.getInt64Ty()), b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32));
    } else {
      x = b.CreateTrunc(traits.shuffle_xor(*this, b.CreateZExt(x, word_type), inst.immediate), b.getIntNTy(bits));
    }
    x = b.CreateBitCast(x, element_type);
    result = lanes == 1 ? x : b.CreateInsertElement(result, x, static_cast<uint64_t>(lane));
  }
  body_values[inst.results[0]] = result;
}

llvm::Value* Emitter::index(const kernel::Inst& inst, const Values& body_values) {
  const kernel::Type& type = kernel.values[inst.results[0]];
  int64_t lanes = lanes_of(type);
  Formula formula = open_formula(inst, lanes, body_values);
  llvm::Value* result = nullptr;
  if (type.dtype == kBool) {
    result = condition(formula.address);
  } else {
    llvm::Type* wanted = element(type.dtype);
    std::optional<Linear> form;
    if (lanes > 1 && !formula.lanes_differ) form = linear_in(formula.address, formula.lane);
    if (form && form->coefficient != 0) {
      // Arithmetic modulo 2^bits: cut the scalar part first, add lanes in the result's width.
      unsigned bits = wanted->getIntegerBitWidth();
      llvm::Value* lane = iota(bits, lanes);
      llvm::Value* factor = llvm::ConstantInt::get(lane->getType(), static_cast<uint64_t>(form->coefficient), true);
      llvm::Value* rest = b.CreateSExtOrTrunc(integer(form->rest), wanted);
      result = b.CreateAdd(splat(rest, lanes), b.CreateMul(lane, factor));
    } else {
      result = integer(formula.address);
      result = b.CreateSExtOrTrunc(result, shaped(wanted, result));
    }
  }
  close_scope();
  return splat(result, lanes);
}

llvm::Type* Emitter::memory_element(DType dtype) {
  switch (dtype) {
    case kF32: return b.getFloatTy();
    case kF64: return b.getDoubleTy();
    default: return b.getIntNTy(static_cast<unsigned>(size_of(dtype)) * 8);
  }
}

llvm::Type* Emitter::element(DType dtype) { return dtype == kBool ? b.getInt1Ty() : memory_element(dtype); }

llvm::Value* Emitter::splat(llvm::Value* v, int64_t lanes) {
  return lanes == 1 || lanes_of(v) > 1 ? v : b.CreateVectorSplat(static_cast<unsigned>(lanes), v);
}

llvm::Value* Emitter::iota(unsigned bits, int64_t lanes) {
  std::vector<llvm::Constant*> numbers;
  for (int64_t k = 0; k < lanes; ++k)
    numbers.push_back(llvm::ConstantInt::get(b.getIntNTy(bits), static_cast<uint64_t>(k)));
  return llvm::ConstantVector::get(numbers);
}

}  // namespace heddle::codegen
