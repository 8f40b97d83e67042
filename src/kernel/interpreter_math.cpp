#include "kernel/interpreter_math.h"
#include "kernel/types.h"

#include <cmath>

namespace heddle::kernel {
namespace {

Cell from_float(float value) {
  Cell c;
  c.f = static_cast<double>(value);
  return c;
}
float to_float(Cell c) { return static_cast<float>(c.f); }

template <class F>
void each_float(std::span<const Operand> x, Cell* out, int64_t count, F f) {
  for (int64_t e = 0; e < count; ++e) out[e] = from_float(f(to_float(x[0].at(e)), to_float(x[1].at(e))));
}

// The commonest ops on f32; their meaning is IEEE's, so there is nothing to differ in.
bool apply_f32(ScalarOp op, std::span<const Operand> x, Cell* out, int64_t count) {
  switch (op) {
    case ScalarOp::add: each_float(x, out, count, [](float a, float b) { return a + b; }); return true;
    case ScalarOp::sub: each_float(x, out, count, [](float a, float b) { return a - b; }); return true;
    case ScalarOp::mul: each_float(x, out, count, [](float a, float b) { return a * b; }); return true;
    case ScalarOp::div: each_float(x, out, count, [](float a, float b) { return a / b; }); return true;
    case ScalarOp::fma:
      for (int64_t e = 0; e < count; ++e)
        out[e] = from_float(std::fma(to_float(x[0].at(e)), to_float(x[1].at(e)), to_float(x[2].at(e))));
      return true;
    default: return false;
  }
}

}  // namespace

void apply_elements(ScalarOp op, DType dtype, std::span<const Operand> operands, Cell* out, int64_t count) {
  if (op == ScalarOp::where) {
    for (int64_t e = 0; e < count; ++e) out[e] = operands[0].at(e).u != 0 ? operands[1].at(e) : operands[2].at(e);
    return;
  }
  if (dtype == DType::f32 && apply_f32(op, operands, out, count)) return;
  Scalar values[3];
  for (int64_t e = 0; e < count; ++e) {
    for (size_t i = 0; i < operands.size(); ++i) values[i] = scalar(dtype, operands[i].at(e));
    out[e] = cell(apply(op, std::span<const Scalar>(values, operands.size())));
  }
}

Cell apply_two(ScalarOp op, DType dtype, Cell a, Cell b) {
  if (dtype == DType::f32 && op == ScalarOp::add) return from_float(to_float(a) + to_float(b));
  if (dtype == DType::f32 && op == ScalarOp::mul) return from_float(to_float(a) * to_float(b));
  const Scalar values[] = {scalar(dtype, a), scalar(dtype, b)};
  return cell(apply(op, values));
}

Cell multiply_add(DType acc_dtype, DType dtype, Cell acc, Cell a, Cell b) {
  if (holds_packed(dtype, acc_dtype)) {
    const DType narrow = acc_dtype == DType::f32 ? DType::bf16 : DType::i8;
    const int bits = 8 * size_of(narrow);
    for (int at = 0; at < 32; at += bits) {
      const uint64_t mask = (uint64_t{1} << bits) - 1;
      acc = multiply_add(acc_dtype, narrow, acc, cell(Scalar::from_bits(narrow, a.u >> at & mask)),
                         cell(Scalar::from_bits(narrow, b.u >> at & mask)));
    }
    return acc;
  }
  if (dtype != acc_dtype) {
    a = cell(cast(scalar(dtype, a), acc_dtype));
    b = cell(cast(scalar(dtype, b), acc_dtype));
  }
  return apply_two(ScalarOp::add, acc_dtype, acc, apply_two(ScalarOp::mul, acc_dtype, a, b));
}

ReducerProgram::ReducerProgram(const Reducer& reducer) : reducer_(&reducer), simple_(simple_op(reducer)) {
  values_.resize(reducer.values.size());
  for (const Inst& inst : reducer.combine.insts)
    if (inst.op == Op::constant) values_[inst.results[0]] = inst.literal;
}

void ReducerProgram::combine(Cell* left, const Cell* right) const {
  if (simple_) {
    left[0] = apply_two(*simple_, reducer_->identity[0].dtype, left[0], right[0]);
    return;
  }
  const Body& code = reducer_->combine;
  const size_t k = width();
  for (size_t i = 0; i < k; ++i) {
    DType dtype = reducer_->identity[i].dtype;
    values_[code.params[i]] = scalar(dtype, left[i]);
    values_[code.params[k + i]] = scalar(dtype, right[i]);
  }
  for (const Inst& inst : code.insts) {
    if (inst.op == Op::constant) continue;
    Scalar& result = values_[inst.results[0]];
    DType to = reducer_->values[inst.results[0]].dtype;
    if (inst.op == Op::cast) {
      result = cast(values_[inst.args[0]], to);
    } else if (inst.op == Op::bitcast) {
      result = bitcast(values_[inst.args[0]], to);
    } else {
      Scalar operands[3];
      for (size_t i = 0; i < inst.args.size(); ++i) operands[i] = values_[inst.args[i]];
      result = apply(scalar_op(inst.op), std::span<const Scalar>(operands, inst.args.size()));
    }
  }
  for (size_t i = 0; i < k; ++i) left[i] = cell(values_[code.results[i]]);
}

}  // namespace heddle::kernel
