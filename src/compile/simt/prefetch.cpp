// Loops that stage the factors of a contraction in shared memory: the loads of one iteration are issued before the
// iteration before it computes.
#include <algorithm>

#include "base/error.h"
#include "compile/simt/lowering.h"

namespace heddle::simt {

std::vector<const Inst*> Lowering::prefetched_stores(const Inst& loop) const {
  constexpr int64_t kMostRegisters = 32;
  const Body& body = loop.bodies[0];
  if (!loop.var.is_var() || tile_.threads == 1) return {};
  // What the loop writes cannot be read before its turn.
  std::vector<int> written;
  bool contracts = false;
  kernel::visit(body, [&](const Inst& inst) {
    if (inst.op == Op::store || inst.op == Op::combine) written.push_back(inst.buffer);
    contracts |= inst.op == Op::dot;
  });
  if (!contracts) return {};
  std::vector<const Inst*> found;
  int64_t held = 0;
  for (const Inst& inst : body.insts) {
    if (inst.op == Op::dot) break;
    if (inst.op == Op::store) {
      if (tile_.buffers[inst.buffer].space != kernel::Space::Shared || reads(inst.args[0], written)) return {};
      held += registers_of_store(inst);
      if (is_rolled(layout_of(inst), shape(inst.args[0])) || held > kMostRegisters) return {};
      found.push_back(&inst);
      continue;
    }
    const bool defined = std::ranges::any_of(inst.results, [&](Value v) { return plan_.values[v].defined; });
    if (defined && (inst.op != Op::load || contains(written, inst.buffer))) return {};
    if (!inst.bodies.empty() || inst.op == Op::combine || inst.op == Op::check) return {};
  }
  // Values carried from one iteration to the next come too late.
  auto carried = [&](Value v) {
    const ValuePlan& plan = plan_.values[v];
    return contains(body.params, v) || (plan.def && plan.defined && plan.position > plan_.position.at(&loop));
  };
  for (const Inst* store : found)
    if (store->args.size() != 1 || takes_any(store->args[0], carried)) return {};
  return found;
}

void Lowering::prefetch_values(const Inst& store, const Expr& var, const Expr& when, const Expr& inside,
                               std::vector<Value>& out) {
  shift_ = Shift{var, when, inside};
  scoped([&] {
    for (const Point& p : points_of(store)) out.push_back(stored(store, p));
  });
  shift_.reset();
}

void Lowering::store_prefetched(const Inst& store, std::span<const Value>& values) {
  for (const Point& p : points_of(store)) {
    builder_->store(store.buffer, values.front(), store_access(store, p));
    tag(plan_.position.at(&store) + 1);
    values = values.subspan(1);
  }
}

}  // namespace heddle::simt
