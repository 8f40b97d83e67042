// Constant folding and identities. Everything here is exact: also for NaN, infinities and the sign of zero.
//
// A value takes another's place only when their types agree: with implicit broadcasting the operand of `mul %x, 1`
// may be smaller than the result.
#include <cmath>

#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

struct Def {
  Op op = Op::loop;
  SmallVector<Value, 3> args;
};

class Folder {
 public:
  explicit Folder(Kernel& kernel)
      : kernel_(kernel), names_(kernel.values.size()), defs_(kernel.values.size()), constants_(kernel.values.size()) {}

  void run(Body& code) {
    std::vector<Inst> insts = std::move(code.insts);
    code.insts.clear();
    for (Inst& inst : insts) visit_inst(std::move(inst), code);
    names_.apply(code.results);
  }

 private:
  const Type& type(Value v) const { return kernel_.values[static_cast<size_t>(v)]; }
  const std::optional<Scalar>& constant(Value v) const { return constants_[static_cast<size_t>(v)]; }
  const Def& def(Value v) const { return defs_[static_cast<size_t>(v)]; }
  bool is(Value v, double number) const { return constant(v) && *constant(v) == Scalar::of(type(v).dtype, number); }
  bool all_ones(Value v) const {
    return constant(v) && *constant(v) == Scalar::from_bits(type(v).dtype, type(v).dtype == kBool ? 1 : ~uint64_t{0});
  }

  void visit_inst(Inst inst, Body& out) {
    names_.apply(inst.args);
    if (!inst.guard.is_const() && provably_true(inst.guard)) inst.guard = 1;
    bool never = inst.guard.is_const(0);
    switch (inst.op) {
      case Op::store:
      case Op::combine:
      case Op::check:
        if (never) return;
        break;
      case Op::load:
        if (never) make_constant(inst, Scalar::of(type(inst.results[0]).dtype, 0));
        break;
      case Op::index:
        if (inst.address.is_const()) make_constant(inst, Scalar::of(type(inst.results[0]).dtype, inst.address.value()));
        break;
      case Op::loop:
        if (inst.extent.is_const() && inst.extent.value() <= 0) {
          for (size_t k = 0; k < inst.results.size(); ++k) names_.replace(inst.results[k], inst.args[k]);
          return;
        }
        run(inst.bodies[0]);
        break;
      case Op::branch:
        if (inst.guard.is_const()) {
          inline_branch(inst, out);
          return;
        }
        for (Body& code : inst.bodies) run(code);
        break;
      default: break;
    }
    if (is_scalar_op(inst.op) || inst.op == Op::cast || inst.op == Op::bitcast) {
      if (fold_constants(inst)) {
        // now a constant
      } else if (Value same = simplify(inst); same != kNoValue) {
        names_.replace(inst.results[0], same);
        return;
      }
    }
    if (inst.op == Op::constant) constants_[static_cast<size_t>(inst.results[0])] = inst.literal;
    for (Value v : inst.results) defs_[static_cast<size_t>(v)] = {inst.op, inst.args};
    out.insts.push_back(std::move(inst));
  }

  void inline_branch(Inst& inst, Body& out) {
    size_t taken = inst.guard.is_const(0) ? 1 : 0;
    if (taken >= inst.bodies.size()) return;
    Body& code = inst.bodies[taken];
    for (Inst& inner : code.insts) visit_inst(std::move(inner), out);
    for (size_t k = 0; k < inst.results.size(); ++k) names_.replace(inst.results[k], code.results[k]);
  }

  void make_constant(Inst& inst, const Scalar& value) {
    Inst fresh;
    fresh.op = Op::constant;
    fresh.literal = value;
    fresh.results = inst.results;
    inst = std::move(fresh);
  }

  bool fold_constants(Inst& inst) {
    const Type& result = type(inst.results[0]);
    std::vector<Scalar> operands;
    for (Value v : inst.args) {
      if (!constant(v)) return false;
      operands.push_back(*constant(v));
    }
    Scalar value = inst.op == Op::cast      ? heddle::cast(operands[0], result.dtype)
                   : inst.op == Op::bitcast ? heddle::bitcast(operands[0], result.dtype)
                                            : heddle::apply(scalar_op(inst.op), operands);
    make_constant(inst, value);
    return true;
  }

  // Turns inst into a cheaper one in place, or returns the value it equals, or kNoValue.
  Value simplify(Inst& inst) {
    const Type& result = type(inst.results[0]);
    auto same = [&](Value v) { return type(v) == result ? v : kNoValue; };
    auto known = [&](double number) {
      make_constant(inst, Scalar::of(result.dtype, number));
      return kNoValue;
    };
    if (inst.op == Op::cast) return simplify_cast(inst);
    if (inst.op == Op::bitcast) {
      if (def(inst.args[0]).op == Op::bitcast) inst.args[0] = def(inst.args[0]).args[0];
      return same(inst.args[0]);
    }
    Value a = inst.args[0];
    Value b = inst.args.size() > 1 ? inst.args[1] : kNoValue;
    bool floating = is_float(type(a).dtype);
    Op inner = def(a).op;
    switch (inst.op) {
      case Op::neg: return inner == Op::neg ? same(def(a).args[0]) : kNoValue;
      case Op::bit_not: return inner == Op::bit_not ? same(def(a).args[0]) : kNoValue;
      case Op::abs:
        if (inner == Op::abs) return same(a);
        if (inner == Op::neg && type(def(a).args[0]) == result) inst.args[0] = def(a).args[0];
        return kNoValue;
      case Op::floor:
      case Op::ceil:
      case Op::trunc:
      case Op::round:
        return inner == Op::floor || inner == Op::ceil || inner == Op::trunc || inner == Op::round ? same(a) : kNoValue;
      case Op::add:
        if (is(b, floating ? -0.0 : 0)) return same(a);
        if (is(a, floating ? -0.0 : 0)) return same(b);
        return kNoValue;
      case Op::sub:
        if (is(b, 0)) return same(a);
        if (!floating && a == b) return known(0);
        return kNoValue;
      case Op::mul:
        if (is(b, 1)) return same(a);
        if (is(a, 1)) return same(b);
        if (!floating && (is(a, 0) || is(b, 0))) return known(0);
        return kNoValue;
      case Op::div:
        if (is(b, 1)) return same(a);
        return kNoValue;
      case Op::floordiv: return !floating && is(b, 1) ? same(a) : kNoValue;
      case Op::mod: return !floating && (is(b, 1) || is(b, 0)) ? known(0) : kNoValue;
      case Op::minimum:
      case Op::maximum: return a == b ? same(a) : kNoValue;
      case Op::bit_and:
        if (all_ones(b) || a == b) return same(a);
        if (all_ones(a)) return same(b);
        if (is(a, 0) || is(b, 0)) return known(0);
        return kNoValue;
      case Op::bit_or:
        if (is(b, 0) || a == b) return same(a);
        if (is(a, 0)) return same(b);
        if (all_ones(a)) return same(a);
        if (all_ones(b)) return same(b);
        return kNoValue;
      case Op::bit_xor:
        if (is(b, 0)) return same(a);
        if (is(a, 0)) return same(b);
        if (a == b) return known(0);
        return kNoValue;
      case Op::shl:
      case Op::shr:
        if (is(b, 0)) return same(a);
        if (is(a, 0)) return same(a);
        return kNoValue;
      case Op::eq:
      case Op::le: return !floating && a == b ? known(1) : kNoValue;
      case Op::ne:
      case Op::lt: return a == b && (!floating || inst.op == Op::lt) ? known(0) : kNoValue;
      case Op::where: return simplify_where(inst);
      case Op::fma: return simplify_fma(inst);
      default: return kNoValue;
    }
  }

  Value simplify_where(Inst& inst) {
    const Type& result = type(inst.results[0]);
    auto same = [&](Value v) { return type(v) == result ? v : kNoValue; };
    if (constant(inst.args[0])) return same(constant(inst.args[0])->as_bool() ? inst.args[1] : inst.args[2]);
    if (inst.args[1] == inst.args[2]) return same(inst.args[1]);
    if (def(inst.args[0]).op == Op::bit_not) {
      inst.args[0] = def(inst.args[0]).args[0];
      std::swap(inst.args[1], inst.args[2]);
    }
    if (result.dtype == kBool && is(inst.args[1], 1) && is(inst.args[2], 0)) return same(inst.args[0]);
    return kNoValue;
  }

  // Keeps the result's shape only if the dropped operand did not widen it; a constant scalar never does.
  Value simplify_fma(Inst& inst) {
    Value a = inst.args[0], b = inst.args[1], c = inst.args[2];
    auto rewrite = [&](Op op, Value x, Value y) {
      inst.op = op;
      inst.args = {x, y};
      return kNoValue;
    };
    auto scalar = [&](Value v) { return type(v).shape.empty(); };
    if (is(c, -0.0) && scalar(c)) return rewrite(Op::mul, a, b);
    if (is(b, 1) && scalar(b)) return rewrite(Op::add, a, c);
    if (is(a, 1) && scalar(a)) return rewrite(Op::add, b, c);
    return kNoValue;
  }

  Value simplify_cast(Inst& inst) {
    const Type& result = type(inst.results[0]);
    Value a = inst.args[0];
    if (type(a) == result) return a;
    if (def(a).op != Op::cast) return kNoValue;
    Value source = def(a).args[0];
    if (!skippable(type(source).dtype, type(a).dtype, result.dtype)) return kNoValue;
    if (type(source) == result) return source;
    inst.args[0] = source;
    return kNoValue;
  }

  // Whether every value of `from` is one of `to`.
  static bool lossless(DType from, DType to) {
    if (from == to || from == kBool) return true;
    if (to == kBool) return false;
    if (is_float(from)) return is_float(to) && size_of(to) > size_of(from);
    if (!is_float(to) && is_signed(from) && !is_signed(to)) return false;
    return precision(from) <= precision(to);
  }

  // cast(cast(x: a -> b) -> c) == cast(x: a -> c). Integers wrap but floats saturate, so an integer must not lose
  // its way through a float.
  static bool skippable(DType a, DType b, DType c) {
    if (!lossless(a, b)) return false;
    if (is_integer(a) && is_float(b) && !is_float(c)) return lossless(a, c);
    return true;
  }

  Kernel& kernel_;
  Renaming names_;
  std::vector<Def> defs_;
  std::vector<std::optional<Scalar>> constants_;
};

}  // namespace

void fold(Kernel& kernel) {
  Folder folder(kernel);
  for (Phase& phase : kernel.phases) folder.run(phase.body);
}

}  // namespace heddle::kernel
