// What passes and lowerings ask about instructions.
#pragma once

#include <span>
#include <vector>

#include "kernel/ir.h"

namespace heddle::kernel {

// Each element is made of the operands' elements at its place, and of nothing else.
inline bool is_elementwise(Op op) {
  return is_scalar_op(op) || op == Op::constant || op == Op::cast || op == Op::bitcast || op == Op::index;
}

// Depends on its operands and formulas alone, and may run any number of times.
inline bool is_pure(Op op) {
  return is_elementwise(op) || op == Op::reduce || op == Op::scan || op == Op::dot || op == Op::packed_dot ||
         op == Op::transpose;
}

// The arguments that an instruction's `binds` stand for.
inline std::span<const Value> bound(const Inst& inst) {
  return std::span(inst.args.begin(), inst.args.end()).last(inst.binds.size());
}

// What an instruction uses: its arguments, and the results of its bodies.
template <class F>
void each_use(const Inst& inst, F f) {
  for (Value v : inst.args) f(v);
  for (const Body& inner : inst.bodies)
    for (Value v : inner.results) f(v);
}

// What a body writes, nested bodies included. Different buffers never share memory.
struct Writes {
  std::vector<bool> buffers;
  bool barrier = false;  // makes other threads' writes visible: every buffer that anyone writes may change
};
inline Writes writes_of(const Kernel& kernel, const Body& code) {
  Writes writes{std::vector<bool>(kernel.buffers.size(), false), false};
  visit(code, [&](const Inst& inst) {
    if (inst.op == Op::store || inst.op == Op::combine || inst.op == Op::check)
      writes.buffers[static_cast<size_t>(inst.buffer)] = true;
    if (inst.op == Op::panel_dot || inst.op == Op::copy)
      writes.buffers[static_cast<size_t>(inst.panels[0].buffer)] = true;
    if (inst.op == Op::matrix_store) writes.buffers[static_cast<size_t>(inst.regions[0].buffer)] = true;
    if (inst.op == Op::barrier) writes.barrier = true;
  });
  if (writes.barrier)
    for (size_t k = 0; k < kernel.buffers.size(); ++k)
      if (kernel.buffers[k].space != Space::In) writes.buffers[k] = true;
  return writes;
}

// Which value stands for which: names[v] == v until v is replaced. Replacements never chain. Values made since are
// themselves.
struct Renaming {
  std::vector<Value> names;

  explicit Renaming(size_t count) : names(count) {
    for (size_t k = 0; k < count; ++k) names[k] = static_cast<Value>(k);
  }
  Value operator()(Value v) const { return static_cast<size_t>(v) < names.size() ? names[static_cast<size_t>(v)] : v; }
  void replace(Value v, Value by) { names[static_cast<size_t>(v)] = (*this)(by); }
  template <class List>
  void apply(List& values) const {
    for (Value& v : values) v = (*this)(v);
  }
};

}  // namespace heddle::kernel
