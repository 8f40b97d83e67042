#include "kernel/work_estimate.h"

#include <algorithm>
#include <bit>

namespace heddle {
namespace {

using kernel::Op;

constexpr double kNanosecondsPerInstruction = 0.25;
constexpr double kNanosecondsPerByte = 1.0 / 32;
constexpr int64_t kVectorBytes = 64;

double turns(int64_t extent) { return static_cast<double>(std::clamp<int64_t>(extent, 0, int64_t{1} << 40)); }

// At the upper bounds of symbols.
double most(const WorkEstimate& work) {
  double total = work.nanoseconds;
  for (const WorkEstimate::Loop& loop : work.loops) total += turns(loop.turns.hi()) * most(loop.body);
  return total;
}

// `zero`: variables of the grid and of loops around, which begin at 0.
WorkEstimate cost(const kernel::Kernel& kernel, const kernel::Body& code, Substitution& zero) {
  WorkEstimate work;
  double& total = work.nanoseconds;
  for (const kernel::Inst& inst : code.insts) {
    if (inst.op == Op::loop) {
      Expr extent = inst.extent.is_const() ? inst.extent : substitute(inst.extent, zero);
      if (inst.var.is_var()) zero.emplace_back(inst.var, 0);
      WorkEstimate body = cost(kernel, inst.bodies[0], zero);
      if (inst.var.is_var()) zero.pop_back();
      body.nanoseconds += kNanosecondsPerInstruction;
      bool only_symbols = true;
      for (const Expr& variable : variables(extent)) only_symbols = only_symbols && variable.is_symbol();
      if (body.loops.empty() && (extent.is_const() || !only_symbols))
        total += turns(extent.hi()) * body.nanoseconds;
      else
        work.loops.push_back({only_symbols ? extent : Expr(extent.hi()), std::move(body)});
      continue;
    }
    if (inst.op == Op::branch) {
      WorkEstimate larger;
      for (const kernel::Body& side : inst.bodies)
        if (WorkEstimate other = cost(kernel, side, zero); most(other) > most(larger)) larger = std::move(other);
      total += larger.nanoseconds;
      for (WorkEstimate::Loop& loop : larger.loops) work.loops.push_back(std::move(loop));
      continue;
    }
    // Stores have no result: the value stored says how much is moved.
    kernel::Value shown = !inst.results.empty() ? inst.results[0] : inst.args.empty() ? kernel::kNoValue : inst.args[0];
    if (inst.op == Op::reduce || inst.op == Op::combine) shown = inst.args[0];
    if (shown == kernel::kNoValue || inst.op == Op::constant || inst.op == Op::check) continue;
    const kernel::Type& type = kernel.values[static_cast<size_t>(shown)];
    int64_t bytes = type.numel() * size_of(type.dtype);
    int64_t vectors = std::max<int64_t>(1, (bytes + kVectorBytes - 1) / kVectorBytes);
    double each = 1;
    if (inst.op == Op::scan) each = 12;
    if (inst.op == Op::load || inst.op == Op::store || inst.op == Op::combine)
      total += static_cast<double>(bytes) * kNanosecondsPerByte;
    else if (inst.op == kernel::from(ScalarOp::div) || inst.op == kernel::from(ScalarOp::sqrt))
      each = 16;
    else if (inst.op == Op::transpose)
      each = static_cast<double>(inst.results.size()) * std::bit_width(inst.results.size());
    total += each * kNanosecondsPerInstruction * static_cast<double>(vectors);
  }
  return work;
}

}  // namespace

WorkEstimate estimate_block(const kernel::Kernel& kernel, const kernel::Phase& phase) {
  Substitution zero;
  for (const Expr& block : phase.blocks)
    if (block.is_var()) zero.emplace_back(block, 0);
  return cost(kernel, phase.body, zero);
}

double evaluate(const WorkEstimate& work, const std::function<int64_t(const Expr& symbol)>& value_of) {
  double total = work.nanoseconds;
  for (const WorkEstimate::Loop& loop : work.loops)
    total += turns(evaluate(loop.turns, value_of)) * evaluate(loop.body, value_of);
  return total;
}

}  // namespace heddle
