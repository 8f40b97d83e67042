// Integer expressions to LLVM integers, each computed in the outermost scope possible.
#include <algorithm>

#include "base/error.h"
#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

constexpr int64_t kSafe = int64_t{1} << 58;  // sums of a few such numbers stay far from overflow

bool small(const Expr& e) { return e.lo() > -kSafe && e.hi() < kSafe; }

// Whether 32 bits hold every part of e.
bool fits_32(const Expr& e) {
  if (e.lo() < INT32_MIN || e.hi() > INT32_MAX) return false;
  if (e.is_const() || e.is_var()) return true;
  return std::ranges::all_of(e.args(), fits_32);
}

}  // namespace

void Emitter::bind(const Expr& variable, llvm::Value* value, unsigned bits) {
  if (variable.is_var()) scopes.back().known[{variable, bits}] = value;  // a variable of extent 1 may just be 0
}

Expr Emitter::lane_variable(int64_t lanes) {
  auto [found, fresh] = lane_variables_.try_emplace(lanes);
  if (fresh) found->second = Expr::index("lane", lanes);
  // Known to scope 0: iota is a constant.
  for (unsigned bits : {32u, 64u}) scopes.front().known.try_emplace({found->second, bits}, iota(bits, lanes));
  return found->second;
}

bool Emitter::varies(const Expr& e) {
  return std::ranges::any_of(variables(e), [&](const Expr& v) { return lanes_of(emit(v, 32).value) > 1; });
}

Emitter::Formula Emitter::open_formula(const kernel::Inst& inst, int64_t lanes, const Values& body_values) {
  Formula formula{inst.address, inst.guard, 0, false};
  if (!inst.coords.empty() && inst.coords[0].is_var()) {
    formula.lane = lanes > 1 ? lane_variable(lanes) : Expr(0);
    HD_ASSERT(inst.coords.size() == 1, "a thread-level access has one coordinate at most");
    Substitution lane{{inst.coords[0], formula.lane}};
    formula.address = substitute(inst.address, lane);
    if (!inst.guard.is_const()) formula.guard = substitute(inst.guard, lane);
  }
  scopes.emplace_back();  // no head: bound values exist only here
  size_t first = inst.args.size() - inst.binds.size();
  for (size_t k = 0; k < inst.binds.size(); ++k) {
    llvm::Value* v = body_values[inst.args[first + k]];
    DType dtype = kernel.values[inst.args[first + k]].dtype;
    bool is_sign = is_signed(dtype);
    if (lanes_of(v) == 1) {
      bind(inst.binds[k], b.CreateIntCast(v, b.getInt64Ty(), is_sign));
    } else {
      formula.lanes_differ = true;
      bind(inst.binds[k], b.CreateIntCast(v, shaped(b.getInt32Ty(), v), is_sign), 32);
      bind(inst.binds[k], b.CreateIntCast(v, shaped(b.getInt64Ty(), v), is_sign), 64);
    }
  }
  return formula;
}

llvm::Value* Emitter::integer(const Expr& e) {
  llvm::Value* v = emit(e, fits_32(e) ? 32 : 64).value;
  if (v->getType()->getScalarType()->isIntegerTy(1)) v = b.CreateZExt(v, shaped(b.getInt64Ty(), v));
  return lanes_of(v) > 1 ? v : b.CreateSExt(v, b.getInt64Ty());
}

llvm::Value* Emitter::condition(const Expr& e) {
  llvm::Value* v = emit(e, fits_32(e) ? 32 : 64).value;
  if (!v->getType()->getScalarType()->isIntegerTy(1)) v = b.CreateIsNotNull(v);
  return v;
}

Emitted Emitter::emit(const Expr& e, unsigned bits) {
  if (e.kind() == ExprKind::Const) return {b.getInt64(static_cast<uint64_t>(e.value())), 0};
  for (int depth = static_cast<int>(scopes.size()) - 1; depth >= 0; --depth) {
    auto& known = scopes[depth].known;
    for (unsigned key_bits : {0u, bits})
      if (auto found = known.find({e, key_bits}); found != known.end()) return {found->second, depth};
  }
  if (e.is_var()) throw InternalError(text("kernel ", kernel.name, ": variable ", e.name(), " is used out of scope"));
  Emitted result = compute(e, bits);
  scopes[result.depth].known[{e, lanes_of(result.value) > 1 ? bits : 0}] = result.value;
  return result;
}

namespace {

// Moves the builder to the head of a scope while it lives.
class AtHead {
 public:
  AtHead(Emitter& emitter, int depth) : guard_(emitter.b) {
    if (llvm::BasicBlock* head = emitter.scopes[depth].head) emitter.b.SetInsertPoint(head->getTerminator());
  }

 private:
  llvm::IRBuilder<>::InsertPointGuard guard_;
};

// Bits of a scalar in which e can be computed. Sums may pass through numbers that need more: they come back.
unsigned scalar_bits(const Emitter& emitter, const Expr& e) { return emitter.traits.narrow && fits_32(e) ? 32 : 64; }

// Brings operands to one type: vectors of `bits` where any is a vector, else integers of `alone` bits. Conditions count
// 0 or 1.
void unify(Emitter& emitter, std::vector<llvm::Value*>& operands, unsigned bits, unsigned alone) {
  auto& b = emitter.b;
  int64_t lanes = 1;
  for (llvm::Value* v : operands) lanes = std::max(lanes, lanes_of(v));
  llvm::Type* type = b.getIntNTy(lanes > 1 ? bits : alone);
  for (llvm::Value*& v : operands) {
    bool flag = v->getType()->getScalarType()->isIntegerTy(1);
    llvm::Type* wanted = shaped(type, v);
    if (v->getType() != wanted) v = flag ? b.CreateZExt(v, wanted) : b.CreateSExtOrTrunc(v, wanted);
    v = emitter.splat(v, lanes);
  }
}

void unify_flags(Emitter& emitter, std::vector<llvm::Value*>& operands) {
  auto& b = emitter.b;
  int64_t lanes = 1;
  for (llvm::Value* v : operands) lanes = std::max(lanes, lanes_of(v));
  for (llvm::Value*& v : operands) {
    if (!v->getType()->getScalarType()->isIntegerTy(1)) v = b.CreateIsNotNull(v);
    v = emitter.splat(v, lanes);
  }
}

// Rounds towards minus infinity. Divisors are positive where the result matters, but the division may have been
// moved to where the divisor is not yet known to be: it must not trap.
llvm::Value* divide(Emitter& emitter, const Expr& e, llvm::Value* x, llvm::Value* y, bool remainder) {
  auto& b = emitter.b;
  const Expr &dividend = e.args()[0], &divisor = e.args()[1];
  if (divisor.is_const()) {
    HD_ASSERT(divisor.value() > 0, to_string(e));
    uint64_t d = static_cast<uint64_t>(divisor.value());
    if ((d & (d - 1)) == 0) {
      if (remainder) return b.CreateAnd(x, llvm::ConstantInt::get(x->getType(), d - 1));
      return b.CreateAShr(x, llvm::ConstantInt::get(x->getType(), static_cast<uint64_t>(__builtin_ctzll(d))));
    }
  } else if (divisor.lo() < 1) {
    y = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, y, llvm::ConstantInt::get(y->getType(), 1));
  }
  if (dividend.lo() >= 0) return remainder ? b.CreateURem(x, y) : b.CreateUDiv(x, y);
  llvm::Value* rest = b.CreateSRem(x, y);
  llvm::Value* negative = b.CreateICmpSLT(rest, llvm::Constant::getNullValue(rest->getType()));
  if (remainder) return b.CreateSelect(negative, b.CreateAdd(rest, y), rest);
  return b.CreateAdd(b.CreateSDiv(x, y), b.CreateSExt(negative, x->getType()));
}

}  // namespace

// Terms of outer scopes are added there, so that a loop adds only what changes in it. The constant comes last: it
// becomes part of an instruction.
Emitted Emitter::add(const Expr& e, unsigned bits) {
  struct Term {
    Expr expr;
    Emitted emitted;
  };
  std::vector<Term> terms;
  Expr constant = 0;
  int depth = 0;
  const unsigned alone = scalar_bits(*this, e);
  bool bounded = small(e) && alone == 64;
  for (const Expr& arg : e.args()) {
    bounded &= small(arg);
    if (arg.is_const()) {
      constant = arg;
      continue;
    }
    terms.push_back({arg, emit(arg, bits)});
    depth = std::max(depth, terms.back().emitted.depth);
  }
  Expr outer = 0;
  std::vector<llvm::Value*> parts;
  int outer_terms = 0;
  for (const Term& term : terms)
    if (term.emitted.depth < depth) {
      outer = outer + term.expr;
      ++outer_terms;
    }
  for (const Term& term : terms)
    if (outer_terms < 2 || term.emitted.depth == depth) parts.push_back(term.emitted.value);
  if (outer_terms >= 2) parts.insert(parts.begin(), emit(outer, bits).value);
  AtHead position(*this, depth);
  if (!constant.is_const(0)) parts.push_back(b.getInt64(static_cast<uint64_t>(constant.value())));
  llvm::Value* sum = nullptr;
  for (bool vectors : {false, true})  // scalars first: they cost less
    for (llvm::Value* part : parts) {
      if ((lanes_of(part) > 1) != vectors) continue;
      std::vector<llvm::Value*> pair{sum ? sum : part, part};
      unify(*this, pair, bits, alone);
      sum = sum ? b.CreateAdd(pair[0], pair[1], "", false, bounded && lanes_of(pair[0]) == 1) : pair[1];
    }
  return {sum, depth};
}

// A comparison of c * lane + rest with 0: only the scalar bound on `lane` is computed in 64 bits, the lanes compare
// small numbers. Nothing when e is not of that form.
Emitted Emitter::compare_lane(const Expr& e, const Expr& lane) {
  std::optional<Linear> form = linear_in(e.args()[0] - e.args()[1], lane);
  if (!form || form->coefficient == 0) return {};
  int64_t lanes = lane.hi() + 1, c = form->coefficient;
  // Large guards of constants would overflow the formulas below.
  if (std::abs(c) > (1 << 20) || !small(form->rest)) return {};
  if (varies(form->rest)) return {};
  Expr bound;
  llvm::CmpInst::Predicate predicate = llvm::CmpInst::ICMP_ULT;
  if (e.kind() == ExprKind::Eq) {
    if (c != 1 && c != -1) return {};
    Expr at = c == 1 ? -form->rest : form->rest;
    bound = select(logical_and(ge(at, 0), lt(at, lanes)), at, lanes);
    predicate = llvm::CmpInst::ICMP_EQ;
  } else if (c > 0) {  // lane < -rest / c
    bound = min(max(ceildiv(-form->rest, c), 0), lanes);
  } else {  // lane > rest / -c
    bound = min(max(floordiv(form->rest, -c) + 1, 0), lanes);
    predicate = llvm::CmpInst::ICMP_UGE;
  }
  Emitted limit = emit(bound, 64);
  AtHead position(*this, limit.depth);
  // As narrow as fills a vector register, like the data that the mask will meet.
  unsigned bits = lanes <= 16 ? 32 : lanes <= 32 ? 16 : lanes <= 128 ? 8 : 32;
  llvm::Value* narrow = b.CreateSExtOrTrunc(limit.value, b.getIntNTy(bits));
  return {b.CreateICmp(predicate, iota(bits, lanes), splat(narrow, lanes)), limit.depth};
}

Emitted Emitter::compute(const Expr& e, unsigned bits) {
  ExprKind kind = e.kind();
  if (kind == ExprKind::Add) return add(e, bits);
  if (kind == ExprKind::Lt || kind == ExprKind::Eq) {
    for (const auto& [lanes, lane] : lane_variables_)
      if (depends_on(e, lane))
        if (Emitted result = compare_lane(e, lane); result.value) return result;
  }
  std::vector<llvm::Value*> x;
  int depth = 0;
  const unsigned alone = scalar_bits(*this, e);
  bool bounded = small(e) && alone == 64;
  for (const Expr& arg : e.args()) {
    Emitted part = emit(arg, bits);
    x.push_back(part.value);
    depth = std::max(depth, part.depth);
    bounded &= small(arg);
  }
  AtHead position(*this, depth);
  if (kind == ExprKind::And || kind == ExprKind::Or || kind == ExprKind::Not) {
    unify_flags(*this, x);
    if (kind == ExprKind::Not) return {b.CreateNot(x[0]), depth};
  } else if (kind == ExprKind::Select) {
    std::vector<llvm::Value*> flag{x[0]}, sides{x[1], x[2]};
    unify_flags(*this, flag);
    unify(*this, sides, bits, alone);
    int64_t lanes = lanes_of(flag[0]);
    return {b.CreateSelect(flag[0], splat(sides[0], lanes), splat(sides[1], lanes)), depth};
  } else {
    unify(*this, x, bits, alone);
  }
  bool nsw = bounded && lanes_of(x[0]) == 1;
  llvm::Value* v = x[0];
  switch (kind) {
    case ExprKind::Mul:
      for (size_t k = 1; k < x.size(); ++k) v = b.CreateMul(v, x[k], "", false, nsw);
      break;
    case ExprKind::FloorDiv: v = divide(*this, e, x[0], x[1], false); break;
    case ExprKind::Mod: v = divide(*this, e, x[0], x[1], true); break;
    case ExprKind::Min:
      for (size_t k = 1; k < x.size(); ++k) v = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, x[k]);
      break;
    case ExprKind::Max:
      for (size_t k = 1; k < x.size(); ++k) v = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, x[k]);
      break;
    case ExprKind::Lt: v = b.CreateICmpSLT(x[0], x[1]); break;
    case ExprKind::Eq: v = b.CreateICmpEQ(x[0], x[1]); break;
    case ExprKind::And:
      for (size_t k = 1; k < x.size(); ++k) v = b.CreateAnd(v, x[k]);
      break;
    case ExprKind::Or:
      for (size_t k = 1; k < x.size(); ++k) v = b.CreateOr(v, x[k]);
      break;
    case ExprKind::Const:
    case ExprKind::Var:
    case ExprKind::Add:
    case ExprKind::Not:
    case ExprKind::Select: HD_ASSERT(false, to_string(e));
  }
  return {v, depth};
}

}  // namespace heddle::codegen
