// The pass that replaces Math ops by arithmetic and lets small floats be computed in f32.
#include "kernel/math.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {

Num polynomial(const Num& x, std::initializer_list<double> c) {
  const double* k = c.end() - 1;
  Num sum = x.constant(*k);
  while (k != c.begin()) sum = fma(sum, x, *--k);
  return sum;
}

Num polynomial_for(const Num& x, std::initializer_list<double> for_f32, std::initializer_list<double> for_f64) {
  return polynomial(x, x.is_double() ? for_f64 : for_f32);
}

Num with_sign(const Num& value, const Num& sign) {
  DType integer = value.is_double() ? kU64 : kU32;
  uint64_t bit = uint64_t{1} << (value.is_double() ? 63 : 31);
  return (value.bits_as(integer) | (sign.bits_as(integer) & bit)).bits_as(value.dtype());
}

std::vector<Num> where_any(const Num& condition, const std::function<std::vector<Num>()>& usual,
                           const std::function<std::vector<Num>()>& rare) {
  Builder& builder = *condition.builder;
  if (builder.level() == Level::Tile) return rare();
  auto values = [](const std::vector<Num>& numbers) {
    std::vector<Value> list;
    for (const Num& number : numbers) list.push_back(number.value);
    return list;
  };
  Value any = condition.value;
  if (!builder.type(any).shape.empty())
    any = builder.reduce(std::span(&any, 1), 0, simple_reducer(ScalarOp::bit_or, kBool))[0];
  std::vector<Num> results;
  for (Value v : builder.branch_on(any, [&] { return values(rare()); }, [&] { return values(usual()); }))
    results.push_back({&builder, v});
  return results;
}

namespace {

bool is_small_float(DType dtype) { return compute_dtype(dtype) != dtype; }

Num expand(ScalarOp op, const Num& x, const Num& y, Powers powers) {
  switch (op) {
    case ScalarOp::exp: return expand_exp(x, powers);
    case ScalarOp::exp2: return expand_exp2(x, powers);
    case ScalarOp::expm1: return expand_expm1(x);
    case ScalarOp::log: return expand_log(x);
    case ScalarOp::log2: return expand_log2(x);
    case ScalarOp::log1p: return expand_log1p(x);
    case ScalarOp::sin: return expand_sin(x);
    case ScalarOp::cos: return expand_cos(x);
    case ScalarOp::tanh: return expand_tanh(x);
    case ScalarOp::erf: return expand_erf(x, powers);
    case ScalarOp::log10: return expand_log10(x);
    case ScalarOp::tan: return expand_tan(x);
    case ScalarOp::asin: return expand_asin(x);
    case ScalarOp::acos: return expand_acos(x);
    case ScalarOp::atan: return expand_atan(x);
    case ScalarOp::sinh: return expand_sinh(x);
    case ScalarOp::cosh: return expand_cosh(x);
    case ScalarOp::asinh: return expand_asinh(x);
    case ScalarOp::acosh: return expand_acosh(x);
    case ScalarOp::atanh: return expand_atanh(x);
    case ScalarOp::erfinv: return expand_erfinv(x);
    case ScalarOp::cbrt: return expand_cbrt(x);
    case ScalarOp::pow: return expand_pow(x, y);
    case ScalarOp::atan2: return expand_atan2(x, y);
    default: internal_error(__FILE__, __LINE__, text("no expansion of ", info(op).name));
  }
}

// What is known of operands of exp2: constants, and maxima with one.
class Bounds {
 public:
  void note(const Inst& inst) {
    if (inst.op == Op::constant) constants_[inst.results[0]] = inst.literal.as_double();
    if (inst.op != Op::maximum) return;
    for (Value arg : inst.args)
      if (auto bound = constants_.find(arg); bound != constants_.end() && bound->second >= kLeastExponent)
        bounded_.insert(inst.results[0]);
  }
  // Whether the value is a maximum that keeps exp2 of it among the normal numbers.
  bool holds(Value v) const { return bounded_.contains(v); }

 private:
  std::unordered_map<Value, double> constants_;
  std::unordered_set<Value> bounded_;
};

// Choosing between small floats needs no arithmetic.
bool needs_expansion(const Inst& inst, const Bounds& bounds, const std::vector<Type>& values, Powers powers) {
  if (!is_scalar_op(inst.op) || inst.op == Op::where) return false;
  const DType dtype = values[static_cast<size_t>(inst.args[0])].dtype;
  if (inst.op == Op::exp2 && dtype == kF32 && powers == Powers::Integers) return !bounds.holds(inst.args[0]);
  return !info(scalar_op(inst.op)).native || is_small_float(dtype);
}

// Rewrites the bodies of one kernel or reducer, whose values are `values`.
class Expander {
 public:
  // `rounded`: values that are only used as f16 or bf16.
  Expander(std::vector<Type>& values, Level level, Powers powers, std::vector<bool> rounded = {})
      : values_(values), level_(level), powers_(powers), rounded_(std::move(rounded)), names_(values.size()) {}

  void run(Body& code) {
    std::vector<Inst> insts = std::move(code.insts);
    code.insts.clear();
    for (Inst& inst : insts) {
      names_.apply(inst.args);
      for (Body& inner : inst.bodies) run(inner);
      // Combining into memory stays one of the simple reducers, which targets know by name.
      if (inst.reducer && inst.op != Op::combine) inst.reducer = expanded(inst.reducer);
      if (needs_expansion(inst, bounds_, values_, powers_)) {
        replace(inst, code);
      } else {
        if (powers_ == Powers::Integers) bounds_.note(inst);
        code.insts.push_back(std::move(inst));
      }
    }
    names_.apply(code.results);
  }

 private:
  void replace(const Inst& inst, Body& out) {
    Builder builder(values_, out, level_);
    DType dtype = values_[static_cast<size_t>(inst.args[0])].dtype;
    ScalarOp op = scalar_op(inst.op);
    SmallVector<Value, 3> args;
    for (Value v : inst.args) args.push_back(builder.cast(v, compute_dtype(dtype)));
    Value result = kNoValue;
    if (info(op).native)
      result = builder.op(op, std::span<const Value>(args));
    else if (op == ScalarOp::exp && is_rounded(inst.results[0]) && powers_ == Powers::Integers)
      result = expand_rounded_exp({&builder, args[0]}).value;
    else
      result = expand(op, {&builder, args[0]}, {&builder, args.back()}, powers_).value;
    names_.replace(inst.results[0], builder.cast(result, values_[static_cast<size_t>(inst.results[0])].dtype));
  }

  std::shared_ptr<const Reducer> expanded(const std::shared_ptr<const Reducer>& reducer) {
    bool found = false;
    Bounds bounds;
    for (const Inst& inst : reducer->combine.insts) {
      found = found || needs_expansion(inst, bounds, reducer->values, powers_);
      bounds.note(inst);
    }
    if (!found) return reducer;
    auto copy = std::make_shared<Reducer>(*reducer);
    Expander(copy->values, Level::Tile, powers_).run(copy->combine);  // a reducer has no branches
    return copy;
  }

  bool is_rounded(Value v) const {
    return static_cast<size_t>(v) < rounded_.size() && rounded_[static_cast<size_t>(v)];
  }

  std::vector<Type>& values_;
  Level level_;
  Powers powers_;
  std::vector<bool> rounded_;
  Bounds bounds_;
  Renaming names_;
};

// The values of f32 that are only used as f16 or bf16.
std::vector<bool> rounded_values(const Kernel& kernel) {
  std::vector<bool> rounded(kernel.values.size());
  for (size_t v = 0; v < rounded.size(); ++v) rounded[v] = kernel.values[v].dtype == kF32;
  auto used = [&](Value v) { rounded[static_cast<size_t>(v)] = false; };
  for (const Phase& phase : kernel.phases) {
    visit(phase.body, [&](const Inst& inst) {
      const bool narrows = inst.op == Op::cast && (kernel.values[static_cast<size_t>(inst.results[0])].dtype == kBF16 ||
                                                   kernel.values[static_cast<size_t>(inst.results[0])].dtype == kF16);
      if (!narrows)
        for (Value v : inst.args) used(v);
      for (const Body& code : inst.bodies)
        for (Value v : code.results) used(v);
    });
  }
  return rounded;
}

}  // namespace

void expand_math(Kernel& kernel) {
  Expander expander(kernel.values, kernel.level, Powers::Scale);
  for (Phase& phase : kernel.phases) expander.run(phase.body);
}

void expand_math_by_exp2(Kernel& kernel) {
  Expander expander(kernel.values, kernel.level, Powers::Integers, rounded_values(kernel));
  for (Phase& phase : kernel.phases) expander.run(phase.body);
}

}  // namespace heddle::kernel
