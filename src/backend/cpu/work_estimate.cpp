#include "backend/cpu/work_estimate.h"

#include <algorithm>

namespace heddle {
namespace {

using kernel::Op;

constexpr double kNanosecondsPerInstruction = 0.25;
constexpr double kNanosecondsPerByte = 1.0 / 32;
constexpr int64_t kVectorBytes = 64;

double cost(const kernel::Kernel& kernel, const kernel::Block& block) {
  double total = 0;
  for (const kernel::Inst& inst : block.insts) {
    if (inst.op == Op::loop) {
      int64_t trips = std::clamp<int64_t>(inst.extent.hi(), 0, int64_t{1} << 40);
      total += static_cast<double>(trips) * (cost(kernel, inst.blocks[0]) + kNanosecondsPerInstruction);
      continue;
    }
    if (inst.op == Op::branch) {
      double most = 0;
      for (const kernel::Block& side : inst.blocks) most = std::max(most, cost(kernel, side));
      total += most;
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
    if (inst.op == Op::load || inst.op == Op::store || inst.op == Op::combine)
      total += static_cast<double>(bytes) * kNanosecondsPerByte;
    else if (inst.op == kernel::from(ScalarOp::div) || inst.op == kernel::from(ScalarOp::sqrt))
      each = 16;
    total += each * kNanosecondsPerInstruction * static_cast<double>(vectors);
  }
  return total;
}

}  // namespace

double cell_nanoseconds(const kernel::Kernel& kernel, const kernel::Phase& phase) { return cost(kernel, phase.body); }

}  // namespace heddle
