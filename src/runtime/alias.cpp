#include "runtime/alias.h"

#include <algorithm>
#include <unordered_set>

namespace heddle {
namespace {

using kernel::Body;
using kernel::Inst;
using kernel::Op;

constexpr size_t kMostPairs = 4096;  // beyond, finding out is not worth the time

bool same_elements(const Inst& load, const Inst& store) {
  if (!load.binds.empty() || !store.binds.empty() || load.coords.size() != store.coords.size()) return false;
  Substitution renamed;
  for (size_t i = 0; i < load.coords.size(); ++i) {
    if (!(load.coords[i].extent() == store.coords[i].extent())) return false;
    renamed.emplace_back(load.coords[i], store.coords[i]);
  }
  return substitute(load.address, renamed) == store.address;
}

// Whether what `store` writes is computed from what `load` reads. Then no compiler can move the load behind the store,
// even one that was told the two never overlap.
bool feeds(const Body& code, size_t load, size_t store) {
  std::unordered_set<kernel::Value> from(code.insts[load].results.begin(), code.insts[load].results.end());
  for (size_t i = load + 1; i <= store; ++i) {
    const Inst& inst = code.insts[i];
    bool uses = std::any_of(inst.args.begin(), inst.args.end(), [&](kernel::Value v) { return from.count(v) > 0; });
    if (i == store) return uses;
    if (uses && inst.bodies.empty()) from.insert(inst.results.begin(), inst.results.end());
  }
  return false;
}

// Whether a thread that loads stores too.
bool same_threads(const Inst& load, const Inst& store) {
  Substitution renamed;
  for (size_t i = 0; i < load.coords.size(); ++i) renamed.emplace_back(load.coords[i], store.coords[i]);
  const Expr loads = substitute(load.guard, renamed);
  return logical_and(loads, store.guard) == loads;
}

// `several`: threads of a block that do not wait for each other.
bool safe(const Body& code, int in, int out, bool several) {
  std::vector<size_t> loads, stores;
  for (size_t i = 0; i < code.insts.size(); ++i) {
    const Inst& inst = code.insts[i];
    if (inst.op == Op::combine && (inst.buffer == in || inst.buffer == out)) return false;
    if (inst.op == Op::store && inst.buffer == in) return false;
    if (inst.op == Op::load && inst.buffer == out) return false;
    for (const kernel::Region& region : inst.regions)
      if (region.buffer == in || region.buffer == out) return false;
    for (const kernel::Panel& panel : inst.panels)
      if (panel.buffer == in || panel.buffer == out) return false;
    if (inst.op == Op::load && inst.buffer == in) loads.push_back(i);
    if (inst.op == Op::store && inst.buffer == out) stores.push_back(i);
    for (const Body& inner : inst.bodies)
      if (!safe(inner, in, out, several)) return false;
  }
  if (loads.size() * stores.size() > kMostPairs) return false;
  for (size_t load : loads) {
    bool stored_later = false;
    for (size_t store : stores) {
      if (!same_elements(code.insts[load], code.insts[store])) continue;
      if (store < load || !feeds(code, load, store)) return false;
      if (several && !same_threads(code.insts[load], code.insts[store])) return false;
      stored_later = true;
    }
    if (!stored_later) return false;
  }
  return true;
}

}  // namespace

bool may_share_memory(const kernel::Kernel& kernel, int in, int out) {
  const auto& a = kernel.buffers[static_cast<size_t>(in)];
  const auto& b = kernel.buffers[static_cast<size_t>(out)];
  if (a.space != kernel::Space::In || b.space != kernel::Space::Out || size_of(a.dtype) != size_of(b.dtype) ||
      !(a.size == b.size))
    return false;
  bool words = false;
  for (const kernel::Phase& phase : kernel.phases)
    kernel::visit(phase.body, [&](const Inst& inst) {
      words |= inst.op == Op::load && inst.buffer == in &&
               kernel.values[static_cast<size_t>(inst.results[0])].dtype != a.dtype;
    });
  if (words) return false;
  for (const kernel::Phase& phase : kernel.phases)
    if (!safe(phase.body, in, out, kernel.threads > 1)) return false;
  return true;
}

}  // namespace heddle
