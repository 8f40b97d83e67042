// Runs straight-line kernels over many elements at native speed: one loop per instruction. For testing accuracy
// densely, where the interpreter would take minutes.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernel/ir.h"

namespace heddle::kernel {

class ArrayEval {
 public:
  // Inputs hold one element per entry, as bits; every load reads the input of its buffer, the store gives the result.
  static std::vector<uint64_t> run(const Kernel& kernel, const std::vector<std::vector<uint64_t>>& inputs) {
    ArrayEval eval(kernel, inputs);
    for (const Inst& inst : kernel.phases[0].body.insts) {
      if (inst.op == Op::store) return eval.columns_[static_cast<size_t>(inst.args[0])];
      eval.step(inst);
    }
    throw InternalError("no store");
  }

 private:
  using Column = std::vector<uint64_t>;

  ArrayEval(const Kernel& kernel, const std::vector<Column>& inputs)
      : kernel_(kernel), inputs_(inputs), count_(inputs[0].size()), columns_(kernel.values.size()) {}

  DType dtype(Value v) const { return kernel_.values[static_cast<size_t>(v)].dtype; }

  template <class T>
  static T get(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
  template <class T>
  static uint64_t put(T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  }

  void step(const Inst& inst) {
    Column& out = columns_[static_cast<size_t>(inst.results[0])];
    if (inst.op == Op::load) {
      out = inputs_[static_cast<size_t>(inst.buffer)];
    } else if (inst.op == Op::constant) {
      out.assign(count_, inst.literal.bits());
    } else if (inst.op == Op::bitcast) {
      out = column(inst, 0);
    } else if (inst.op == Op::cast) {
      out.resize(count_);
      for (size_t k = 0; k < count_; ++k)
        out[k] =
            heddle::cast(Scalar::from_bits(dtype(inst.args[0]), column(inst, 0)[k]), dtype(inst.results[0])).bits();
    } else if (inst.op == Op::where) {
      out.resize(count_);
      for (size_t k = 0; k < count_; ++k) out[k] = column(inst, 0)[k] ? column(inst, 1)[k] : column(inst, 2)[k];
    } else {
      dispatch(dtype(inst.args[0]), [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
          float_op<T>(inst, out);
        } else if constexpr (std::is_integral_v<T>) {
          generic_op(inst, out);
        }
      });
    }
    HD_ASSERT(out.size() == count_, name(inst.op));
  }

  const Column& column(const Inst& inst, size_t arg) const { return columns_[static_cast<size_t>(inst.args[arg])]; }

  template <class T, class F>
  void map(const Inst& inst, Column& out, F f) {
    out.resize(count_);
    const Column& a = column(inst, 0);
    const Column& b = column(inst, inst.args.size() > 1 ? 1 : 0);
    const Column& c = column(inst, inst.args.size() > 2 ? 2 : 0);
    for (size_t k = 0; k < count_; ++k) out[k] = put(f(get<T>(a[k]), get<T>(b[k]), get<T>(c[k])));
  }

  template <class T>
  void float_op(const Inst& inst, Column& out) {
    switch (inst.op) {
      case Op::add: return map<T>(inst, out, [](T a, T b, T) { return a + b; });
      case Op::sub: return map<T>(inst, out, [](T a, T b, T) { return a - b; });
      case Op::mul: return map<T>(inst, out, [](T a, T b, T) { return a * b; });
      case Op::div: return map<T>(inst, out, [](T a, T b, T) { return a / b; });
      case Op::fma: return map<T>(inst, out, [](T a, T b, T c) { return std::fma(a, b, c); });
      case Op::lt: return map<T>(inst, out, [](T a, T b, T) { return a < b; });
      default: generic_op(inst, out);
    }
  }

  void generic_op(const Inst& inst, Column& out) {
    out.resize(count_);
    Scalar operands[3];
    for (size_t k = 0; k < count_; ++k) {
      for (size_t arg = 0; arg < inst.args.size(); ++arg)
        operands[arg] = Scalar::from_bits(dtype(inst.args[arg]), column(inst, arg)[k]);
      out[k] = heddle::apply(scalar_op(inst.op), std::span<const Scalar>(operands, inst.args.size())).bits();
    }
  }

  const Kernel& kernel_;
  const std::vector<Column>& inputs_;
  size_t count_;
  std::vector<Column> columns_;
};

}  // namespace heddle::kernel
