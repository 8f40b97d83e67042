#include "runtime/packing.h"

#include <set>

namespace heddle {
namespace {

struct Touched {
  std::set<int> read, written;
  bool other = false;  // by something that is neither a load nor a store
};

Touched touched(const kernel::Kernel& kernel, const kernel::Phase& phase) {
  Touched result;
  auto add = [&](int buffer, bool writes) {
    if (kernel.buffers[static_cast<size_t>(buffer)].space == kernel::Space::Shared) return;
    (writes ? result.written : result.read).insert(buffer);
  };
  kernel::visit(phase.body, [&](const kernel::Inst& inst) {
    if (inst.buffer >= 0) add(inst.buffer, inst.op != kernel::Op::load);
    for (size_t i = 0; i < inst.panels.size(); ++i) add(inst.panels[i].buffer, i == 0);
    const bool copies = inst.op == kernel::Op::load || inst.op == kernel::Op::store;
    result.other = result.other || (!copies && (inst.buffer >= 0 || !inst.panels.empty()));
  });
  return result;
}

}  // namespace

std::vector<PackingPhase> packing_phases(const kernel::Kernel& kernel) {
  if (kernel.rounds || kernel.phases.size() < 2) return {};
  std::vector<Touched> all;
  for (const kernel::Phase& phase : kernel.phases) all.push_back(touched(kernel, phase));
  std::vector<PackingPhase> result;
  for (size_t p = 0; p < all.size(); ++p) {
    if (all[p].other || all[p].read.size() != 1 || all[p].written.size() != 1) continue;
    const int input = *all[p].read.begin(), temp = *all[p].written.begin();
    if (kernel.buffers[static_cast<size_t>(input)].space != kernel::Space::In ||
        kernel.buffers[static_cast<size_t>(temp)].space != kernel::Space::Temp)
      continue;
    bool alone = true;
    for (size_t q = 0; q < all.size(); ++q) alone = alone && (q == p || !all[q].written.contains(temp));
    if (alone) result.push_back({static_cast<int>(p), input, temp});
  }
  return result;
}

}  // namespace heddle
